/**
 * A task: the definition of a kind of job. It has a name, the schema of its input, a retry policy and the function to run.
 *
 * The input is checked twice, when a job is enqueued and before it runs, because the two processes may run different versions
 * of the code. The input is stored as the caller gave it, so a schema may transform it freely.
 */
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { type Duration, toMs } from "./duration.ts";
import { InputRejectedError, InvalidArgumentError } from "./errors.ts";
import type { ItemRecord } from "./item.ts";
import type { Fence } from "./job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encodeReturned } from "./json.ts";
import { checkName, checkQueue, taskName } from "./name.ts";
import { checkKnown, checkSchema, checkWhole } from "./options.ts";
import type { Progress } from "./report.ts";
import { type RetryOptions, retryPolicy, type RetryPolicy } from "./retry.ts";

export const DEFAULT_QUEUE = "default";
const KNOWN = new Set("name version queue retry timeout steps isolation input run".split(" "));
const ISOLATION_KNOWN = new Set(["in", "module", "memory", "maxJobs"]);
const MEMORY_MB = { least: 16, most: 1_048_576 };
const JOBS_PER_CHILD = { least: 1, most: 1_000_000 };
const DEFAULT_JOBS_PER_CHILD = 1_000;

/** The second argument of a task's function: facts about the job, and durable steps. */
export interface Context {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  /** From 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Aborts when the function must stop: timeout, cancellation, shutdown or a lost lease. The reason says which. */
  readonly signal: AbortSignal;
  /** Proof of ownership, for anything that checks fences. */
  readonly fence: Fence;
  /** `<worker id>-<job id>-<epoch>`: the name of this attempt in logs and in the history. */
  readonly traceId: string;
  /** The same for every attempt of this job: pass it to services that support idempotency keys. */
  readonly idempotencyKey: string;

  /** Runs the function and saves its result. A later attempt gets the saved result and does not run the function. */
  step<T>(name: string, body: () => T | Promise<T>): Promise<T>;
  /**
   * Changes something outside of the database, with a record before and after. If a crash leaves it unknown whether it
   * happened, `verify` is asked (null or undefined: it did not happen); without `verify` the job waits for an operator.
   */
  effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options?: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> },
  ): Promise<T>;
  /**
   * Runs the function in a transaction; its rows and the step are committed together, if the worker still owns the job. Its
   * result is saved. An item, or a list of items, is saved and returned as its record.
   */
  commit<T>(name: string, body: (tx: UserTransaction) => T | Promise<T>): Promise<Committed<T>>;
  /** Suspends the job for this long; meanwhile the worker runs other jobs. */
  sleep(name: string, duration: Duration): Promise<void>;
  /**
   * Puts the job off for this long, uncharged; it then starts again from its beginning, after its completed steps. Throws
   * a `Snooze`, and the job is snoozed even if that is caught. `maxSnoozes` of the retry policy limits how often.
   */
  snooze(delay: Duration, reason?: unknown): never;
  /** Waits until the event is emitted with this key; returns at once if it already was. Throws EventTimeoutError. */
  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Payload>;
  /**
   * Ends the job inside your own transaction (a `pg` client, a `mysql2` connection, a `DatabaseSync`): it is done, with this
   * result, if and when you commit. If it throws LeaseLostError or JobCancelledError, roll back. Return soon afterwards; the
   * function's own result is ignored. Returns the result.
   */
  complete<T>(tx: unknown, result: T): Promise<T>;
  /** Enqueues a job of another task and waits for its result. Throws CallFailedError. */
  call<Input, Result>(
    task: Task<Input, Result>,
    input: NoInfer<Input>,
    options?: CallOptions,
  ): Promise<Result>;

  /**
   * Reports progress: a fraction from 0 to 1, or `{ done, total }`. Of many in a second only the last is stored. This and
   * the two below are written in the background: they never wait, and never throw because of the database.
   */
  progress(value: Progress, text?: string): void;
  /** Adds a line to the log of the job, with JSON data. A long text is cut. */
  log(text: string, data?: unknown): void;
  /** Reports JSON data under a name of your choice. */
  report(name: string, data?: unknown): void;
}

/** An item of a workflow. */
interface Recorded {
  toJSON(): ItemRecord;
}

/** The result of a commit: items as their records, anything else unchanged. */
export type Committed<T> = T extends Recorded
  ? ReturnType<T["toJSON"]>
  : T extends readonly Recorded[]
    ? ReturnType<T[number]["toJSON"]>[]
    : T;

export interface Effect {
  /** The same for every attempt: pass it to the service as an idempotency key. */
  readonly key: string;
  readonly signal: AbortSignal;
}

/** The result of an effect; null or undefined: it did not happen. */
export type Found<T> = T | null | undefined;

export interface CallOptions {
  /** The name of the step. Default: the name of the task. */
  readonly name?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly maxAttempts?: number;
}

/** `Input` is what callers pass, `Result` what they receive. */
export interface Task<Input = unknown, Result = unknown> {
  /** Includes the version, if it has one. */
  readonly name: string;
  readonly queue: string;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number | null;
  readonly steps: StepMatching;
  /** Null or undefined: it runs in the worker itself. */
  readonly isolation?: Isolation | null;
  readonly input: StandardSchemaV1 | null;
  readonly run: (input: never, ctx: Context) => unknown;
  /** Exists for the compiler only. */
  readonly types?: { readonly input: Input; readonly result: Result };
}

export type StepMatching = "in order" | "by name";

/** A task of any input and result. */
export type AnyTask = Omit<Task, "types">;

export interface TaskOptions {
  readonly name: string;
  /**
   * From 1. Raise it when new code cannot run old jobs, or old code cannot run new ones: a worker claims only jobs of the
   * versions it knows. To run both, give the worker both definitions.
   */
  readonly version?: number;
  /** The queue of its jobs, unless the caller names another. */
  readonly queue?: string;
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
  readonly in: "thread" | "process";
  readonly module: string;
  readonly memoryMb: number | null;
  readonly maxJobs: number;
}

export function defineTask<Schema extends StandardSchemaV1, Result>(
  definition: TaskOptions & {
    readonly input: Schema;
    run(input: StandardSchemaV1.InferOutput<Schema>, ctx: Context): Result | Promise<Result>;
  },
): Task<StandardSchemaV1.InferInput<Schema>, Result>;
export function defineTask<Input, Result>(
  definition: TaskOptions & {
    readonly input?: undefined;
    run(input: Input, ctx: Context): Result | Promise<Result>;
  },
): Task<Input, Result>;
export function defineTask(
  definition: TaskOptions & {
    readonly input?: StandardSchemaV1 | undefined;
    run(input: never, ctx: Context): unknown;
  },
): Task {
  checkKnown(definition, KNOWN);
  const { name, version = null, queue = DEFAULT_QUEUE, retry, timeout, input = null } = definition;
  if (typeof definition.run !== "function") {
    throw new InvalidArgumentError({ field: "run", problem: "a task needs a function to run." });
  }
  return {
    name: taskName(name, version),
    queue: checkQueue("queue", queue),
    retry: retryPolicy(retry),
    timeoutMs: timeout === undefined ? null : toMs("timeout", timeout, { min: 1 }),
    steps: checkMatching(definition.steps),
    isolation: checkIsolation(definition.isolation),
    input: checkSchema("input", input),
    run: (value, ctx) => definition.run(value, ctx),
  };
}

function checkMatching(steps: StepMatching = "in order"): StepMatching {
  if (steps === "in order" || steps === "by name") return steps;
  throw new InvalidArgumentError({ field: "steps", problem: 'must be "in order" or "by name".' });
}

function checkIsolation(options: IsolationOptions | undefined): Isolation | null {
  if (options === undefined) return null;
  const example = '{ in: "process", module: import.meta.url }';
  checkKnown(options, ISOLATION_KNOWN, { field: "isolation", example });
  const { in: place, memory, maxJobs = DEFAULT_JOBS_PER_CHILD } = options;
  if (place !== "thread" && place !== "process") {
    const problem = 'must be "thread" or "process".';
    throw new InvalidArgumentError({ field: "isolation.in", problem });
  }
  return {
    in: place,
    module: checkModule(options.module),
    memoryMb: memory === undefined ? null : checkWhole("isolation.memory", memory, MEMORY_MB),
    maxJobs: checkWhole("isolation.maxJobs", maxJobs, JOBS_PER_CHILD),
  };
}

/** A URL of a file, or an absolute path, such as CommonJS's `__filename`. */
function checkModule(module: unknown): string {
  const text = module instanceof URL ? module.href : module;
  if (typeof text === "string" && text.startsWith("file:") && URL.canParse(text)) return text;
  if (typeof text === "string" && isAbsolute(text)) return pathToFileURL(text).href;
  throw new InvalidArgumentError({
    field: "isolation.module",
    problem:
      "write `module: import.meta.url` in the module that exports the task. The thread or process that runs the task " +
      "imports that module.",
  });
}

/** The input as parsed by the schema of the task; a promise if the schema is asynchronous. Throws InputRejectedError. */
export function parseInput(task: Task, value: unknown): unknown {
  if (task.input === null) return value;
  const checked = task.input["~standard"].validate(value);
  // Not `instanceof Promise`: a promise of another realm would pass for a result, and the input would go unchecked.
  return "then" in checked && typeof checked.then === "function"
    ? Promise.resolve(checked).then((outcome) => accepted(task, outcome))
    : accepted(task, checked as StandardSchemaV1.Result<unknown>);
}

function accepted(task: Task, checked: StandardSchemaV1.Result<unknown>): unknown {
  if (checked.issues === undefined) return checked.value;
  const issues = checked.issues.map((issue) => ({
    path: pathText(issue.path ?? []),
    message: issue.message,
  }));
  throw new InputRejectedError({ task: task.name, issues });
}

function pathText(path: readonly (PropertyKey | StandardSchemaV1.PathSegment)[]): string {
  const keys = path.map((part) => (typeof part === "object" ? part.key : part));
  return keys.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : `${text}.${String(key)}`),
    "$",
  );
}

/** Tasks by name. Two with one name are refused, because it would be unclear which one runs. */
export function taskMap(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = new Map<string, Task>();
  for (const task of checkTaskList(tasks)) {
    if (typeof task?.run !== "function" || typeof task.retry?.maxAttempts !== "number") {
      throw new InvalidArgumentError({
        field: "tasks",
        problem: "pass tasks made with defineTask().",
      });
    }
    if (map.has(task.name)) {
      throw new InvalidArgumentError({
        field: "tasks",
        problem: `two tasks are called '${task.name}'.`,
      });
    }
    map.set(task.name, task);
  }
  return map;
}

function checkTaskList(tasks: unknown): readonly AnyTask[] {
  if (Array.isArray(tasks)) return tasks as AnyTask[];
  const isModule = typeof tasks === "object" && tasks !== null && !("run" in tasks);
  const advice = isModule ? ". For a module, pass Object.values(tasks)." : ", such as [ship].";
  throw new InvalidArgumentError({ field: "tasks", problem: `must be a list of tasks${advice}` });
}

// Steps: the parts of a task whose results are saved, so that a later attempt skips them.
//
//     begun ──► done
//       ├─────► failed  (a call, until its job is revived)
//       └─────► doubt ──► done, or begun again after an operator says that it did not happen

export const stepKinds = ["step", "effect", "commit", "sleep", "event", "call"] as const;
export type StepKind = (typeof stepKinds)[number];

export const stepStates = ["begun", "done", "failed", "doubt"] as const;
export type StepState = (typeof stepStates)[number];

export interface StepName {
  readonly name: string;
  /** Counts the steps of this name, from 1. */
  readonly occurrence: number;
}

export interface NewStep extends StepName {
  readonly kind: StepKind;
  /** Its position among all steps of the job, from 1. */
  readonly position: number;
}

export interface StepRecord extends NewStep {
  readonly status: StepState;
  readonly result: string | null;
  /** The epoch of the attempt that wrote it. */
  readonly epoch: number;
  readonly begunAt: number;
  readonly endedAt: number | null;
  /** Time since it began, by the clock of the database. */
  readonly ageMs: number;
}

export interface PlannedStep extends StepName {
  readonly kind: StepKind;
  readonly status: StepState;
}

/** What would happen if a job ran again from a step. */
export interface RerunPlan {
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

export interface EffectInDoubt extends StepName {
  readonly job: string;
  readonly task: string;
  readonly queue: string;
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

// An event: emitted once for each key. Jobs wait for it.

const EVENT_FIELDS = new Set(["name", "payload"]);
/** Events of Holdfast begin with this. */
const OURS = "@";

export interface EventType<Payload = unknown> {
  readonly name: string;
  readonly payload: StandardSchemaV1 | null;
  /** Exists for the compiler only. */
  readonly types?: { readonly payload: Payload };
}

export function defineEvent<Schema extends StandardSchemaV1>(definition: {
  readonly name: string;
  readonly payload: Schema;
}): EventType<StandardSchemaV1.InferInput<Schema>>;

export function defineEvent<Payload = null>(definition: {
  readonly name: string;
  readonly payload?: undefined;
}): EventType<Payload>;

export function defineEvent(definition: {
  readonly name: string;
  readonly payload?: StandardSchemaV1 | undefined;
}): EventType {
  checkKnown(definition, EVENT_FIELDS);
  const { payload = null } = definition;
  const name = checkName("name", definition.name);
  if (name.startsWith(OURS)) {
    throw new InvalidArgumentError({
      field: "name",
      problem: "an event's name must not begin with '@'.",
    });
  }
  return { name, payload: checkSchema("payload", payload) };
}

export interface NewEvent {
  readonly name: string;
  readonly key: string;
  readonly payload: string | null;
}

export interface Emitted {
  /** False: it was emitted before, and the first payload stays. */
  readonly first: boolean;
  /** How many jobs waited for it. */
  readonly woken: number;
}
