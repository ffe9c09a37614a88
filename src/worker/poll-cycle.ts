/**
 * One turn after another: settle what ended, claim what is next, start it. A turn is one transaction.
 *
 * Everything a worker holds is here: jobs that are running, jobs claimed and not started, outcomes not yet settled.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type HoldfastError, LeaseLostError } from "../core/errors.ts";
import type { Fence, OutageReport, Outcome, Settlement } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import type { Context, Task } from "../core/task.ts";
import type { ClaimedJob, Settled } from "../jobs/store.ts";
import { NotCommittedError } from "../steps/errors.ts";
import type { TracesStore } from "../tracing/store.ts";
import { withTraces } from "./attempt-span.ts";
import type { Attempt, AttemptStore } from "./attempt.ts";
import { Attempts } from "./attempts.ts";
import { type Batch, BATCH_MAX, type Buffered, Claimer } from "./claimer.ts";
import type { LeaseRenewerHost } from "./lease-renewer-host.ts";
import { leaseList, type LeaseList, type Report } from "./lease-renewer.ts";
import type { WorkerSettings } from "./options.ts";
import type { Reporter } from "./reporter.ts";

/** Longer than this no job waits for its turn here. */
const BUFFER_MS_MAX = 1_000;

/** Signs of life look for jobs too; after so many times their interval without one, the worker looks by itself. */
const LATE_HEARTBEATS = 1.5;

interface PollCycleParts {
  readonly worker: string;
  /** Its jobs are claimed only while it is registered. */
  readonly guarded: boolean;
  readonly store: AttemptStore & { readonly traces: TracesStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: WorkerSettings;
  readonly client: Context["holdfast"];
  readonly reporter: Reporter;
  readonly renewer: LeaseRenewerHost;
  /** Something ended: the next turn should not wait. */
  readonly wake: () => void;
  /** There is more to do than the turn that is under way can carry. */
  readonly wakeOverlapping: () => void;
}

export class PollCycle {
  readonly #parts: PollCycleParts;
  readonly #attempts: Attempts;
  readonly #claimer: Claimer;
  readonly #settler = new Settler();
  readonly #taskNames: readonly string[];
  readonly #handingBack = new Set<Promise<void>>();
  /** Turns that the store is busy with, and the jobs they ask for. */
  #underWay = 0;
  #asked = 0;
  /** The last claim brought less than it asked for. */
  ranShort = false;
  /** There may be pending jobs that no claim has asked for. */
  #isNews = true;
  /** When to look, on the monotonic clock, if nobody says that there are any. */
  #lookAt = 0;
  #stopped = false;
  #paused = false;
  /** An attempt ends in its task's async context; what the worker does next is not the task's doing. */
  readonly #outside = AsyncLocalStorage.snapshot();
  #goesOn = false;
  #onIdle: (() => void) | null = null;
  #onRest: (() => void) | null = null;

  constructor(parts: PollCycleParts) {
    const { runtime, settings } = parts;
    const { concurrency, leaseMs } = settings;
    this.#parts = parts;
    this.#taskNames = [...settings.tasks.keys()];
    this.#claimer = new Claimer({ concurrency, runtime });
    const onEnd = (attempt: Attempt, outcome: Outcome): void => this.#ended(attempt, outcome);
    this.#attempts = new Attempts({ ...parts, leaseMs, onEnd });
  }

  get running(): number {
    return this.#attempts.size;
  }

  get buffered(): number {
    return this.#claimer.buffered;
  }

  async once(): Promise<number> {
    const { renewer, runtime } = this.#parts;
    renewer.progress();
    const restMs = this.#lookAt - runtime.monotonic();
    if (!this.#isNews && this.#settler.waiting === 0 && restMs > 0) return restMs;
    return this.#cycle(this.#want());
  }

  /** Somebody has looked whether there are pending jobs. */
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
   * A turn beside the one that is under way, where the store gains from that: while one waits for the disk, the other
   * computes. Without one under way it would only split the work of one turn.
   */
  async overlap(): Promise<number> {
    if (this.#underWay === 0) return this.#parts.settings.pollMs;
    return this.#cycle(this.ranShort ? 0 : this.#want());
  }

  #want(): number {
    if (this.#paused) return 0;
    return this.#claimer.want(this.#attempts.size + this.#asked);
  }

  async #cycle(limit: number): Promise<number> {
    const { runtime, settings } = this.#parts;
    const ended = this.#settler.take();
    if (limit === 0 && ended.length === 0) return settings.pollMs;
    const sentAt = runtime.monotonic();
    if (limit > 0) this.#isNews = false;
    const { settled, claimed } = await this.#settleAndClaim(ended, limit);
    const tookMs = runtime.monotonic() - sentAt;
    this.#claimer.took(tookMs);
    if (limit > 0) this.#parts.reporter.answered(tookMs);
    this.onSettled(ended, settled);
    if (limit > 0) this.ranShort = claimed.length < limit;
    await this.#take({ jobs: await withTraces(claimed, this.#parts), sentAt });
    if (claimed.length > 0 && claimed.length === limit) {
      this.#isNews = true;
      return 0;
    }
    if (limit > 0) this.#lookAt = runtime.monotonic() + settings.pollMs;
    return settings.pollMs;
  }

  /** Lets go of what is not ours any more, and of what waits here for too long. */
  watch(): void {
    const { renewer, runtime } = this.#parts;
    renewer.progress();
    // Renewals that arrived while the event loop was blocked count before anything is given up.
    renewer.catchUp();
    this.#attempts.checkTrust();
    // Behind a slow job, others wait here while another worker may be idle.
    void this.#handBack(this.#claimer.giveUpOlderThan(runtime.monotonic() - BUFFER_MS_MAX));
  }

  onRenewerReport(report: Report): void {
    this.#claimer.onRenewerReport(report);
    this.#attempts.onRenewerReport(report);
    this.cancel(report.cancelled);
  }

  /** Every lease that this worker holds. */
  held(): LeaseList {
    return leaseList([...this.#attempts.jobs(), ...this.#claimer.jobs(), ...this.#settler.jobs()]);
  }

  /** One that has not started never will: handed back, it ends as cancelled. */
  cancel(fences: readonly Fence[]): void {
    this.#attempts.cancel(fences);
    void this.#handBack(this.#claimer.giveUp(new Set(fences.map(({ id }) => id))));
  }

  /** Takes nothing new until it is resumed; what was claimed and not started is handed back. */
  pause(): void {
    this.#paused = true;
    void this.#handBack(this.#claimer.giveUpAll());
  }

  resume(): void {
    this.#paused = false;
    this.onPending(true);
  }

  stopClaiming(): void {
    this.#stopped = true;
    void this.#handBack(this.#claimer.stop());
  }

  abortAll(reason: HoldfastError): void {
    this.#attempts.abortAll(reason);
  }

  /** Until nothing runs and nothing waits to be settled, or the time is over, or somebody is in a hurry. */
  async idleWithin(timeoutMs: number, hurry?: AbortSignal): Promise<void> {
    if (this.#isIdle() || timeoutMs <= 0) return;
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    const signal = hurry === undefined ? idle.signal : AbortSignal.any([idle.signal, hurry]);
    await sleep(this.#parts.runtime, timeoutMs, { signal });
    this.#onIdle = null;
  }

  /** Until nothing runs; what ended may wait to be settled. */
  async restWithin(timeoutMs: number): Promise<void> {
    if (this.#attempts.size === 0) return;
    const rest = new AbortController();
    this.#onRest = () => rest.abort();
    await sleep(this.#parts.runtime, timeoutMs, { signal: rest.signal });
    this.#onRest = null;
  }

  /** The last settlements. Call when no turn is under way: two at once would settle the same outcomes. */
  async settleTheRest(): Promise<void> {
    const { store, logger } = this.#parts;
    try {
      while (this.#settler.waiting > 0) {
        const ended = this.#settler.take();
        const { plain, ...others } = partition(ended);
        const looked = await this.#settleOthers(others);
        this.onSettled(ended, [...looked, ...(await store.jobs.settle(settlements(plain)))]);
      }
    } catch (error) {
      logger.warn({ err: error }, "could not settle; the leases will run out");
    }
    await Promise.all(this.#handingBack);
  }

  #isIdle(): boolean {
    return this.#attempts.size + this.#settler.waiting === 0;
  }

  async #settleAndClaim(
    ended: readonly Ended[],
    limit: number,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const { worker, guarded, store, settings } = this.#parts;
    const { queues, leaseMs } = settings;
    const wanted = { worker, queues, tasks: this.#taskNames, limit, leaseMs, guarded };
    this.#underWay += 1;
    this.#asked += limit;
    if (limit === BATCH_MAX) this.#parts.wakeOverlapping(); // one turn cannot carry what this worker could do
    try {
      const { plain, ...others } = partition(ended);
      const looked = await this.#settleOthers(others);
      const turn =
        limit === 0
          ? { settled: await store.jobs.settle(settlements(plain)), claimed: [] }
          : await store.jobs.settleAndClaim(settlements(plain), wanted);
      return looked.length === 0 ? turn : { ...turn, settled: [...looked, ...turn.settled] };
    } catch (error) {
      this.#settler.putBack(ended);
      this.#isNews = true;
      throw error;
    } finally {
      this.#underWay -= 1;
      this.#asked -= limit;
    }
  }

  /** What completed its job in a transaction of the user's is done, if that was committed. */
  async #settleOthers({
    completed,
    outages,
  }: {
    completed: readonly Ended[];
    outages: readonly Ended[];
  }): Promise<Settled[]> {
    const { store } = this.#parts;
    const settled: Settled[] = [];
    if (completed.length > 0)
      settled.push(...(await store.jobs.settleCompleted(settlements(completed))));
    if (outages.length > 0)
      settled.push(...(await store.jobs.settleOutages(outageReports(outages))));
    return settled;
  }

  async #take(batch: Batch): Promise<void> {
    if (batch.jobs.length === 0) return;
    this.#parts.reporter.claimed(batch.jobs.length);
    // The claim was under way when the worker was told to stop, or to pause.
    if (this.#stopped || this.#paused) return this.#handBack(batch.jobs);
    // Before the first of them starts: it may block this thread at once.
    this.#parts.renewer.hold(leaseList(batch.jobs), batch.sentAt);
    this.#claimer.add(batch);
    this.fillSlots();
  }

  fillSlots(): void {
    const { renewer, runtime, settings } = this.#parts;
    while (this.#attempts.size < settings.concurrency && this.#claimer.buffered > 0) {
      const now = runtime.monotonic();
      // A job may have waited behind one that blocked the event loop: what the lease renewer said meanwhile counts first.
      if (!this.#attempts.isTrusted(this.#claimer.peek().sentAt, now)) renewer.catchUp();
      const next = this.#claimer.take();
      const isOurs = !next.lost && this.#attempts.isTrusted(next.sentAt, now);
      if (isOurs) this.#startAttempt(next, now);
      else void this.#handBack([next.job]);
    }
  }

  #startAttempt({ job, sentAt, claimedAt }: Buffered, now: number): void {
    const { renewer, settings } = this.#parts;
    const task = settings.tasks.get(job.task) as Task;
    if (task.timeoutMs !== null) renewer.limit(job.id, now + task.timeoutMs + settings.leaseMs);
    this.#attempts.start(job, task, { sentAt, heldMs: now - claimedAt });
  }

  #ended(attempt: Attempt, outcome: Outcome): void {
    this.#settler.add(attempt, outcome);
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
        // Its function threw after the commit: it is done, but somebody should know.
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

  /** It had ended in time, and the database would not take its word before another worker took the job. */
  #isOverlooked({ isOutage, completed, endedInTime }: Attempt): boolean {
    return endedInTime && !isOutage && !completed;
  }

  #report(attempt: Attempt, outcome: Outcome): void {
    attempt.isOutage = true;
    this.#attempts.lose(attempt, "the database refused its outcome");
    this.#settler.add(attempt, outcome);
    this.#parts.wake();
  }

  /** Gives jobs back that were claimed and not started. Seldom awaited: a locked database delays nothing else. */
  #handBack(jobs: readonly ClaimedJob[]): Promise<void> {
    if (jobs.length === 0) return Promise.resolve();
    const handing = this.#release(jobs).finally(() => this.#handingBack.delete(handing));
    this.#handingBack.add(handing);
    return handing;
  }

  async #release(jobs: readonly ClaimedJob[]): Promise<void> {
    const { renewer, logger, reporter, store } = this.#parts;
    try {
      const released = await store.jobs.release(jobs);
      // One that never started is no worker's crash, whoever has taken it back since.
      const ours = new Set(released.map(({ id }) => id));
      const refused = jobs.filter(({ id }) => !ours.has(id));
      const givenBack =
        refused.length === 0 ? [] : await store.jobs.settleOutages(neverStarted(refused));
      reporter.handedBack(released.length + givenBack.length);
    } catch (error) {
      logger.warn({ err: error }, "could not hand jobs back; their leases will run out");
    }
    renewer.drop(leaseList(jobs));
  }
}

// Gathers outcomes until the next turn settles them.
//
// An outcome that could not be written stays here and is offered again: the store was away, and the fence decides
// whether the job is still ours when it comes back.

interface Ended {
  readonly attempt: Attempt;
  readonly outcome: Outcome;
}

class Settler {
  #ended: Ended[] = [];

  get waiting(): number {
    return this.#ended.length;
  }

  /** Those whose leases are to be renewed. */
  jobs(): ClaimedJob[] {
    return this.#ended
      .filter(({ attempt }) => !attempt.completed)
      .map(({ attempt }) => attempt.job);
  }

  add(attempt: Attempt, outcome: Outcome): void {
    this.#ended.push({ attempt, outcome });
  }

  take(): Ended[] {
    return this.#ended.splice(0, BATCH_MAX);
  }

  putBack(ended: readonly Ended[]): void {
    this.#ended = [...ended, ...this.#ended];
  }
}

function settlements(ended: readonly Ended[]): Settlement[] {
  return ended.map(({ attempt, outcome }) => {
    const { id, worker, epoch } = attempt.job;
    return { id, worker, epoch, outcome, claimed: attempt.job };
  });
}

/** What is reported of attempts whose leases ended because the database did not answer. */
function outageReports(ended: readonly Ended[]): OutageReport[] {
  return settlements(ended).map((settlement, index) => {
    const wasGivenUp = ended[index]?.attempt.error instanceof LeaseLostError;
    return { ...settlement, gaveUp: wasGivenUp };
  });
}

/** The same of jobs that were claimed and not started. */
function neverStarted(jobs: readonly ClaimedJob[]): OutageReport[] {
  return jobs.map((job) => {
    const { id, worker, epoch } = job;
    return { id, worker, epoch, outcome: { kind: "released" }, claimed: job, gaveUp: true };
  });
}

/** Pairs what was offered with what the store accepted; null where the fence refused. */
function pairUp(
  ended: readonly Ended[],
  settled: readonly Settled[],
): (Ended & { accepted: Settled | null })[] {
  const rows = new Map(settled.map((row) => [row.id, row]));
  return ended.map(({ attempt, outcome }) => {
    const row = rows.get(attempt.job.id);
    return { attempt, outcome, accepted: row?.epoch === attempt.job.epoch ? row : null };
  });
}

/** Those that completed their jobs in transactions of the user's, those that met an outage, and the others. */
function partition(ended: readonly Ended[]): {
  completed: readonly Ended[];
  outages: readonly Ended[];
  plain: readonly Ended[];
} {
  const isPlain = ({ attempt }: Ended): boolean => !attempt.completed && !attempt.isOutage;
  if (ended.every(isPlain)) return { completed: [], outages: [], plain: ended };
  return {
    completed: ended.filter(({ attempt }) => attempt.completed),
    outages: ended.filter(({ attempt }) => attempt.isOutage && !attempt.completed),
    plain: ended.filter(isPlain),
  };
}
