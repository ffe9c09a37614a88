/**
 * How often spans of which length occurred, in buckets that grow: any two histograms can be added up, and a quantile is told
 * within a fifth of what it was.
 */

/** What is shorter is not told apart. */
const FIRST_MS = 0.05;
/** Told as the middle of its bucket, a span is off by the root of this at most, which is 18 %. */
const GROWTH = 1.4;
/** The last bucket takes everything beyond about three hours. */
const BUCKET_MAX = 58;
/** Of the buckets, each of which is 1.4 times the last, so many are told as one. */
const BOUND_EVERY = 4;

export class Histogram {
  readonly #counts = new Map<number, number>();

  add(ms: number): void {
    this.#count(bucketOf(ms), 1);
  }

  /** Adds up what `toText` wrote, by whichever process. */
  addText(text: string): void {
    for (const [bucket, count] of Object.entries(JSON.parse(text) as Record<string, number>)) {
      this.#count(Number(bucket), count);
    }
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** The span that this share of all were not longer than; null: there are none. */
  quantile(share: number): number | null {
    const inOrder = [...this.#counts].toSorted(([a], [b]) => a - b);
    let left = Math.max(1, Math.ceil(this.total * share));
    for (const [bucket, count] of inOrder) {
      left -= count;
      if (left <= 0) return middleOf(bucket);
    }
    return null;
  }

  /** How many were no longer than each of a few bounds, which every histogram shares; the last takes all. */
  cumulative(): { readonly boundMs: number; readonly count: number }[] {
    let count = 0;
    return Array.from({ length: BUCKET_MAX + 1 }, (_, bucket) => {
      count += this.#counts.get(bucket) ?? 0;
      const isLast = bucket === BUCKET_MAX;
      return { bucket, boundMs: isLast ? Number.POSITIVE_INFINITY : boundOf(bucket), count };
    }).flatMap(({ bucket, ...bound }) =>
      bucket % BOUND_EVERY === 0 || bucket === BUCKET_MAX ? [bound] : [],
    );
  }

  toText(): string {
    return JSON.stringify(Object.fromEntries(this.#counts));
  }

  #count(bucket: number, count: number): void {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + count);
  }
}

function bucketOf(ms: number): number {
  if (ms <= FIRST_MS) return 0;
  return Math.min(BUCKET_MAX, Math.ceil(Math.log(ms / FIRST_MS) / Math.log(GROWTH)));
}

function boundOf(bucket: number): number {
  return FIRST_MS * GROWTH ** bucket;
}

function middleOf(bucket: number): number {
  return bucket === 0 ? FIRST_MS : FIRST_MS * GROWTH ** (bucket - 0.5);
}

// A histogram with fixed buckets, so that those of several processes can be added up.

/** In seconds: from a trivial job to one that takes an hour. */
const BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
];

export class Buckets {
  /** One more than there are bounds: the last counts everything longer. */
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

  /** How many were no longer than each bound. */
  cumulative(): { readonly bound: number; readonly count: number }[] {
    let count = 0;
    return [...BOUNDS, Number.POSITIVE_INFINITY].map((bound, index) => {
      count += this.#counts[index] as number;
      return { bound, count };
    });
  }
}
