/**
 * The worker that an application starts. It works in sessions, each registered under its own id.
 *
 * Usually there is one session. A worker that was evicted gives up its jobs and starts another session.
 */
import type { Duration } from "../core/duration.ts";
import { describeError } from "../core/error-record.ts";
import { IsolationError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { duration, optionsOf } from "../core/options.ts";
import { endBySignal, sleep, systemRuntime } from "../core/runtime.ts";
import { suggest } from "../core/text.ts";
import { Children } from "../isolation/children.ts";
import { isIsolated } from "../isolation/messages.ts";
import type { DesiredState } from "../registry/worker-record.ts";
import { declareSchedules } from "../schedules/schedules.ts";
import { checkListener, type Meter, type Pulse, type WorkerEvents } from "./events.ts";
import type { WorkerSettings } from "./options.ts";
import { type Counters, Reporter } from "./reporter.ts";
import { WorkerSession, type WorkerSessionParts } from "./session.ts";
import { guardProcess } from "./failure.ts";

const stopOptions = optionsOf<{ readonly timeout?: Duration }>()({ timeout: duration({}) });

/** The pause between two tries to register again. */
const AGAIN_MS = 1_000;

type WorkerParts = Omit<
  WorkerSessionParts,
  "reporter" | "children" | "onDesiredState" | "onEvicted"
> & {
  /** Aborts a start that is no longer wanted. */
  readonly signal?: AbortSignal;
};

/** The state of a worker of this process, and its counters. */
export interface WorkerStatus extends Counters {
  /** The id of its row in the database; new after an eviction. */
  readonly id: string;
  /** `stopping`: it claims no more jobs, and waits for those that run. */
  readonly state: "running" | "stopping" | "stopped";
  /** "run", unless an operator set another state. */
  readonly desiredState: DesiredState;
  /** The slot that it holds; null: workers of its name are not limited. */
  readonly slot: number | null;
  /** Counts the starts of workers of its name; with one slot, only the highest is active. */
  readonly instance: number;
  /** How many jobs run now. */
  readonly running: number;
  /** How many jobs it has claimed and not started. */
  readonly buffered: number;
}

/** The loops that run jobs in this process. Made by `holdfast.startWorker()`. */
export class Worker implements AsyncDisposable {
  readonly #parts: WorkerSessionParts;
  readonly #reporter: Reporter;
  readonly #unguard: () => void;
  /** Aborts when a stop must not wait for jobs any longer. */
  readonly #hurry = new AbortController();
  readonly #ending = new AbortController();
  #session: WorkerSession;
  #state: WorkerStatus["state"] = "running";
  #stopped: Promise<void> | null = null;
  #renewal: Promise<void> | null = null;

  /** @internal Applications call `holdfast.startWorker()`. */
  static async start(parts: WorkerParts): Promise<Worker> {
    const { runtime, logger, signal = new AbortController().signal } = parts;
    const { leaseMs } = parts.settings;
    checkMayStart();
    const reporter = new Reporter({ runtime, logger, leaseMs });
    const worker: { started: Worker | null } = { started: null };
    const sessionParts: WorkerSessionParts = {
      ...parts,
      reporter,
      // A test clock does not advance in another thread or process.
      children: runtime === systemRuntime ? new Children({ runtime, logger }) : null,
      onDesiredState: (desiredState) => worker.started?.applyDesiredState(desiredState),
      onEvicted: () => worker.started?.onEvicted(),
    };
    logUnusedQueues(parts.settings, logger);
    logUnservedTasks(parts.settings, logger);
    for (const workflow of parts.settings.workflows) await parts.workflows.declare(workflow);
    await declare(parts);
    const session = await WorkerSession.start(sessionParts, signal);
    worker.started = new Worker(sessionParts, session);
    return worker.started;
  }

  private constructor(parts: WorkerSessionParts, session: WorkerSession) {
    const { runtime, settings } = parts;
    this.#parts = parts;
    this.#reporter = parts.reporter;
    this.#session = session;
    this.#unguard = guardProcess();
    // Before the first poll cycle, and after the caller could add listeners.
    const { slot, instance } = session.registered;
    const { queues, version } = settings;
    const facts = { version, slot, instance, queues, tasks: [...settings.tasks.keys()] };
    runtime.afterIo(() => this.#reporter.worker("started", facts));
  }

  /** `<name>-<uuid>`, new at every start and after an eviction. */
  get id(): string {
    return this.#session.id;
  }

  /** The first part of its id. */
  get name(): string {
    return this.#parts.settings.name;
  }

  /** How many jobs it runs at once. */
  get concurrency(): number {
    return this.#parts.settings.concurrency;
  }

  /** Measures every claim and attempt from now on. Returns the function that ends it. */
  measure(meter: Meter): () => void {
    return this.#reporter.measure(meter);
  }

  /** How late its loops and heartbeats are; null: it has stopped, or is registering again. */
  pulse(): Pulse | null {
    if (this.#state === "stopped" || this.#renewal !== null) return null;
    return this.#session.pulse();
  }

  /** Calls the listener at each event of this name. Returns a function that removes it. */
  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => void,
  ): () => void {
    checkListener(name, listener);
    return this.#reporter.events.on(name, listener);
  }

  /** Its state and its counters now. */
  status(): WorkerStatus {
    const { id, desiredState, registered, running, buffered } = this.#session;
    const { slot, instance } = registered;
    return {
      id,
      state: this.#state,
      desiredState,
      slot,
      instance,
      running,
      buffered,
      ...this.#reporter.counters,
    };
  }

  /**
   * Stops claiming, waits for running jobs, then aborts and releases them; the attempt does not count. Resolves when
   * everything is settled. If the worker is already stopping, the shorter timeout counts.
   */
  async stop(
    options: {
      /** How long running jobs may take before they are aborted. Default: the worker's `shutdown`. */
      readonly timeout?: Duration;
    } = {},
  ): Promise<void> {
    const { timeoutMs = this.#parts.settings.shutdownMs } = stopOptions.read(options);
    await this.#stopWithin(timeoutMs);
  }

  /** The same as `stop()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #stopWithin(timeoutMs: number): Promise<void> {
    if (timeoutMs === 0) this.#hurry.abort();
    else if (this.#stopped !== null) this.#hurryAfter(timeoutMs);
    this.#stopped ??= this.#shutDown(timeoutMs);
    return this.#stopped;
  }

  #hurryAfter(timeoutMs: number): void {
    this.#parts.runtime.timer(timeoutMs, () => this.#hurry.abort(), "background");
  }

  async #shutDown(timeoutMs: number): Promise<void> {
    this.#state = "stopping";
    this.#ending.abort();
    this.#reporter.worker("stopping", { running: this.#session.running });
    await this.#renewal;
    await this.#session.stop({ timeoutMs, hurry: this.#hurry.signal, reason: "asked" });
    await this.#parts.children?.close();
    this.#unguard();
    this.#state = "stopped";
    this.#reporter.worker("stopped", this.#reporter.counters);
  }

  /** An operator wants the worker to end. Draining is stopping without a timeout. */
  private applyDesiredState(desiredState: "drain" | "stop"): void {
    if (desiredState === "stop") void this.#stopWithin(this.#parts.settings.shutdownMs);
    else this.#stopped ??= this.#shutDown(Number.MAX_SAFE_INTEGER);
  }

  private onEvicted(): void {
    if (this.#state !== "running" || this.#renewal !== null) return;
    this.#reporter.evicted();
    this.#renewal = this.#renew().finally(() => {
      this.#renewal = null;
    });
  }

  async #renew(): Promise<void> {
    const { logger, runtime } = this.#parts;
    const { signal } = this.#ending;
    await this.#session.abandon();
    let isLogged = false;
    while (!signal.aborted) {
      try {
        this.#session = await WorkerSession.start(this.#parts, signal);
        return;
      } catch (error) {
        const { message } = describeError(error);
        if (!isLogged && !signal.aborted)
          logger.warn({ err: error }, `could not register again; retrying: ${message}`);
        isLogged = true;
      }
      await sleep(runtime, AGAIN_MS, { signal });
    }
  }
}

/** A module that starts a worker when it is imported would start one in every thread or process of an isolated task. */
function checkMayStart(): void {
  if (!isIsolated()) return;
  throw new IsolationError(
    "A worker cannot be started in the thread or process of an isolated task. Importing the module of the task must not " +
      "start one: define isolated tasks in a module of their own.",
  );
}

/** Stores the schedules of its code. */
async function declare({ store, logger, settings }: WorkerParts): Promise<void> {
  const { name, schedules } = settings;
  if (schedules === null) return;
  const { taken, ...changes } = await declareSchedules(name, schedules, store.schedules);
  for (const [kind, names] of Object.entries(changes)) {
    for (const schedule of names) {
      logger.info({ event: `schedule:${kind}`, schedule }, `schedule '${schedule}' was ${kind}`);
    }
  }
  for (const { schedule, from } of taken) {
    const what = `schedule '${schedule}' is declared by workers named '${name}' and, differently, by workers named '${from}'`;
    const advice = "The last to start wins, so declare it once, or the same in both";
    logger.warn({ event: "schedule:taken", schedule, name, from }, `${what}. ${advice}.`);
  }
}

/** A queue that no task uses by default is a mistake, or gets jobs that name it. */
function logUnservedTasks({ queues, tasks }: WorkerSettings, logger: Logger): void {
  for (const [task, { queue }] of tasks) {
    if (queues.includes(queue)) continue;
    const what = `tasks: the jobs of '${task}' go to queue '${queue}', which this worker does not serve.`;
    const advice = `Add '${queue}' to its queues, unless another worker serves it`;
    logger.warn({ task, queue, queues }, `${what} ${advice}.`);
  }
}

function logUnusedQueues({ queues, tasks }: WorkerSettings, logger: Logger): void {
  const homes = [...new Set([...tasks.values()].map(({ queue }) => queue))];
  for (const queue of queues) {
    if (homes.includes(queue)) continue;
    const what = `queues: no task of this worker uses '${queue}' by default`;
    const meant = suggest(queue, homes);
    if (meant === null) logger.info({ queue }, `${what}; it gets jobs that name it.`);
    else logger.warn({ queue, meant }, `${what}. Did you mean ${meant}?`);
  }
}

// Handles SIGTERM and SIGINT: the first signal stops gracefully, the second ends the process.
//
// One listener serves all workers of the process with the option `signals`, while one of them runs. Without such a worker,
// the process handles signals as usual.

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Stops its workers and closes; the process ends after that. */
type Leave = () => Promise<void>;

/** How many workers of each are running. */
const leavers = new Map<Leave, number>();

let isLeaving = false;

/** Calls `leave` at the first signal, then ends the process. Returns the function that stops listening. */
export function leaveOnSignals(leave: Leave): () => void {
  if (leavers.size === 0) for (const signal of SIGNALS) process.on(signal, onSignal);
  leavers.set(leave, (leavers.get(leave) ?? 0) + 1);
  return () => {
    const left = (leavers.get(leave) ?? 0) - 1;
    if (left > 0) return void leavers.set(leave, left);
    leavers.delete(leave);
    if (leavers.size > 0 || isLeaving) return;
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}

function onSignal(signal: NodeJS.Signals): void {
  if (isLeaving) return endBySignal(signal);
  isLeaving = true;
  void leaveAll();
}

async function leaveAll(): Promise<void> {
  const left = await Promise.allSettled([...leavers.keys()].map((leave) => leave()));
  if (left.some(({ status }) => status === "rejected")) process.exitCode ??= 1;
  // oxlint-disable-next-line unicorn/no-process-exit -- a signal ends the process, whatever else still runs in it
  process.exit();
}
