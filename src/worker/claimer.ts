/**
 * Decides how many jobs to ask for.
 *
 * As many as there are free places, plus what this worker will finish within the next moment at the pace it has kept:
 * with tiny jobs that makes large batches, with long jobs it makes none, so no job waits here while another worker
 * is idle.
 */
import type { Runtime } from "../core/runtime.ts";
import type { ClaimedJob } from "../store/store.ts";

/** Jobs are claimed ahead for this much work. */
const AHEAD_MS = 25;
/** The most jobs that are claimed, or settled, in one transaction. */
export const BATCH_MAX = 500;
/** How much the newest measurement counts for the pace. */
const PACE_WEIGHT = 0.5;

export class Claimer {
  readonly #concurrency: number;
  readonly #runtime: Runtime;
  #buffer: ClaimedJob[] = [];
  #next = 0;
  #pace = 0; // jobs a millisecond
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
    const ahead = Math.floor(this.#pace * AHEAD_MS);
    return Math.max(0, Math.min(BATCH_MAX, free + ahead));
  }

  add(jobs: readonly ClaimedJob[]): void {
    this.#buffer = this.#buffer.slice(this.#next).concat(jobs);
    this.#next = 0;
  }

  take(): ClaimedJob | null {
    return this.#buffer[this.#next++] ?? this.#empty();
  }

  finished(): void {
    this.#finished += 1;
  }

  /** No more claims. Returns what was claimed and not started, to be handed back. */
  stop(): ClaimedJob[] {
    this.#stopped = true;
    const left = this.#buffer.slice(this.#next);
    this.#empty();
    return left;
  }

  #empty(): null {
    this.#buffer = [];
    this.#next = 0;
    return null;
  }

  #measure(): void {
    const now = this.#runtime.monotonic();
    const elapsed = now - this.#measuredAt;
    if (elapsed < 1) return;
    this.#pace += PACE_WEIGHT * (this.#finished / elapsed - this.#pace);
    this.#finished = 0;
    this.#measuredAt = now;
  }
}
