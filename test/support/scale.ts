/**
 * How much of a long battery runs, and from which seed.
 *
 * `npm test` runs a sample of each, `npm run test:long` (LONG=1) all of it, and LONG=10 ten times as much. The test command
 * draws a fresh seed for every run and prints it; HOLDFAST_SEED repeats one.
 */
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

/** For what is much the same on both servers: each is tried with every other seed. A long run tries both. */
export function isTurnOf(server: "postgres" | "mysql"): boolean {
  return isLong || (runSeed % 2 === 0) === (server === "postgres");
}

/** For the `skip` of a test: the first reason that there is. */
export function reasonOf(...reasons: readonly (string | false)[]): string | false {
  return reasons.find((reason) => reason !== false) ?? false;
}

/** For the `skip` of a test. */
export function notItsTurn(server: "postgres" | "mysql"): string | false {
  return isTurnOf(server) ? false : "the other server has its turn";
}

/** Every nth of a list, beginning elsewhere with every seed, so that a few runs cover all of it. A long run takes all. */
export function everyNth<T>(n: number, all: readonly T[]): readonly T[] {
  return isLong ? all : all.filter((_, index) => index % n === runSeed % n);
}
