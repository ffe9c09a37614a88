/** The last counts of jobs that are known without counting, if there are any. */
import type { Runtime } from "../core/runtime.ts";
import type { QueueStats } from "../jobs/store.ts";
import type { AgedCounts, Counts } from "./counts.ts";

/** Without a monitor, requests within this time share one count. */
const COUNT_EVERY_MS = 2_000;

/** Requests within this time share one look at the stored counts. */
const LOOK_EVERY_MS = 1_000;

/** Stored counts that are older are counted again, in the background. */
const STALE_MS = 60_000;

interface Counted {
  readonly countedAt: number;
  readonly queues: readonly QueueStats[];
}

interface LatestParts {
  readonly runtime: Runtime;
  /** The monitor of this process, if one runs. */
  readonly monitor: { latest(): { readonly counts: Counted | null } | null } | undefined;
  /** The counts that a monitor of any process has stored. */
  readonly stored: () => Promise<AgedCounts | null>;
  /** Counts as a monitor does: not more often than is due. */
  readonly take: () => Promise<Counts | null>;
  /** Counts everything, which takes long if there are many finished jobs. */
  readonly count: () => Promise<readonly QueueStats[]>;
}

export class LatestCounts {
  readonly #parts: LatestParts;
  #counting: Promise<Counted> | null = null;
  #countedAt = Number.NEGATIVE_INFINITY;
  #stored: { readonly counts: Promise<AgedCounts | null>; readonly at: number } | null = null;
  #isTaking = false;

  constructor(parts: LatestParts) {
    this.#parts = parts;
  }

  async counts(): Promise<Counted> {
    const { monitor } = this.#parts;
    const seen = monitor?.latest()?.counts ?? null;
    if (seen !== null) return { queues: seen.queues, countedAt: seen.countedAt };
    const stored = await this.#look();
    if (stored === null) return this.#count();
    if (stored.ageMs > STALE_MS) this.#take();
    return { queues: stored.queues, countedAt: stored.countedAt };
  }

  #look(): Promise<AgedCounts | null> {
    const now = this.#parts.runtime.monotonic();
    if (this.#stored === null || now - this.#stored.at > LOOK_EVERY_MS) {
      const counts = this.#parts.stored();
      counts.catch(() => void (this.#stored = null));
      this.#stored = { counts, at: now };
    }
    return this.#stored.counts;
  }

  /** No request waits for it, and a failure shows as counts that grow older. */
  #take(): void {
    if (this.#isTaking) return;
    this.#isTaking = true;
    void this.#parts
      .take()
      .catch(() => {})
      .finally(() => void (this.#isTaking = false));
  }

  /** One count at a time, however long it takes. */
  #count(): Promise<Counted> {
    const { runtime, count } = this.#parts;
    const isFresh = runtime.monotonic() - this.#countedAt < COUNT_EVERY_MS;
    if (this.#counting !== null && isFresh) return this.#counting;
    this.#countedAt = Number.POSITIVE_INFINITY;
    this.#counting = (async () => {
      const queues = await count();
      this.#countedAt = runtime.monotonic();
      return { queues, countedAt: runtime.now() };
    })();
    this.#counting.catch(() => void (this.#counting = null));
    return this.#counting;
  }
}
