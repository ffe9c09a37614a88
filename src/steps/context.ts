/**
 * What an attempt keeps: its steps, by name and occurrence, and what it waits for.
 *
 * A job that has to wait gives its place back: the attempt ends as suspended, its function is not gone on with, and when
 * the job goes on it begins again from its start, past all that was kept. Until then nothing of it is in this process.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Duration, toMs } from "../core/duration.ts";
import { decodeError } from "../core/error-record.ts";
import { LeaseLostError } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { calledId } from "../core/id.ts";
import type { Fence, Wait } from "../core/job.ts";
import { decode, DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
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
  type Task,
  type UserTransaction,
} from "../core/task.ts";
import { unlessAborted } from "../core/wait.ts";
import {
  checkInputs,
  checkOptions,
  defaultsOf,
  newJob,
  type Terms,
  termsHere,
} from "../jobs/enqueue.ts";
import type { FinishedRecord, JobsStore } from "../jobs/store.ts";
import { inSpan, type OpenSpan } from "../tracing/spans.ts";
import { CallFailedError, EventTimeoutError, NotDoneError, SuspendedError } from "./errors.ts";
import * as problems from "./problems.ts";
import { keptOf, StepOrder } from "./step-order.ts";
import type { StepsStore, StepWrite } from "./store.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly jobs: JobsStore;
  readonly steps: StepsStore;
}

/** What was accepted as an event's payload is kept with a word around it. */
const HEARD = { what: "payload of an event", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX + 64 };

/** A function that can go on has done so after so many turns of the event loop. */
const TURNS_BEFORE_SUSPENDING = 2;

/** A job that another one waits for may be ended by somebody who tells nobody: then it is found after this long. */
const CALL_LOOK_MS = 10 * 60_000;

export interface StepsParts {
  readonly store: Stores;
  readonly newId: () => string;
  readonly fence: Fence;
  readonly matching: StepMatching;
  readonly signal: () => AbortSignal;
  /** Aborts the signal with LeaseLostError when the lease cannot be trusted any more. */
  readonly checkLease: () => void;
  readonly runtime: Runtime;
  /** What a commit returned, as it is stored: items as their records. */
  readonly recordsOf: (value: unknown) => unknown;
  /** Of the attempt, where the application traces. */
  readonly span: OpenSpan | null;
  /** Ends the attempt, when nothing of it is under way any more. */
  readonly suspend: (delayMs: number | null, waits: readonly Wait[]) => void;
  /** The attempt is about to be suspended until an operator says whether this effect happened. */
  readonly onEffectInDoubt: (step: StepName) => void;
}

/** A step that is about to be made, and what is known of it from before. */
interface Entered {
  readonly step: NewStep;
  readonly kept: StepRecord | undefined;
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
  /** Steps that are being made, those that pause among them: a pause never ends its step. */
  #underWay = 0;
  /** Grows whenever a step begins or ends. */
  #changes = 0;
  readonly #pauses: Pause[] = [];
  /** The job ends in a transaction of the user's: nothing is kept of it after that. */
  #isComplete = false;
  /** The function has ended: what it does not wait for shall not wait any more. */
  #isOver = false;
  #onIdle: (() => void) | null = null;

  constructor(parts: StepsParts) {
    this.#parts = parts;
  }

  async step<T>(name: string, body: () => T | Promise<T>): Promise<T> {
    problems.checkBody("step", body);
    return this.#make(name, "step", async ({ step, kept }) => {
      const value = await this.#inSpan(step, async () => this.#asOwner(body));
      await this.#put(step, kept, { status: "done", result: encodeStep(value, step) });
      return value;
    });
  }

  async effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> } = {},
  ): Promise<T> {
    const { verify } = problems.checkEffect(act, options);
    return this.#make(name, "effect", async ({ step, kept }) => {
      const effect = this.#effect(step);
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
    problems.checkBody("commit", body);
    return this.#make(name, "commit", async ({ step }) => {
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

  async sleep(name: string, duration: Duration): Promise<void> {
    const ms = toMs("duration", duration);
    return this.#make(name, "sleep", async ({ step, kept }) => {
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
    options: { readonly timeout?: Duration } = {},
  ): Promise<Payload> {
    const { timeout } = problems.checkWait(event, options);
    const of = { event: event.name, key: checkKey("key", key) };
    const timeoutMs = timeout === undefined ? null : toMs("timeout", timeout);
    const said = await this.#make(of.event, "event", async ({ step, kept }) => {
      const found = await this.#parts.store.steps.findEvent(of.event, of.key);
      if (found !== null)
        return this.#hear(step, kept, { payload: readable(found.payload) ?? null });
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: null });
      const restMs = timeoutMs === null ? null : timeoutMs - (kept?.ageMs ?? 0);
      if (restMs === null || restMs > 0) return this.#pause({ delayMs: restMs, waits: [of] });
      return this.#hear(step, kept ?? step, { timeoutMs });
    });
    if ("timeoutMs" in said) throw new EventTimeoutError({ ...of, timeoutMs: said.timeoutMs ?? 0 });
    return said.payload as Payload;
  }

  async call<Input, Result>(
    task: Task<Input, Result>,
    input: Input,
    options: CallOptions = {},
  ): Promise<Result> {
    const { name = task.name, ...rest } = problems.checkCall(task, options);
    const defaults = defaultsOf(task);
    const terms = termsHere(checkOptions(rest, defaults), this.#parts.span);
    return this.#make(name, "call", async ({ step, kept }) => {
      const { store, newId } = this.#parts;
      if (kept?.status === "failed") throw problems.failureOf(kept.result);
      if (kept !== undefined) return this.#look<Result>(step, kept, { input, terms, defaults });
      await checkInputs(task, [input]);
      const id = calledId(newId());
      await this.#put(step, kept, { status: "begun", result: encode(id, KEPT) });
      // Before it is there: whoever ends it tells those who wait.
      await store.steps.expect({ event: JOB_ENDED, key: id });
      await store.jobs.enqueue([newJob(id, defaults.name, input, terms)]);
      return this.#pauseFor(id);
    });
  }

  /** Ends the job inside of a transaction of the user's, when nothing else of it is under way. */
  async complete(end: () => Promise<void>): Promise<void> {
    if (inside.getStore() === this)
      throw problems.notNow("it is inside of a step; it needs a transaction of your own.");
    if (this.#isComplete) throw problems.notNow("the job was completed already.");
    if (this.#underWay > 0) throw problems.notNow("steps are under way: await them first.");
    this.#isComplete = true;
    try {
      await this.#goOn();
      await end();
    } catch (error) {
      this.#isComplete = false;
      throw error;
    }
  }

  /** What became of a job that an earlier attempt called, or was about to call. */
  async #look<Result>(
    step: NewStep,
    kept: StepRecord,
    { input, terms, defaults }: { input: unknown; terms: Terms; defaults: { name: string } },
  ): Promise<Result> {
    const { store } = this.#parts;
    // Its id; or, when this job was revived, all that was kept of its failure.
    const told = decode(kept.result ?? '""') as string | problems.CallFacts;
    const id = typeof told === "string" ? told : told.id;
    const [ended] = await store.jobs.findFinished([id]);
    if (ended !== undefined) return this.#take<Result>(step, kept, ended);
    if ((await store.jobs.find(id)) !== null) return this.#pauseFor(id);
    if ((await store.steps.findEvent(JOB_ENDED, id)) !== null) {
      const said = "it has ended, and what it came to was deleted since.";
      throw await this.#fail(step, kept, { id, task: defaults.name, status: "deleted", said });
    }
    await store.steps.expect({ event: JOB_ENDED, key: id });
    await store.jobs.enqueue([newJob(id, defaults.name, input, terms)]);
    return this.#pauseFor(id);
  }

  #pauseFor(id: string): Promise<never> {
    return this.#pause({ delayMs: CALL_LOOK_MS, waits: [{ event: JOB_ENDED, key: id }] });
  }

  /** Until no step is being made, but for those that pause: an attempt does not end before. */
  async idle(): Promise<void> {
    this.#isOver = true;
    if (this.#underWay === this.#pauses.length) return;
    await new Promise<void>((resolve) => (this.#onIdle = resolve));
  }

  /** What was kept of it, or what making it comes to. */
  async #make<T>(name: string, kind: StepKind, make: (entered: Entered) => Promise<T>): Promise<T> {
    if (inside.getStore() === this) throw problems.nested(name);
    if (this.#isComplete) throw problems.tooLate(name);
    // Before anything is awaited: steps that are made side by side keep their order.
    const step = this.#order.next(checkName("name", name), kind, this.#underWay);
    this.#began();
    try {
      await this.#goOn();
      const entered = { step, kept: await this.#find(step) };
      if (entered.kept?.status === "done") return readable(entered.kept.result) as T;
      await this.#goOn();
      return await inside.run(this, make, entered);
    } finally {
      this.#ended();
    }
  }

  #inSpan<T>({ name, kind }: NewStep, make: () => Promise<T>): Promise<T> {
    return inSpan({ name: `${kind} ${name}`, kind: "internal", within: this.#parts.span }, make);
  }

  /** Not in an attempt that gave its place back: its function must not take that for an error. */
  async #goOn(): Promise<void> {
    const signal = this.#parts.signal();
    if (signal.aborted && signal.reason instanceof SuspendedError)
      await new Promise<never>(() => {});
    this.#checkOwner();
  }

  /**
   * Calls a function of the task's. The process may have been frozen while it waited for the answer before: then another
   * worker may own the job, and may have made the same effect. Nothing is awaited between the check and the call.
   */
  #asOwner<T>(call: () => T): T {
    this.#checkOwner();
    return call();
  }

  #checkOwner(): void {
    this.#parts.checkLease();
    this.#parts.signal().throwIfAborted();
  }

  #began(): void {
    this.#underWay += 1;
    this.#changes += 1;
  }

  #ended(): void {
    this.#underWay -= 1;
    this.#changes += 1;
    this.#rest();
  }

  /** Nothing but waits may be left. */
  #rest(): void {
    if (this.#underWay > this.#pauses.length) return;
    if (this.#isOver) this.#onIdle?.();
    else if (this.#pauses.length > 0) this.#suspendSoon(TURNS_BEFORE_SUSPENDING);
  }

  async #find(step: NewStep): Promise<StepRecord | undefined> {
    const { store, fence, matching } = this.#parts;
    // The first attempt of a job has nothing to find.
    this.#kept ??= fence.epoch === 1 ? Promise.resolve([]) : store.steps.list(fence.id);
    const rows = await this.#kept;
    return keptOf(step, rows, matching);
  }

  /** `before`: what it was begun as, if it was. */
  async #put(
    step: NewStep,
    before: NewStep | undefined,
    to: Pick<StepWrite, "status" | "result">,
  ): Promise<void> {
    const { store, fence } = this.#parts;
    const written = await store.steps.put(fence, { ...step, ...to, isNew: before === undefined });
    if (!written) throw new LeaseLostError(fence);
  }

  #effect({ name, occurrence }: NewStep): Effect {
    const { fence, signal } = this.#parts;
    return {
      key: `${fence.id}/${name}/${occurrence}`,
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

  async #hear<Said>(step: NewStep, before: NewStep | undefined, said: Said): Promise<Said> {
    await this.#put(step, before, { status: "done", result: encode(said, HEARD) });
    return said;
  }

  async #take<Result>(step: NewStep, before: NewStep, ended: FinishedRecord): Promise<Result> {
    const { id, task, status, error, result } = ended;
    if (status !== "done") {
      const said = error === null ? "it was cancelled." : decodeError(error).message;
      throw await this.#fail(step, before, { id, task, status, said });
    }
    await this.#put(step, before, { status: "done", result });
    await this.#parts.store.steps.forget({ event: JOB_ENDED, key: id });
    return readable(result) as Result;
  }

  /** Kept as it was seen: what becomes of the other job later does not change what this one did about it. */
  async #fail(step: NewStep, before: NewStep, facts: problems.CallFacts): Promise<CallFailedError> {
    await this.#put(step, before, { status: "failed", result: encode({ ...facts }, HEARD) });
    return new CallFailedError(facts);
  }

  /** The function does not go on from here in this attempt. */
  #pause(pause: Pause): Promise<never> {
    this.#pauses.push(pause);
    this.#rest();
    return new Promise<never>(() => {});
  }

  /**
   * What else is under way is finished first, or it would have to be made again; and whoever waited for it has a moment to
   * go on, to another step or to the end.
   */
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

/** Whether what runs is the function of a step. */
const inside = new AsyncLocalStorage<Steps>();

function readable(text: string | null): unknown {
  return text === null ? undefined : decode(text);
}
