/** Chance that comes from a seed. Streams of one seed are independent: drawing from one does not change another. */
import { seededRandom } from "../support/runtime.ts";

const HASH_START = 0x811c9dc5;
const HASH_FACTOR = 0x01000193;

export class Chance {
  /** Uniform in [0, 1). */
  readonly draw: () => number;

  constructor(seed: number, stream: string) {
    this.draw = seededRandom(hash(`${seed}/${stream}`));
  }

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    return Math.floor(this.draw() * limit);
  }

  between(least: number, most: number): number {
    return least + this.draw() * (most - least);
  }

  /** A whole number, both ends included. */
  whole(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  isHit(probability: number): boolean {
    return probability > 0 && this.draw() < probability;
  }

  pick<T>(things: readonly T[]): T {
    return things[this.below(things.length)] as T;
  }

  fill(bytes: Uint8Array): void {
    for (let index = 0; index < bytes.length; index += 1) bytes[index] = this.below(256);
  }
}

function hash(text: string): number {
  let value = HASH_START;
  for (const letter of Buffer.from(text)) value = Math.imul(value ^ letter, HASH_FACTOR);
  return value >>> 0;
}
