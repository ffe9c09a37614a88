/** Durations in exponential buckets. Any two histograms can be added, and a quantile is off by less than a fifth. */

/** The upper bound of the first bucket. */
const FIRST_MS = 0.05;
/** The middle of a bucket is off by at most the square root of this, which is 18 %. */
const GROWTH = 1.4;
const LOG_GROWTH = Math.log(GROWTH);
/** The last bucket holds everything above about three hours. */
const BUCKET_MAX = 58;
/** `cumulative` merges this many buckets into one. */
const BOUND_EVERY = 4;

export class Histogram {
  readonly #counts = Array.from({ length: BUCKET_MAX + 1 }, () => 0);

  /** Counts one duration, in milliseconds. */
  add(ms: number): void {
    this.#count(bucketOf(ms), 1);
  }

  /** Adds what `toText` wrote, in any process. */
  addText(text: string): void {
    for (const [bucket, count] of Object.entries(JSON.parse(text) as Record<string, number>)) {
      this.#count(Number(bucket), count);
    }
  }

  /** How many durations were counted. */
  get total(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }

  /** The duration that this share of all did not exceed; null: there are none. */
  quantile(share: number): number | null {
    let left = Math.max(1, Math.ceil(this.total * share));
    for (const [bucket, count] of this.#counts.entries()) {
      left -= count;
      if (left <= 0) return FIRST_MS * GROWTH ** Math.max(0, bucket - 0.5); // its middle
    }
    return null;
  }

  /** How many did not exceed each bound. All histograms share the bounds; the last one is infinite. */
  cumulative(): {
    /** The bound, in milliseconds. */
    readonly boundMs: number;
    /** How many durations did not exceed it. */
    readonly count: number;
  }[] {
    const bounds: { boundMs: number; count: number }[] = [];
    let count = 0;
    for (let bucket = 0; bucket <= BUCKET_MAX; bucket += 1) {
      count += this.#counts[bucket] ?? 0;
      if (bucket === BUCKET_MAX) bounds.push({ boundMs: Number.POSITIVE_INFINITY, count });
      else if (bucket % BOUND_EVERY === 0)
        bounds.push({ boundMs: FIRST_MS * GROWTH ** bucket, count });
    }
    return bounds;
  }

  /** Its content as JSON, for `addText`. */
  toText(): string {
    const used = [...this.#counts.entries()].filter(([, count]) => count > 0);
    return JSON.stringify(Object.fromEntries(used));
  }

  #count(bucket: number, count: number): void {
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count;
  }
}

function bucketOf(ms: number): number {
  if (ms <= FIRST_MS) return 0;
  return Math.min(BUCKET_MAX, Math.ceil(Math.log(ms / FIRST_MS) / LOG_GROWTH));
}

/** In seconds: from a trivial job to a job of an hour. */
const BOUNDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600,
];

/** Durations of jobs, for Prometheus. The bounds are fixed, so the histograms of several processes can be added. */
export class Buckets {
  /** One more than there are bounds, for everything longer. */
  readonly #counts = [...BOUNDS.map(() => 0), 0];
  #sum = 0;
  #count = 0;

  add(seconds: number): void {
    const found = BOUNDS.findIndex((bound) => seconds <= bound);
    const at = found === -1 ? BOUNDS.length : found;
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

  /** How many did not exceed each bound. */
  cumulative(): { readonly bound: number; readonly count: number }[] {
    let count = 0;
    return [...BOUNDS, Number.POSITIVE_INFINITY].map((bound, index) => {
      count += this.#counts[index] as number;
      return { bound, count };
    });
  }
}
