/** Applies the rules of a workflow, including its guards, to a change: which items to write, and which jobs to enqueue. */
import { NO_HASH, type Operator } from "../audit/entry.ts";
import type { Duration } from "../core/duration.ts";
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import {
  checkFields,
  type ChildrenIn,
  ITEM_LEVELS_MAX,
  type ItemRecord,
  patched,
} from "../core/item.ts";
import { decode, DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { optionsOf, passed } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnyTask, Task } from "../core/task.ts";
import {
  checkInputs,
  checkOptions,
  defaultsOf,
  type EnqueueOptions,
  newJob,
  termsHere,
} from "../jobs/enqueue.ts";
import { ENQUEUE_BATCH_MAX } from "../jobs/sql-jobs.ts";
import type { NewJob } from "../jobs/store.ts";
import { CALLBACK_MS, changeOf, instantOf } from "./changes.ts";
import {
  InvalidMoveError,
  ItemChangedError,
  ItemNotFoundError,
  MoveRefusedError,
} from "./errors.ts";
import {
  type ItemWrite,
  type NewLine,
  recordOf,
  recordOrNull,
  type Seen,
  type StoredItem,
} from "./item-record.ts";
import type { AnyWorkflow, EntryJobOptions, MoveRules, StateRules } from "./workflow.ts";

/** The default tenant of items without a parent. */
const TENANT = "default";

/** The actor of automatic moves. */
export const SYSTEM_ACTOR = "holdfast";

export interface Asked {
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly move: string | null;
  readonly patch: unknown;
  /** The revision that the caller read; null: any. */
  readonly expect: number | null;
  /** The `enteredAt` that the caller read; null: any. */
  readonly since: number | null;
}

export interface Started {
  readonly workflow: AnyWorkflow;
  readonly id: string;
  readonly type: string;
  /** Null: its parent's. */
  readonly tenant: string | null;
  readonly identifier: string;
  readonly parent: string | null;
  readonly data: unknown;
  /** Set for an item that is imported from another system. */
  readonly imported?: Imported;
}

interface Imported {
  readonly status: string;
  /** Null: now. */
  readonly createdAt: number | null;
  readonly enteredAt: number | null;
  /** Whether to enqueue the jobs that the state enqueues on entry. */
  readonly enter: boolean;
}

/** Who changes items, and how long the lock took. */
export interface ItemOperator extends Operator {
  readonly lockWaitMs: number | null;
}

interface PlanParts {
  readonly runtime: Runtime;
  readonly newId: () => string;
  readonly operator: ItemOperator;
  readonly seen: Seen;
}

export class ItemPlan {
  readonly #parts: PlanParts;
  readonly #budget: CallbackBudget;
  readonly #writes = new Map<string, ItemWrite>();
  /** The workflows of the written items. */
  readonly #known = new Map<string, AnyWorkflow>();
  /** Items that were imported into a state without entering it. */
  readonly #silent = new Set<string>();

  constructor(parts: PlanParts) {
    this.#parts = parts;
    this.#budget = new CallbackBudget(parts.runtime);
  }

  async start(started: Started): Promise<void> {
    const { workflow, data, imported, ...facts } = started;
    const since = timesOf(imported, this.#parts.seen.now);
    const parent = this.#parent(facts.parent);
    const item: StoredItem = {
      ...facts,
      tenant: facts.tenant ?? parent?.tenant ?? TENANT,
      workflow: workflow.name,
      root: parent?.root ?? facts.id,
      depth: parent === null ? 0 : parent.depth + 1,
      status: imported?.status ?? workflow.initial,
      data: await dataText(workflow, data, this.#budget),
      revision: 0,
      ...since,
      updatedAt: 0,
      auditSeq: 0,
      auditHash: NO_HASH,
    };
    if (item.depth >= ITEM_LEVELS_MAX) {
      throw invalid("parent", `a tree of items has at most ${ITEM_LEVELS_MAX} levels.`);
    }
    const action = imported === undefined ? "start" : "import";
    const enters = imported?.enter ?? true;
    this.#write(workflow, item, { action, status: item.status, data: item.data, enters });
  }

  async change(asked: Asked): Promise<void> {
    const { workflow, id, move, patch, expect, since } = asked;
    const item = this.#parts.seen.items.get(id);
    if (item?.workflow !== workflow.name)
      throw new ItemNotFoundError({ id, workflow: workflow.name });
    if (expect !== null && expect !== item.revision) {
      throw new ItemChangedError({ item: id, expected: expect, found: item.revision });
    }
    if (since !== null && since !== item.enteredAt) {
      throw new ItemChangedError({ item: id, expected: null, found: item.revision });
    }
    const data =
      patch === undefined
        ? item.data
        : await dataText(workflow, patched(decode(item.data), patch), this.#budget);
    if (move === null) {
      this.#write(workflow, item, { action: "update", status: item.status, data });
      return;
    }
    const rules = moveOf(workflow, item, move);
    const reason = await this.#refusal(rules, { item, patch });
    if (reason !== undefined) throw new MoveRefusedError({ item: id, move, reason });
    this.#write(workflow, item, { action: "move", move, status: rules.to, data });
  }

  /** Moves parents whose last living child ends in this change, if their workflow declares a move for it. */
  async closeParents(): Promise<void> {
    // From the leaves up: a parent that ends may be the last living child of its own parent.
    for (let depth = ITEM_LEVELS_MAX - 1; depth > 0; depth -= 1) {
      for (const [id, workflow] of this.#parentsOfEnded(depth)) await this.#close(workflow, id);
    }
  }

  /** All writes, with the jobs that the entered states enqueue. */
  async finish(): Promise<ItemWrite[]> {
    const planned = [...this.#writes.values()];
    const at = instantOf(planned, this.#parts.seen);
    const finished: ItemWrite[] = [];
    let count = 0;
    for (const write of planned) {
      const jobs = await this.#jobsOf(write, at);
      count += jobs.length;
      if (count > ENQUEUE_BATCH_MAX) throw tooManyJobs(ENQUEUE_BATCH_MAX);
      finished.push({ ...write, jobs });
    }
    return finished;
  }

  async #jobsOf(write: ItemWrite, at: number): Promise<NewJob[]> {
    const { item, line, status } = write;
    const rules = this.#known.get(item.workflow)?.states.get(status);
    if (line.action === "update" || this.#silent.has(item.id)) return [];
    if ((rules?.enter ?? null) === null) return [];
    const above = item.parent === null ? undefined : this.#writes.get(item.parent);
    const parent = above === undefined ? this.#parent(item.parent) : changeOf(above, at);
    const facts = { item: recordOf(changeOf(write, at)), parent: recordOrNull(parent) };
    return jobsOnEntry(rules as StateRules, facts, this.#parts.newId, this.#budget);
  }

  #parentsOfEnded(depth: number): Map<string, AnyWorkflow> {
    const parents = new Map<string, AnyWorkflow>();
    for (const { item, status, line } of this.#writes.values()) {
      const workflow = this.#known.get(item.workflow);
      const above = workflow?.nests === true ? workflow : workflow?.parent;
      if (item.depth !== depth || item.parent === null) continue;
      const hasEnded = line.action === "move" && this.#isFinal(item.workflow, status);
      if (hasEnded && above !== null && above !== undefined) parents.set(item.parent, above);
    }
    return parents;
  }

  async #close(workflow: AnyWorkflow, id: string): Promise<void> {
    const { seen } = this.#parts;
    const parent = seen.items.get(id);
    const asked = this.#writes.get(id);
    // A move that the caller requested for the parent takes precedence.
    if (workflow.whenChildrenEnd === null || parent === undefined) return;
    if (asked?.line.action === "move") return;
    const progress = this.#progress(id, await seen.progress(id));
    if (progress.some(({ isFinal }) => !isFinal)) return;
    const move = workflow.whenChildrenEnd(progress);
    if (move === null) return;
    const rules = workflow.moves.get(move);
    if (rules === undefined) throw noSuchMove(workflow, move);
    if (!rules.from.includes(parent.status)) return;
    const data = asked?.data ?? parent.data;
    const because = "all below it have ended";
    // A change by the caller is in the same audit line, which names the caller.
    const by =
      asked === undefined
        ? { actor: SYSTEM_ACTOR, reason: because }
        : { actor: asked.line.actor, reason: asked.line.reason ?? because };
    const facts = { item: { ...parent, data }, patch: undefined, actor: by.actor };
    if ((await this.#refusal(rules, facts)) !== undefined) return;
    this.#write(workflow, parent, { action: "move", move, status: rules.to, data, by });
  }

  /** The counts after this change. */
  #progress(parent: string, before: readonly ChildrenIn[]): ChildrenIn[] {
    const after = before.map((one) => ({ ...one }));
    const count = (workflow: string, status: string, by: number): void => {
      const known = after.find((one) => one.workflow === workflow && one.status === status);
      if (known !== undefined) known.children += by;
      else after.push({ workflow, status, isFinal: this.#isFinal(workflow, status), children: by });
    };
    for (const { item, status, line } of this.#writes.values()) {
      if (item.parent !== parent || line.action !== "move") continue;
      count(item.workflow, item.status, -1);
      count(item.workflow, status, 1);
    }
    return after.filter(({ children }) => children > 0);
  }

  #isFinal(workflow: string, status: string): boolean {
    return this.#known.get(workflow)?.states.get(status)?.isFinal === true;
  }

  #parent(id: string | null): StoredItem | null {
    if (id === null) return null;
    const parent = this.#parts.seen.items.get(id);
    if (parent === undefined) throw new ItemNotFoundError({ id });
    return parent;
  }

  /** Why a guard refuses; null: it gives no reason; undefined: it allows the move. */
  async #refusal(
    { guard }: MoveRules,
    { item, patch = {}, actor }: { item: StoredItem; patch: unknown; actor?: string },
  ): Promise<string | null | undefined> {
    const { operator, seen } = this.#parts;
    return refusalOf(guard, this.#budget, {
      item,
      parent: this.#parent(item.parent),
      actor: actor ?? operator.actor,
      reason: operator.reason,
      patch,
      now: seen.now,
    });
  }

  #write(
    workflow: AnyWorkflow,
    item: StoredItem,
    to: {
      action: NewLine["action"];
      move?: string;
      status: string;
      data: string;
      enters?: boolean;
      by?: Pick<ItemOperator, "actor" | "reason">;
    },
  ): void {
    this.#known.set(workflow.name, workflow);
    const { action, move = null, status, data, by, enters = true } = to;
    if (!enters) this.#silent.add(item.id);
    const line = { ...this.#parts.operator, ...by, action, move };
    const rules = action === "update" ? undefined : workflow.states.get(status);
    this.#writes.set(item.id, {
      item,
      line,
      status,
      data,
      jobs: [],
      awaitsJobs: enters && (rules?.whenJobsEnd ?? null) !== null,
      limitMs: rules?.limit?.ms ?? null,
    });
  }
}

interface Guarded {
  readonly item: StoredItem;
  readonly parent: StoredItem | null;
  readonly actor: string;
  readonly reason: string | null;
  readonly patch: unknown;
  readonly now: number;
}

/** Why a guard refuses; null: it gives no reason; undefined: it allows the move. */
async function refusalOf(
  guard: MoveRules["guard"],
  budget: CallbackBudget,
  { item, parent, ...rest }: Guarded,
): Promise<string | null | undefined> {
  if (guard === null) return undefined;
  const facts = { item: recordOf(item), parent: recordOrNull(parent), ...rest };
  const verdict: unknown = await budget.with("guard", () => guard(facts as never));
  if (verdict === undefined || verdict === true) return undefined;
  if (verdict === false) return null;
  if (typeof verdict === "string") return verdict;
  throw invalid("guard", "a guard must return true, false, or a string with its reason.");
}

/** A move that leads on from an item's state. */
export interface LegalMove {
  readonly name: string;
  readonly to: string;
  /** Whether its guard allows it as things are; null: the guard cannot be asked. */
  readonly allowed: boolean | null;
  /** Why the guard refuses; null: it does not, or gives no reason. */
  readonly why: string | null;
}

/** The moves from an item's state, with what their guards say if nothing else changes. */
export async function legalMoves(
  workflow: AnyWorkflow,
  runtime: Runtime,
  guarded: Omit<Guarded, "reason" | "patch">,
): Promise<LegalMove[]> {
  const budget = new CallbackBudget(runtime);
  const legal: LegalMove[] = [];
  for (const [name, { from, to, guard }] of workflow.moves) {
    if (!from.includes(guarded.item.status)) continue;
    const facts = { ...guarded, reason: null, patch: {} };
    // A guard that throws refuses, and its error says why.
    const why = await refusalOf(guard, budget, facts).catch((error: unknown) =>
      error instanceof Error ? error.message : String(error),
    );
    legal.push({ name, to, allowed: why === undefined, why: why ?? null });
  }
  return legal;
}

/** Null and 0: the time of the write. */
function timesOf(
  imported: Imported | undefined,
  now: number,
): Pick<StoredItem, "createdAt" | "enteredAt"> {
  const enteredAt = imported?.enteredAt ?? 0;
  const createdAt = imported?.createdAt ?? enteredAt;
  for (const [field, at] of Object.entries({ enteredAt, createdAt })) {
    if (at <= now) continue;
    throw invalid(field, "is in the future, by the database's clock.");
  }
  if (createdAt <= (enteredAt || now)) return { createdAt, enteredAt };
  throw invalid("createdAt", "is later than enteredAt.");
}

function moveOf(workflow: AnyWorkflow, item: StoredItem, move: string): MoveRules {
  const rules = workflow.moves.get(move);
  if (rules?.from.includes(item.status) === true) return rules;
  const allowed = [...workflow.moves]
    .filter(([, { from }]) => from.includes(item.status))
    .map(([name]) => name);
  const { id, status: from } = item;
  throw new InvalidMoveError({ item: id, workflow: workflow.name, move, from, allowed });
}

function noSuchMove({ name, moves }: AnyWorkflow, move: unknown): InvalidArgumentError {
  const problem = `workflow '${name}' has no move '${String(move)}'. There are: ${[...moves.keys()].join(", ")}.`;
  return invalid("whenChildrenEnd", problem);
}

/** Data is stored as it was given; the schema of the workflow only validates it. */
const DATA = { what: "data of an item", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

async function dataText(
  { data: schema }: AnyWorkflow,
  data: unknown,
  budget: CallbackBudget,
): Promise<string> {
  const text = encode(checkFields("data", data), DATA);
  if (schema === null) return text;
  const checked = await budget.with("data", () => schema["~standard"].validate(data));
  if (checked.issues === undefined) return text;
  const [issue] = checked.issues;
  const path = (issue?.path ?? []).map((part) =>
    String(typeof part === "object" ? part.key : part),
  );
  const field = ["data", ...path].join(".");
  throw invalid(field, issue?.message ?? "it is not valid.");
}

/** How many jobs one state may enqueue for an item that enters it. */
const ENTRY_JOBS_MAX = 1_000;

/** No key: an existing job would not be the item's. */
const entryOptions = optionsOf<EntryJobOptions>()({
  queue: passed<string>(),
  priority: passed<number>(),
  delay: passed<Duration>(),
});

async function jobsOnEntry(
  rules: StateRules,
  facts: { readonly item: ItemRecord; readonly parent: ItemRecord | null },
  newId: () => string,
  budget: CallbackBudget,
): Promise<NewJob[]> {
  const jobs: NewJob[] = [];
  for (const { task, input, options } of wantedBy(rules, facts)) {
    const defaults = defaultsOf(task);
    const given = entryOptions.read(options);
    await budget.with("enter", () => checkInputs(task, [input]));
    // The id marks a job whose end is awaited.
    const id = rules.whenJobsEnd === null ? newId() : calledId(newId());
    const terms = termsHere(checkOptions(given, defaults));
    jobs.push(newJob(id, defaults.name, input, terms));
  }
  return jobs;
}

function wantedBy(
  { enter }: StateRules,
  facts: object,
): { task: Task; input: unknown; options: EnqueueOptions }[] {
  if (enter === null) return [];
  const wanted: ReturnType<typeof wantedBy> = [];
  let isOver = false;
  const enqueue = (task: AnyTask, input?: unknown, options: EntryJobOptions = {}): void => {
    if (isOver) throw tooLate();
    if (wanted.length === ENTRY_JOBS_MAX) throw tooManyJobs(ENTRY_JOBS_MAX);
    wanted.push({ task, input, options });
  };
  const value = enter({ ...facts, enqueue } as never);
  isOver = true;
  if (value instanceof Promise) {
    value.catch(() => {}); // it is refused in any case
    throw tooLate();
  }
  return wanted;
}

function tooLate(): InvalidArgumentError {
  return invalid("enter", "it must be synchronous, and enqueue its jobs before it returns.");
}

function tooManyJobs(most: number): InvalidArgumentError {
  return invalid("enter", `the entered states may enqueue at most ${most} jobs.`);
}

class CallbackBudget {
  readonly #runtime: Runtime;
  readonly #until: number;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.#until = runtime.monotonic() + CALLBACK_MS;
  }

  /** Calls the function that `field` names, and abandons it when the budget is used up. */
  async with<T>(field: string, call: () => T | Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>();
    const leftMs = Math.max(0, this.#until - this.#runtime.monotonic());
    const timer = this.#runtime.timer(leftMs, () => late.reject(tooSlow(field)));
    try {
      return await Promise.race([call(), late.promise]);
    } finally {
      timer.cancel();
    }
  }
}

function tooSlow(field: string): InvalidArgumentError {
  const problem =
    `it took longer than ${CALLBACK_MS} ms while items were locked. ` +
    `It must not wait or call Holdfast.`;
  return invalid(field, problem);
}
