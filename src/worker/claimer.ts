/**
 * Decides how many jobs to claim.
 *
 * As many as there are free slots, plus those that this worker will finish within the next moment at its recent pace. Tiny
 * jobs are claimed in large batches; long jobs are never claimed ahead, so none waits here while another worker is idle.
 */
import type { Runtime } from "../core/runtime.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import type { Report } from "./lease-renewer.ts";

/** Jobs are claimed ahead for this much work, or for a few poll cycles where those take longer. */
const AHEAD_MS = 25;
const AHEAD_CYCLES = 2.5;
const AHEAD_MS_MAX = 250;

/** The most jobs that are claimed or settled in one transaction. */
export const BATCH_MAX = 500;

/** A measurement over this much time counts as much as all earlier ones. */
const PACE_MS = 25;

/** Jobs claimed together, and when the claim was sent, on the monotonic clock. */
export interface Batch {
  readonly jobs: readonly ClaimedJob[];
  readonly sentAt: number;
}

export interface Want {
  readonly limit: number;
  /** How many of these have no free slot yet. */
  readonly ahead: number;
}

export interface Buffered {
  readonly job: ClaimedJob;
  readonly claimedAt: number;
  /** When its claim, or the last renewal of its lease, was sent. */
  sentAt: number;
  /** The lease renewer found that another worker owns it. */
  lost: boolean;
}

/** One claim of a cycle. */
export interface Share {
  readonly queues: readonly string[];
  readonly limit: number;
}

/**
 * How many jobs of each queue this worker runs at once. Nothing is counted up or down: what the worker holds is counted
 * before every claim, so no slot can leak.
 */
export class QueueLimits {
  readonly #limits: ReadonlyMap<string, number>;
  /** What claims in progress may bring. */
  readonly #asked = new Map<string, number>();
  #turn = 0;

  constructor(limits: ReadonlyMap<string, number>) {
    this.#limits = limits;
  }

  /**
   * The claims for so many jobs in all: one for the queues with room for all of them, and one for each of the others. Each
   * comes first in its turn, so that a busy queue does not take every slot.
   */
  shares(want: number, held: readonly { readonly queue: string }[]): Share[] {
    const counts = new Map(this.#asked);
    for (const { queue } of held) counts.set(queue, (counts.get(queue) ?? 0) + 1);
    const open: string[] = [];
    const shares: Share[] = [];
    for (const [queue, limit] of this.#limits) {
      const free = limit - (counts.get(queue) ?? 0);
      if (free >= want) open.push(queue);
      else if (free > 0) shares.push({ queues: [queue], limit: free });
    }
    if (open.length > 0) shares.push({ queues: open, limit: want });
    this.#turn += 1;
    const first = this.#turn % Math.max(1, shares.length);
    return [...shares.slice(first), ...shares.slice(0, first)];
  }

  /** Claims with these shares are in progress. Returns the function that ends this. */
  ask(shares: readonly Share[]): () => void {
    const add = (sign: 1 | -1): void => {
      for (const { queues, limit } of shares)
        for (const queue of queues)
          this.#asked.set(queue, (this.#asked.get(queue) ?? 0) + sign * limit);
    };
    add(1);
    return () => add(-1);
  }
}

export class Claimer {
  readonly #concurrency: number;
  readonly #runtime: Runtime;
  readonly #isLimited: boolean;
  #buffer: Buffered[] = [];
  #next = 0;
  #pace = 0; // jobs a millisecond
  cycleMs = 0;
  #measuredAt: number;
  #finished = 0;
  #stopped = false;

  /** `isLimited`: queues have limits of their own, so a job that is claimed ahead might find no slot. */
  constructor(parts: { concurrency: number; runtime: Runtime; isLimited: boolean }) {
    this.#concurrency = parts.concurrency;
    this.#isLimited = parts.isLimited;
    this.#runtime = parts.runtime;
    this.#measuredAt = parts.runtime.monotonic();
  }

  get buffered(): number {
    return this.#buffer.length - this.#next;
  }

  want(running: number): Want {
    this.#measure();
    if (this.#stopped) return { limit: 0, ahead: 0 };
    const free = this.#concurrency - running - this.buffered;
    const aheadMs = Math.min(AHEAD_MS_MAX, Math.max(AHEAD_MS, AHEAD_CYCLES * this.cycleMs));
    const ahead = this.#isLimited ? 0 : Math.floor(this.#pace * aheadMs);
    const limit = Math.max(0, Math.min(BATCH_MAX, free + ahead));
    return { limit, ahead: Math.max(0, limit - Math.max(0, free)) };
  }

  /** Records how long the store took for a poll cycle. */
  took(ms: number): void {
    this.cycleMs += (ms - this.cycleMs) / 4;
  }

  add({ jobs, sentAt }: Batch): void {
    const added = jobs.map((job) => ({ job, claimedAt: sentAt, sentAt, lost: false }));
    this.#buffer = this.buffered === 0 ? added : this.#buffer.slice(this.#next).concat(added);
    this.#next = 0;
  }

  /** The next job to start. Call only while one is buffered. */
  peek(): Buffered {
    return this.#buffer[this.#next] as Buffered;
  }

  take(): Buffered {
    const next = this.peek();
    this.#next += 1;
    return next;
  }

  onRenewerReport({ renewed, lost }: Report): void {
    if (this.buffered === 0) return;
    const buffered = new Map(this.#buffer.slice(this.#next).map((one) => [one.job.id, one]));
    for (const { id, sentAt } of renewed) {
      const one = buffered.get(id);
      if (one !== undefined) one.sentAt = sentAt;
    }
    for (const { id } of lost) {
      const one = buffered.get(id);
      if (one !== undefined) one.lost = true;
    }
  }

  /** Removes jobs that must not start, and returns those that were buffered. */
  giveUp(ids: ReadonlySet<string>): ClaimedJob[] {
    return ids.size === 0 ? [] : this.#remove(({ job }) => ids.has(job.id)).map(({ job }) => job);
  }

  /** Removes jobs that have waited too long. The pace is reset, so that no jobs are claimed ahead. */
  giveUpOlderThan(claimedBefore: number): ClaimedJob[] {
    const old = this.removeOlderThan(claimedBefore);
    if (old.length > 0) this.#pace = 0;
    return old.map(({ job }) => job);
  }

  removeOlderThan(claimedBefore: number): Buffered[] {
    return this.#remove(({ claimedAt }) => claimedAt < claimedBefore);
  }

  giveUpAll(): ClaimedJob[] {
    return this.#remove(() => true).map(({ job }) => job);
  }

  #remove(isGone: (one: Buffered) => boolean): Buffered[] {
    if (this.buffered === 0) return [];
    const waiting = this.#buffer.slice(this.#next);
    this.#buffer = waiting.filter((one) => !isGone(one));
    this.#next = 0;
    return waiting.filter(isGone);
  }

  finished(): void {
    this.#finished += 1;
  }

  /** The jobs that were claimed and not started. */
  jobs(): ClaimedJob[] {
    return this.#buffer.slice(this.#next).map(({ job }) => job);
  }

  /** Ends claiming. Returns the jobs that were claimed and not started, to be released. */
  stop(): ClaimedJob[] {
    this.#stopped = true;
    return this.giveUpAll();
  }

  #measure(): void {
    const now = this.#runtime.monotonic();
    const elapsed = now - this.#measuredAt;
    if (elapsed < 1) return;
    // Weighted by the time it covers: a short time without an ended job means little.
    const weight = elapsed / (elapsed + PACE_MS);
    this.#pace += weight * (this.#finished / elapsed - this.#pace);
    this.#finished = 0;
    this.#measuredAt = now;
  }
}
