/**
 * What an attempt keeps: its steps, by name and occurrence, and what it waits for.
 *
 * A job that has to wait gives its place back: the attempt ends as suspended, its function is not gone on with, and when
 * the job goes on it begins again from its start, past all that was kept. Until then nothing of it is in this process.
 */
import { toMs, type Duration } from "../core/duration.ts";
import { decodeError } from "../core/error-record.ts";
import { InvalidArgument, LeaseLost } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { calledId } from "../core/id.ts";
import type { Fence, Wait } from "../core/job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, decode, encode, encodeOptional } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import { CallFailed, EventTimeout, NotDone, StepsChanged } from "../core/step-errors.ts";
import { JOB_ENDED, type StepKind, type UserTransaction } from "../core/step.ts";
import type { CallOptions, Effect, Found, StepMatching, Task } from "../core/task.ts";
import type { NewStep, StepRecord, StepWrite } from "../store/journal.ts";
import type { FinishedRecord, Store } from "../store/store.ts";
import { checkInputs, defaultsOf, newJob } from "./new-job.ts";
import { checkOptions } from "./options.ts";

const KEPT = { what: "result of a step", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };
/** A job that another one waits for may be ended by somebody who tells nobody: then it is found after this long. */
const CALL_LOOK_MS = 10 * 60_000;

export interface StepsParts {
  readonly store: Store;
  readonly newId: () => string;
  readonly fence: Fence;
  readonly matching: StepMatching;
  readonly signal: () => AbortSignal;
  /** Ends the attempt, when nothing of it is under way any more. */
  readonly suspend: (delayMs: number | null, waits: readonly Wait[]) => void;
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
  readonly #occurrences = new Map<string, number>();
  #places = 0;
  #kept: Promise<readonly StepRecord[]> | null = null;
  /** Steps that are being made. */
  #underWay = 0;
  readonly #pauses: Pause[] = [];

  constructor(parts: StepsParts) {
    this.#parts = parts;
  }

  async step<T>(name: string, body: () => T | Promise<T>): Promise<T> {
    checkBody("step", body);
    return this.#make(name, "step", async ({ step, kept }) => {
      const value = await body();
      await this.#put(step, kept, { status: "done", result: encodeOptional(value, KEPT) });
      return value;
    });
  }

  async effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    { verify }: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> } = {},
  ): Promise<T> {
    checkBody("effect", act);
    return this.#make(name, "effect", async ({ step, kept }) => {
      const effect = this.#effect(step);
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: null });
      else if (verify === undefined) return this.#doubt(step, kept);
      const begun = kept ?? step;
      const found = kept === undefined ? undefined : await verify?.(effect);
      const value = found ?? (await this.#act(step, () => act(effect)));
      await this.#put(step, begun, { status: "done", result: encodeOptional(value, KEPT) });
      return value;
    });
  }

  async commit<T>(name: string, body: (tx: UserTransaction) => T | Promise<T>): Promise<T> {
    checkBody("commit", body);
    return this.#make(name, "commit", async ({ step }) => {
      let value: T | undefined;
      await this.#parts.store.commitStep(this.#parts.fence, step, async (tx) => {
        value = await body(tx);
        return encodeOptional(value, KEPT);
      });
      return value as T;
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
    { timeout }: { readonly timeout?: Duration } = {},
  ): Promise<Payload> {
    const of = { event: event.name, key: checkKey("key", key) };
    const timeoutMs = timeout === undefined ? null : toMs("timeout", timeout);
    const said = await this.#make(of.event, "event", async ({ step, kept }) => {
      const found = await this.#parts.store.findEvent(of.event, of.key);
      if (found !== null) return this.#hear(step, kept, { payload: readable(found.payload) });
      if (kept === undefined) await this.#put(step, kept, { status: "begun", result: null });
      const restMs = timeoutMs === null ? null : timeoutMs - (kept?.ageMs ?? 0);
      if (restMs === null || restMs > 0) return this.#pause({ delayMs: restMs, waits: [of] });
      return this.#hear(step, kept ?? step, { timeoutMs });
    });
    if ("timeoutMs" in said) throw new EventTimeout({ ...of, timeoutMs: said.timeoutMs ?? 0 });
    return said.payload as Payload;
  }

  async call<Input, Result>(
    task: Task<Input, Result>,
    input: Input,
    { name = task.name, ...options }: CallOptions = {},
  ): Promise<Result> {
    const defaults = defaultsOf(task);
    const terms = checkOptions(options, defaults);
    await checkInputs(task, [input]);
    return this.#make(name, "call", async ({ step, kept }) => {
      const { store, newId } = this.#parts;
      const id = kept === undefined ? calledId(newId()) : (decode(kept.result ?? '""') as string);
      const wait = { event: JOB_ENDED, key: id };
      if (kept === undefined)
        await this.#put(step, kept, { status: "begun", result: encodeId(id) });
      const [ended] = kept === undefined ? [] : await store.findFinished([id]);
      if (ended !== undefined) return this.#take<Result>(step, kept ?? step, ended);
      // Whether this attempt enqueues it or an earlier one has: under its id it is there once.
      await store.expect(wait);
      await store.enqueue([newJob(id, defaults.name, input, terms)]);
      return this.#pause({ delayMs: CALL_LOOK_MS, waits: [wait] });
    });
  }

  /** What was kept of it, or what making it comes to. */
  async #make<T>(name: string, kind: StepKind, make: (entered: Entered) => Promise<T>): Promise<T> {
    // Before anything is awaited: steps that are made side by side keep their order.
    const step = this.#next(name, kind);
    this.#underWay += 1;
    try {
      this.#parts.signal().throwIfAborted();
      const entered = { step, kept: await this.#find(step) };
      if (entered.kept?.status === "done") return readable(entered.kept.result) as T;
      this.#parts.signal().throwIfAborted();
      return await make(entered);
    } finally {
      this.#underWay -= 1;
      this.#suspendIfIdle();
    }
  }

  #next(name: string, kind: StepKind): NewStep {
    const occurrence = (this.#occurrences.get(checkName("name", name)) ?? 0) + 1;
    this.#occurrences.set(name, occurrence);
    this.#places += 1;
    return { name, occurrence, place: this.#places, kind };
  }

  async #find(step: NewStep): Promise<StepRecord | undefined> {
    const { store, fence, matching } = this.#parts;
    // The first attempt of a job has nothing to find.
    this.#kept ??= fence.epoch === 1 ? Promise.resolve([]) : store.steps(fence.id);
    const rows = await this.#kept;
    const kept = rows.find(
      ({ name, occurrence }) => name === step.name && occurrence === step.occurrence,
    );
    const atItsPlace =
      matching === "by name" ? kept : rows.find(({ place }) => place === step.place);
    for (const row of [kept, atItsPlace]) {
      if (row !== undefined && !isSame(row, step)) throw changed(row, step);
    }
    return kept;
  }

  /** `before`: what it was begun as, if it was. */
  async #put(
    step: NewStep,
    before: NewStep | undefined,
    to: Pick<StepWrite, "status" | "result">,
  ): Promise<void> {
    const { store, fence } = this.#parts;
    const written = await store.putStep(fence, { ...step, ...to, isNew: before === undefined });
    if (!written) throw new LeaseLost(fence);
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
      if (error instanceof NotDone) await this.#parts.store.dropStep(this.#parts.fence, step);
      throw error;
    }
  }

  async #doubt(step: NewStep, kept: StepRecord): Promise<never> {
    if (kept.status !== "doubt") await this.#put(step, kept, { status: "doubt", result: null });
    return this.#pause({ delayMs: null, waits: [] });
  }

  async #hear<Said>(step: NewStep, before: NewStep | undefined, said: Said): Promise<Said> {
    await this.#put(step, before, { status: "done", result: encode(said, KEPT) });
    return said;
  }

  async #take<Result>(step: NewStep, before: NewStep, ended: FinishedRecord): Promise<Result> {
    const { id, task, status, error, result } = ended;
    if (status !== "done") {
      const said = error === null ? "it was cancelled." : decodeError(error).message;
      throw new CallFailed({ id, task, status, said });
    }
    await this.#put(step, before, { status: "done", result });
    return readable(result) as Result;
  }

  /** The function does not go on from here in this attempt. */
  #pause(pause: Pause): Promise<never> {
    this.#pauses.push(pause);
    this.#suspendIfIdle();
    return new Promise<never>(() => {});
  }

  /** What else is under way is finished first, or it would have to be made again. */
  #suspendIfIdle(): void {
    // A pause never ends its step, so those that pause are still counted.
    if (this.#pauses.length === 0 || this.#underWay > this.#pauses.length) return;
    const delays = this.#pauses.flatMap(({ delayMs }) => (delayMs === null ? [] : [delayMs]));
    const waits = this.#pauses.flatMap((pause) => pause.waits);
    this.#parts.suspend(delays.length === 0 ? null : Math.min(...delays), waits);
  }
}

function checkBody(field: string, body: unknown): void {
  if (typeof body === "function") return;
  throw new InvalidArgument({ field, problem: "give a name and a function." });
}

function isSame(row: StepRecord, step: NewStep): boolean {
  return row.name === step.name && row.occurrence === step.occurrence && row.kind === step.kind;
}

function changed(row: StepRecord, step: NewStep): StepsChanged {
  return new StepsChanged({ place: step.place, kept: wordsOf(row), found: wordsOf(step) });
}

function wordsOf({ kind, name, occurrence }: NewStep): string {
  return `${kind} '${name}'${occurrence > 1 ? ` (${occurrence})` : ""}`;
}

function readable(text: string | null): unknown {
  return text === null ? undefined : decode(text);
}

function encodeId(id: string): string {
  return encode(id, KEPT);
}
