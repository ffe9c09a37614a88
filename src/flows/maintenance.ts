/**
 * What the ends of jobs leave to maintenance: waits for jobs that belong to no flow, long chains of failures, ends by an older
 * version of the library; and, in case anything else went wrong, a slow walk over all waits.
 */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { FlowsStore } from "./store.ts";

/** Awaited jobs looked at in one query. */
const PAGE = 500;

/** How often to look at jobs whose end is not announced, while there are any. */
const LOOK_EVERY_MS = 1_000;

/** The walk over all waits takes one page at a time. */
const WALK_EVERY_MS = 60_000;

interface FlowMaintenanceParts {
  readonly store: { readonly flows: FlowsStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
}

export class FlowMaintenance {
  readonly #parts: FlowMaintenanceParts;
  #cursor: string | null = null;
  /** Whether this pass has seen awaited jobs. */
  #seen = false;
  #walkedAt: number;
  #walk: string | null = null;
  #repaired: string | null = null;

  constructor(parts: FlowMaintenanceParts) {
    this.#parts = parts;
    this.#walkedAt = parts.runtime.monotonic();
  }

  /** `isDue`: there are jobs to look at. Returns in how many milliseconds to call it again, at the latest. */
  async once(isDue: boolean): Promise<number> {
    const { flows } = this.#parts.store;
    await this.#walkNowAndThen();
    if (!isDue && this.#cursor === null) return Number.POSITIVE_INFINITY;
    const { looked, ended, next } = await flows.sweep({
      after: this.#cursor,
      limit: PAGE,
      all: false,
    });
    this.#seen ||= looked > 0;
    this.#cursor = next;
    // More of them may be behind these, or follow from them.
    if (next !== null || ended > 0) return 0;
    const waits = this.#seen ? LOOK_EVERY_MS : Number.POSITIVE_INFINITY;
    this.#seen = false;
    return waits;
  }

  async #walkNowAndThen(): Promise<void> {
    const { runtime, store, logger } = this.#parts;
    const now = runtime.monotonic();
    if (now - this.#walkedAt < WALK_EVERY_MS) return;
    this.#walkedAt = now;
    const walked = await store.flows.sweep({ after: this.#walk, limit: PAGE, all: true });
    this.#walk = walked.next;
    const { repaired, next } = await store.flows.repair({ after: this.#repaired, limit: PAGE });
    this.#repaired = next;
    if (walked.ended + repaired === 0) return;
    const facts = { event: "flow:repaired", ended: walked.ended, miscounted: repaired };
    logger.warn(facts, "released jobs that were waiting for jobs that had already ended");
  }
}
