/**
 * A task: the definition of a kind of job. It has a name, the schema of its input, a retry policy and the function to run.
 *
 * The input is checked twice, when a job is enqueued and before it runs, because the two processes may run different versions
 * of the code. The input is stored as the caller gave it, so a schema may transform it freely.
 */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Duration } from "./duration.ts";
import { InvalidArgumentError, invalid } from "./errors.ts";
import type { EventType } from "./event.ts";
import type { ItemRecord } from "./item.ts";
import type { Fence } from "./job.ts";
import type { StorableTask } from "./json-form.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encodeReturned } from "./json.ts";
import { checkQueue, taskName } from "./name.ts";
import {
  by,
  type Checked,
  checkSchema,
  choice,
  duration,
  needed,
  optionsOf,
  passed,
  whole,
} from "./options.ts";
import type { JobLog, Progress } from "./report.ts";
import { type RetryOptions, retryPolicy, type RetryPolicy } from "./retry.ts";

export const DEFAULT_QUEUE = "default";

/** The second argument of a task's function: facts about the job, and durable steps. */
export interface Context {
  /** The id of the job. */
  readonly id: string;
  /** The name of the task. */
  readonly task: string;
  /** The queue of the job. */
  readonly queue: string;
  /** From 1. */
  readonly attempt: number;
  /** How many attempts the job has at most. */
  readonly maxAttempts: number;
  /** Aborts when the function must stop: timeout, cancellation, shutdown or a lost lease. The reason says which. */
  readonly signal: AbortSignal;
  /** Proof of ownership, for anything that checks fences. */
  readonly fence: Fence;
  /** `<worker id>-<job id>-<attempt>`: the name of this attempt in logs and in the history. */
  readonly traceId: string;
  /** The same for every attempt of this job: pass it to services that support idempotency keys. */
  readonly idempotencyKey: string;

  /**
   * Runs the function and saves its result. A later attempt gets the saved result and does not run the function.
   *
   * @example
   * ```ts
   * const invoice = await ctx.step("invoice", () => invoices.create("7"));
   * ```
   */
  step<T>(name: string, body: () => T | Promise<T>): Promise<T>;
  /**
   * Changes something outside of the database, with a record before and after. If a crash leaves it unknown whether it
   * happened, `verify` is asked (null or undefined: it did not happen); without `verify` the job waits for an operator.
   *
   * @example
   * ```ts
   * await ctx.effect("charge", ({ key }) => bank.charge("7", 1999, key), {
   *   verify: ({ key }) => bank.find(key),
   * });
   * ```
   */
  effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options?: {
      /** Asks the external system after a crash; its result becomes that of the effect. */
      readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>>;
    },
  ): Promise<T>;
  /**
   * Runs the function in a transaction; its rows and the step are committed together, if the worker still owns the job. Its
   * result is saved. An item, or a list of items, is saved and returned as its record.
   *
   * @example
   * ```ts
   * await ctx.commit("ship", async (tx) => {
   *   await tx.query("update orders set status = 'shipped' where id = $1", ["7"]);
   *   await ctx.holdfast.within(tx).enqueue(charge, { order: "7", cents: 1999 });
   * });
   * ```
   */
  commit<T>(name: string, body: (tx: UserTransaction) => T | Promise<T>): Promise<Committed<T>>;
  /**
   * Suspends the job for this long; meanwhile the worker runs other jobs.
   *
   * @example
   * ```ts
   * await ctx.sleep("grace period", "3d");
   * ```
   */
  sleep(name: string, duration: Duration): Promise<void>;
  /**
   * Puts the job off for this long, uncharged; it then starts again from its beginning, after its completed steps. Throws
   * a `Snooze`, and the job is snoozed even if that is caught. `maxSnoozes` of the retry policy limits how often.
   */
  snooze(delay: Duration, reason?: unknown): never;
  /**
   * Waits until the event is emitted with this key; returns at once if it already was. Throws EventTimeoutError.
   *
   * @example
   * ```ts
   * const { cents } = await ctx.event(paid, "order-7", { timeout: "2h" });
   * ```
   */
  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options?: {
      /** How long to wait before EventTimeoutError is thrown. Default: forever. */
      readonly timeout?: Duration;
    },
  ): Promise<Payload>;
  /**
   * Ends the job inside your own transaction (a `pg` client, a `mysql2` connection, a `DatabaseSync`): it is done, with this
   * result, if and when you commit. If it throws LeaseLostError or JobCancelledError, roll back. Return soon afterwards; the
   * function's own result is ignored. Returns the result.
   */
  complete<T>(tx: unknown, result: T): Promise<T>;
  /**
   * Enqueues a job of another task and waits for its result. Throws CallFailedError.
   *
   * @example
   * ```ts
   * const receipt = await ctx.call(charge, { order: "7", cents: 1999 });
   * ```
   */
  call<Of extends AnyTask>(
    task: Of,
    ...rest: InputArguments<InputOf<Of>, CallOptions>
  ): Promise<ResultOf<Of>>;

  /**
   * Reports progress: a fraction from 0 to 1, or `{ done, total }`. Of many in a second only the last is stored. This and
   * the two below are written in the background: they never wait, and never throw because of the database.
   */
  progress(value: Progress, text?: string): void;
  /**
   * Adds a line to the log of the job, with JSON data. A long text is cut.
   *
   * @example
   * ```ts
   * ctx.log("asking the carrier", { weight: 2.75 });
   * ctx.log.warn("the carrier is slow", { seconds: 5 });
   * ```
   */
  readonly log: JobLog;
  /** Reports JSON data under a name of your choice. */
  report(name: string, data?: unknown): void;
}

/** An item of a workflow. */
export interface Recorded {
  /** Its record. */
  toJSON(): ItemRecord;
}

/** The result of a commit: items as their records, anything else unchanged. */
export type Committed<T> = T extends Recorded
  ? ReturnType<T["toJSON"]>
  : T extends readonly Recorded[]
    ? ReturnType<T[number]["toJSON"]>[]
    : T;

/** What `ctx.effect()` passes to its functions. */
export interface Effect {
  /** The same for every attempt: pass it to the service as an idempotency key. */
  readonly key: string;
  /** The same as `ctx.signal`: it aborts when the function must stop. */
  readonly signal: AbortSignal;
}

/** The result of an effect; null or undefined: it did not happen. */
export type Found<T> = T | null | undefined;

/** Options of `ctx.call()`: the name of the step, and the queue, priority and attempts of the called job. */
export interface CallOptions {
  /** The name of the step. Default: the name of the task. */
  readonly name?: string;
  /** Default: the queue of the task. */
  readonly queue?: string;
  /** A higher number goes first. Default 0. */
  readonly priority?: number;
  /** Default: that of the task. */
  readonly maxAttempts?: number;
}

/** A task of any input and result. */
export interface AnyTask {
  /** Includes the version, if it has one. */
  readonly name: string;
  /** The queue of its jobs, unless the caller names another. */
  readonly queue: string;
  /** How often it is tried again, and when. */
  readonly retry: RetryPolicy;
  /** The time limit of an attempt; null: none. */
  readonly timeoutMs: number | null;
  /** How steps are matched with saved steps. */
  readonly steps: StepMatching;
  /** Null or undefined: it runs in the worker itself. */
  readonly isolation?: Isolation | null;
  /** The schema of its input; null: none. */
  readonly input: StandardSchemaV1 | null;
  /** Its function. */
  readonly run: (input: never, ctx: Context) => unknown;
}

/** A task, as `defineTask()` returns it. `Input` is what callers pass, `Result` what they receive. */
export interface Task<Input = unknown, Result = unknown> extends AnyTask {
  /** Exists for the compiler only. */
  readonly types?: {
    /** What `enqueue()` takes. */
    readonly input: Input;
    /** What `job.result()` returns. */
    readonly result: Result;
  };
}

/** How the steps of an attempt are matched with saved steps. */
export type StepMatching = "in order" | "by name";

/** The input of a task, as callers pass it. */
export type InputOf<Of> = Of extends { types?: { input: infer Input } } ? Input : unknown;
/** The result of a task. */
export type ResultOf<Of> = Of extends { types?: { result: infer Result } } ? Result : unknown;

/** What follows a task in a call: its input, which may be missing if the task needs none, and options. */
export type InputArguments<Input, Options> = undefined extends Input
  ? [input?: Input | null, options?: Options]
  : [Input] extends [null]
    ? [input?: Input, options?: Options]
    : [input: Input, options?: Options];

/** What a task declares beside its input and its function. */
export interface TaskOptions {
  /** Stored with every job, so do not change it lightly. */
  readonly name: string;
  /**
   * From 1. Raise it when new code cannot run old jobs, or old code cannot run new ones: a worker claims only jobs of the
   * versions it knows. To run both, give the worker both definitions.
   */
  readonly version?: number;
  /** The queue of its jobs, unless the caller names another. */
  readonly queue?: string;
  /** Default: 3 attempts, with growing pauses between them. */
  readonly retry?: RetryOptions;
  /**
   * How the steps of an attempt are matched with saved steps: in their order, which detects that the task changed (the
   * default), or by their names alone.
   */
  readonly steps?: StepMatching;
  /** The time limit of an attempt. After it `ctx.signal` aborts, and the attempt fails. */
  readonly timeout?: Duration;
  /** Runs it in a thread or process beside the worker's, which survives whatever the task does there. */
  readonly isolation?: IsolationOptions;
}

/** Where an isolated task runs: in a thread or process beside the worker's. */
export interface IsolationOptions {
  /** A thread survives process.exit(), endless loops and a full heap; a process also survives native crashes. */
  readonly in: "thread" | "process";
  /** The module that exports the task, for the thread or process to import: `import.meta.url`. */
  readonly module: string | URL;
  /** The limit of its JavaScript heap, in megabytes. Default: Node's. */
  readonly memory?: number;
  /** A thread or process is replaced after this many jobs. Default 1,000. */
  readonly maxJobs?: number;
}

/** Where an isolated task runs. */
export interface Isolation {
  /** A thread shares the memory of the process; a process survives native crashes too. */
  readonly in: "thread" | "process";
  /** The URL of the module that exports the task. */
  readonly module: string;
  /** The limit of its heap, in megabytes; null: Node's own. */
  readonly memoryMb: number | null;
  /** After this many jobs the thread or process is replaced. */
  readonly maxJobs: number;
}

/** The input that callers pass: the schema's, if there is one. */
export type InputFor<Input, Schema extends StandardSchemaV1> = [Schema] extends [never]
  ? Input
  : StandardSchemaV1.InferInput<Schema>;

/** The input that `run` gets. */
export type ParsedFor<Input, Schema extends StandardSchemaV1> = [Schema] extends [never]
  ? Input
  : StandardSchemaV1.InferOutput<Schema>;

const isolationOptions = optionsOf<IsolationOptions>()({
  in: needed(choice(["thread", "process"])),
  module: needed(by(checkModule)),
  memory: whole(16, 1_048_576),
  maxJobs: whole(1, 1_000_000, 1_000),
});

interface Definition extends TaskOptions {
  readonly input?: StandardSchemaV1 | undefined;
  run(input: never, ctx: Context): unknown;
}

const taskOptions = optionsOf<Definition>()({
  run: needed(by(checkRun)),
  name: needed(passed<string>()),
  version: passed<number>(),
  queue: by(checkQueue, DEFAULT_QUEUE),
  retry: by((_field, retry: RetryOptions) => retryPolicy(retry), {}),
  timeout: duration({ least: 1 }),
  steps: choice(["in order", "by name"], "in order"),
  isolation: isolationOptions.nested('{ in: "process", module: import.meta.url }'),
  input: by(checkSchema<StandardSchemaV1>),
});

/**
 * Defines a task: its name, the schema of its input, its retry policy, and the function to run.
 *
 * @example
 * ```ts
 * const charge = defineTask({
 *   name: "order.charge",
 *   input: z.object({ order: z.string(), cents: z.int() }),
 *   retry: { maxAttempts: 5 },
 *   run: async ({ order, cents }, ctx) => bank.charge(order, cents, ctx.idempotencyKey),
 * });
 * ```
 */
export function defineTask<Input, Result>(
  definition: TaskOptions & {
    /** Left out: the type of the input is that of `run`, and it is not validated. */
    readonly input?: undefined;
    /** Does the work. What it returns is stored as JSON and becomes the result; what it throws fails the attempt. */
    run(input: Input, ctx: Context): Result | Promise<Result>;
  } & StorableTask<Input, Result>,
): Task<Input, Result>;
// The compiler reports the errors of the last signature, so this one fits definitions of both kinds.
export function defineTask<Input, Result, Schema extends StandardSchemaV1 = never>(
  definition: TaskOptions & {
    /** The schema that validates inputs when they are enqueued, of Zod, Valibot or ArkType. */
    readonly input?: Schema | undefined;
    /** Does the work. What it returns is stored as JSON and becomes the result; what it throws fails the attempt. */
    run(input: ParsedFor<Input, Schema>, ctx: Context): Result | Promise<Result>;
  } & StorableTask<InputFor<Input, Schema>, Result>,
): Task<InputFor<Input, Schema>, Result>;
export function defineTask(definition: Definition): Task {
  const checked = taskOptions.read(definition);
  const { version = null, queue, retry, timeoutMs = null, input = null } = checked;
  return {
    name: taskName(checked.name, version),
    queue,
    retry,
    timeoutMs,
    steps: checked.steps,
    isolation: checked.isolation === undefined ? null : isolationOf(checked.isolation),
    input,
    run: runOf(definition, input !== null),
  };
}

function isolationOf(checked: Checked<typeof isolationOptions.table>): Isolation {
  const { memory, ...rest } = checked;
  return { ...rest, memoryMb: memory ?? null };
}

function checkRun(field: string, run: Definition["run"]): Definition["run"] {
  if (typeof run === "function") return run;
  throw invalid(field, "a task needs a function to run.");
}

/** A missing input is stored as null. Parameters with a default value do not count in `length`: it applies to null, too. */
function runOf(definition: Definition, hasSchema: boolean): Task["run"] {
  if (hasSchema || definition.run.length > 0) return (value, ctx) => definition.run(value, ctx);
  return (value, ctx) => definition.run(value ?? undefined, ctx);
}

/** A URL of a file, or an absolute path, such as CommonJS's `__filename`. */
function checkModule(field: string, module: string | URL): string {
  const text = module instanceof URL ? module.href : module;
  if (typeof text === "string" && text.startsWith("file:") && URL.canParse(text)) return text;
  if (typeof text === "string" && isAbsolute(text)) return pathToFileURL(text).href;
  throw new InvalidArgumentError({
    field,
    problem:
      "write `module: import.meta.url` in the module that exports the task. The thread or process that runs the task " +
      "imports that module.",
  });
}

/** Tasks by name. Two with one name are refused, because it would be unclear which one runs. */
export function taskMap(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = new Map<string, Task>();
  for (const task of checkTaskList(tasks)) {
    if (typeof task?.run !== "function" || typeof task.retry?.maxAttempts !== "number") {
      throw invalid("tasks", "pass tasks made with defineTask().");
    }
    if (map.has(task.name)) {
      throw invalid("tasks", `two tasks are called '${task.name}'.`);
    }
    map.set(task.name, task);
  }
  return map;
}

function checkTaskList(tasks: unknown): readonly AnyTask[] {
  if (Array.isArray(tasks)) return tasks as AnyTask[];
  const isModule = typeof tasks === "object" && tasks !== null && !("run" in tasks);
  const advice = isModule ? ". For a module, pass Object.values(tasks)." : ", such as [ship].";
  throw invalid("tasks", `must be a list of tasks${advice}`);
}

// Steps: the parts of a task whose results are saved, so that a later attempt skips them.
//
//     begun ──► done
//       ├─────► failed  (a call, until its job is retried)
//       └─────► doubt ──► done, or begun again after an operator says that it did not happen

export const stepKinds = ["step", "effect", "commit", "sleep", "event", "call"] as const;
/** What a step is. */
export type StepKind = (typeof stepKinds)[number];

export const stepStates = ["begun", "done", "failed", "doubt"] as const;
/** How a step stands. */
export type StepState = (typeof stepStates)[number];

/** A step of a job: its name, and which one of that name. */
export interface StepName {
  /** The name that the task gave it. */
  readonly name: string;
  /** Counts the steps of this name, from 1. */
  readonly occurrence: number;
}

/** A step that begins. */
export interface NewStep extends StepName {
  /** Which function of `ctx` made it. */
  readonly kind: StepKind;
  /** Its position among all steps of the job, from 1. */
  readonly position: number;
}

/** How a durable step of a job stands. */
export interface StepFacts extends NewStep {
  /** `begun` until its result is saved. */
  readonly status: StepState;
  /** The epoch of the attempt that wrote it. */
  readonly epoch: number;
  /** When it began (ms since 1970, the database's clock). */
  readonly begunAt: number;
  /** When its result was saved (ms since 1970); null: it has none yet. */
  readonly endedAt: number | null;
}

/** A durable step of a job, as it is stored. */
export interface StepRecord extends StepFacts {
  /** The saved result as JSON; null: none. */
  readonly result: string | null;
  /** Time since it began, by the clock of the database. */
  readonly ageMs: number;
}

/** A step of a job that would run again, or keep its result. */
export interface PlannedStep extends StepName {
  /** Effects, commits and calls must be confirmed before they run again. */
  readonly kind: StepKind;
  /** `doubt`: it may or may not have happened. */
  readonly status: StepState;
}

/** What would happen if a job ran again from a step. */
export interface RerunPlan {
  /** The id of the job. */
  readonly job: string;
  /** Null: from the beginning. */
  readonly from: StepName | null;
  /** These keep their results and do not run again, in the order of the job. */
  readonly keeps: readonly PlannedStep[];
  /** These run again. */
  readonly repeats: readonly PlannedStep[];
  /** The effects, commits and calls among them, to be confirmed by name; the second of a name as `name (2)`. */
  readonly confirm: readonly string[];
}

/** An effect that may or may not have happened. */
export interface EffectInDoubt extends StepName {
  /** The id of the job that waits for an answer. */
  readonly job: string;
  /** The name of its task. */
  readonly task: string;
  /** The queue of the job. */
  readonly queue: string;
  /** When the effect began (ms since 1970, the database's clock). */
  readonly begunAt: number;
}

/** The event of the end of a called job. Names of applications' events do not begin with @. */
export const JOB_ENDED = "@job";

/** The transaction that `ctx.commit` passes to its function. */
export interface UserTransaction {
  /** Runs one statement in the dialect of the database, with its placeholders. Resolves to the rows. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** The connection of the driver: a `pg` client, a `mysql2` connection, a `DatabaseSync`. */
  readonly client: unknown;
}

/** The limit of the result of a step. */
export const KEPT = { what: "result of a step", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** Encodes the result of a step. */
export function encodeStep(
  value: unknown,
  { kind, name }: { readonly kind: StepKind; readonly name: string },
): string | null {
  return encodeReturned(value, KEPT, () => ({
    what: `result of ${kind} '${name}'`,
    consequence:
      kind === "commit"
        ? "Nothing was committed, and the job is not retried."
        : "Its work was done, so the job is not retried.",
  }));
}
