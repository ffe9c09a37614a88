/** Polls a database that does not push: often after a change, rarely when idle. */
import type { Runtime, Timer } from "../core/runtime.ts";

const POLL_MS_MIN = 25;

const POLL_MS_MAX = 1_000;

const GROWTH = 1.5;

export class Poll {
  readonly #runtime: Runtime;
  readonly #look: () => void;
  #pauseMs = POLL_MS_MIN;
  #timer: Timer | null = null;
  #paused = false;
  #stopped = false;

  constructor(runtime: Runtime, look: () => void) {
    this.#runtime = runtime;
    this.#look = look;
    this.#wait();
  }

  /** Something changed: more may follow soon. */
  pollSoon(): void {
    if (this.#paused || this.#pauseMs === POLL_MS_MIN) return;
    this.#pauseMs = POLL_MS_MIN;
    this.#wait();
  }

  pause(): void {
    this.#paused = true;
    this.#timer?.cancel();
  }

  resume(): void {
    if (!this.#paused || this.#stopped) return;
    this.#paused = false;
    this.#wait();
  }

  stop(): void {
    this.#stopped = true;
    this.pause();
  }

  #wait(): void {
    this.#timer?.cancel();
    const spread = 0.75 + this.#runtime.random() / 2;
    this.#timer = this.#runtime.timer(this.#pauseMs * spread, () => this.#tick(), "background");
  }

  #tick(): void {
    if (this.#paused) return;
    this.#pauseMs = Math.min(POLL_MS_MAX, this.#pauseMs * GROWTH);
    this.#look();
    if (!this.#paused) this.#wait();
  }
}
