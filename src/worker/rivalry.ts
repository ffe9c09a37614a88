/**
 * Workers that are told of the same job race for it, and all but one ask in vain. Whoever loses again and again rests
 * before it asks again, and meanwhile hears of several jobs at once: a fleet does not ask as often as it has workers for
 * every single job. One that wins, or is alone, never rests.
 */

/** A worker that is alone loses now and then too: it took two jobs at once, and is told of the second. */
const LOSSES_FREE = 1;
const REST_MS_FIRST = 5;
const REST_MS_MAX = 100;

export class Rivalry {
  #losses = 0;
  #restsUntil = Number.NEGATIVE_INFINITY;

  won(): void {
    this.#losses = 0;
    this.#restsUntil = Number.NEGATIVE_INFINITY;
  }

  /** It was told of a job, and there was none. */
  lost(now: number): void {
    this.#losses += 1;
    if (this.#losses <= LOSSES_FREE) return;
    const restMs = REST_MS_FIRST * 2 ** (this.#losses - LOSSES_FREE - 1);
    this.#restsUntil = now + Math.min(REST_MS_MAX, restMs);
  }

  restMs(now: number): number {
    return Math.max(0, this.#restsUntil - now);
  }
}
