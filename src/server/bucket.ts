/** Token buckets: everybody may ask for so much at once, and for so much a second after that. */
import type { Runtime } from "../core/runtime.ts";

const MS_PER_S = 1_000;

interface Bucket {
  left: number;
  at: number;
}

export class Buckets {
  readonly #buckets = new Map<string, Bucket>();
  readonly #runtime: Runtime;
  readonly #burst: number;
  readonly #perSecond: number;
  readonly #remembered: number;

  constructor(
    runtime: Runtime,
    { burst, perSecond, remembered }: { burst: number; perSecond: number; remembered: number },
  ) {
    this.#runtime = runtime;
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#remembered = remembered;
  }

  /** Takes one. 0: there it is; otherwise in how many seconds there is one again. */
  take(who: string): number {
    const bucket = this.#refilled(who);
    if (bucket.left < 1) return Math.ceil((1 - bucket.left) / this.#perSecond);
    bucket.left -= 1;
    return 0;
  }

  #refilled(who: string): Bucket {
    const now = this.#runtime.monotonic();
    const bucket = this.#buckets.get(who) ?? { left: this.#burst, at: now };
    const gained = ((now - bucket.at) / MS_PER_S) * this.#perSecond;
    bucket.left = Math.min(this.#burst, bucket.left + gained);
    bucket.at = now;
    // Those who asked last stand last, and whoever has not asked for longest is forgotten.
    this.#buckets.delete(who);
    this.#buckets.set(who, bucket);
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > this.#remembered && oldest !== undefined) this.#buckets.delete(oldest);
    return bucket;
  }
}
