/**
 * One attempt of an isolated task, on the worker's side: it does what the task asks for, with the attempt's own context.
 *
 * The function of a step is called in the child; what is stored, and whether this worker may store it, is decided here.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { IsolationError, TaskCrashedError } from "../core/errors.ts";
import { decode } from "../core/json.ts";
import type { Progress } from "../core/report.ts";
import type { Timer } from "../core/runtime.ts";
import type {
  CallOptions,
  Context,
  Effect,
  Isolation,
  Task,
  UserTransaction,
} from "../core/task.ts";
import type { DependencyView } from "../flows/results.ts";
import type { Child, Children } from "./children.ts";
import {
  type ContextCall,
  type DependenciesRead,
  type FromChild,
  type IsolatedJob,
  receiveError,
  sendError,
} from "./messages.ts";

/** A module that takes longer to import than this most likely never ends to. */
export const START_MS_MAX = 30_000;

/** Jobs that a job waited for, sent in one message. */
const DEPENDENCIES_AT_ONCE = 100;

interface RunParts {
  readonly isolation: Isolation;
  readonly job: IsolatedJob;
  readonly ctx: Context;
  /** The function of the task is about to be called. */
  readonly onStarted: () => void;
}

interface Invoked {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export class IsolatedRun {
  /** What the task returns or throws. */
  readonly result: Promise<unknown>;
  /** Why its result cannot be stored. */
  resultProblem: string | null = null;
  readonly #children: Children;
  readonly #child: Child;
  readonly #run: number;
  readonly #parts: RunParts;
  readonly #end: { resolve(result: unknown): void; reject(error: Error): void };
  readonly #invoked = new Map<number, Invoked>();
  readonly #turns = new Map<number, () => void>();
  readonly #transactions = new Map<number, UserTransaction>();
  readonly #reading = new Map<number, ReturnType<Context["dependencies"]>>();
  #numbers = 0;
  readonly #starting: Timer;
  /** The function of the task has ended. */
  #hasEnded = false;
  /** The child must not run another job. */
  #isDirty = false;

  constructor(children: Children, parts: RunParts) {
    const { isolation, job, ctx } = parts;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.result = promise;
    this.#end = { resolve, reject };
    this.#children = children;
    this.#parts = parts;
    this.#child = children.take(isolation);
    this.#child.jobs += 1;
    this.#run = this.#child.jobs;
    // Its messages arrive in the async context of the child's start: the consequences belong to this attempt.
    const inContext = AsyncLocalStorage.snapshot();
    this.#child.listener = {
      message: (message) => inContext(() => this.#onMessage(message)),
      exit: (why) => inContext(() => this.#onExit(why)),
    };
    this.#starting = children.runtime.timer(START_MS_MAX, () => this.#giveUpStart(), "background");
    const { id, task, queue, worker, epoch, attempt, maxAttempts, payload } = job;
    const sent = { id, task, queue, worker, epoch, attempt, maxAttempts, payload };
    const { module } = isolation;
    this.#child.send({ kind: "run", run: this.#run, module, job: sent });
    const { signal } = ctx;
    const abort = (): void => {
      this.#child.send({ kind: "abort", run: this.#run, reason: sendError(signal.reason) });
    };
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  }

  /** Calls back when the task had a chance to continue after the last answer. */
  afterTurn(call: () => void): void {
    this.#numbers += 1;
    this.#turns.set(this.#numbers, call);
    this.#child.send({ kind: "turn", run: this.#run, turn: this.#numbers });
  }

  /**
   * The attempt is over. A child whose task still runs is killed, unless the task only waits for an answer that never
   * comes, because its job is suspended. Resolves when nothing of the attempt runs any more.
   */
  async end({ isSuspended }: { readonly isSuspended: boolean }): Promise<void> {
    this.#starting.cancel();
    const isIdle = this.#hasEnded || isSuspended;
    this.#child.listener = null;
    if (!isIdle || this.#isDirty) return this.#child.kill();
    this.#child.send({ kind: "over", run: this.#run });
    this.#children.giveBack(this.#child);
  }

  #giveUpStart(): void {
    this.#isDirty = true;
    const { module } = this.#child.isolation;
    this.#fail(
      new IsolationError(
        `${module} was not imported within ${START_MS_MAX} ms. A module of isolated tasks must only define them.`,
      ),
    );
    void this.#child.kill();
  }

  #onExit(why: string): void {
    const { logger } = this.#children;
    const { id: job, task } = this.#parts.job;
    if (!this.#hasEnded) {
      const facts = { event: "task:crashed", job, task, child: this.#child.name };
      logger.warn(facts, `an isolated task ended its ${this.#child.isolation.in}`);
    }
    this.#isDirty = true;
    const error = new TaskCrashedError(why);
    for (const invoked of this.#invoked.values()) invoked.reject(error);
    this.#fail(error);
  }

  #fail(error: Error): void {
    this.#hasEnded = true;
    this.#starting.cancel();
    this.#end.reject(error);
  }

  #onMessage(message: FromChild): void {
    if (message.run !== this.#run) return;
    switch (message.kind) {
      case "started":
        this.#starting.cancel();
        return this.#parts.onStarted();
      case "calls":
        // Together, as the task made them: the order of concurrent steps counts.
        for (const call of message.calls) void this.#answer(call);
        return;
      case "invoked":
        return this.#onInvoked(message);
      case "say":
        return this.#say(message.method, message.args);
      case "turned":
        this.#turns.get(message.turn)?.();
        this.#turns.delete(message.turn);
        return;
      case "done":
        this.#hasEnded = true;
        this.resultProblem = message.problem;
        return this.#end.resolve(valueOf(message.result));
      case "failed":
        if (message.isUncaught === true) this.#isDirty = true;
        return this.#fail(receiveError(message.error));
    }
  }

  #onInvoked({ invoke, value = null, error }: FromChild & { kind: "invoked" }): void {
    const invoked = this.#invoked.get(invoke);
    this.#invoked.delete(invoke);
    if (error === undefined) invoked?.resolve(valueOf(value));
    else invoked?.reject(receiveError(error));
  }

  /** They never fail because of the database, and the child has checked them. */
  #say(method: "progress" | "log" | "report", args: readonly unknown[]): void {
    const [first, second, level] = args;
    const { ctx } = this.#parts;
    if (method === "progress") ctx.progress(first as Progress, second as string | undefined);
    else if (method === "report") ctx.report(first as string, second);
    else if (level === "warn" || level === "error") ctx.log[level](first as string, second);
    else ctx.log(first as string, second);
  }

  async #answer(call: ContextCall): Promise<void> {
    const thrown = new Set<unknown>();
    const answer = { kind: "answer", run: this.#run, call: call.call } as const;
    try {
      const value = await this.#do(call, thrown);
      this.#child.send({ ...answer, value });
    } catch (error) {
      const isTheirs = thrown.has(error);
      this.#child.send({ ...answer, error: sendError(error), isTheirs });
    }
  }

  /** What the functions of the task throw is added to `thrown`. */
  async #do({ method, args, functions }: ContextCall, thrown: Set<unknown>): Promise<unknown> {
    const { ctx } = this.#parts;
    const [first, second, third] = args;
    const name = first as string;
    const [main, other] = functions.map(
      (number) =>
        (arg: unknown = null): Promise<unknown> =>
          this.#invoke(number ?? 0, arg).catch((error: unknown) => {
            thrown.add(error);
            throw error;
          }),
    );
    const invoke = main as (arg?: unknown) => Promise<unknown>;
    switch (method) {
      case "step":
        return ctx.step(name, () => invoke());
      case "effect": {
        const verify =
          functions[1] === null || other === undefined
            ? {}
            : { verify: ({ key }: Effect) => other(key) };
        return ctx.effect(name, ({ key }) => invoke(key), { ...(second as object), ...verify });
      }
      case "commit":
        return ctx.commit(name, (tx) => this.#inTransaction(tx, invoke));
      case "sleep":
        return ctx.sleep(name, second as string);
      case "event":
        return ctx.event({ name, payload: null }, second as string, third as object);
      case "call": {
        const task = standIn(first as CalledTask, () => invoke());
        return ctx.call(task, decode(second as string), third as CallOptions);
      }
      case "results":
        return ctx.results(standIn({ name, queue: "", maxAttempts: 1 }, async () => null));
      case "dependencies":
        return this.#readDependencies(first as number);
      case "query": {
        const tx = this.#transactions.get(first as number);
        if (tx === undefined) throw new IsolationError("tx.query(): the transaction has ended.");
        return tx.query(second as string, third as unknown[]);
      }
    }
  }

  /** The next of the jobs that the job waited for. */
  async #readDependencies(reading: number): Promise<DependenciesRead> {
    const reader = this.#reading.get(reading) ?? this.#parts.ctx.dependencies();
    this.#reading.set(reading, reader);
    const values: DependencyView[] = [];
    while (values.length < DEPENDENCIES_AT_ONCE) {
      const next = await reader.next();
      if (next.done === true) {
        this.#reading.delete(reading);
        return { values, isOver: true };
      }
      values.push(next.value);
    }
    return { values, isOver: false };
  }

  async #inTransaction(
    tx: UserTransaction,
    invoke: (arg: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    this.#numbers += 1;
    const number = this.#numbers;
    this.#transactions.set(number, tx);
    try {
      return await invoke(number);
    } finally {
      this.#transactions.delete(number);
    }
  }

  #invoke(number: number, arg: unknown): Promise<unknown> {
    this.#numbers += 1;
    const invoke = this.#numbers;
    return new Promise((resolve, reject) => {
      this.#invoked.set(invoke, { resolve, reject });
      this.#child.send({ kind: "invoke", run: this.#run, invoke, function: number, arg });
    });
  }
}

interface CalledTask {
  readonly name: string;
  readonly queue: string;
  readonly maxAttempts: number;
}

/** The task that is called is defined in the child: its schema is asked there. */
function standIn({ name, queue, maxAttempts }: CalledTask, check: () => Promise<unknown>): Task {
  const validate = async (value: unknown): Promise<{ value: unknown }> => {
    await check();
    return { value };
  };
  return {
    name,
    queue,
    retry: { maxAttempts } as Task["retry"],
    timeoutMs: null,
    steps: "in order",
    input: { "~standard": { version: 1, vendor: "holdfast", validate } },
    run: () => {},
  };
}

function valueOf(text: string | null): unknown {
  return text === null ? undefined : decode(text);
}
