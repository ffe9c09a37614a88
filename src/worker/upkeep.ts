/** The chores that keep jobs moving when nobody is looking: promote what is due, take back what was lost, prune. */
import type { FinalStatus } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Settled, Store } from "../store/store.ts";

/** Rows moved in one transaction; a full batch means there may be more, so the next follows at once. */
const CHORE_BATCH = 500;
const PRUNE_EVERY_MS = 60_000;

export interface UpkeepSettings {
  readonly everyMs: number;
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

  async once(): Promise<number> {
    const { everyMs, graceMs, crashesMax } = this.#settings;
    const { moved, nextInMs } = await this.#store.promoteDue({ limit: CHORE_BATCH });
    const reclaimed = await this.#store.reclaimExpired({ graceMs, crashesMax, limit: CHORE_BATCH });
    for (const job of reclaimed) this.#onReclaimed(job);
    const pruned = await this.#pruneNowAndThen();
    if ([reclaimed.length, moved, pruned].includes(CHORE_BATCH)) return 0;
    // Never 0: a clock that stands still would make a loop that never waits.
    return nextInMs === null ? everyMs : Math.max(1, Math.min(everyMs, nextInMs));
  }

  async #pruneNowAndThen(): Promise<number> {
    const now = this.#runtime.monotonic();
    if (this.#prunedAt !== null && now - this.#prunedAt < PRUNE_EVERY_MS) return 0;
    const pruned = await this.#store.prune({ keepMs: this.#settings.keepMs, limit: CHORE_BATCH });
    if (pruned < CHORE_BATCH) this.#prunedAt = now;
    return pruned;
  }
}
