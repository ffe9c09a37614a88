/**
 * Keeps leases alive: renews each at half its length, in one statement for all that are due.
 *
 * The same code runs in a thread of its own with a connection of its own, so that a task which blocks the event loop
 * does not lose its job, and on the main thread where a thread cannot have a connection. It stops renewing for a
 * process that made no progress for `blockedMsMax`, and for a job that is past its own timeout.
 */
import type { Fence } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Store } from "../store/store.ts";

/** A lease in the keeper's care. Instants are on the monotonic clock. */
export interface Held extends Fence {
  /** When the claim or the last renewal was sent. */
  sentAt: number;
  /** Past this it is not renewed any more; null: no limit. */
  stopAt: number | null;
}

export interface Report {
  readonly renewed: readonly { id: string; epoch: number; sentAt: number }[];
  readonly lost: readonly Fence[];
  readonly cancelled: readonly Fence[];
}

export interface KeeperSettings {
  readonly leaseMs: number;
  /** Renew when this share of the lease has passed. */
  readonly extendAt: number;
  readonly blockedMsMax: number;
}

export class Keeper {
  readonly #store: Store;
  readonly #runtime: Runtime;
  readonly #settings: KeeperSettings;
  readonly #progress: () => number;
  readonly #report: (report: Report) => void;
  readonly #held = new Map<string, Held>();
  #seen = -1;
  #seenAt = 0;

  constructor(parts: {
    store: Store;
    runtime: Runtime;
    settings: KeeperSettings;
    /** A number that changes while the main thread is alive. */
    progress: () => number;
    report: (report: Report) => void;
  }) {
    this.#store = parts.store;
    this.#runtime = parts.runtime;
    this.#settings = parts.settings;
    this.#progress = parts.progress;
    this.#report = parts.report;
  }

  hold(leases: readonly Held[]): void {
    for (const lease of leases) this.#held.set(lease.id, lease);
  }

  /** The job is over its time at `stopAt`: it shall not be renewed beyond. */
  limit(id: string, stopAt: number): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.stopAt = stopAt;
  }

  /** A newer lease on the same job stays: only the epoch that ended is let go. */
  drop(fences: readonly { id: string; epoch: number }[]): void {
    for (const { id, epoch } of fences) {
      if (this.#held.get(id)?.epoch === epoch) this.#held.delete(id);
    }
  }

  async once(): Promise<number> {
    const now = this.#runtime.monotonic();
    const renewEvery = this.#settings.leaseMs * this.#settings.extendAt;
    const due = this.#isWedged(now) ? [] : this.#due(now - renewEvery, now);
    if (due.length > 0) await this.#renew(due, now);
    return renewEvery / 2;
  }

  #due(sentBefore: number, now: number): Held[] {
    const held = [...this.#held.values()];
    return held.filter(
      (lease) => lease.sentAt <= sentBefore && (lease.stopAt === null || now < lease.stopAt),
    );
  }

  async #renew(due: readonly Held[], sentAt: number): Promise<void> {
    const extended = await this.#store.extend(due, this.#settings.leaseMs);
    const ours = new Set(extended.map(({ id, epoch }) => `${id} ${epoch}`));
    const renewed = due.filter(({ id, epoch }) => ours.has(`${id} ${epoch}`));
    // What was dropped while the answer was on its way has been settled, not lost.
    const lost = due.filter(
      (lease) => !ours.has(`${lease.id} ${lease.epoch}`) && this.#held.get(lease.id) === lease,
    );
    for (const lease of renewed) lease.sentAt = sentAt;
    this.drop(lost);
    this.#report({
      renewed: renewed.map(({ id, epoch }) => ({ id, epoch, sentAt })),
      lost: lost.map(({ id, worker, epoch }) => ({ id, worker, epoch })),
      cancelled: extended
        .filter((lease) => lease.cancelRequested)
        .map(({ id, worker, epoch }) => ({ id, worker, epoch })),
    });
  }

  #isWedged(now: number): boolean {
    const progress = this.#progress();
    if (progress !== this.#seen) {
      this.#seen = progress;
      this.#seenAt = now;
    }
    return now - this.#seenAt > this.#settings.blockedMsMax;
  }
}
