/**
 * The worker: one turn after another settles what ended and claims what is next, in one transaction.
 *
 * It never writes SQL and decides nothing about a job's state: it reports outcomes, and the store moves the rows.
 */
import { Events } from "../core/events.ts";
import { JobCancelled, LeaseLost, ShuttingDown } from "../core/errors.ts";
import { traceId, type Fence, type Outcome } from "../core/job.ts";
import { makeIds } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { sleep, type Runtime } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import type { ClaimedJob, Hint, Settled, Store } from "../store/store.ts";
import { ABORT_GRACE_MS, Attempt } from "./attempt.ts";
import { Claimer } from "./claimer.ts";
import type { EndEvent, JobEvent, WorkerEvents } from "./events.ts";
import { startKeeper, type KeeperHost } from "./keeper-host.ts";
import type { Held, Report } from "./keeper.ts";
import type { WorkerSettings } from "./settings.ts";
import { pairUp, Settler, settlements, type Ended } from "./settler.ts";
import { guardProcess, runTraced } from "./uncaught.ts";
import { Upkeep } from "./upkeep.ts";

/** The share of a lease that is kept as a margin: trust ends before the lease does. */
const TRUST_MARGIN = 0.1;
/** Other processes' writes are looked at for cancel requests at most this often. */
const CANCEL_LOOK_MS = 200;

export interface WorkerParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
}

export interface WorkerStatus {
  readonly id: string;
  readonly state: "running" | "stopping" | "stopped";
  readonly running: number;
  readonly buffered: number;
  readonly claimed: number;
  readonly completed: number;
  readonly retried: number;
  readonly dead: number;
  readonly cancelled: number;
  readonly released: number;
  readonly recovered: number;
  readonly leasesLost: number;
  /** Outcomes the database refused because the job was somebody else's by then. */
  readonly staleWritesRefused: number;
}

type Counters = Omit<WorkerStatus, "id" | "state" | "running" | "buffered">;

export class Worker implements AsyncDisposable {
  readonly id: string;
  readonly #parts: WorkerParts;
  readonly #events: Events<WorkerEvents>;
  readonly #running = new Map<string, Attempt>();
  readonly #claimer: Claimer;
  readonly #settler = new Settler();
  readonly #taskNames: readonly string[];
  readonly #counters: { -readonly [name in keyof Counters]: number } = {
    claimed: 0,
    completed: 0,
    retried: 0,
    dead: 0,
    cancelled: 0,
    released: 0,
    recovered: 0,
    leasesLost: 0,
    staleWritesRefused: 0,
  };
  #keeper!: KeeperHost;
  #loops: { turn: Loop; upkeep: Loop; watch: Loop; cancels: Loop } | null = null;
  #unguard: () => void = () => {};
  #unwatch: () => void = () => {};
  #state: WorkerStatus["state"] = "running";
  #stopped: Promise<void> | null = null;
  #onIdle: (() => void) | null = null;

  private constructor(parts: WorkerParts) {
    const { runtime, logger, settings } = parts;
    this.#parts = parts;
    this.id = `${settings.name}-${makeIds(runtime)()}`;
    this.#taskNames = [...settings.tasks.keys()];
    this.#claimer = new Claimer({ concurrency: settings.concurrency, runtime });
    this.#events = new Events((error, name) =>
      logger.error({ err: error, event: name }, `a listener of '${name}' threw`),
    );
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
    return this.#events.on(name, listener);
  }

  status(): WorkerStatus {
    return {
      id: this.id,
      state: this.#state,
      running: this.#running.size,
      buffered: this.#claimer.buffered,
      ...this.#counters,
    };
  }

  /**
   * Stops claiming, waits for what runs, then aborts it and hands it back uncharged. Resolves when everything is
   * settled. `timeout` 0 aborts at once.
   */
  stop(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#stopped ??= this.#shutDown(options.timeoutMs ?? this.#parts.settings.shutdownMs);
    return this.#stopped;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  // ── Starting and stopping ──────────────────────────────────────────────────────────────────────────────────

  async #start(): Promise<void> {
    const { store, runtime, logger, settings } = this.#parts;
    const { leaseMs, extendAt, blockedMsMax, upkeepMs, graceMs, crashesMax, keepMs } = settings;
    this.#keeper = await startKeeper({
      store,
      runtime,
      logger,
      settings: { leaseMs, extendAt, blockedMsMax },
      report: (report) => this.#hearKeeper(report),
      held: () => [...this.#running.values()].map((attempt) => this.#heldBy(attempt)),
    });
    const upkeep = new Upkeep({
      store,
      runtime,
      settings: { everyMs: upkeepMs, graceMs, crashesMax, keepMs },
      onReclaimed: (job) => this.#recovered(job),
    });
    const loop = (name: string, once: () => Promise<number>): Loop =>
      new Loop({ name, runtime, logger, once });
    this.#unguard = guardProcess();
    this.#loops = {
      turn: loop("turn", () => this.#turn()),
      upkeep: loop("upkeep", () => upkeep.once()),
      watch: loop("watch", () => this.#watch()),
      cancels: loop("cancels", () => this.#lookForCancels()),
    };
    this.#unwatch = store.watch((hint) => this.#hearHint(hint));
    logger.info({ worker: this.id, queues: settings.queues }, "worker started");
    this.#events.emit("worker:started", () => ({ worker: this.id }));
  }

  async #shutDown(timeoutMs: number): Promise<void> {
    const { logger } = this.#parts;
    this.#state = "stopping";
    logger.info({ worker: this.id, running: this.#running.size }, "worker stopping");
    this.#events.emit("worker:stopping", () => ({ worker: this.id }));
    await this.#handBackBuffered();
    await this.#allEndedWithin(timeoutMs);
    for (const attempt of this.#running.values()) attempt.abort(new ShuttingDown());
    await this.#allEndedWithin(ABORT_GRACE_MS + 1_000);
    await this.#settleTheRest();
    this.#unwatch();
    const { upkeep, watch, cancels } = this.#loops ?? {};
    await Promise.all([upkeep?.stop(), watch?.stop(), cancels?.stop()]);
    await this.#keeper.stop();
    this.#unguard();
    this.#state = "stopped";
    logger.info({ worker: this.id, ...this.#counters }, "worker stopped");
    this.#events.emit("worker:stopped", () => ({ worker: this.id }));
  }

  async #handBackBuffered(): Promise<void> {
    const left = this.#claimer.stop();
    if (left.length === 0) return;
    this.#counters.released += left.length;
    await this.#parts.store.release(left).catch((error: unknown) => {
      this.#parts.logger.warn(
        { err: error },
        "could not hand jobs back; their leases will run out",
      );
    });
    this.#keeper.drop(left);
  }

  /** Until nothing runs and nothing waits to be settled, or the time is over. */
  async #allEndedWithin(timeoutMs: number): Promise<void> {
    if (this.#running.size + this.#settler.waiting === 0 || timeoutMs <= 0) return;
    const abort = new AbortController();
    this.#onIdle = () => abort.abort();
    await sleep(this.#parts.runtime, timeoutMs, { signal: abort.signal });
    this.#onIdle = null;
  }

  /** The loop is stopped first: two turns at once would settle in any order. */
  async #settleTheRest(): Promise<void> {
    await this.#loops?.turn.stop();
    try {
      while (this.#settler.waiting > 0) await this.#settleOnce(this.#settler.take());
    } catch (error) {
      this.#parts.logger.warn({ err: error }, "could not settle; the leases will run out");
    }
  }

  async #settleOnce(ended: Ended[]): Promise<void> {
    this.#hearSettled(ended, await this.#parts.store.settle(settlements(ended)));
  }

  // ── Turns ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #turn(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    this.#keeper.beat();
    const ended = this.#settler.take();
    const limit = this.#claimer.want(this.#running.size);
    if (limit === 0 && ended.length === 0) return settings.pollMs;
    const sentAt = runtime.monotonic();
    const { queues, leaseMs } = settings;
    const wanted = { worker: this.id, queues, tasks: this.#taskNames, limit, leaseMs };
    try {
      const { settled, claimed } =
        limit === 0
          ? { settled: await store.settle(settlements(ended)), claimed: [] }
          : await store.settleAndClaim(settlements(ended), wanted);
      this.#hearSettled(ended, settled);
      this.#take(claimed, sentAt);
      return claimed.length > 0 && claimed.length === limit ? 0 : settings.pollMs;
    } catch (error) {
      this.#settler.putBack(ended);
      throw error;
    }
  }

  #take(claimed: readonly ClaimedJob[], sentAt: number): void {
    if (claimed.length === 0) return;
    this.#counters.claimed += claimed.length;
    // Before the first of them starts: it may block this thread at once.
    this.#keeper.hold(
      claimed.map(({ id, worker, epoch }) => ({ id, worker, epoch, sentAt, stopAt: null })),
    );
    this.#claimer.add(claimed);
    this.#fillPlaces(sentAt);
  }

  #fillPlaces(sentAt: number): void {
    while (this.#running.size < this.#parts.settings.concurrency) {
      const job = this.#claimer.take();
      if (job === null) return;
      this.#startAttempt(job, sentAt);
    }
  }

  #startAttempt(job: ClaimedJob, sentAt: number): void {
    const { runtime, settings } = this.#parts;
    const task = settings.tasks.get(job.task) as Task;
    const attempt = new Attempt({
      job,
      task,
      trustedUntil: this.#trustFrom(sentAt),
      runtime,
      onEnd: (ended, outcome) => this.#ended(ended, outcome),
    });
    this.#running.set(job.id, attempt);
    if (task.timeoutMs !== null) {
      this.#keeper.limit(job.id, sentAt + task.timeoutMs + settings.leaseMs);
    }
    this.#events.emit("job:started", () => jobEvent(job));
    runTraced(attempt);
  }

  #ended(attempt: Attempt, outcome: Outcome): void {
    this.#settler.add(attempt, outcome);
    this.#claimer.finished();
    if (this.#running.get(attempt.job.id) === attempt) this.#running.delete(attempt.job.id);
    this.#fillPlaces(attempt.trustedUntil - this.#trustFrom(0));
    this.#loops?.turn.wake();
  }

  #hearSettled(ended: readonly Ended[], settled: readonly Settled[]): void {
    if (ended.length === 0) return;
    this.#keeper.drop(ended.map(({ attempt }) => attempt.job));
    for (const pair of pairUp(ended, settled)) {
      const { attempt } = pair.ended;
      if (pair.settled !== null) this.#tell(attempt, pair.settled);
      else {
        this.#counters.staleWritesRefused += 1;
        this.#lose(attempt, "the database refused its outcome");
      }
    }
    if (this.#running.size + this.#settler.waiting === 0) this.#onIdle?.();
  }

  // ── Ownership ──────────────────────────────────────────────────────────────────────────────────────────────

  #trustFrom(sentAt: number): number {
    return sentAt + this.#parts.settings.leaseMs * (1 - TRUST_MARGIN);
  }

  /** A renewal that did not arrive is unknown, not lost: trust lasts until its end on our own clock. */
  async #watch(): Promise<number> {
    this.#keeper.beat();
    this.#keeper.catchUp();
    const now = this.#parts.runtime.monotonic();
    for (const attempt of this.#running.values()) {
      if (now >= attempt.trustedUntil)
        this.#lose(attempt, "its lease could not be renewed in time");
    }
    return Math.min(1_000, this.#parts.settings.leaseMs * (TRUST_MARGIN / 2));
  }

  #hearKeeper({ renewed, lost, cancelled }: Report): void {
    for (const { id, epoch, sentAt } of renewed) {
      const attempt = this.#attemptOf({ id, epoch });
      if (attempt !== null) attempt.trustedUntil = this.#trustFrom(sentAt);
    }
    for (const fence of lost) {
      const attempt = this.#attemptOf(fence);
      if (attempt !== null) this.#lose(attempt, "another worker owns the job");
    }
    this.#cancel(cancelled);
  }

  #attemptOf({ id, epoch }: { id: string; epoch: number }): Attempt | null {
    const attempt = this.#running.get(id);
    return attempt?.job.epoch === epoch ? attempt : null;
  }

  /** Said once for every attempt, however many of its writes are refused afterwards. */
  #lose(attempt: Attempt, why: string): void {
    if (attempt.lost) return;
    attempt.lost = true;
    this.#counters.leasesLost += 1;
    this.#parts.logger.warn(
      { job: attempt.job.id, worker: this.id, traceId: traceId(attempt.job), why },
      "job ownership lost",
    );
    this.#events.emit("lease:lost", () => ({ ...jobEvent(attempt.job), why }));
    attempt.abort(new LeaseLost(attempt.fence));
  }

  #heldBy(attempt: Attempt): Held {
    const sentAt = attempt.trustedUntil - this.#trustFrom(0);
    return { ...attempt.fence, sentAt, stopAt: null };
  }

  // ── Hints and cancelling ───────────────────────────────────────────────────────────────────────────────────

  #hearHint(hint: Hint): void {
    if (hint.kind === "unknown") {
      this.#loops?.turn.wake();
      this.#loops?.cancels.wake();
    }
    if (hint.kind === "cancel") this.#loops?.cancels.wake();
    if (hint.kind === "pending" && this.#parts.settings.queues.includes(hint.queue)) {
      this.#loops?.turn.wake();
    }
  }

  async #lookForCancels(): Promise<number> {
    if (this.#running.size > 0) this.#cancel(await this.#parts.store.cancelRequests(this.id));
    await sleep(this.#parts.runtime, CANCEL_LOOK_MS, { kind: "background" });
    return this.#parts.settings.pollMs;
  }

  #cancel(fences: readonly Fence[]): void {
    for (const fence of fences) {
      this.#attemptOf(fence)?.abort(new JobCancelled({ id: fence.id }));
    }
  }

  // ── Telling ────────────────────────────────────────────────────────────────────────────────────────────────

  #tell(attempt: Attempt, settled: Settled): void {
    const { error } = attempt;
    const event = (): EndEvent => this.#endEvent(attempt);
    switch (settled.status) {
      case "done":
        this.#counters.completed += 1;
        return this.#events.emit("job:completed", event);
      case "retry":
        this.#counters.retried += 1;
        this.#events.emit("job:failed", () => ({ ...event(), error }));
        return this.#events.emit("job:retrying", () => ({
          ...event(),
          error,
          retryAt: settled.dueAt,
        }));
      case "failed":
        this.#counters.dead += 1;
        this.#parts.logger.warn(
          { job: settled.id, task: settled.task, err: error },
          "job failed for good",
        );
        this.#events.emit("job:failed", () => ({ ...event(), error }));
        return this.#events.emit("job:dead", () => ({ ...event(), error }));
      case "cancelled":
        this.#counters.cancelled += 1;
        return this.#events.emit("job:cancelled", event);
      default:
        this.#counters.released += 1;
        return this.#events.emit("job:released", event);
    }
  }

  #recovered({ id, task, queue, worker, epoch, status }: Settled): void {
    this.#counters.recovered += 1;
    this.#parts.logger.warn({ job: id, worker, epoch, status }, "lease ran out; job taken back");
    this.#events.emit("lease:recovered", () => ({ id, task, queue, worker, epoch, status }));
  }

  #endEvent(attempt: Attempt): EndEvent {
    const durationMs = this.#parts.runtime.monotonic() - attempt.startedAt;
    return { ...jobEvent(attempt.job), durationMs };
  }
}

function jobEvent(job: ClaimedJob): JobEvent {
  const { id, task, queue, worker, epoch, attempt } = job;
  return { id, task, queue, worker, epoch, attempt, traceId: traceId(job) };
}
