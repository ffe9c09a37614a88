/**
 * A workflow: the states of its items, and the moves between them.
 *
 * The declaration is stored, and the database itself refuses every other state and move. Guards and entry actions are
 * functions; they run in the processes that have the workflow's code.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { type Duration, formatMs, toMs } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import type { ChildrenIn, ItemRecord } from "../core/item.ts";
import { checkName } from "../core/name.ts";
import {
  by,
  checkFunction,
  checkList,
  checkSchema,
  checkWhole,
  duration,
  needed,
  optionsOf,
  passed,
  whole,
  yes,
} from "../core/options.ts";
import type { AnyTask, InputArguments, InputOf } from "../core/task.ts";
import { ttlOption } from "../locks/lock.ts";
import type { Declaration } from "./item-record.ts";

const STATES_MAX = 100;
const MOVES_MAX = 500;
const VERSION_MAX = 2 ** 31 - 1;

/** What a guard gets to decide about a move. */
export interface GuardFacts<State extends string, Data, Type extends string> {
  /** Before the move. */
  readonly item: ItemRecord<State, Data, Type>;
  /** The item that it belongs to; null: none. */
  readonly parent: ItemRecord | null;
  /** Who asks for the move. */
  readonly actor: string;
  /** What the caller gave as `reason`; null: nothing. */
  readonly reason: string | null;
  /** The fields that the move changes. */
  readonly patch: Partial<Data>;
  /** By the database's clock. */
  readonly now: number;
}

/** True or undefined allows the move. False, or a text with the reason, refuses it. */
export type Verdict = boolean | string | void;

/** Enqueues a job when an item enters a state. */
export type EnqueueOnEntry = <Of extends AnyTask>(
  task: Of,
  ...rest: InputArguments<InputOf<Of>, EntryJobOptions>
) => void;

/** Options of a job that a state enqueues. */
export interface EntryJobOptions {
  /** Default: the queue of the task. */
  readonly queue?: string;
  /** A higher number goes first. Default 0. */
  readonly priority?: number;
  /** Not before this much time has passed. */
  readonly delay?: Duration;
}

/** What `enter` gets when an item enters a state. */
export interface EntryFacts<State extends string, Data, Type extends string> {
  /** The item, already in the new state. */
  readonly item: ItemRecord<State, Data, Type>;
  /** The item that it belongs to; null: none. */
  readonly parent: ItemRecord | null;
  /** Enqueues a job that exists if and when the change is committed. */
  readonly enqueue: EnqueueOnEntry;
}

/** A state: its time limit, the jobs that it enqueues, and what follows them. */
export interface StateOptions<
  State extends string,
  Move extends string,
  Data,
  Type extends string,
> {
  /** No move leads out of it. */
  readonly final?: boolean;
  /** An item still in this state after that time makes the move. */
  readonly limit?: {
    /** How long an item may stay, counted from its entry. */
    readonly after: Duration;
    /** The move that it makes then. */
    readonly move: Move;
  };
  /** Enqueues jobs, in the transaction in which the item enters the state. */
  readonly enter?: (facts: EntryFacts<State, Data, Type>) => void;
  /** The move when all jobs that `enter` enqueued have ended. */
  readonly whenJobsEnd?: {
    /** When all of them are done. */
    readonly done: Move;
    /** When all have ended and one of them was not done. Default: no move. */
    readonly failed?: Move;
  };
}

/** A move: from which states, to which, and its guard. */
export interface MoveOptions<State extends string, Data, Type extends string> {
  /** The states that it leads out of. */
  readonly from: State | readonly State[];
  /** The state that it leads to. */
  readonly to: State;
  /** Runs while the item is locked, perhaps more than once, so it must have no side effects. */
  readonly guard?: (facts: GuardFacts<State, Data, Type>) => Verdict | Promise<Verdict>;
}

/** Times of the distributed lock that a change of an item takes on its whole tree. */
export interface LockTimes {
  /** How long the lock lasts unless it is extended. */
  readonly ttl?: Duration;
  /** How long a change waits for the lock. */
  readonly wait?: Duration;
}

/** The move of an item when its last living child has ended; null: none. */
export type ChildrenEnd<Move extends string> =
  | Move
  | ((facts: {
      /** How many children are in each state. */
      readonly progress: readonly ChildrenIn[];
    }) => Move | null);

/** A workflow of any states, moves and data. */
export interface AnyWorkflow {
  /** The name that its items are stored under. */
  readonly name: string;
  /** Raised with every change of the declaration, from 1. */
  readonly version: number;
  /** The kinds of its items; the first is the default. */
  readonly types: readonly string[];
  /** The workflow of the items that its items belong to; null: they have no parents. */
  readonly parent: AnyWorkflow | null;
  /** Its items may have parents of the same workflow. */
  readonly nests: boolean;
  /** The state that new items are in. */
  readonly initial: string;
  /** The declared states, by name. */
  readonly states: ReadonlyMap<string, StateRules>;
  /** The declared moves, by name. */
  readonly moves: ReadonlyMap<string, MoveRules>;
  /** The schema of the data of its items; null: any object. */
  readonly data: StandardSchemaV1 | null;
  /** Chooses the move when the last living child has ended; null: there is none. */
  readonly whenChildrenEnd: ((progress: readonly ChildrenIn[]) => string | null) | null;
  /** How long ended items are kept, in milliseconds; null: forever. */
  readonly keepMs: number | null;
  /** How long its items are locked, and waited for. */
  readonly lock: LockTimes;
}

/** A declared workflow, as `defineWorkflow()` returns it. */
export interface Workflow<
  State extends string = string,
  Move extends string = string,
  Data = unknown,
  Type extends string = string,
> extends AnyWorkflow {
  /** The kinds of its items; the first is the default. */
  readonly types: readonly Type[];
  /** The state that new items are in. */
  readonly initial: State;
  /** For the compiler only. */
  readonly words?: {
    /** The names of its states. */
    readonly state: State;
    /** The names of its moves. */
    readonly move: Move;
    /** The data of its items. */
    readonly data: Data;
    /** The types of its items. */
    readonly type: Type;
  };
}

/** A declared state, as the workflow keeps it. */
export interface StateRules {
  /** Whether no move leads out of it. */
  readonly isFinal: boolean;
  /** What happens to an item that stays too long; null: it may stay. */
  readonly limit: {
    /** How long it may stay, in milliseconds. */
    readonly ms: number;
    /** The move that it makes then. */
    readonly move: string;
  } | null;
  /** Enqueues jobs when an item enters; null: it enqueues none. */
  readonly enter: ((facts: never) => unknown) | null;
  /** The moves that follow the jobs of `enter`; null: none does. */
  readonly whenJobsEnd: {
    /** When all of them are done. */
    readonly done: string;
    /** When all have ended and one of them was not done; null: no move. */
    readonly failed: string | null;
  } | null;
}

/** A declared move, as the workflow keeps it. */
export interface MoveRules {
  /** The states in which the move is possible. */
  readonly from: readonly string[];
  /** The state that it leads to. */
  readonly to: string;
  /** Decides whether the move is allowed; null: it always is. */
  readonly guard: ((facts: never) => Verdict | Promise<Verdict>) | null;
}

/** What a workflow declares: states, moves, and what happens when children end. */
export interface WorkflowOptions<
  State extends string,
  Move extends string,
  Data,
  Type extends string,
> {
  /** Stored with every item. */
  readonly name: string;
  /** From 1. Raise it whenever the declaration changes. */
  readonly version?: number;
  /** The types of items. Default: one, named like the workflow. */
  readonly types?: readonly Type[];
  /** The workflow of its items' parents; "self": items may have parents of the same workflow. */
  readonly parent?: AnyWorkflow | "self";
  /** The state in which items begin. */
  readonly initial: NoInfer<State>;
  /** The states, by name. */
  readonly states: Readonly<
    Record<State, StateOptions<NoInfer<State>, NoInfer<Move>, NoInfer<Data>, NoInfer<Type>>>
  >;
  /** The moves, by name. */
  readonly moves: Readonly<Record<Move, MoveOptions<NoInfer<State>, NoInfer<Data>, NoInfer<Type>>>>;
  /** The moves that follow when all children have ended. */
  readonly whenChildrenEnd?: ChildrenEnd<NoInfer<Move>>;
  /** How long items are kept after they and all items below them have ended. Default: forever. */
  readonly keep?: Duration;
  /** Default: that of its parent's workflow, then `lockTtl` and `lockWait` of `openHoldfast`. */
  readonly lock?: LockTimes;
}

type AnyState = StateOptions<string, string, never, string>;

type AnyMove = MoveOptions<string, never, string>;

type AnyDefinition = WorkflowOptions<string, string, never, string> & {
  readonly data?: StandardSchemaV1 | undefined;
};

const limitOptions = optionsOf<NonNullable<AnyState["limit"]>>()({
  after: needed(duration({ least: 1 })),
  move: needed(passed<string>()),
});

const afterJobsOptions = optionsOf<NonNullable<AnyState["whenJobsEnd"]>>()({
  done: needed(passed<string>()),
  failed: passed<string>(),
});

const stateOptions = optionsOf<AnyState>()({
  final: yes(false),
  limit: limitOptions.nested(),
  enter: by(checkFunction<NonNullable<AnyState["enter"]>>),
  whenJobsEnd: afterJobsOptions.nested(),
});

const moveOptions = optionsOf<AnyMove>()({
  from: needed(passed<AnyMove["from"]>()),
  to: needed(passed<string>()),
  guard: by(checkFunction<NonNullable<AnyMove["guard"]>>),
});

const lockOptions = optionsOf<LockTimes>()({ ttl: by(ttlOption.check), wait: by(toMs) });

/** States and moves are checked together. */
const workflowOptions = optionsOf<AnyDefinition>()({
  name: needed(by(checkName)),
  version: whole(1, VERSION_MAX, 1),
  types: by(checkTypes),
  parent: by(checkParent),
  initial: needed(passed<string>()),
  states: needed(passed<AnyDefinition["states"]>()),
  moves: needed(passed<AnyDefinition["moves"]>()),
  data: by(checkSchema<StandardSchemaV1>),
  whenChildrenEnd: passed<ChildrenEnd<string>>(),
  keep: duration({}),
  lock: lockOptions.nested(),
});

/**
 * Declares a state machine: its states, the moves between them, guards and time limits.
 *
 * @example
 * ```ts
 * const order = defineWorkflow({
 *   name: "order",
 *   initial: "open",
 *   states: { open: { limit: { after: "3d", move: "expire" } }, paid: {}, expired: { final: true } },
 *   moves: { pay: { from: "open", to: "paid" }, expire: { from: "open", to: "expired" } },
 * });
 * const item = await holdfast.workflows.start(order, { data: {}, actor: "web" });
 * await item.move("pay", { actor: "anna" });
 * ```
 */
export function defineWorkflow<
  const State extends string,
  const Move extends string,
  Schema extends StandardSchemaV1,
  const Type extends string = string,
>(
  definition: WorkflowOptions<State, Move, StandardSchemaV1.InferInput<Schema>, Type> & {
    /** The schema of the data of its items. */
    readonly data: Schema;
  },
): Workflow<State, Move, StandardSchemaV1.InferInput<Schema>, Type>;

export function defineWorkflow<
  const State extends string,
  const Move extends string,
  const Type extends string = string,
>(
  definition: WorkflowOptions<State, Move, Record<string, unknown>, Type> & {
    /** Left out: the data is any object, and is not validated. */
    readonly data?: undefined;
  },
): Workflow<State, Move, Record<string, unknown>, Type>;

export function defineWorkflow(definition: AnyDefinition): Workflow {
  const checked = workflowOptions.read(definition);
  const { name, version, types = [name], parent, initial, data, whenChildrenEnd, keepMs } = checked;
  const states = statesOf(checked.states);
  const moves = movesOf(checked.moves, states);
  checkStates(initial, states, moves);
  if (whenChildrenEnd !== undefined && typeof whenChildrenEnd !== "function") {
    checkDeclared("move", "whenChildrenEnd", whenChildrenEnd, moves);
  }
  const above = parent === undefined || parent === "self" ? null : parent;
  return {
    name,
    version,
    types,
    parent: above,
    nests: parent === "self",
    initial,
    states,
    moves,
    data: data ?? null,
    whenChildrenEnd: whenChildrenEnd === undefined ? null : chooser(whenChildrenEnd),
    keepMs: keepMs ?? null,
    lock: { ...above?.lock, ...checked.lock },
  };
}

/** A schema for data that has a type only: nothing is validated. */
export function unchecked<Data>(): StandardSchemaV1<Data> {
  return {
    "~standard": {
      version: 1,
      vendor: "holdfast",
      validate: (value) => ({ value: value as Data }),
    },
  };
}

function statesOf(given: Readonly<Record<string, object>>): Map<string, StateRules> {
  const states = Object.entries(checkObject("states", given));
  checkWhole("states", states.length, { least: 1, most: STATES_MAX });
  return new Map(
    states.map(([name, options]) => [
      checkName("states", name),
      stateOf(`states.${name}`, options),
    ]),
  );
}

function stateOf(field: string, options: AnyState): StateRules {
  const { final, limit, enter, whenJobsEnd } = stateOptions.read(options, { field });
  return {
    isFinal: final,
    limit: limit === undefined ? null : { ms: limit.afterMs, move: limit.move },
    enter: enter ?? null,
    whenJobsEnd: whenJobsEnd === undefined ? null : { failed: null, ...whenJobsEnd },
  };
}

function movesOf(
  given: Readonly<Record<string, AnyMove>>,
  states: ReadonlyMap<string, StateRules>,
): Map<string, MoveRules> {
  const moves = Object.entries(checkObject("moves", given));
  checkWhole("moves", moves.length, { least: 0, most: MOVES_MAX });
  return new Map(
    moves.map(([name, options]) => [checkName("moves", name), moveOf(name, options, states)]),
  );
}

function moveOf(
  name: string,
  options: AnyMove,
  states: ReadonlyMap<string, StateRules>,
): MoveRules {
  const field = `moves.${name}`;
  const { from, to, guard } = moveOptions.read(options, { field });
  const sources = typeof from === "string" ? [from] : [...new Set(checkList(field, from))];
  if (sources.length === 0) {
    throw invalid(field, "name at least one state that it leads from.");
  }
  for (const state of [...sources, to]) checkDeclared("state", field, state, states);
  for (const state of sources) {
    if (states.get(state)?.isFinal !== true) continue;
    throw invalid(field, `'${state}' is final.`);
  }
  return { from: sources, to, guard: guard ?? null };
}

function checkStates(
  initial: string,
  states: ReadonlyMap<string, StateRules>,
  moves: ReadonlyMap<string, MoveRules>,
): void {
  checkDeclared("state", "initial", initial, states);
  for (const [name, { isFinal, limit, whenJobsEnd }] of states) {
    const out = [...moves].filter(([, { from }]) => from.includes(name)).map(([move]) => move);
    if (!isFinal && out.length === 0) {
      throw invalid(`states.${name}`, "no move leads out of it. Declare one, or set final: true.");
    }
    for (const move of [limit?.move, whenJobsEnd?.done, whenJobsEnd?.failed]) {
      if (move === undefined || move === null || out.includes(move)) continue;
      const problem = `'${move}' is not a move from it. Moves: ${out.join(", ") || "none"}.`;
      throw invalid(`states.${name}`, problem);
    }
  }
}

function checkDeclared(
  what: "state" | "move",
  field: string,
  name: string,
  declared: ReadonlyMap<string, unknown>,
): void {
  if (declared.has(name)) return;
  const problem = `there is no ${what} '${name}'. There are: ${[...declared.keys()].join(", ")}.`;
  throw invalid(field, problem);
}

function checkTypes(field: string, types: readonly string[]): readonly string[] {
  checkWhole(field, checkList(field, types).length, { least: 1, most: STATES_MAX });
  const names = new Set(types.map((type) => checkName(field, type)));
  if (names.size === types.length) return [...names];
  throw invalid(field, "a name appears twice.");
}

function checkObject<T extends object>(field: string, value: T): T {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw invalid(field, "must be an object.");
}

function checkParent(field: string, parent: AnyWorkflow | "self"): AnyWorkflow | "self" {
  if (parent === "self" || parent?.states instanceof Map) return parent;
  throw invalid(field, 'pass a workflow made with defineWorkflow(), or "self".');
}

function chooser(
  whenChildrenEnd: ChildrenEnd<string>,
): (progress: readonly ChildrenIn[]) => string | null {
  if (typeof whenChildrenEnd === "string") return () => whenChildrenEnd;
  return (progress) => whenChildrenEnd({ progress });
}

/** Names that Mermaid accepts unquoted. `end` is a keyword there. */
const PLAIN = /^(?!end$)[a-z]\w*$/i;

/** A state diagram of the declaration, for Mermaid. */
export function diagramOf(workflow: AnyWorkflow): string {
  const names = [...workflow.states.keys()];
  const idOf = (state: string): string =>
    PLAIN.test(state) ? state : `state_${names.indexOf(state) + 1}`;
  const lines = names
    .filter((state) => !PLAIN.test(state))
    .map((state) => `state "${state.replaceAll('"', "'")}" as ${idOf(state)}`);
  lines.push(`[*] --> ${idOf(workflow.initial)}`);
  for (const [move, { from, to, guard }] of workflow.moves) {
    const label = guard === null ? move : `${move} [guarded]`;
    for (const state of from) {
      lines.push(`${idOf(state)} --> ${idOf(to)}: ${label}${timeLimitOf(workflow, state, move)}`);
    }
  }
  for (const [state, { isFinal }] of workflow.states) {
    if (isFinal) lines.push(`${idOf(state)} --> [*]`);
  }
  return ["stateDiagram-v2", ...lines.map((line) => `    ${line}`)].join("\n");
}

/** Names the time after which the move is automatic. */
function timeLimitOf(workflow: AnyWorkflow, state: string, move: string): string {
  const limit = workflow.states.get(state)?.limit ?? null;
  return limit?.move === move ? `, or after ${formatMs(limit.ms)}` : "";
}

/** A workflow as it is stored, without its functions. */
export function declarationOf(workflow: AnyWorkflow): Declaration {
  const { name, version, keepMs, types, initial } = workflow;
  return {
    name,
    version,
    parent: workflow.nests ? name : (workflow.parent?.name ?? null),
    keepMs,
    types,
    states: [...workflow.states].map(([state, { isFinal }]) => ({
      name: state,
      isInitial: state === initial,
      isFinal,
    })),
    moves: [...workflow.moves].flatMap(([move, { from, to }]) =>
      from.map((state) => ({ name: move, from: state, to })),
    ),
  };
}
