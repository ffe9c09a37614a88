/**
 * The worker: one turn after another settles what ended and claims what is next, in one transaction.
 *
 * It never writes SQL and decides nothing about a job's state: it reports outcomes, and the store moves the rows.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { checkKnown } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { ShuttingDown } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import type { Fence, Outcome } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { sleep, type Runtime } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import type { ClaimedJob, Hint, Settled, Store } from "../store/store.ts";
import { ABORT_GRACE_MS, type Attempt } from "./attempt.ts";
import { Attempts, TRUST_MARGIN } from "./attempts.ts";
import { Claimer, type Batch } from "./claimer.ts";
import type { WorkerEvents } from "./events.ts";
import { startKeeper, type KeeperHost } from "./keeper-host.ts";
import { leaseList } from "./keeper.ts";
import { Reporter, type Counters } from "./reporter.ts";
import type { WorkerSettings } from "./settings.ts";
import { pairUp, Settler, settlements, type Ended } from "./settler.ts";
import { guardProcess } from "./uncaught.ts";
import { Upkeep } from "./upkeep.ts";

const STOP_OPTIONS = new Set(["timeout"]);
/** Other processes' writes are looked at for cancel requests at most this often. */
const CANCEL_LOOK_MS = 200;
/** … and for jobs that will be due. */
const NEWS_MS = 100;
/** What an aborted task has to end by itself, and a moment more to be settled. */
const LAST_WAIT_MS = ABORT_GRACE_MS + 1_000;
const TRUST_CHECK_MS_MAX = 1_000;
/** Longer than this no job waits for its turn here. */
const BUFFER_MS_MAX = 1_000;

export interface WorkerParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
}

export interface WorkerStatus extends Counters {
  readonly id: string;
  readonly state: "running" | "stopping" | "stopped";
  readonly running: number;
  readonly buffered: number;
}

export class Worker implements AsyncDisposable {
  readonly id: string;
  readonly #parts: WorkerParts;
  readonly #reporter: Reporter;
  readonly #attempts: Attempts;
  readonly #claimer: Claimer;
  readonly #settler = new Settler();
  readonly #taskNames: readonly string[];
  #keeper!: KeeperHost;
  #loops: { turn: Loop; upkeep: Loop; watch: Loop; cancels: Loop } | null = null;
  #unguard: () => void = () => {};
  #unwatch: () => void = () => {};
  #state: WorkerStatus["state"] = "running";
  #stopped: Promise<void> | null = null;
  #onIdle: (() => void) | null = null;
  #newsAt = 0;
  readonly #stopping = new AbortController();
  /** Aborts when a stop shall not wait for its jobs any longer. */
  readonly #hurry = new AbortController();
  readonly #handingBack = new Set<Promise<void>>();

  private constructor(parts: WorkerParts) {
    const { runtime, logger, settings } = parts;
    // An attempt ends in its task's async context; what the worker does next is not the task's doing.
    const outside = AsyncLocalStorage.snapshot();
    this.#parts = parts;
    this.id = `${settings.name}-${makeIds(runtime)()}`;
    this.#taskNames = [...settings.tasks.keys()];
    this.#claimer = new Claimer({ concurrency: settings.concurrency, runtime });
    this.#reporter = new Reporter({ worker: this.id, runtime, logger });
    this.#attempts = new Attempts({
      runtime,
      reporter: this.#reporter,
      leaseMs: settings.leaseMs,
      onEnd: (attempt, outcome) => outside(() => this.#ended(attempt, outcome)),
    });
  }

  static async start(parts: WorkerParts): Promise<Worker> {
    const worker = new Worker(parts);
    await worker.#start();
    return worker;
  }

  on<Name extends keyof WorkerEvents>(
    name: Name,
    listener: (event: WorkerEvents[Name]) => void,
  ): () => void {
    return this.#reporter.events.on(name, listener);
  }

  status(): WorkerStatus {
    return {
      id: this.id,
      state: this.#state,
      running: this.#attempts.size,
      buffered: this.#claimer.buffered,
      ...this.#reporter.counters,
    };
  }

  /**
   * Stops claiming, waits for what runs, then aborts it and hands it back uncharged. Resolves when everything is
   * settled. A timeout of 0 aborts at once, also when the worker is stopping already.
   */
  async stop(options: { readonly timeout?: Duration } = {}): Promise<void> {
    checkKnown(options, STOP_OPTIONS);
    const timeoutMs = toMs("timeout", options.timeout ?? this.#parts.settings.shutdownMs);
    if (timeoutMs === 0) this.#hurry.abort();
    this.#stopped ??= this.#shutDown(timeoutMs);
    await this.#stopped;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  // ── Starting and stopping ──────────────────────────────────────────────────────────────────────────────────

  async #start(): Promise<void> {
    const { store, runtime, logger, settings } = this.#parts;
    const { leaseMs, extendAt, blockedMsMax, upkeepMs, graceMs, crashesMax, keepMs } = settings;
    const { queues } = settings;
    this.#keeper = await startKeeper({
      store,
      runtime,
      logger,
      settings: { worker: this.id, leaseMs, extendAt, blockedMsMax },
      report: (report) => {
        this.#claimer.hearKeeper(report);
        this.#attempts.hearKeeper(report);
        void this.#cancel(report.cancelled);
      },
      held: () =>
        leaseList([...this.#attempts.jobs(), ...this.#claimer.jobs(), ...this.#settler.jobs()]),
    });
    const upkeep = new Upkeep({
      store,
      runtime,
      settings: { everyMs: upkeepMs, graceMs, crashesMax, keepMs },
      onReclaimed: (job) => this.#reporter.recovered(job),
    });
    const loop = (name: string, once: () => Promise<number>): Loop =>
      new Loop({ name, runtime, logger, once });
    this.#unguard = guardProcess();
    // Before the first turn, and after whoever started the worker could begin to listen.
    runtime.afterIo(() => this.#reporter.worker("started", { queues, tasks: this.#taskNames }));
    this.#loops = {
      turn: loop("turn", () => this.#turn()),
      upkeep: loop("upkeep", () => upkeep.once()),
      watch: loop("watch", () => this.#watch()),
      cancels: loop("cancels", () => this.#lookForCancels()),
    };
    this.#unwatch = store.watch((hint) => this.#hearHint(hint));
  }

  async #shutDown(timeoutMs: number): Promise<void> {
    this.#state = "stopping";
    this.#reporter.worker("stopping", { running: this.#attempts.size });
    void this.#handBack(this.#claimer.stop()); // a locked database shall not delay the rest
    await this.#allEndedWithin(timeoutMs, this.#hurry.signal);
    this.#attempts.abortAll(new ShuttingDown());
    await this.#allEndedWithin(LAST_WAIT_MS);
    await this.#settleTheRest();
    this.#unwatch();
    this.#stopping.abort();
    const { upkeep, watch, cancels } = this.#loops ?? {};
    await Promise.all([upkeep?.stop(), watch?.stop(), cancels?.stop()]);
    await Promise.all(this.#handingBack);
    await this.#keeper.stop();
    this.#unguard();
    this.#state = "stopped";
    this.#reporter.worker("stopped", this.#reporter.counters);
  }

  /** Gives jobs back that were claimed and not started. */
  #handBack(jobs: readonly ClaimedJob[]): Promise<void> {
    if (jobs.length === 0) return Promise.resolve();
    const handing = this.#release(jobs).finally(() => this.#handingBack.delete(handing));
    this.#handingBack.add(handing);
    return handing;
  }

  async #release(jobs: readonly ClaimedJob[]): Promise<void> {
    try {
      const released = await this.#parts.store.release(jobs);
      this.#reporter.handedBack(released.length);
    } catch (error) {
      const words = "could not hand jobs back; their leases will run out";
      this.#parts.logger.warn({ err: error }, words);
    }
    this.#keeper.drop(leaseList(jobs));
  }

  /** Until nothing runs and nothing waits to be settled, or the time is over. */
  async #allEndedWithin(timeoutMs: number, hurry?: AbortSignal): Promise<void> {
    if (this.#isIdle() || timeoutMs <= 0) return;
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    const signal = hurry === undefined ? idle.signal : AbortSignal.any([idle.signal, hurry]);
    await sleep(this.#parts.runtime, timeoutMs, { signal });
    this.#onIdle = null;
  }

  /** The loop is stopped first: two turns at once would settle the same outcomes. */
  async #settleTheRest(): Promise<void> {
    await this.#loops?.turn.stop();
    try {
      while (this.#settler.waiting > 0) {
        const ended = this.#settler.take();
        this.#hearSettled(ended, await this.#parts.store.settle(settlements(ended)));
      }
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "could not settle; the leases will run out");
    }
  }

  #isIdle(): boolean {
    return this.#attempts.size + this.#settler.waiting === 0;
  }

  // ── Turns ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #turn(): Promise<number> {
    const { pollMs } = this.#parts.settings;
    this.#keeper.beat();
    const ended = this.#settler.take();
    const limit = this.#claimer.want(this.#attempts.size);
    if (limit === 0 && ended.length === 0) return pollMs;
    const sentAt = this.#parts.runtime.monotonic();
    const { settled, claimed } = await this.#settleAndClaim(ended, limit);
    this.#hearSettled(ended, settled);
    await this.#take({ jobs: claimed, sentAt });
    return claimed.length > 0 && claimed.length === limit ? 0 : pollMs;
  }

  async #settleAndClaim(
    ended: readonly Ended[],
    limit: number,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const { store, settings } = this.#parts;
    const { queues, leaseMs } = settings;
    const wanted = { worker: this.id, queues, tasks: this.#taskNames, limit, leaseMs };
    try {
      if (limit === 0) return { settled: await store.settle(settlements(ended)), claimed: [] };
      return await store.settleAndClaim(settlements(ended), wanted);
    } catch (error) {
      this.#settler.putBack(ended);
      throw error;
    }
  }

  async #take(batch: Batch): Promise<void> {
    if (batch.jobs.length === 0) return;
    this.#reporter.claimed(batch.jobs.length);
    // The claim was under way when the worker was told to stop.
    if (this.#state !== "running") return this.#handBack(batch.jobs);
    // Before the first of them starts: it may block this thread at once.
    this.#keeper.hold(leaseList(batch.jobs), batch.sentAt);
    this.#claimer.add(batch);
    this.#fillPlaces();
  }

  #fillPlaces(): void {
    while (this.#attempts.size < this.#parts.settings.concurrency && this.#claimer.buffered > 0) {
      const now = this.#parts.runtime.monotonic();
      // A job may have waited behind one that blocked the event loop: what the keeper said meanwhile counts first.
      if (!this.#attempts.isTrusted(this.#claimer.peek().sentAt, now)) this.#keeper.catchUp();
      const { job, sentAt, lost } = this.#claimer.take();
      if (lost || !this.#attempts.isTrusted(sentAt, now)) void this.#handBack([job]);
      else this.#startAttempt(job, sentAt, now);
    }
  }

  #startAttempt(job: ClaimedJob, sentAt: number, now: number): void {
    const { tasks, leaseMs } = this.#parts.settings;
    const task = tasks.get(job.task) as Task;
    if (task.timeoutMs !== null) this.#keeper.limit(job.id, now + task.timeoutMs + leaseMs);
    this.#attempts.start(job, task, sentAt);
  }

  #ended(attempt: Attempt, outcome: Outcome): void {
    this.#settler.add(attempt, outcome);
    this.#claimer.finished();
    this.#fillPlaces();
    this.#loops?.turn.wake();
  }

  #hearSettled(ended: readonly Ended[], settled: readonly Settled[]): void {
    if (ended.length === 0) return;
    this.#keeper.drop(leaseList(ended.map(({ attempt }) => attempt.job)));
    for (const { attempt, accepted } of pairUp(ended, settled)) {
      if (accepted !== null) this.#reporter.settled(attempt, accepted);
      else {
        this.#reporter.refused();
        this.#attempts.lose(attempt, "the database refused its outcome");
      }
    }
    if (this.#isIdle()) this.#onIdle?.();
  }

  // ── Watching ───────────────────────────────────────────────────────────────────────────────────────────────

  async #watch(): Promise<number> {
    this.#keeper.beat();
    // Renewals that arrived while the event loop was blocked count before anything is given up.
    this.#keeper.catchUp();
    this.#attempts.checkTrust();
    // Behind a slow job, others wait here while another worker may be idle.
    // Not awaited: while the database is locked, trust must still be checked.
    void this.#handBack(
      this.#claimer.giveUpOlderThan(this.#parts.runtime.monotonic() - BUFFER_MS_MAX),
    );
    return Math.min(TRUST_CHECK_MS_MAX, this.#parts.settings.leaseMs * (TRUST_MARGIN / 2));
  }

  #hearHint(hint: Hint): void {
    const { turn, cancels, upkeep } = this.#loops ?? {};
    if (hint.kind === "waiting" || this.#isNews(hint)) upkeep?.wake();
    if (hint.kind === "cancel" || hint.kind === "unknown") cancels?.wake();
    const ours = hint.kind === "pending" && this.#parts.settings.queues.includes(hint.queue);
    if (ours || hint.kind === "unknown") turn?.wake();
  }

  /** Another process wrote: it may have brought a job that is due soon. Not asked more than now and then. */
  #isNews(hint: Hint): boolean {
    const now = this.#parts.runtime.monotonic();
    if (hint.kind !== "unknown" || now - this.#newsAt < NEWS_MS) return false;
    this.#newsAt = now;
    return true;
  }

  /** One that has not started never will: handed back, it ends as cancelled. */
  async #cancel(fences: readonly Fence[]): Promise<void> {
    this.#attempts.cancel(fences);
    await this.#handBack(this.#claimer.giveUp(new Set(fences.map(({ id }) => id))));
  }

  async #lookForCancels(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    if (this.#attempts.size > 0) await this.#cancel(await store.cancelRequests(this.id));
    await sleep(runtime, CANCEL_LOOK_MS, { signal: this.#stopping.signal });
    return settings.pollMs;
  }
}
