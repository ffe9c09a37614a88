/**
 * How much of a long battery runs, and from which seed.
 *
 * `npm test` runs a sample of each, `npm run test:long` (LONG=1) all of it, and LONG=10 ten times as much. The test command
 * draws a fresh seed for every run and prints it; HOLDFAST_SEED repeats one.
 */
import { crc32 } from "node:zlib";

const { LONG, HOLDFAST_SEED } = process.env;

const times = Number(LONG ?? 0);
if (!Number.isInteger(times) || times < 0) {
  throw new Error(`LONG=${LONG}: a whole number is expected, such as 1 for every battery in full.`);
}

export const isLong = times > 0;

/** The number of rounds, seeds or seconds of a battery. */
export function sized(sample: number, whole: number): number {
  return isLong ? whole * times : sample;
}

const SEEDS = 2 ** 31;

export const runSeed = Number(HOLDFAST_SEED ?? Date.now() % SEEDS);

/** For the `skip` of a test: the first reason that there is. */
export function reasonOf(...reasons: readonly (string | false)[]): string | false {
  return reasons.find((reason) => reason !== false) ?? false;
}

/** For the `skip` of what is much the same with each of them: one is tried with every seed, all in a long run. */
export function notItsTurn(
  one: string,
  among: readonly string[] = ["postgres", "mysql"],
): string | false {
  return isLong || among[runSeed % among.length] === one ? false : "another has its turn";
}

/**
 * Every nth of a list, beginning elsewhere with every seed and for every use of the list, so that a run has a bit of
 * everything and a few runs cover all of it. A long run takes all.
 */
export function everyNth<T>(n: number, all: readonly T[], use = ""): readonly T[] {
  const first = (runSeed + crc32(use)) % n;
  return isLong ? all : all.filter((_, index) => index % n === first);
}

/** For the `skip` of a test that is one of many alike: with every seed, another nth of them runs. */
export function notDrawn(n: number, title: string): string | false {
  const isDrawn = isLong || (runSeed + crc32(title)) % n === 0;
  return isDrawn ? false : "drawn with another seed";
}
