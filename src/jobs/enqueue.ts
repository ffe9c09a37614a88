/** Enqueues jobs and emits events: for the client, for a transaction of the user's and for HTTP requests. */
import type { Duration } from "../core/duration.ts";
import { parseInput } from "../core/input.ts";
import { InputRejectedError, invalid } from "../core/errors.ts";
import type { Emitted, EventType, NewEvent } from "../core/event.ts";
import {
  type AnyTask,
  DEFAULT_QUEUE,
  type InputArguments,
  type InputOf,
  type ResultOf,
  type Task,
} from "../core/task.ts";
import { calledId } from "../core/id.ts";
import {
  DEFAULT_PAYLOAD_BYTES_MAX,
  encode,
  encodeOptional,
  NotSerializableError,
  TooLargeError,
} from "../core/json.ts";
import { checkKey, checkQueue, checkTags, checkTaskName } from "../core/name.ts";
import { by, type Checked, choice, duration, instant, optionsOf, whole } from "../core/options.ts";
import { ATTEMPTS_MAX, DEFAULT_RETRY } from "../core/retry.ts";
import {
  checkTrace,
  type GivenTrace,
  inSpan,
  isTracing,
  messagingFacts,
  type OpenSpan,
  type SpanFacts,
  type TraceContext,
  traceHere,
} from "../tracing/tracing.ts";
import { afterFields, type AfterOptions, memberOf, PRIORITY_MAX, startOf } from "./after.ts";
import { Job, type Jobs } from "./jobs.ts";
import { paceFields, paceOf } from "./pacing.ts";
import type { Enqueued, NewJob, OnConflict } from "./store.ts";

/** A subclass says how to write; checks, defaults, ids and spans are the same for all. */
export abstract class Sender {
  /** @internal */
  protected abstract readonly newId: () => string;
  protected abstract readonly jobs: Jobs;

  /** @internal */
  protected abstract writeJobs(news: readonly NewJob[]): Promise<Enqueued[]>;
  /** @internal Jobs of these tasks were enqueued by name. */
  protected abstract onNamed(tasks: readonly string[]): void;
  /** @internal */
  protected abstract writeEvent(event: NewEvent): Promise<Emitted>;

  /**
   * Accepts one job. Once this resolves, or inside of `within` once you commit, the job is stored durably.
   *
   * For callers without the task's code, `task` is its name (`order.ship`, `order.ship@2`). Then only the worker checks the
   * input, and unless given the queue is `default` and `maxAttempts` 3.
   *
   * @example
   * ```ts
   * const job = await holdfast.enqueue(charge, { order: "7", cents: 1999 }, { key: "order-7" });
   * console.log(await job.result({ timeout: "30s" }));
   * ```
   */
  async enqueue<Of extends AnyTask | string>(
    task: Of,
    ...rest: InputArguments<InputOf<Of>, EnqueueOptions>
  ): Promise<Job<ResultOf<Of>>>;
  async enqueue(task: AnyTask | string, input?: unknown, options: EnqueueOptions = {}) {
    const [job] = await this.#enqueueAll([{ task, inputs: [input], options }]);
    return job as Job<never>;
  }

  /**
   * Accepts many jobs. Every input is checked before the first is written. Up to 5,000 are accepted together or not at all;
   * more are written in batches, in order, and an error says how many were accepted. Inside of `within`, all or none are.
   *
   * @example
   * ```ts
   * const orders = [{ order: "7", cents: 1999 }, { order: "8", cents: 500 }];
   * await holdfast.enqueueMany(charge, orders, ({ order }) => ({ key: order }));
   * ```
   */
  async enqueueMany<Input, Result>(
    task: Task<Input, Result>,
    inputs: Iterable<NoInfer<Input>>,
    options?: EnqueueOptions | ((input: Input, index: number) => EnqueueOptions),
  ): Promise<Job<Result>[]>;
  /**
   * Accepts jobs of different tasks, together or not at all: `[[ship, { order }], [mail, { to }, { delay: "1h" }]]`. At most
   * 5,000.
   */
  async enqueueMany<const Tasks extends readonly (AnyTask | string)[]>(calls: {
    readonly [At in keyof Tasks]: TaskCall<Tasks[At]>;
  }): Promise<{ -readonly [At in keyof Tasks]: Job<ResultOf<Tasks[At]>> }>;
  async enqueueMany(
    tasks: Task | readonly (readonly [Task, unknown?, EnqueueOptions?])[],
    inputs: Iterable<unknown> = [],
    options: EnqueueOptions | OptionsOf = {},
  ): Promise<unknown> {
    if (!Array.isArray(tasks)) {
      return this.#enqueueAll([{ task: tasks as Task, inputs: listOf(inputs), options }]);
    }
    return this.#enqueueAll(callsOf(tasks));
  }

  /**
   * Records that something happened, under a key, once and for all: jobs that wait for it continue, and jobs that wait for
   * it later continue at once. The first payload of a key stands.
   *
   * @example
   * ```ts
   * await holdfast.emit(paid, "order-7", { cents: 1999 });
   * ```
   */
  async emit<Payload>(
    event: EventType<Payload>,
    key: string,
    payload: NoInfer<Payload>,
  ): Promise<Emitted>;
  async emit(event: EventType, key: string, payload: unknown, ...others: unknown[]) {
    const text = await checkPayload(event, payload, others);
    return this.writeEvent({ name: event.name, key: checkKey("key", key), payload: text });
  }

  /** @internal For requests: their jobs are of several tasks, with ids that make a repeated request harmless. */
  enqueueCalls(calls: readonly EnqueueCall[], newId: () => string): Promise<Enqueued[]> {
    const onNamed = (tasks: readonly string[]): void => this.onNamed(tasks);
    return enqueue(calls, { newId, write: (news) => this.writeJobs(news), onNamed });
  }

  async #enqueueAll(calls: readonly EnqueueCall[]): Promise<Job<unknown>[]> {
    const enqueued = await this.enqueueCalls(calls, this.newId);
    const made: Job<unknown>[] = [];
    for (const { task, inputs } of calls) {
      const name = typeof task === "string" ? task : task.name;
      const rows = enqueued.slice(made.length, made.length + inputs.length);
      for (const { id, added } of rows)
        made.push(new Job({ id, added, task: name, jobs: this.jobs }));
    }
    return made;
  }
}

/** A task with its input, if it needs one, and options if they differ from the defaults. */
export type TaskCall<Of> = readonly [task: Of, ...InputArguments<InputOf<Of>, EnqueueOptions>];

/** Jobs in one call of several tasks: they are written in one transaction. */
const CALLS_MAX = 5_000;

export function callsOf(
  list: readonly (readonly [AnyTask | string, unknown?, EnqueueOptions?])[],
  most = CALLS_MAX,
): EnqueueCall[] {
  if (list.length > most) {
    const problem = `has ${list.length} jobs; at most ${most} are accepted together.`;
    throw invalid("jobs", problem);
  }
  return list.map((call, index) => {
    if (Array.isArray(call)) return { task: call[0], inputs: [call[1]], options: call[2] ?? {} };
    throw invalid(`jobs[${index}]`, "pass a task and its input, such as [ship, { order: 7 }].");
  });
}

interface Defaults {
  readonly name: string;
  readonly queue: string;
  readonly maxAttempts: number;
}

export function defaultsOf(task: Task): Defaults {
  if (typeof task?.run !== "function") {
    throw invalid("task", "pass a task made with defineTask(), or the name of one.");
  }
  return { name: task.name, queue: task.queue, maxAttempts: task.retry.maxAttempts };
}

export function unknownTask(name: string): Defaults {
  return {
    name: checkTaskName("task", name),
    queue: DEFAULT_QUEUE,
    maxAttempts: DEFAULT_RETRY.maxAttempts,
  };
}

const PAYLOAD = { what: "payload", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

export function newJob(id: string, task: string, input: unknown, terms: Terms): NewJob {
  return { ...terms, id, task, payload: encode(input ?? null, PAYLOAD) };
}

/** The schema only checks the input: the input is stored as it was given. */
export async function checkInputs(task: Task, inputs: readonly unknown[]): Promise<void> {
  for (const [index, input] of inputs.entries()) {
    try {
      const parsed = parseInput(task, input);
      if (parsed instanceof Promise) await parsed;
    } catch (error) {
      throw inputs.length === 1 ? error : atInput(index, error);
    }
  }
}

/** Names the input that an error is about, such as `inputs[1].to`. */
function atInput(index: number, error: unknown): unknown {
  const input = `inputs[${index}]`;
  const placed = (path: string): string => path.replace("$", () => input);
  if (error instanceof InputRejectedError) {
    const issues = error.issues.map(({ path, message }) => ({ path: placed(path), message }));
    return new InputRejectedError({ task: error.task, issues });
  }
  if (error instanceof NotSerializableError) {
    return new NotSerializableError({ path: placed(error.path), problem: error.problem });
  }
  if (!(error instanceof TooLargeError)) return error;
  const { bytes, bytesMax } = error;
  return new TooLargeError({ what: `payload of ${input}`, bytes, bytesMax });
}

export function checkEvent(event: EventType): void {
  if (typeof event?.name === "string" && "payload" in event) return;
  throw invalid("event", "pass an event made with defineEvent().");
}

/** The payload of an event as text; null: it has none. `others`: superfluous arguments of the call. */
async function checkPayload(
  event: EventType,
  payload: unknown,
  others: readonly unknown[],
): Promise<string | null> {
  checkEvent(event);
  if (others.length > 0) {
    throw invalid("options", "emit takes an event, a key and a payload, and no options.");
  }
  const checked = await event.payload?.["~standard"].validate(payload);
  if (checked?.issues !== undefined) {
    const [issue] = checked.issues;
    throw invalid("payload", issue?.message ?? "it is not valid.");
  }
  return encodeOptional(payload, PAYLOAD);
}

/** Adds the active trace, if there is one. */
export function termsHere(terms: Terms, within: OpenSpan | null = null): Terms {
  const trace = terms.trace ?? traceHere(within);
  return trace === undefined ? terms : { ...terms, trace };
}

type OptionsOf = (input: unknown, index: number) => EnqueueOptions;

/**
 * Options for all jobs are checked once; those of a function for each job. `trace` is the span around the call: it replaces
 * the trace of common options, which is its parent, but not one that a function gives to a single job.
 */
function termsFrom(
  options: EnqueueOptions | OptionsOf,
  defaults: Defaults,
  trace: TraceContext | undefined,
): (input: unknown, index: number) => Terms {
  const traced = trace === undefined ? {} : { trace };
  if (typeof options === "function") {
    return (...each) => ({ ...traced, ...checkOptions(options(...each), defaults) });
  }
  const terms = { ...checkOptions(options, defaults), ...traced };
  return () => terms;
}

/** Checks one call and makes its jobs. `trace` is for jobs that name no trace of their own. */
async function jobsOf(call: EnqueueCall, newId: () => string, trace?: TraceContext) {
  const { task, inputs, options } = call;
  const defaults = typeof task === "string" ? unknownTask(task) : defaultsOf(task);
  if (typeof task !== "string") await checkInputs(task, inputs);
  const termsOf = termsFrom(options, defaults, trace);
  return inputs.map((input, index) => {
    const terms = termsOf(input, index);
    const id = terms.member === undefined ? newId() : calledId(newId());
    try {
      return newJob(id, defaults.name, input, terms);
    } catch (error) {
      throw inputs.length === 1 ? error : atInput(index, error);
    }
  });
}

function listOf(inputs: Iterable<unknown>): unknown[] {
  if (typeof inputs?.[Symbol.iterator] === "function") return [...inputs];
  throw invalid("inputs", "must be a list of inputs.");
}

/** Where a job runs, its key, its lane, and the jobs that it waits for. */
export interface JobOptions extends AfterOptions {
  /** Default: the queue of the task. */
  readonly queue?: string;
  /** A higher number goes first. Default 0. */
  readonly priority?: number;
  /** If the job has not started by this moment, it ends as `expired`. */
  readonly startBy?: Date | number;
  /** The same, counted from now. */
  readonly startWithin?: Duration;
  /**
   * The customer, tenant or resource that the job is for. Lanes of a queue take turns, so a backlog in one does not delay the
   * others, and limits can apply to each lane.
   */
  readonly lane?: string;
  /** Default: the task's. */
  readonly maxAttempts?: number;
  /** At most one live job of a task has a key: enqueueing again returns the job that holds it. */
  readonly key?: string;
  /** How long the job keeps its key after it ends, if it is not pruned before. Default: not at all. */
  readonly keyFor?: Duration;
  /**
   * The last call with the same `key` wins: it replaces the input of the waiting job and starts the wait again, up to
   * `maxWait` after the first call. A call after the job has started makes another job.
   */
  readonly debounce?:
    | Duration
    | {
        /** How long no other call must come before the job may start. */
        readonly wait: Duration;
        /** The longest wait since the first call. Default: no limit. */
        readonly maxWait?: Duration | undefined;
      };
  /** The first call with the same `key` wins: for this long, others return its job, whatever has become of it. */
  readonly throttle?: Duration;
  /** Up to 10 short words, by which lists and bulk actions find the job. */
  readonly tags?: readonly string[];
}

/** When and where a job runs, its key, its lane, and the jobs that it waits for. */
export interface EnqueueOptions extends JobOptions {
  /** Not before this much time has passed. */
  readonly delay?: Duration;
  /** Not before this moment. */
  readonly runAt?: Date | number;
  /**
   * What happens if another job holds the key. `return` (the default): that job is returned. `replace`: that job is
   * cancelled, unless it is running. `reject`: KeyTakenError is thrown, and nothing is accepted.
   */
  readonly onConflict?: OnConflict;
  /**
   * The trace of the job, in the format of W3C Trace Context: `traceOf(headers)` reads it from a request. Default: the
   * active span, if the application traces.
   */
  readonly trace?: GivenTrace;
}

export type Terms = Omit<NewJob, "id" | "task" | "payload">;

export const conflicts = ["return", "replace", "reject"] as const satisfies readonly OnConflict[];

const enqueueOptions = optionsOf<EnqueueOptions>()({
  queue: by(checkQueue),
  priority: whole(-PRIORITY_MAX, PRIORITY_MAX, 0),
  startBy: instant(),
  startWithin: duration({ least: 1 }),
  lane: by(checkKey),
  maxAttempts: whole(1, ATTEMPTS_MAX),
  onConflict: choice(conflicts),
  ...paceFields,
  tags: by(checkTags),
  trace: by(checkTrace),
  ...afterFields,
});

type CheckedOptions = Checked<typeof enqueueOptions.table>;

export function checkOptions(
  options: EnqueueOptions,
  defaults: { queue: string; maxAttempts: number },
): Terms {
  const checked = enqueueOptions.read(options);
  const { queue = defaults.queue, priority, maxAttempts = defaults.maxAttempts } = checked;
  const { lane = null, tags, trace } = checked;
  return {
    queue,
    priority,
    maxAttempts,
    ...keyOf(checked),
    start: startOf(checked),
    startBy: startByOf(checked),
    lane,
    ...(tags && { tags }),
    ...(trace && { trace }),
    ...memberOf(checked),
  };
}

function keyOf(checked: CheckedOptions): Pick<Terms, "key" | "keyForMs" | "onConflict" | "pace"> {
  const { key = null, keyForMs = null, onConflict, debounce, throttleMs } = checked;
  if (debounce !== undefined || throttleMs !== undefined) {
    return { key: null, pace: paceOf(checked) };
  }
  if (key === null && (keyForMs !== null || onConflict !== undefined)) {
    const field = keyForMs === null ? "onConflict" : "keyFor";
    throw invalid(field, "requires `key`.");
  }
  return { key, keyForMs, ...(onConflict && { onConflict }) };
}

function startByOf({ startBy, startWithinMs }: CheckedOptions) {
  if (startBy !== undefined && startWithinMs !== undefined) {
    throw invalid("startBy", "pass startBy or startWithin, not both.");
  }
  if (startBy !== undefined) return { at: startBy };
  return startWithinMs === undefined ? null : { withinMs: startWithinMs };
}

// The one path of every job that an application or a request enqueues.

/** Jobs of one task: a call of enqueue() or enqueueMany(), or one job of an HTTP request. */
export interface EnqueueCall {
  readonly task: Task | string;
  readonly inputs: readonly unknown[];
  readonly options: EnqueueOptions | OptionsOf;
}

/** Writes the jobs in a transaction of Holdfast's or of the user's. */
interface EnqueueTarget {
  readonly newId: () => string;
  readonly write: (news: readonly NewJob[]) => Promise<Enqueued[]>;
  /** Gets the tasks that the calls give by name. */
  readonly onNamed: (tasks: readonly string[]) => void;
}

/**
 * Checks the jobs of all calls, then writes them together. If the application traces, this has a span, and the jobs
 * belong to its trace no matter which worker runs them, or when.
 */
export function enqueue(
  calls: readonly EnqueueCall[],
  { newId, write, onNamed }: EnqueueTarget,
): Promise<Enqueued[]> {
  const checkAndWrite = async (span: OpenSpan | null): Promise<Enqueued[]> => {
    const news: NewJob[] = [];
    for (const call of calls) news.push(...(await jobsOf(call, newId, span?.trace)));
    span?.add(factsOf(news));
    const written = await write(news);
    onNamed(calls.flatMap(({ task }) => (typeof task === "string" ? [task] : [])));
    return written;
  };
  const [first] = calls;
  if (first === undefined || !isTracing()) return checkAndWrite(null);
  const task = typeof first.task === "string" ? first.task : first.task?.name;
  const name = calls.length === 1 ? `enqueue ${task}` : "enqueue";
  return inSpan({ name, kind: "producer", ...parentOf(first) }, checkAndWrite);
}

/** Options that differ from job to job may name a trace for each, which the job keeps. */
function parentOf({ options }: EnqueueCall): { parent?: TraceContext } {
  if (typeof options === "function" || options?.trace === undefined) return {};
  return { parent: checkTrace("trace", options.trace) };
}

function factsOf(news: readonly NewJob[]): SpanFacts {
  const [first] = news;
  if (first === undefined) return {};
  return {
    ...messagingFacts("enqueue", "send", first.queue),
    ...(news.length === 1
      ? { "holdfast.job.id": first.id, "messaging.message.id": first.id }
      : { "messaging.batch.message_count": news.length }),
    ...(news.every(({ task }) => task === first.task) ? { "holdfast.task": first.task } : {}),
  };
}
