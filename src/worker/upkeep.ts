/** The chores that keep jobs moving when nobody is looking: promote what is due, take back what was lost, prune. */
import type { FinalStatus } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Settled, Store } from "../store/store.ts";

/** Rows moved in one transaction; a full batch means there may be more, so the next follows at once. */
const CHORE_BATCH = 500;
/** Right after jobs were made pending, the next look tells when the next will be due. */
const NEXT_LOOK_MS = 1;
const PRUNE_EVERY_MS = 10 * 60_000;
/** Rows of locks that nobody has had for this long are let go; what is known of their use, later. */
const LOCK_KEEP_MS = 3_600_000;
const LOCK_STATS_KEEP_MS = 7 * 24 * 3_600_000;

export interface UpkeepSettings {
  /** The pause while there is something to do. */
  readonly everyMs: number;
  /** The longest pause: what was not foreseen at the last look is found after it. */
  readonly idleMs: number;
  readonly graceMs: number;
  readonly crashesMax: number;
  readonly keepMs: Record<FinalStatus, number>;
}

export class Upkeep {
  readonly #store: Store;
  readonly #runtime: Runtime;
  readonly #settings: UpkeepSettings;
  readonly #onReclaimed: (reclaimed: Settled) => void;
  #prunedAt: number | null = null;

  constructor(parts: {
    store: Store;
    runtime: Runtime;
    settings: UpkeepSettings;
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
    const { dueInMs, leaseEndsInMs } = await this.#store.upcoming();
    const isDue = dueInMs !== null && dueInMs <= 0;
    const isLost = leaseEndsInMs !== null && leaseEndsInMs < -graceMs;
    const moved = isDue ? await this.#store.promoteDue({ limit: CHORE_BATCH }) : 0;
    const reclaimed = isLost ? await this.#reclaim() : 0;
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
    const reclaimed = await this.#store.reclaimExpired({ graceMs, crashesMax, limit: CHORE_BATCH });
    for (const job of reclaimed) this.#onReclaimed(job);
    return reclaimed.length;
  }

  async #pruneNowAndThen(): Promise<number> {
    const now = this.#runtime.monotonic();
    if (this.#prunedAt !== null && now - this.#prunedAt < PRUNE_EVERY_MS) return 0;
    const limit = CHORE_BATCH;
    const pruned = [
      await this.#store.prune({ keepMs: this.#settings.keepMs, limit }),
      await this.#store.pruneLocks({ forMs: LOCK_KEEP_MS, limit }),
      await this.#store.pruneLockStats({ forMs: LOCK_STATS_KEEP_MS, limit }),
    ];
    const most = Math.min(limit, Math.max(...pruned));
    if (most < limit) this.#prunedAt = now;
    return most;
  }
}
