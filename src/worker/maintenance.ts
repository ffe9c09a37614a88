/** Periodic maintenance of jobs: promotes due jobs, reclaims expired leases, prunes. */
import type { FinalStatus } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { FlowMaintenance } from "../flows/maintenance.ts";
import type { FlowsStore } from "../flows/store.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { Settled, Upcoming } from "../jobs/store.ts";
import type { LocksStore } from "../locks/store.ts";
import type { QueuesStore } from "../queues/store.ts";

/** Rows moved in one transaction; after a full batch, the next follows at once. */
const CHORE_BATCH = 500;

/** After a promotion, the next query follows soon, to learn when the next job is due. */
const NEXT_LOOK_MS = 1;

/** A database that takes longer for a query was locked. */
const SOON_MS = 500;

/** With a database that is always slow, jobs must still end. */
const SLOW_LOOKS_MAX = 5;

const PRUNE_EVERY_MS = 10 * 60_000;

/** A worker that starts runs the jobs that wait first. */
const FIRST_PRUNE_MS = 5_000;

/** How soon leases count that were taken just before their queue got its first limit. */
const COUNT_EVERY_MS = 5_000;

/** How long gates of unused lanes are kept. */
const GATE_KEEP_MS = 3_600_000;

/** How long rows of unused locks, and their statistics, are kept. */
const LOCK_KEEP_MS = 3_600_000;
const LOCK_STATS_KEEP_MS = 7 * 24 * 3_600_000;

interface MaintenanceParts {
  readonly store: {
    readonly jobs: JobsStore;
    readonly flows: FlowsStore;
    readonly locks: LocksStore;
    readonly queues: QueuesStore;
  };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly settings: {
    /** The pause while there is work. */
    readonly everyMs: number;
    /** The longest pause, for changes that were not foreseen. */
    readonly idleMs: number;
    readonly graceMs: number;
    /** How long the database must have answered before an expired lease may end its job for good. */
    readonly lastChanceMs: number;
    readonly maxCrashes: number;
    readonly retention: Record<FinalStatus, number>;
  };
  /** Background work of features that have a loop of their own. */
  readonly onUpcoming: (upcoming: Upcoming) => void;
  readonly onReclaimed: (reclaimed: Settled) => void;
  readonly onExpired: (expired: Settled) => void;
}

export class Maintenance {
  readonly #parts: MaintenanceParts;
  readonly #flows: FlowMaintenance;
  #pruneAt: number;
  #countedAt: number | null = null;
  /** Since when every query for expired leases was answered soon; null: there was none, or it failed. */
  #answersSince: number | null = null;
  #slowLooks = 0;

  constructor(parts: MaintenanceParts) {
    this.#parts = parts;
    this.#flows = new FlowMaintenance(parts);
    this.#pruneAt = parts.runtime.monotonic() + FIRST_PRUNE_MS;
  }

  /** One query tells whether there is work, and when there will be. */
  async once(): Promise<number> {
    const { store, settings, onUpcoming, onExpired } = this.#parts;
    const { everyMs, graceMs, idleMs } = settings;
    const upcoming = await store.jobs.upcoming();
    onUpcoming(upcoming);
    const { dueInMs, leaseEndsInMs } = upcoming;
    const startsBy = [upcoming.pendingUntilMs, upcoming.waitingUntilMs].map((ms) => ms ?? idleMs);
    const isLate = startsBy.some((ms) => ms <= 0);
    const isDue = dueInMs !== null && dueInMs <= 0;
    const isLost = leaseEndsInMs !== null && leaseEndsInMs < -graceMs;
    const late = isLate ? await store.jobs.expireLate({ limit: CHORE_BATCH }) : [];
    for (const job of late) onExpired(job);
    const moved = isDue ? await store.jobs.promoteDue({ limit: CHORE_BATCH }) : 0;
    const reclaimed = isLost ? await this.#reclaim() : this.#noneLost();
    await this.#countNowAndThen();
    const pruned = await this.#pruneNowAndThen();
    const flowsInMs = await this.#flows.once(upcoming.flowsInMs !== null);
    if (flowsInMs === 0 || [late.length, reclaimed, moved, pruned].includes(CHORE_BATCH)) return 0;
    // The next job may be due any moment.
    if (moved > 0) return NEXT_LOOK_MS;
    // Another process is moving these rows, and may roll back.
    if (isDue || isLost || isLate) return Math.min(everyMs, idleMs);
    const leaseMs = (leaseEndsInMs ?? idleMs) + graceMs;
    const next = [dueInMs ?? idleMs, leaseMs, ...startsBy, flowsInMs, idleMs];
    // Never 0: with a clock that stands still, the loop would never wait.
    return Math.max(1, Math.min(...next));
  }

  async #reclaim(): Promise<number> {
    const { store, runtime, settings, onReclaimed } = this.#parts;
    const { graceMs, maxCrashes } = settings;
    const askedAt = runtime.monotonic();
    const spareLast = this.#mayBeOutage(askedAt);
    const since = this.#answersSince;
    this.#answersSince = null; // unless it answers
    const chore = { graceMs, maxCrashes, limit: CHORE_BATCH, spareLast };
    const reclaimed = await store.jobs.reclaimExpired(chore);
    const now = runtime.monotonic();
    const wasLocked = now - askedAt > SOON_MS;
    if (wasLocked) this.#slowLooks += 1;
    this.#answersSince = wasLocked ? now : (since ?? now);
    for (const job of reclaimed) onReclaimed(job);
    return reclaimed.length;
  }

  #noneLost(): 0 {
    this.#answersSince = null;
    this.#slowLooks = 0;
    return 0;
  }

  /**
   * While the database was unavailable or locked, no owner could renew its lease. Each has a last chance to report that it is
   * alive before its job ends for good.
   */
  #mayBeOutage(now: number): boolean {
    if (this.#slowLooks >= SLOW_LOOKS_MAX) return false;
    return (
      this.#answersSince === null || now - this.#answersSince < this.#parts.settings.lastChanceMs
    );
  }

  async #countNowAndThen(): Promise<void> {
    const { store, runtime } = this.#parts;
    const now = runtime.monotonic();
    if (this.#countedAt !== null && now - this.#countedAt < COUNT_EVERY_MS) return;
    await store.queues.countLeases();
    this.#countedAt = now;
  }

  async #pruneNowAndThen(): Promise<number> {
    const { store, runtime, settings } = this.#parts;
    const now = runtime.monotonic();
    if (now < this.#pruneAt) return 0;
    const limit = CHORE_BATCH;
    const pruned = [
      await store.jobs.prune({ retention: settings.retention, limit }),
      await store.locks.prune({ forMs: LOCK_KEEP_MS, limit }),
      await store.queues.pruneGates({ forMs: GATE_KEEP_MS, limit }),
      await store.locks.pruneStats({ forMs: LOCK_STATS_KEEP_MS, limit }),
    ];
    const most = Math.min(limit, Math.max(...pruned));
    if (most < limit) this.#pruneAt = now + PRUNE_EVERY_MS;
    return most;
  }
}
