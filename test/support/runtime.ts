/**
 * A runtime for tests: time stands still until a test moves it, and chance comes from a seed.
 *
 * Timers are real. A test waits for a signal, so a timer only says how soon the
 * code under test looks again.
 */
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";

/** Where every test begins: a whole second in January 2027. */
export const START_AT = 1_800_000_000_000;

export interface TestClock {
  now(): number;
  /** Lets time pass, on both clocks. */
  advance(ms: number): void;
  /** Sets the host's clock, backwards too; the monotonic one never goes back. */
  set(at: number): void;
}

export interface TestRuntime extends Runtime {
  readonly clock: TestClock;
}

export function testRuntime(options: { seed?: number; startAt?: number } = {}): TestRuntime {
  const { seed = 1, startAt = START_AT } = options;
  let now = startAt;
  let passedMs = 0;
  const random = seededRandom(seed);
  const set = (at: number): void => {
    passedMs += Math.max(0, at - now);
    now = at;
  };
  return {
    now: () => now,
    monotonic: () => passedMs,
    random,
    fillRandom(bytes) {
      for (let index = 0; index < bytes.length; index += 1) bytes[index] = random() * 256;
    },
    timer: (ms, call, kind) => systemRuntime.timer(ms, call, kind),
    afterIo: (call) => systemRuntime.afterIo(call),
    gauge: () => systemRuntime.gauge(),
    clock: { now: () => now, set, advance: (ms) => set(now + ms) },
  };
}

const STEP = 0x9e3779b9;

/** Uniform in [0, 1), the same for the same seed: a counter, stirred until its bits look unrelated. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + STEP) >>> 0;
    let stirred = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    stirred = Math.imul(stirred ^ (stirred >>> 15), 0x735a2d97);
    return ((stirred ^ (stirred >>> 15)) >>> 0) / 2 ** 32;
  };
}
