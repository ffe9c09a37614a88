/**
 * A task: the definition that jobs are made from. Its name, the schema of its input, how it is retried, what it does.
 *
 * The input is checked twice, when a job is enqueued and again before it runs, because the code on the two sides may be
 * of different ages. What is stored is the input as the caller gave it, so a schema may transform it freely.
 */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { type Duration, toMs } from "./duration.ts";
import { InputRejectedError, InvalidArgumentError } from "./errors.ts";
import type { EventType } from "./event.ts";
import type { ItemRecord } from "./item.ts";
import type { Fence } from "./job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encodeReturned } from "./json.ts";
import { checkQueue, taskName } from "./name.ts";
import { checkKnown } from "./options.ts";
import type { Progress } from "./report.ts";
import { type RetryOptions, retryPolicy, type RetryPolicy } from "./retry.ts";

export const DEFAULT_QUEUE = "default";

const KNOWN = new Set(["name", "version", "queue", "retry", "timeout", "steps", "input", "run"]);

/** What a task's function is told about the job it runs. */
export interface Context {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  /** Which try this is, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Aborts when this worker must stop: timeout, cancelling, shutdown, a lost lease. The reason says which. */
  readonly signal: AbortSignal;
  /** Proof of ownership, for anything that checks fences. */
  readonly fence: Fence;
  /** `<worker id>-<job id>-<epoch>`: names this attempt in logs and in the attempt's history. */
  readonly traceId: string;
  /** The same on every attempt of this job: give it to services that know idempotency keys. */
  readonly idempotencyKey: string;

  /** Runs the function and keeps what it returns: an attempt that begins again gets that, and does not run it. */
  step<T>(name: string, body: () => T | Promise<T>): Promise<T>;
  /**
   * Acts on the outside world: that it will is written before, that it has after. When it is not known whether it has,
   * `verify` is asked (null or undefined: it has not); without one the job stops until a person says.
   */
  effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options?: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> },
  ): Promise<T>;
  /**
   * Runs the function in a transaction; its rows and the step are committed together, while the job is ours. What it
   * returns is stored. An item, or a list of items, is stored and comes back as its record.
   */
  commit<T>(name: string, body: (tx: UserTransaction) => T | Promise<T>): Promise<Committed<T>>;
  /** Gives the job's place back until the time is over. */
  sleep(name: string, duration: Duration): Promise<void>;
  /** Waits until the event is said under this key, however long before or after. Throws EventTimeoutError. */
  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options?: { readonly timeout?: Duration },
  ): Promise<Payload>;
  /**
   * Ends the job inside of a transaction of your own (a `pg` client, a `mysql2` connection, a `DatabaseSync`): it is done, with
   * this result, if and when you commit. Throws LeaseLostError or JobCancelledError inside of it, for you to roll back. Return soon
   * afterwards; what the function returns does not count any more. Gives back the result.
   */
  complete<T>(tx: unknown, result: T): Promise<T>;
  /** Enqueues a job of another task and waits for its result. Throws CallFailedError. */
  call<Input, Result>(
    task: Task<Input, Result>,
    input: NoInfer<Input>,
    options?: CallOptions,
  ): Promise<Result>;

  /**
   * Says how far the job is, for whoever watches it: a share from 0 to 1, or `{ done, total }`. Of many in a second the
   * last is kept. This and the two below are gathered and written beside the task: they never wait, and the
   * database is never a reason for them to throw.
   */
  progress(value: Progress, text?: string): void;
  /** A line of the job's own log, with data that is JSON. A long text is cut. */
  log(text: string, data?: unknown): void;
  /** Reports whatever else somebody who watches may want to know, under a name of the task's own choice. */
  report(name: string, data?: unknown): void;
}

/** An item, by what is stored of it. */
interface Recorded {
  toJSON(): ItemRecord;
}

/** What comes back of what a commit returned: of an item its record, anything else as it is. */
export type Committed<T> = T extends Recorded
  ? ReturnType<T["toJSON"]>
  : T extends readonly Recorded[]
    ? ReturnType<T[number]["toJSON"]>[]
    : T;

/** What an effect is told. */
export interface Effect {
  /** The same on every attempt: the service that acts should know it, and do nothing twice for it. */
  readonly key: string;
  readonly signal: AbortSignal;
}

/** What a look for an effect's result comes to; null or undefined: it did not happen. */
export type Found<T> = T | null | undefined;

export interface CallOptions {
  /** The step's name. Default: that of the task. */
  readonly name?: string;
  readonly queue?: string;
  readonly priority?: number;
  readonly maxAttempts?: number;
}

/** `Input` is what callers pass, `Result` what they get back. */
export interface Task<Input = unknown, Result = unknown> {
  /** As its jobs carry it: with its version, if it has one. */
  readonly name: string;
  readonly queue: string;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number | null;
  readonly steps: StepMatching;
  readonly input: StandardSchemaV1 | null;
  readonly run: (input: never, ctx: Context) => unknown;
  /** Exists for the compiler only. */
  readonly types?: { readonly input: Input; readonly result: Result };
}

export type StepMatching = "in order" | "by name";

/** A task of whatever input and result, as a worker takes them. */
export type AnyTask = Omit<Task, "types">;

export interface TaskOptions {
  readonly name: string;
  /**
   * From 1. Raise it when jobs of before cannot be run by the new code, or not by the old: a worker takes only jobs of the
   * versions it knows. One that shall run both has both definitions.
   */
  readonly version?: number;
  /** The queue its jobs go to unless the caller names another. */
  readonly queue?: string;
  readonly retry?: RetryOptions;
  /**
   * How the steps of an attempt are matched with those that were kept: in the order in which they were begun, so that a
   * task which changed meanwhile is noticed (the default), or by their names alone.
   */
  readonly steps?: StepMatching;
  /** How long one attempt may take. Then `ctx.signal` aborts, and the attempt has failed. */
  readonly timeout?: Duration;
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
  if (input !== null && typeof input["~standard"]?.validate !== "function") {
    throw new InvalidArgumentError({
      field: "input",
      problem: "this is not a Standard Schema. Use zod, valibot, arktype or another that is.",
    });
  }
  return {
    name: taskName(name, version),
    queue: checkQueue("queue", queue),
    retry: retryPolicy(retry),
    timeoutMs: timeout === undefined ? null : toMs("timeout", timeout, { min: 1 }),
    steps: checkMatching(definition.steps),
    input,
    run: (value, ctx) => definition.run(value, ctx),
  };
}

function checkMatching(steps: StepMatching = "in order"): StepMatching {
  if (steps === "in order" || steps === "by name") return steps;
  throw new InvalidArgumentError({ field: "steps", problem: 'give "in order" or "by name".' });
}

/** The input as the task's schema understands it. Throws InputRejectedError. Synchronous when the schema is. */
export function parseInput(task: Task, value: unknown): unknown {
  if (task.input === null) return value;
  const checked = task.input["~standard"].validate(value);
  // Not `instanceof Promise`: another realm's promise taken for an outcome would be an input without a check.
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

/** Tasks by name; two of one name would make it a matter of luck which one runs. */
export function taskMap(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = new Map<string, Task>();
  for (const task of checkTaskList(tasks)) {
    if (typeof task?.run !== "function" || typeof task.retry?.maxAttempts !== "number") {
      throw new InvalidArgumentError({
        field: "tasks",
        problem: "give tasks made with defineTask().",
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
  const advice = isModule ? ". Of a module, give Object.values(tasks)." : ", such as [ship].";
  throw new InvalidArgumentError({ field: "tasks", problem: `give a list of tasks${advice}` });
}

// Steps: the parts of a task whose results are kept, so that an attempt that begins again skips what is done.
//
//     begun ──► done
//       ├─────► failed  (a call, until its job is revived)
//       └─────► doubt ──► done, or begun again when a person says that it did not happen

export const stepKinds = ["step", "effect", "commit", "sleep", "event", "call"] as const;
export type StepKind = (typeof stepKinds)[number];

export const stepStates = ["begun", "done", "failed", "doubt"] as const;
export type StepState = (typeof stepStates)[number];

export interface StepName {
  readonly name: string;
  /** Which of the steps of this name it is, from 1. */
  readonly occurrence: number;
}

export interface NewStep extends StepName {
  readonly kind: StepKind;
  /** Where it stands among all steps of the job, from 1. */
  readonly position: number;
}

export interface StepRecord extends NewStep {
  readonly status: StepState;
  readonly result: string | null;
  /** Of the attempt that wrote it. */
  readonly epoch: number;
  readonly begunAt: number;
  readonly endedAt: number | null;
  /** How long ago it was begun, by the database's clock. */
  readonly ageMs: number;
}

export interface EffectInDoubt extends StepName {
  readonly job: string;
  readonly task: string;
  readonly queue: string;
  readonly begunAt: number;
}

/** The event that tells that a job has ended for which another waits. No event of a user's has such a name. */
export const JOB_ENDED = "@job";

/** A transaction as a user's function is given it. */
export interface UserTransaction {
  /** One statement in the database's own dialect, with its own placeholders. Resolves to the rows. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** The driver's own connection, in the transaction: a `pg` client, a `mysql2` connection, a `DatabaseSync`. */
  readonly client: unknown;
}

/** The limit of what a step returns. */
export const KEPT = { what: "result of a step", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** What a step's function returned, as text. */
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
