/**
 * Ends a process whose event loop a task has blocked for longer than `maxBlock`.
 *
 * No code on the main thread of such a process can end it: a signal handler would need the event loop too. The lease
 * renewer's thread can. A supervisor restarts the process; other workers have its jobs.
 */
import { writeSync } from "node:fs";

/** How often the watchdog looks, unless a quarter of the limit is less. */
const LOOK_MS_MAX = 1_000;

/** A check that comes later than this many intervals shows that the whole process was frozen, not its main thread. */
const LATE_LOOKS = 2;

/** How many jobs the last message names. */
const NAMED_JOBS_MAX = 5;

const STDERR = 2;

export interface Watched {
  /** A number that changes while the main thread is alive. */
  progress(): number;
  /** A debugger may stop the main thread for as long as it likes. */
  isDebugged(): boolean;
}

export class Watchdog {
  readonly lookMs: number;
  readonly #limitMs: number;
  readonly #watched: Watched;
  #seen = -1;
  #lookedAt: number;
  /** How long the main thread made no progress while this thread ran. */
  #blockedMs = 0;

  constructor(parts: { limitMs: number; watched: Watched; now: number }) {
    this.#limitMs = parts.limitMs;
    this.#watched = parts.watched;
    this.#lookedAt = parts.now;
    this.lookMs = Math.min(LOOK_MS_MAX, parts.limitMs / 4);
  }

  /** Whether the main thread has been blocked for too long. */
  look(now: number): boolean {
    const passedMs = Math.min(now - this.#lookedAt, LATE_LOOKS * this.lookMs);
    this.#lookedAt = now;
    const progress = this.#watched.progress();
    const isAlive = progress !== this.#seen || this.#watched.isDebugged();
    this.#seen = progress;
    this.#blockedMs = isAlive ? 0 : this.#blockedMs + passedMs;
    return this.#blockedMs > this.#limitMs;
  }
}

/** Writes the reason to stderr, which needs no event loop, and ends the process with a signal that it cannot catch. */
export function endBlockedProcess(worker: string, limitMs: number, jobs: readonly string[]): void {
  const named = jobs.slice(0, NAMED_JOBS_MAX).join(", ");
  const more = jobs.length > NAMED_JOBS_MAX ? ` and ${jobs.length - NAMED_JOBS_MAX} more` : "";
  const text =
    `holdfast: a task of worker ${worker} blocked the event loop for longer than maxBlock (${limitMs} ms). ` +
    `The watchdog ends process ${process.pid} with SIGKILL. Jobs it held: ${named || "none"}${more}.\n`;
  try {
    writeSync(STDERR, text);
  } finally {
    process.kill(process.pid, "SIGKILL");
  }
}
