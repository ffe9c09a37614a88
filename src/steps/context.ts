/**
 * The steps of an attempt, by name and occurrence, and what it waits for.
 *
 * A job that has to wait frees its slot: the attempt ends as suspended, and its function never continues. The next attempt
 * runs the function from its start and skips the completed steps.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Duration, toMs } from "../core/duration.ts";
import { decodeError, type FailedStep } from "../core/error-record.ts";
import { type InvalidArgumentError, invalid, LeaseLostError } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import {
  type CallOptions,
  type Effect,
  encodeStep,
  type Found,
  JOB_ENDED,
  KEPT,
  type NewStep,
  type StepKind,
  type StepMatching,
  type StepName,
  type StepRecord,
  type AnyTask,
  type UserTransaction,
} from "../core/task.ts";
import { calledId } from "../core/id.ts";
import type { Fence, Wait } from "../core/job.ts";
import { decode, DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import { by, checkFunction, duration, optionsOf, passed } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { unlessAborted } from "../core/wait.ts";
import {
  checkEvent,
  checkInputs,
  checkOptions,
  defaultsOf,
  newJob,
  type Terms,
  termsHere,
} from "../jobs/enqueue.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { FinishedRecord } from "../jobs/store.ts";
import { inSpan, type OpenSpan } from "../tracing/tracing.ts";
import { CallFailedError, EventTimeoutError, NotDoneError, SuspendedError } from "./errors.ts";
import { StepFailures, tookSince } from "./failed-step.ts";
import { keptOf, StepOrder } from "./step-order.ts";
import type { StepsStore, StepWrite } from "./store.ts";

interface EffectOptions<T> {
  readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>>;
}

const effectOptions = optionsOf<EffectOptions<unknown>>()({
  verify: by(checkFunction<NonNullable<EffectOptions<unknown>["verify"]>>),
});

interface EventOptions {
  readonly timeout?: Duration;
}

const eventOptions = optionsOf<EventOptions>()({ timeout: duration({}) });

/** The others are checked with the defaults of the task. */
const callOptions = optionsOf<CallOptions>()({
  name: passed<string>(),
  queue: passed<string>(),
  priority: passed<number>(),
  maxAttempts: passed<number>(),
});

/** An event's payload is stored inside a small object. */
const STORED_ANSWER = { what: "payload of an event", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX + 64 };

/** A function that can continue has done so after this many turns of the event loop. */
const TURNS_BEFORE_SUSPENDING = 2;

/** A called job may end without a notification; its caller looks again after this long. */
const CALL_LOOK_MS = 10 * 60_000;

interface StepsParts {
  readonly store: { readonly jobs: JobsStore; readonly steps: StepsStore };
  readonly newId: () => string;
  readonly fence: Fence;
  readonly matching: StepMatching;
  readonly signal: () => AbortSignal;
  /** Aborts the signal with LeaseLostError when the lease is no longer trusted. */
  readonly checkLease: () => void;
  readonly runtime: Runtime;
  /** Converts the result of a commit for storage: items become their records. */
  readonly recordsOf: (value: unknown) => unknown;
  /** The attempt's span; null without tracing. */
  readonly span: OpenSpan | null;
  /** Ends the attempt once no step is in progress. */
  readonly suspend: (delayMs: number | null, waits: readonly Wait[]) => void;
  /** The attempt will be suspended until an operator decides whether this effect happened. */
  readonly onEffectInDoubt: (step: StepName) => void;
}

type CallFacts = ConstructorParameters<typeof CallFailedError>[0];

/** A step that is about to run, and its row from an earlier attempt. */
interface Entered {
  readonly step: NewStep;
  readonly kept: StepRecord | undefined;
  /** By the monotonic clock. */
  readonly begunAt: number;
}

/** What a job waits for, and how long. */
interface Pause {
  readonly delayMs: number | null;
  readonly waits: readonly Wait[];
}

export class Steps {
  readonly #parts: StepsParts;
  readonly #order = new StepOrder();
  #kept: Promise<readonly StepRecord[]> | null = null;
  /** Effects that a rerun repeats have other keys. */
  #takenBack: ReturnType<StepsStore["takenBack"]> | null = null;
  /** Steps in progress, including paused ones: a pause never ends its step. */
  #underWay = 0;
  #changes = 0;
  readonly #pauses: Pause[] = [];
  readonly #failures: StepFailures;
  /** The job ends in a transaction of the user's: no step is stored after that. */
  #isComplete = false;
  /** The function has ended, so waits that it does not await must not suspend the job. */
  #isOver = false;
  #onIdle: (() => void) | null = null;

  constructor(parts: StepsParts) {
    this.#parts = parts;
    this.#failures = new StepFailures(parts.runtime);
  }

  async step<T>(name: string, body: () => T | Promise<T>): Promise<T> {
    checkBody("step", body);
    return this.#run(name, "step", async ({ step, kept, begunAt }) => {
      const value = await this.#inSpan(step, async () => this.#asOwner(body));
      const result = encodeStep(value, step);
      const tookMs = tookSince(this.#parts.runtime, begunAt);
      await this.#put(step, kept, { status: "done", result, tookMs });
      return value;
    });
  }

  async effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options: EffectOptions<T> = {},
  ): Promise<T> {
    checkBody("effect", act);
    effectOptions.read(options);
    const { verify } = options;
    return this.#run(name, "effect", async ({ step, kept }) => {
      const effect = await this.#effect(step);
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: null });
      else if (verify === undefined) return this.#inDoubt(step, kept);
      const begun = kept ?? step;
      const ask = async (): Promise<Found<T>> => verify?.(effect);
      const value = await this.#inSpan(step, async () => {
        const found = kept === undefined ? undefined : await this.#asOwner(ask);
        return found ?? (await this.#act(step, () => this.#asOwner(() => act(effect))));
      });
      await this.#put(step, begun, { status: "done", result: encodeStep(value, step) });
      return value;
    });
  }

  async commit(name: string, body: (tx: UserTransaction) => unknown): Promise<unknown> {
    checkBody("commit", body);
    return this.#run(name, "commit", async ({ step }) => {
      const { store, fence, signal } = this.#parts;
      let value: unknown;
      const commit = async (tx: UserTransaction): Promise<string | null> => {
        // A transaction does not stay open longer than the attempt that opened it.
        const returned = await unlessAborted(signal(), async () => this.#asOwner(() => body(tx)));
        value = this.#parts.recordsOf(returned);
        return encodeStep(value, step);
      };
      await this.#inSpan(step, () => store.steps.commit(fence, step, commit));
      return value;
    });
  }

  async sleep(name: string, time: Duration): Promise<void> {
    const ms = toMs("duration", time);
    return this.#run(name, "sleep", async ({ step, kept }) => {
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: String(ms) });
      const lasts = kept === undefined ? ms : Number(kept.result);
      const restMs = lasts - (kept?.ageMs ?? 0);
      if (restMs > 0) return this.#pause({ delayMs: restMs, waits: [] });
      await this.#put(step, kept ?? step, { status: "done", result: null });
    });
  }

  async event<Payload>(
    event: EventType<Payload>,
    key: string,
    options: EventOptions = {},
  ): Promise<Payload> {
    checkEvent(event);
    const { timeoutMs = null } = eventOptions.read(options);
    const of = { event: event.name, key: checkKey("key", key) };
    const answer = await this.#run(of.event, "event", async ({ step, kept }) => {
      const found = await this.#parts.store.steps.findEvent(of.event, of.key);
      if (found !== null)
        return this.#storeAnswer(step, kept, { payload: readable(found.payload) ?? null });
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: null });
      const restMs = timeoutMs === null ? null : timeoutMs - (kept?.ageMs ?? 0);
      if (restMs === null || restMs > 0) return this.#pause({ delayMs: restMs, waits: [of] });
      return this.#storeAnswer(step, kept ?? step, { timeoutMs });
    });
    if ("timeoutMs" in answer)
      throw new EventTimeoutError({ ...of, timeoutMs: answer.timeoutMs ?? 0 });
    return answer.payload as Payload;
  }

  async call<Result>(task: AnyTask, input: unknown, options: CallOptions = {}): Promise<Result> {
    checkCall(task);
    const { name = task.name, ...rest } = callOptions.read(options);
    const defaults = defaultsOf(task);
    const terms = termsHere(checkOptions(rest, defaults), this.#parts.span);
    return this.#run(name, "call", async ({ step, kept }) => {
      const { store, newId } = this.#parts;
      if (kept?.status === "failed")
        throw new CallFailedError(decode(kept.result ?? "{}") as CallFacts);
      if (kept !== undefined)
        return this.#lookUpCall<Result>(step, kept, { input, terms, defaults });
      await checkInputs(task, [input]);
      const id = calledId(newId());
      await this.#put(step, kept, { status: "begun", result: encode(id, KEPT) });
      // Before the job exists: its end is stored only for an expected event.
      await store.steps.expect({ event: JOB_ENDED, key: id });
      await store.jobs.enqueue([newJob(id, defaults.name, input, terms)]);
      return this.#pauseFor(id);
    });
  }

  /** Ends the job inside a transaction of the user's, when no step is in progress. */
  async complete(end: () => Promise<void>): Promise<void> {
    if (inside.getStore() === this)
      throw misplaced(
        "complete",
        "it was called inside a step; call it in a transaction of your own.",
      );
    if (this.#isComplete) throw misplaced("complete", "the job is already completed.");
    if (this.#underWay > 0) throw misplaced("complete", "steps are in progress: await them first.");
    this.#isComplete = true;
    try {
      await this.#checkMayContinue();
      await end();
    } catch (error) {
      this.#isComplete = false;
      throw error;
    }
  }

  /** The result of a job that an earlier attempt called or was about to call. */
  async #lookUpCall<Result>(
    step: NewStep,
    kept: StepRecord,
    { input, terms, defaults }: { input: unknown; terms: Terms; defaults: { name: string } },
  ): Promise<Result> {
    const { store } = this.#parts;
    // Its id; or, if this job was retried, the stored failure.
    const told = decode(kept.result ?? '""') as string | CallFacts;
    const id = typeof told === "string" ? told : told.id;
    const [ended] = await store.jobs.findFinished([id]);
    if (ended !== undefined) return this.#takeResult<Result>(step, kept, ended);
    if ((await store.jobs.find(id)) !== null) return this.#pauseFor(id);
    if ((await store.steps.findEvent(JOB_ENDED, id)) !== null) {
      const said = "it has ended, and its result has been deleted.";
      throw await this.#fail(step, kept, { id, task: defaults.name, status: "deleted", said });
    }
    await store.steps.expect({ event: JOB_ENDED, key: id });
    await store.jobs.enqueue([newJob(id, defaults.name, input, terms)]);
    return this.#pauseFor(id);
  }

  #pauseFor(id: string): Promise<never> {
    return this.#pause({ delayMs: CALL_LOOK_MS, waits: [{ event: JOB_ENDED, key: id }] });
  }

  /** Waits until only paused steps are left: an attempt does not end before. */
  async idle(): Promise<void> {
    this.#isOver = true;
    if (this.#underWay === this.#pauses.length) return;
    await new Promise<void>((resolve) => (this.#onIdle = resolve));
  }

  /** Returns the stored result of a step, or runs it. */
  async #run<T>(name: string, kind: StepKind, make: (entered: Entered) => Promise<T>): Promise<T> {
    if (inside.getStore() === this) {
      const problem = `'${name}' was started inside another step: run them one after the other.`;
      throw misplaced("name", problem);
    }
    if (this.#isComplete) {
      const problem = `'${name}' began after the job was completed: run it before ctx.complete().`;
      throw misplaced("name", problem);
    }
    // Before the first await, so that concurrent steps keep their order.
    const step = this.#order.next(checkName("name", name), kind, this.#underWay);
    this.#underWay += 1;
    this.#changes += 1;
    try {
      await this.#checkMayContinue();
      const kept = await this.#find(step);
      if (kept?.status === "done") return readable(kept.result) as T;
      await this.#checkMayContinue();
      const entered = { step, kept, begunAt: this.#parts.runtime.monotonic() };
      return await this.#failures.during(entered, () => inside.run(this, make, entered));
    } finally {
      this.#underWay -= 1;
      this.#changes += 1;
      this.#suspendIfIdle();
    }
  }

  /** The step that made the attempt fail; null: none did. */
  failedBy(error: unknown, isGivenUp: boolean): FailedStep | null {
    return this.#failures.of(error, isGivenUp);
  }

  #inSpan<T>({ name, kind }: NewStep, make: () => Promise<T>): Promise<T> {
    return inSpan({ name: `${kind} ${name}`, kind: "internal", within: this.#parts.span }, make);
  }

  /** Never resolves in a suspended attempt: its function must not see the suspension as an error. */
  async #checkMayContinue(): Promise<void> {
    const signal = this.#parts.signal();
    if (signal.aborted && signal.reason instanceof SuspendedError)
      await new Promise<never>(() => {});
    this.#checkOwner();
  }

  /**
   * Calls a function of the task. If the process was frozen during the last query, another worker may own the job and may
   * have performed the same effect. Nothing is awaited between the check and the call.
   */
  #asOwner<T>(call: () => T): T {
    this.#checkOwner();
    return call();
  }

  #checkOwner(): void {
    this.#parts.checkLease();
    this.#parts.signal().throwIfAborted();
  }

  /** Suspends the attempt once only pauses are left. */
  #suspendIfIdle(): void {
    if (this.#underWay > this.#pauses.length) return;
    if (this.#isOver) this.#onIdle?.();
    else if (this.#pauses.length > 0) this.#suspendSoon(TURNS_BEFORE_SUSPENDING);
  }

  async #find(step: NewStep): Promise<StepRecord | undefined> {
    const { store, fence, matching } = this.#parts;
    // The first attempt finds no steps.
    this.#kept ??= fence.epoch === 1 ? Promise.resolve([]) : store.steps.list(fence.id);
    const rows = await this.#kept;
    return keptOf(step, rows, matching);
  }

  /** `before`: the stored step, if it began before. */
  async #put(
    step: NewStep,
    before: NewStep | undefined,
    to: Pick<StepWrite, "status" | "result" | "tookMs">,
  ): Promise<void> {
    const { store, fence } = this.#parts;
    const written = await store.steps.put(fence, { ...step, ...to, isNew: before === undefined });
    if (!written) throw new LeaseLostError(fence);
  }

  async #effect({ name, occurrence }: NewStep): Promise<Effect> {
    const { store, fence, signal } = this.#parts;
    // The first attempt repeats nothing.
    this.#takenBack ??= fence.epoch === 1 ? Promise.resolve([]) : store.steps.takenBack(fence.id);
    const found = (await this.#takenBack).find(
      (taken) => taken.name === name && taken.occurrence === occurrence,
    );
    const again = found === undefined ? "" : `/${found.times + 1}`;
    return {
      key: `${fence.id}/${name}/${occurrence}${again}`,
      get signal() {
        return signal();
      },
    };
  }

  async #act<T>(step: NewStep, act: () => T | Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof NotDoneError)
        await this.#parts.store.steps.drop(this.#parts.fence, step);
      throw error;
    }
  }

  async #inDoubt(step: NewStep, kept: StepRecord): Promise<never> {
    if (kept.status !== "doubt") await this.#put(step, kept, { status: "doubt", result: null });
    this.#parts.onEffectInDoubt({ name: step.name, occurrence: step.occurrence });
    return this.#pause({ delayMs: null, waits: [] });
  }

  async #storeAnswer<T>(step: NewStep, before: NewStep | undefined, answer: T): Promise<T> {
    await this.#put(step, before, { status: "done", result: encode(answer, STORED_ANSWER) });
    return answer;
  }

  async #takeResult<Result>(
    step: NewStep,
    before: NewStep,
    ended: FinishedRecord,
  ): Promise<Result> {
    const { id, task, status, error, result } = ended;
    if (status !== "done" || error !== null) {
      const said = error === null ? "it was cancelled." : decodeError(error).message;
      throw await this.#fail(step, before, { id, task, status, said });
    }
    await this.#put(step, before, { status: "done", result });
    await this.#parts.store.steps.forget({ event: JOB_ENDED, key: id });
    return readable(result) as Result;
  }

  /** Stored as it was seen: if the other job is retried later, this job's decision stays. */
  async #fail(step: NewStep, before: NewStep, facts: CallFacts): Promise<CallFailedError> {
    await this.#put(step, before, {
      status: "failed",
      result: encode({ ...facts }, STORED_ANSWER),
    });
    return new CallFailedError(facts);
  }

  /** The function never continues from here in this attempt. */
  #pause(pause: Pause): Promise<never> {
    this.#pauses.push(pause);
    this.#suspendIfIdle();
    return new Promise<never>(() => {});
  }

  /** Steps in progress finish first, or they would run again. Their awaiting code may then begin another step, or end. */
  #suspendSoon(turns: number): void {
    const changes = this.#changes;
    this.#parts.runtime.afterIo(() => {
      if (this.#changes !== changes || this.#isOver) return;
      if (turns > 1) this.#suspendSoon(turns - 1);
      else this.#suspend();
    });
  }

  #suspend(): void {
    const delays = this.#pauses.flatMap(({ delayMs }) => (delayMs === null ? [] : [delayMs]));
    const waits = this.#pauses.flatMap((pause) => pause.waits);
    this.#parts.suspend(delays.length === 0 ? null : Math.min(...delays), waits);
  }
}

/** Set while the function of a step runs. */
const inside = new AsyncLocalStorage<Steps>();

function readable(text: string | null): unknown {
  return text === null ? undefined : decode(text);
}

/** The error of a step, or of `complete`, that begins at the wrong time. */
function misplaced(field: "name" | "complete", problem: string): InvalidArgumentError {
  return invalid(field, problem);
}

function checkBody(field: string, body: unknown): void {
  if (typeof body === "function") return;
  throw invalid(field, "pass a name and a function.");
}

/** Refuses a name: the types of input and result, and the schema, come from the task. */
function checkCall(task: AnyTask): void {
  if (typeof task?.run === "function") return;
  const alone = typeof task === "string" ? "; a name alone is not enough" : "";
  throw invalid("task", `call needs a task made with defineTask()${alone}.`);
}
