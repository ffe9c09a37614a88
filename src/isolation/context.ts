/**
 * The context of a task in its thread or process. Its methods are calls to the worker, which holds the lease and makes
 * every write; functions that the task passes stay here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Duration } from "../core/duration.ts";
import { parseInput } from "../core/input.ts";
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import {
  type AnyTask,
  type CallOptions,
  type Context,
  type Effect,
  encodeStep,
  type Found,
  type StepKind,
  type Task,
  type UserTransaction,
} from "../core/task.ts";
import { type Fence, traceId } from "../core/job.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { logOf, type Progress, sayLog, sayProgress, sayReport } from "../core/report.ts";
import { Snooze } from "../core/retry.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { DependencyView } from "../flows/results.ts";
import {
  type ContextCall,
  type DependenciesRead,
  type FromChild,
  type IsolatedJob,
  receiveError,
  sendError,
  type ToChild,
} from "./messages.ts";

/** How a function of the task ended when the worker last called it. */
interface Called {
  readonly value?: unknown;
  readonly error?: unknown;
}

/** A function of the task that the worker may call. It returns the JSON text that is stored; null: undefined. */
type Callable = (arg: unknown) => Promise<string | null>;

/** A function of a step, effect or commit, and how it ended when the worker last called it. */
interface OwnFunction {
  readonly number: number;
  readonly called: () => Called | null;
}

interface Waiting {
  /** Called with the value that the worker sent, if none of the call's own functions returned one. */
  resolve(value: unknown): void;
  reject(error: unknown): void;
  readonly called: () => Called | null;
}

/** As for every enqueued job; the worker checks it again. */
const PAYLOAD = { what: "payload", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** Set while a function of a step runs. */
const inside = new AsyncLocalStorage<IsolatedContext>();

export class IsolatedContext implements Context {
  readonly id: string;
  readonly task: string;
  readonly queue: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly fence: Fence;
  readonly traceId: string;
  readonly idempotencyKey: string;
  /** The job is put off, even if the task caught the error. */
  snoozed: Snooze | null = null;
  readonly #send: (message: FromChild) => void;
  readonly #run: number;
  readonly #controller = new AbortController();
  readonly #functions = new Map<number, Callable>();
  readonly #waiting = new Map<number, Waiting>();
  #numbers = 0;
  #batch: ContextCall[] = [];

  constructor(job: IsolatedJob, run: number, send: (message: FromChild) => void) {
    const { id, worker, epoch } = job;
    this.id = id;
    this.task = job.task;
    this.queue = job.queue;
    this.attempt = job.attempt;
    this.maxAttempts = job.maxAttempts;
    this.fence = { id, worker, epoch };
    this.traceId = traceId(job);
    this.idempotencyKey = id;
    this.#run = run;
    this.#send = send;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get holdfast(): Context["holdfast"] {
    throw missing(
      "ctx.holdfast",
      "open a client in its module with openHoldfast(), or use ctx.call()",
    );
  }

  step<T>(name: string, body: () => T | Promise<T>): Promise<T> {
    checkFunction("step", body);
    return this.#callWith("step", [name], [this.#callable("step", name, body)]);
  }

  effect<T>(
    name: string,
    act: (effect: Effect) => T | Promise<T>,
    options: { readonly verify?: (effect: Effect) => Found<T> | Promise<Found<T>> } = {},
  ): Promise<T> {
    checkFunction("effect", act);
    const { verify, ...others } = options;
    if (verify !== undefined) checkFunction("verify", verify);
    const asEffect = (key: unknown): Effect => ({ key: String(key), signal: this.signal });
    const functions = [
      this.#callable("effect", name, (key) => act(asEffect(key))),
      verify === undefined ? null : this.#callable("effect", name, (key) => verify(asEffect(key))),
    ];
    return this.#callWith("effect", [name, others], functions);
  }

  commit(name: string, body: (tx: UserTransaction) => unknown): Promise<never> {
    checkFunction("commit", body);
    const run = (tx: unknown): unknown => body(this.#transaction(Number(tx)));
    return this.#callWith("commit", [name], [this.#callable("commit", name, run)]);
  }

  /** Its own connection is not the worker's, which ends the job. */
  async complete<T>(): Promise<T> {
    throw missing("ctx.complete()", "return the result, or write with ctx.commit()");
  }

  sleep(name: string, duration: Duration): Promise<void> {
    return this.#callWith("sleep", [name, duration], []);
  }

  event<Payload>(
    event: EventType<Payload>,
    key: string,
    options: { readonly timeout?: Duration } = {},
  ): Promise<Payload> {
    return this.#callWith("event", [event?.name ?? null, key, options], []);
  }

  call(task: AnyTask, input?: unknown, options: CallOptions = {}): Promise<never> {
    if (typeof task?.run !== "function") {
      throw invalid("task", "call needs a task made with defineTask().");
    }
    const check = async (): Promise<null> => {
      await parseInput(task, input);
      return null;
    };
    const { name, queue, retry } = task;
    const args = [
      { name, queue, maxAttempts: retry.maxAttempts },
      encode(input ?? null, PAYLOAD),
      options,
    ];
    return this.#callWith("call", args, [this.#add(check)], () => null);
  }

  results<Input, Result>(task: Task<Input, Result>): Promise<Result[]> {
    checkFunction("task", task?.run);
    return this.#callWith("results", [task.name], []);
  }

  /** The worker reads them, some at a time. */
  async *dependencies(): AsyncGenerator<DependencyView, void, undefined> {
    this.#numbers += 1;
    const reading = this.#numbers;
    for (let isOver = false; !isOver;) {
      const some: DependenciesRead = await this.#callWith("dependencies", [reading], []);
      yield* some.values;
      isOver = some.isOver;
    }
  }

  snooze(delay: Duration, reason?: unknown): never {
    this.snoozed = new Snooze(delay, reason);
    throw this.snoozed;
  }

  progress(value: Progress, text?: string): void {
    sayProgress(value, text);
    this.#say("progress", [value, text]);
  }
  readonly log = logOf((level, text, data) => {
    sayLog(text, data, level);
    this.#say("log", [text, data, level]);
  });
  report(name: string, data?: unknown): void {
    sayReport(name, data);
    this.#say("report", [name, data]);
  }

  /** Handles a message of the worker about this job. */
  receive(message: ToChild): void {
    switch (message.kind) {
      case "abort":
        return this.#controller.abort(receiveError(message.reason));
      case "invoke":
        return void this.#invoke(message);
      case "answer":
        return this.#answer(message);
      case "turn":
        // After everything that the last answer caused: the calls of the task come first.
        return systemRuntime.afterIo(() =>
          this.#send({ kind: "turned", run: this.#run, turn: message.turn }),
        );
      default:
        return undefined;
    }
  }

  /** Sends the calls that were made at once, in one message: the worker must see them at once too. */
  flush(): void {
    const calls = this.#batch;
    this.#batch = [];
    if (calls.length > 0) this.#send({ kind: "calls", run: this.#run, calls });
  }

  #say(method: "progress" | "log" | "report", args: readonly unknown[]): void {
    this.#send({ kind: "say", run: this.#run, method, args });
  }

  #transaction(tx: number): UserTransaction {
    const query = (text: string, values: readonly unknown[] = []): Promise<never> =>
      this.#callWith("query", [tx, text, values], []);
    return {
      query,
      get client(): unknown {
        throw missing("tx.client", "use tx.query(), which the worker runs");
      },
    };
  }

  /** A function of a step, effect or commit. */
  #callable(kind: StepKind, name: string, body: (arg: unknown) => unknown): OwnFunction {
    let called: Called | null = null;
    const number = this.#add(async (arg) => {
      try {
        const value = await inside.run(this, async () => body(arg));
        const text = encodeStep(value, { kind, name });
        called = { value };
        return text;
      } catch (error) {
        called = { error };
        throw error;
      }
    });
    return { number, called: () => called };
  }

  #add(callable: Callable): number {
    this.#numbers += 1;
    this.#functions.set(this.#numbers, callable);
    return this.#numbers;
  }

  #callWith(
    method: ContextCall["method"],
    args: readonly unknown[],
    given: readonly (number | OwnFunction | null)[],
    called: () => Called | null = () => lastOf(given),
  ): Promise<never> {
    const isStep = method !== "query" && method !== "results" && method !== "dependencies";
    if (isStep && inside.getStore() === this) {
      const problem = `'${String(args[0])}' was started inside another step: run them one after the other.`;
      return Promise.reject(invalid("name", problem));
    }
    const functions = given.map((one) =>
      one === null || typeof one === "number" ? one : one.number,
    );
    this.#numbers += 1;
    const call = this.#numbers;
    if (this.#batch.length === 0) queueMicrotask(() => this.flush());
    this.#batch.push({ call, method, args, functions });
    return new Promise((resolve, reject) => {
      const done = (): void => {
        this.#waiting.delete(call);
        for (const number of functions) if (number !== null) this.#functions.delete(number);
      };
      this.#waiting.set(call, {
        called,
        resolve(value) {
          done();
          resolve(value as never);
        },
        reject(error) {
          done();
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is whatever the task's function threw
          reject(error);
        },
      });
    });
  }

  async #invoke(message: ToChild & { kind: "invoke" }): Promise<void> {
    const { invoke } = message;
    const answer = { kind: "invoked", run: this.#run, invoke } as const;
    try {
      const callable = this.#functions.get(message.function);
      if (callable === undefined) throw new Error(`There is no function ${message.function}.`);
      this.#send({ ...answer, value: await callable(message.arg) });
    } catch (error) {
      this.#send({ ...answer, error: sendError(error) });
    }
  }

  /** What the task's own function returned or threw is better than its copy. */
  #answer({ call, value, error, isTheirs }: ToChild & { kind: "answer" }): void {
    const waiting = this.#waiting.get(call);
    if (waiting === undefined) return;
    const called = waiting.called();
    if (error === undefined)
      return waiting.resolve(called !== null && "value" in called ? called.value : value);
    waiting.reject(
      isTheirs === true && called !== null && "error" in called
        ? called.error
        : receiveError(error),
    );
  }
}

/** Of several functions the last that was called counts: an effect is verified before it is made again. */
function lastOf(given: readonly (number | OwnFunction | null)[]): Called | null {
  for (const one of given) {
    if (typeof one !== "object" || one === null) continue;
    const called = one.called();
    if (called !== null) return called;
  }
  return null;
}

function checkFunction(field: string, body: unknown): void {
  if (typeof body === "function") return;
  throw invalid(field, "pass a name and a function.");
}

function missing(what: string, remedy: string): InvalidArgumentError {
  return invalid(what, `not available in an isolated task: ${remedy}.`);
}
