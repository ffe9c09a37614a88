/** The chores that keep jobs moving when nobody is looking: promote what is due, take back what was lost, prune. */
import type { FinalStatus } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { Settled } from "../jobs/store.ts";
import type { LocksStore } from "../locks/store.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly jobs: JobsStore;
  readonly locks: LocksStore;
}

/** Rows moved in one transaction; a full batch means there may be more, so the next follows at once. */
const CHORE_BATCH = 500;

/** Right after jobs were made pending, the next look tells when the next will be due. */
const NEXT_LOOK_MS = 1;

/** A database that takes longer for a look was locked. */
const SOON_MS = 500;

/** One that is always slow still has to end jobs. */
const SLOW_LOOKS_MAX = 5;

const PRUNE_EVERY_MS = 10 * 60_000;

/** Rows of locks that nobody has had for this long are let go; what is known of their use, later. */
const LOCK_KEEP_MS = 3_600_000;

const LOCK_STATS_KEEP_MS = 7 * 24 * 3_600_000;

export interface MaintenanceSettings {
  /** The pause while there is something to do. */
  readonly everyMs: number;
  /** The longest pause: what was not foreseen at the last look is found after it. */
  readonly idleMs: number;
  readonly graceMs: number;
  /** How long the database has to have answered before a lease's end is taken for its job's end. */
  readonly lastChanceMs: number;
  readonly crashesMax: number;
  readonly keepMs: Record<FinalStatus, number>;
}

export class Maintenance {
  readonly #store: Stores;
  readonly #runtime: Runtime;
  readonly #settings: MaintenanceSettings;
  readonly #onReclaimed: (reclaimed: Settled) => void;
  #prunedAt: number | null = null;
  /** Since when every look for lost leases was answered soon; null: there was none, or it failed. */
  #answersSince: number | null = null;
  #slowLooks = 0;

  constructor(parts: {
    store: Stores;
    runtime: Runtime;
    settings: MaintenanceSettings;
    onReclaimed: (reclaimed: Settled) => void;
  }) {
    this.#store = parts.store;
    this.#runtime = parts.runtime;
    this.#settings = parts.settings;
    this.#onReclaimed = parts.onReclaimed;
  }

  /** One look tells whether there is anything to do, and when there will be. */
  async once(): Promise<number> {
    const { everyMs, graceMs, idleMs } = this.#settings;
    const { dueInMs, leaseEndsInMs } = await this.#store.jobs.upcoming();
    const isDue = dueInMs !== null && dueInMs <= 0;
    const isLost = leaseEndsInMs !== null && leaseEndsInMs < -graceMs;
    const moved = isDue ? await this.#store.jobs.promoteDue({ limit: CHORE_BATCH }) : 0;
    const reclaimed = isLost ? await this.#reclaim() : this.#noneLost();
    const pruned = await this.#pruneNowAndThen();
    if ([reclaimed, moved, pruned].includes(CHORE_BATCH)) return 0;
    // The next may be due any moment: there is more to learn behind it.
    if (moved > 0) return NEXT_LOOK_MS;
    // What somebody else is just moving may come back.
    if (isDue || isLost) return Math.min(everyMs, idleMs);
    const next = [dueInMs ?? idleMs, (leaseEndsInMs ?? idleMs) + graceMs, idleMs];
    // Never 0: a clock that stands still would make a loop that never waits.
    return Math.max(1, Math.min(...next));
  }

  async #reclaim(): Promise<number> {
    const { graceMs, crashesMax } = this.#settings;
    const askedAt = this.#runtime.monotonic();
    const spareLast = this.#mayBeOutage(askedAt);
    const since = this.#answersSince;
    this.#answersSince = null; // unless it answers
    const chore = { graceMs, crashesMax, limit: CHORE_BATCH, spareLast };
    const reclaimed = await this.#store.jobs.reclaimExpired(chore);
    const now = this.#runtime.monotonic();
    const wasLocked = now - askedAt > SOON_MS;
    if (wasLocked) this.#slowLooks += 1;
    this.#answersSince = wasLocked ? now : (since ?? now);
    for (const job of reclaimed) this.#onReclaimed(job);
    return reclaimed.length;
  }

  #noneLost(): 0 {
    this.#answersSince = null;
    this.#slowLooks = 0;
    return 0;
  }

  /**
   * While the database was away or locked, no owner could renew its lease. Each has a last chance to report that it is
   * alive before its job is ended for good, since that is not undone.
   */
  #mayBeOutage(now: number): boolean {
    if (this.#slowLooks >= SLOW_LOOKS_MAX) return false;
    return this.#answersSince === null || now - this.#answersSince < this.#settings.lastChanceMs;
  }

  async #pruneNowAndThen(): Promise<number> {
    const now = this.#runtime.monotonic();
    if (this.#prunedAt !== null && now - this.#prunedAt < PRUNE_EVERY_MS) return 0;
    const limit = CHORE_BATCH;
    const pruned = [
      await this.#store.jobs.prune({ keepMs: this.#settings.keepMs, limit }),
      await this.#store.locks.prune({ forMs: LOCK_KEEP_MS, limit }),
      await this.#store.locks.pruneStats({ forMs: LOCK_STATS_KEEP_MS, limit }),
    ];
    const most = Math.min(limit, Math.max(...pruned));
    if (most < limit) this.#prunedAt = now;
    return most;
  }
}
