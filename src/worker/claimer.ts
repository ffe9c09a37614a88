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

export interface Buffered {
  readonly job: ClaimedJob;
  readonly claimedAt: number;
  /** When its claim, or the last renewal of its lease, was sent. */
  sentAt: number;
  /** The lease renewer found that another worker owns it. */
  lost: boolean;
}

export class Claimer {
  readonly #concurrency: number;
  readonly #runtime: Runtime;
  #buffer: Buffered[] = [];
  #next = 0;
  #pace = 0; // jobs a millisecond
  cycleMs = 0;
  #measuredAt: number;
  #finished = 0;
  #stopped = false;

  constructor(parts: { concurrency: number; runtime: Runtime }) {
    this.#concurrency = parts.concurrency;
    this.#runtime = parts.runtime;
    this.#measuredAt = parts.runtime.monotonic();
  }

  get buffered(): number {
    return this.#buffer.length - this.#next;
  }

  want(running: number): number {
    this.#measure();
    if (this.#stopped) return 0;
    const free = this.#concurrency - running - this.buffered;
    const aheadMs = Math.min(AHEAD_MS_MAX, Math.max(AHEAD_MS, AHEAD_CYCLES * this.cycleMs));
    const ahead = Math.floor(this.#pace * aheadMs);
    return Math.max(0, Math.min(BATCH_MAX, free + ahead));
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
    return ids.size === 0 ? [] : this.#remove(({ job }) => ids.has(job.id));
  }

  /** Removes jobs that have waited too long. The pace is reset, so that no jobs are claimed ahead. */
  giveUpOlderThan(claimedBefore: number): ClaimedJob[] {
    const old = this.#remove(({ claimedAt }) => claimedAt < claimedBefore);
    if (old.length > 0) this.#pace = 0;
    return old;
  }

  giveUpAll(): ClaimedJob[] {
    return this.#remove(() => true);
  }

  #remove(isGone: (one: Buffered) => boolean): ClaimedJob[] {
    if (this.buffered === 0) return [];
    const waiting = this.#buffer.slice(this.#next);
    this.#buffer = waiting.filter((one) => !isGone(one));
    this.#next = 0;
    return waiting.filter(isGone).map(({ job }) => job);
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
