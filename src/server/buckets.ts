/** How often spans of which length occurred, in buckets that do not change: what one process tells can be added to another's. */

/** In seconds: from a job that a busy worker hardly notices to one that takes an hour. */
const BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
];

export class Buckets {
  /** One more than there are bounds: the last takes what is longer than all. */
  readonly #counts = [...BOUNDS.map(() => 0), 0];
  #sum = 0;
  #count = 0;

  add(seconds: number): void {
    let at = 0;
    while (at < BOUNDS.length && seconds > (BOUNDS[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += seconds;
    this.#count += 1;
  }

  get sum(): number {
    return this.#sum;
  }

  get count(): number {
    return this.#count;
  }

  /** Those that were no longer than each bound. */
  cumulative(): { readonly bound: number; readonly count: number }[] {
    let count = 0;
    return [...BOUNDS, Number.POSITIVE_INFINITY].map((bound, index) => {
      count += this.#counts[index] as number;
      return { bound, count };
    });
  }
}
