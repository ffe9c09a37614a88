/**
 * The poll cycle: settles ended attempts, claims the next jobs and starts them. A cycle is one transaction.
 *
 * It owns everything a worker holds: running jobs, claimed jobs that have not started, and outcomes to settle.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { HoldfastError } from "../core/errors.ts";
import type { Fence, Outcome } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import type { Context, Task } from "../core/task.ts";
import type { Children } from "../isolation/children.ts";
import type { ClaimedJob, CycleResult, Settled, Wanted } from "../jobs/store.ts";
import { NotCommittedError } from "../steps/errors.ts";
import type { TracesStore } from "../tracing/tracing.ts";
import {
  type Ended,
  neverStarted,
  outageReports,
  pairUp,
  partition,
  type Partition,
  type Reporter,
  settlements,
  withTraces,
} from "./reporter.ts";
import type { Attempt, AttemptStore } from "./attempt.ts";
import { Attempts, longestMs } from "./attempts.ts";
import {
  type Batch,
  BATCH_MAX,
  type Buffered,
  Claimer,
  QueueLimits,
  type Share,
  type Want,
} from "./claimer.ts";
import type { LeaseRenewerHost } from "./lease-renewer-host.ts";
import { leaseList, type LeaseList, type Report } from "./lease-renewer.ts";
import type { WorkerSettings } from "./options.ts";
import { Suspects } from "./suspects.ts";

/** How long a claimed job may wait for its start. */
const BUFFER_MS_MAX = 1_000;

const NOTHING: Want = { limit: 0, ahead: 0 };

/** Heartbeats look for jobs too; after this many intervals without one, the worker polls. */
const LATE_HEARTBEATS = 1.5;

interface PollCycleParts {
  readonly worker: string;
  /** It may claim jobs only while it is registered. */
  readonly guarded: boolean;
  readonly store: AttemptStore & { readonly traces: TracesStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  readonly client: Context["holdfast"];
  readonly children: Children | null;
  readonly reporter: Reporter;
  readonly renewer: LeaseRenewerHost;
  /** Starts the next cycle at once, because an attempt ended. */
  readonly wake: () => void;
  /** Starts overlapping cycles, because one cycle cannot carry all the work. */
  readonly wakeOverlapping: () => void;
}

export class PollCycle {
  readonly #parts: PollCycleParts;
  readonly #attempts: Attempts;
  readonly #claimer: Claimer;
  /** Null: one limit for all queues together. */
  readonly #limits: QueueLimits | null;
  /** Jobs that may have ended their last worker. */
  readonly #suspects: Suspects;
  /** Outcomes to settle. If a write fails, they stay; the fence decides later whether the jobs are still ours. */
  #unsettled: Ended[] = [];
  readonly #taskNames: readonly string[];
  readonly #handingBack = new Set<Promise<void>>();
  /** Cycles in progress, and the number of jobs they want. */
  #underWay = 0;
  #asked = 0;
  /** The last claim returned fewer jobs than it wanted. */
  ranShort = false;
  /** There may be pending jobs that no claim has looked for. */
  #isNews = true;
  /** When to poll without a notification, on the monotonic clock. */
  #lookAt = 0;
  #stopped = false;
  #paused = false;
  /** An attempt ends in its task's async context; the worker must not continue in it. */
  readonly #outside = AsyncLocalStorage.snapshot();
  #goesOn = false;
  #onIdle: (() => void) | null = null;
  #onRest: (() => void) | null = null;

  constructor(parts: PollCycleParts) {
    const { runtime, settings } = parts;
    const { concurrency, leaseMs, hooks } = settings;
    this.#parts = parts;
    this.#taskNames = [...settings.tasks.keys()];
    const { queueLimits } = settings;
    this.#limits = queueLimits === null ? null : new QueueLimits(queueLimits);
    this.#claimer = new Claimer({ concurrency, runtime, isLimited: queueLimits !== null });
    this.#suspects = new Suspects({ ...parts, onOver: () => this.#goOn() });
    const onEnd = (attempt: Attempt, outcome: Outcome): void => this.#ended(attempt, outcome);
    this.#attempts = new Attempts({ ...parts, leaseMs, hooks, onEnd });
  }

  get running(): number {
    return this.#attempts.size;
  }

  get buffered(): number {
    return this.#claimer.buffered + this.#suspects.waiting;
  }

  async once(): Promise<number> {
    const { renewer, runtime } = this.#parts;
    renewer.progress();
    const restMs = this.#lookAt - runtime.monotonic();
    if (!this.#isNews && this.#unsettled.length === 0 && restMs > 0) return restMs;
    return this.#cycle(this.#want());
  }

  /** Handles the result of a query for pending jobs. */
  onPending(pending: boolean): void {
    const { runtime, settings, wake } = this.#parts;
    if (pending) {
      this.#isNews = true;
      wake();
    } else if (settings.heartbeatMs <= settings.pollMs) {
      this.#lookAt = runtime.monotonic() + LATE_HEARTBEATS * settings.heartbeatMs;
    }
  }

  /**
   * A cycle that overlaps another, where the store benefits: while one waits for the disk, the other computes. Without
   * another in progress it would only split the work of one cycle.
   */
  async overlap(): Promise<number> {
    if (this.#underWay === 0) return this.#parts.settings.pollMs;
    return this.#cycle(this.ranShort ? NOTHING : this.#want());
  }

  #want(): Want {
    if (this.#paused || this.#suspects.isQuiet) return NOTHING;
    const want = this.#claimer.want(this.#attempts.size + this.#asked);
    if (!this.#suspects.isCautious) return want;
    return { limit: Math.min(1, want.limit), ahead: 0 };
  }

  async #cycle(want: Want): Promise<number> {
    const { runtime, settings } = this.#parts;
    const { limit } = want;
    const ended = this.#takeUnsettled();
    if (limit === 0 && ended.length === 0) return settings.pollMs;
    const sentAt = runtime.monotonic();
    if (limit > 0) this.#isNews = false;
    const cycle = await this.#settleAndClaim(ended, want);
    const { settled, claimed, isFull, lookInMs = null } = cycle;
    const tookMs = runtime.monotonic() - sentAt;
    this.#claimer.took(tookMs);
    if (limit > 0) this.#parts.reporter.answered(tookMs);
    this.onSettled(ended, settled);
    if (limit > 0) this.ranShort = claimed.length < limit && lookInMs !== 0;
    await this.#take({ jobs: await withTraces(claimed, this.#parts), sentAt });
    this.#runSuspect();
    if (isFull) this.#isNews = true;
    if (claimed.length > 0 && claimed.length === limit) return 0;
    // Queues with limits may have more at once, or when a rate allows the next start.
    const restMs = Math.min(settings.pollMs, lookInMs ?? settings.pollMs);
    if (limit > 0) this.#lookAt = runtime.monotonic() + restMs;
    return restMs;
  }

  /** Gives up attempts with untrusted leases, and releases jobs that wait here too long. */
  watch(): void {
    const { renewer, runtime } = this.#parts;
    renewer.progress();
    // Renewals that arrived while the event loop was blocked count before anything is given up.
    renewer.catchUp();
    this.#attempts.checkTrust();
    // Jobs wait here behind a slow one while another worker may be idle.
    void this.#handBack(this.#claimer.giveUpOlderThan(runtime.monotonic() - BUFFER_MS_MAX));
    this.#giveUpSuspects();
  }

  #giveUpSuspects(): void {
    const { settings, wake } = this.#parts;
    if (this.#suspects.waiting === 0) return;
    const slots = settings.concurrency - this.#attempts.size;
    const { beside, putOff } = this.#suspects.giveUpWaiting(slots);
    for (const next of beside) this.#startIfOurs(next);
    void this.#handBack(putOff, (jobs) => this.#suspects.putOff(jobs));
    if (this.#suspects.waiting === 0) wake(); // it may claim again
    else this.#runSuspect();
  }

  onRenewerReport(report: Report): void {
    this.#claimer.onRenewerReport(report);
    this.#suspects.onRenewerReport(report);
    this.#attempts.onRenewerReport(report);
    this.cancel(report.cancelled);
  }

  /** Every lease that this worker holds. */
  held(): LeaseList {
    const ended = this.#unsettled.map(({ attempt }) => attempt).filter((one) => !one.completed);
    const unsettled = ended.map(({ job }) => job);
    return leaseList([...this.#attempts.jobs(), ...this.#unstarted(), ...unsettled]);
  }

  /** A job that has not started is released, and then ends as cancelled. */
  cancel(fences: readonly Fence[]): void {
    this.#attempts.cancel(fences);
    const ids = new Set(fences.map(({ id }) => id));
    void this.#handBack([...this.#claimer.giveUp(ids), ...this.#suspects.giveUp(ids)]);
  }

  /** Claims no jobs until it is resumed, and releases those that have not started. */
  pause(): void {
    this.#paused = true;
    void this.#handBack([...this.#claimer.giveUpAll(), ...this.#suspects.giveUpAll()]);
  }

  resume(): void {
    this.#paused = false;
    this.onPending(true);
  }

  stopClaiming(): void {
    this.#stopped = true;
    void this.#handBack([...this.#claimer.stop(), ...this.#suspects.giveUpAll()]);
  }

  abortAll(reason: HoldfastError): void {
    this.#attempts.abortAll(reason);
  }

  /** Waits until nothing runs and all is settled, or until the timeout or `hurry`. */
  async idleWithin(timeoutMs: number, hurry: AbortSignal): Promise<void> {
    if (this.#isIdle() || timeoutMs <= 0) return;
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    const signal = AbortSignal.any([idle.signal, hurry]);
    await sleep(this.#parts.runtime, timeoutMs, { signal });
    this.#onIdle = null;
  }

  /** Waits until nothing runs; outcomes may be unsettled. */
  async restWithin(timeoutMs: number): Promise<void> {
    if (this.#attempts.size === 0) return;
    const rest = new AbortController();
    this.#onRest = () => rest.abort();
    await sleep(this.#parts.runtime, timeoutMs, { signal: rest.signal });
    this.#onRest = null;
  }

  /** Settles the rest. Call when no cycle is in progress: two at once would settle the same outcomes. */
  async settleTheRest(): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      while (this.#unsettled.length > 0) {
        const ended = this.#takeUnsettled();
        const { plain, ...others } = partition(ended);
        const lookedUp = await this.#settleOthers(others);
        this.onSettled(ended, [...lookedUp, ...(await store.jobs.settle(settlements(plain)))]);
      }
    } catch (error) {
      logger.warn({ err: error }, "could not settle; the leases will expire");
    }
    await Promise.all(this.#handingBack);
  }

  #isIdle(): boolean {
    return this.#attempts.size + this.#unsettled.length === 0;
  }

  #takeUnsettled(): Ended[] {
    return this.#unsettled.splice(0, BATCH_MAX);
  }

  async #settleAndClaim(
    ended: readonly Ended[],
    { limit, ahead }: Want,
  ): Promise<CycleResult & { readonly isFull: boolean }> {
    const { store } = this.#parts;
    const shares = limit === 0 ? [] : this.#shares(limit);
    const answered = this.#limits?.ask(shares);
    this.#underWay += 1;
    this.#asked += limit;
    if (limit === BATCH_MAX) this.#parts.wakeOverlapping(); // this worker can do more than one cycle carries
    try {
      const { plain, ...others } = partition(ended);
      const lookedUp = await this.#settleOthers(others);
      const [first, ...rest] = shares;
      const cycle =
        first === undefined
          ? { settled: await store.jobs.settle(settlements(plain)), claimed: [], governed: [] }
          : await store.jobs.settleAndClaim(settlements(plain), {
              ...this.#wanted(first),
              ahead,
            });
      const { settled, claimed } = cycle;
      const isFull = first !== undefined && claimed.length === first.limit;
      const more = rest.length === 0 ? null : await this.#claimRest(rest, limit - claimed.length);
      return {
        ...cycle,
        settled: lookedUp.length === 0 ? settled : [...lookedUp, ...settled],
        claimed: more === null ? claimed : [...claimed, ...more.claimed],
        isFull: isFull || more?.isFull === true,
      };
    } catch (error) {
      this.#unsettled = [...ended, ...this.#unsettled];
      this.#isNews = true;
      throw error;
    } finally {
      this.#underWay -= 1;
      this.#asked -= limit;
      answered?.();
    }
  }

  #shares(limit: number): readonly Share[] {
    const { queues } = this.#parts.settings;
    if (this.#limits === null) return [{ queues, limit }];
    return this.#limits.shares(limit, [...this.#attempts.all(), ...this.#unstarted()]);
  }

  /** Jobs that were claimed and not started. */
  #unstarted(): ClaimedJob[] {
    return [...this.#claimer.jobs(), ...this.#suspects.jobs()];
  }

  #wanted({ queues, limit }: Share): Wanted {
    const { worker, guarded, settings } = this.#parts;
    const { leaseMs } = settings;
    return { worker, queues, tasks: this.#taskNames, limit, leaseMs, guarded };
  }

  /** The claims after the first. If one fails, the jobs of those before it are ours all the same. */
  async #claimRest(
    shares: readonly Share[],
    most: number,
  ): Promise<{ claimed: ClaimedJob[]; isFull: boolean }> {
    const { store, logger } = this.#parts;
    const claimed: ClaimedJob[] = [];
    let isFull = false;
    try {
      for (const share of shares) {
        const limit = Math.min(share.limit, most - claimed.length);
        if (limit === 0) return { claimed, isFull: true };
        const next = await store.jobs.claim(this.#wanted({ ...share, limit }));
        if (next.length === limit) isFull = true;
        claimed.push(...next);
      }
    } catch (error) {
      logger.debug({ err: error }, "could not claim from every queue");
      isFull = true; // there may be jobs that no claim has looked for
    }
    return { claimed, isFull };
  }

  /** An attempt that completed its job in a transaction of the user's is done, if that was committed. */
  async #settleOthers({ completed, outages }: Omit<Partition, "plain">): Promise<Settled[]> {
    const { jobs } = this.#parts.store;
    const done = completed.length === 0 ? [] : await jobs.settleCompleted(settlements(completed));
    const reported = outages.length === 0 ? [] : await jobs.settleOutages(outageReports(outages));
    return [...done, ...reported];
  }

  async #take(batch: Batch): Promise<void> {
    if (batch.jobs.length === 0) return;
    this.#parts.reporter.claimed(batch.jobs.length);
    // The worker was stopped or paused during the claim.
    if (this.#stopped || this.#paused) return this.#handBack(batch.jobs);
    // Before the first job starts: it may block this thread at once.
    this.#parts.renewer.hold(leaseList(batch.jobs), batch.sentAt);
    const { others, surplus } = this.#suspects.sift(batch);
    this.#claimer.add({ ...batch, jobs: others });
    this.fillSlots();
    await this.#handBack(surplus);
  }

  fillSlots(): void {
    const { settings } = this.#parts;
    const hasRoom = (): boolean =>
      this.#attempts.size < settings.concurrency && !this.#suspects.isAlone;
    while (hasRoom() && this.#claimer.buffered > 0) this.#startIfOurs(this.#claimer.take());
  }

  /** A suspect starts when this worker holds no other lease: outcomes that are not settled would be lost with it. */
  #runSuspect(): void {
    if (this.#suspects.waiting === 0) return;
    const running = this.#attempts.size + this.#claimer.buffered;
    const writing = this.#unsettled.length + this.#underWay + this.#handingBack.size;
    if (running + writing === 0) this.#startIfOurs(this.#suspects.takeAlone());
  }

  #startIfOurs(next: Buffered): void {
    const { renewer, runtime } = this.#parts;
    const now = runtime.monotonic();
    // The job may have waited behind one that blocked the event loop: reports of the lease renewer count first.
    if (!this.#attempts.isTrusted(next.sentAt, now)) renewer.catchUp();
    if (!next.lost && this.#attempts.isTrusted(next.sentAt, now))
      return this.#startAttempt(next, now);
    this.#suspects.ended(next.job);
    void this.#handBack([next.job]);
  }

  #startAttempt({ job, sentAt, claimedAt }: Buffered, now: number): void {
    const { renewer, settings } = this.#parts;
    const task = settings.tasks.get(job.task) as Task;
    if (task.timeoutMs !== null) renewer.limit(job.id, now + longestMs(task, settings.leaseMs));
    this.#attempts.start(job, task, { sentAt, heldMs: now - claimedAt });
  }

  #ended(attempt: Attempt, outcome: Outcome): void {
    this.#unsettled.push({ attempt, outcome });
    this.#suspects.ended(attempt.job);
    if (this.#attempts.size === 0) this.#onRest?.();
    this.#claimer.finished();
    if (this.#goesOn) return;
    this.#goesOn = true;
    queueMicrotask(() => this.#outside(() => this.#goOn()));
  }

  /** Once for all attempts that end in the same moment. */
  #goOn(): void {
    this.#goesOn = false;
    this.fillSlots();
    this.#parts.wake();
  }

  onSettled(ended: readonly Ended[], settled: readonly Settled[]): void {
    const { renewer, reporter } = this.#parts;
    if (ended.length === 0) return;
    renewer.drop(leaseList(ended.map(({ attempt }) => attempt.job)));
    for (const { attempt, outcome, accepted } of pairUp(ended, settled)) {
      if (accepted === null && this.#isOverlooked(attempt)) {
        this.#report(attempt, outcome);
      } else if (accepted !== null) {
        // The function threw after the commit: the job is done, but the error is logged.
        const isLate = attempt.completed && accepted.status === "done";
        if (isLate && !(attempt.error instanceof NotCommittedError))
          reporter.stray(attempt, attempt.error);
        reporter.settled(attempt, accepted);
      } else {
        reporter.refused(attempt);
        this.#attempts.lose(attempt, "the database refused its outcome");
      }
    }
    if (this.#isIdle()) this.#onIdle?.();
  }

  /** It ended in time, but another worker took the job before the database accepted the outcome. */
  #isOverlooked({ isOutage, completed, endedInTime }: Attempt): boolean {
    return endedInTime && !isOutage && !completed;
  }

  #report(attempt: Attempt, outcome: Outcome): void {
    attempt.isOutage = true;
    this.#attempts.lose(attempt, "the database refused its outcome");
    this.#unsettled.push({ attempt, outcome });
    this.#parts.wake();
  }

  /** Releases jobs that were claimed and not started. Seldom awaited: a locked database must not delay anything else. */
  #handBack(
    jobs: readonly ClaimedJob[],
    settle: (jobs: readonly ClaimedJob[]) => Promise<Settled[]> = (all) =>
      this.#parts.store.jobs.release(all),
  ): Promise<void> {
    if (jobs.length === 0) return Promise.resolve();
    const handing = this.#release(jobs, settle).finally(() => this.#handingBack.delete(handing));
    this.#handingBack.add(handing);
    return handing;
  }

  async #release(
    jobs: readonly ClaimedJob[],
    settle: (jobs: readonly ClaimedJob[]) => Promise<Settled[]>,
  ): Promise<void> {
    const { renewer, logger, reporter, store } = this.#parts;
    try {
      const released = await settle(jobs);
      // A job that never started is not a crash, even if it was reclaimed since.
      const ours = new Set(released.map(({ id }) => id));
      const refused = jobs.filter(({ id }) => !ours.has(id));
      const givenBack =
        refused.length === 0 ? [] : await store.jobs.settleOutages(neverStarted(refused));
      reporter.handedBack(released.length + givenBack.length);
    } catch (error) {
      logger.warn({ err: error }, "could not release jobs; their leases will expire");
    }
    renewer.drop(leaseList(jobs));
  }
}
