/**
 * A clock for tests: time stands still until the test moves it, and random numbers come from a seed.
 *
 * Timers fire only while `advance` passes their time, in the order in which they are due, and everything that a timer
 * started has settled before the next one fires. So a day of retries takes milliseconds, and every run is the same.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Duration, toMs } from "../core/duration.ts";
import { optionsOf, passed } from "../core/options.ts";
import { type Gauge, noGauge, type Runtime, systemRuntime, type Timer } from "../core/runtime.ts";

/** The default start: a whole second in January 2027. */
const START_AT = 1_800_000_000_000;

/** After this many turns of the event loop without new work, everything has settled. */
const QUIET_TURNS = 3;

/** A clock that was not moved for this long, in real time, while no drain ran, stands still. */
const STILL_MS = 1_000;

/** Code that never settles must not block a test. */
const SETTLE_TURNS_MAX = 10_000;

const DRAWS_SKIPPED = 8;

interface Due {
  readonly at: number;
  readonly call: () => void;
}

/** Options of `testClock()`. */
export interface TestClockOptions {
  /** The same seed gives the same waits, ids and run. Default 1. */
  readonly seed?: number;
}

const clockOptions = optionsOf<TestClockOptions>()({ seed: passed<number>() });

/** A runtime whose time the test controls. `start` is a Date, or milliseconds since 1970. */
export function testClock(
  start: Date | number = START_AT,
  options: TestClockOptions = {},
): TestClock {
  return new TestClock(start, clockOptions.read(options));
}

/** A clock that stands still until a test advances it. */
export class TestClock implements Runtime {
  /** Numbers that the seed determines. */
  readonly random: () => number;
  readonly #startAt: number;
  readonly #timers = new Set<Due>();
  #passedMs = 0;
  #afterIo = 0;
  /** How many drains and advances are under way. */
  #moving = 0;

  constructor(start: Date | number, { seed = 1 }: TestClockOptions) {
    this.#startAt = typeof start === "number" ? start : start.getTime();
    this.random = seededRandom(seed);
  }

  /** The start, and the time that passed since. */
  now(): number {
    return this.#startAt + this.#passedMs;
  }

  /** The time that passed, in milliseconds. */
  monotonic(): number {
    return this.#passedMs;
  }

  /** Bytes that the seed determines. */
  fillRandom(bytes: Uint8Array): void {
    for (let index = 0; index < bytes.length; index += 1) bytes[index] = this.random() * 256;
  }

  /** As with Node's own timers, a wait is whole milliseconds and at least one. */
  timer(ms: number, call: () => void): Timer {
    const at = this.#passedMs + Math.max(1, Math.trunc(ms));
    const due: Due = { at, call: AsyncLocalStorage.bind(call) };
    this.#timers.add(due);
    return { cancel: () => void this.#timers.delete(due) };
  }

  /** As in the system's runtime; `settle` waits for such calls. */
  afterIo(call: () => void): void {
    this.#afterIo += 1;
    systemRuntime.afterIo(() => {
      this.#afterIo -= 1;
      call();
    });
  }

  /** Measures nothing. */
  gauge(): Gauge {
    return noGauge;
  }

  /** Lets this much time pass. Resolves when everything that it triggered has settled. */
  async advance(duration: Duration): Promise<void> {
    const until = this.#passedMs + toMs("duration", duration);
    await this.whileMoving(() => this.#pass(until));
  }

  /** While this runs, the clock does not count as standing still. */
  async whileMoving<T>(work: () => Promise<T>): Promise<T> {
    this.#moving += 1;
    try {
      return await work();
    } finally {
      this.#moving -= 1;
    }
  }

  /** Calls repeatedly while the clock stands still. */
  whileStill(call: () => void): Timer {
    let passedMs = this.#passedMs;
    let timer: Timer;
    const look = (): void => {
      timer = systemRuntime.timer(STILL_MS, look);
      if (this.#moving === 0 && passedMs === this.#passedMs) call();
      passedMs = this.#passedMs;
    };
    timer = systemRuntime.timer(STILL_MS, look);
    return { cancel: () => timer.cancel() };
  }

  async #pass(until: number): Promise<void> {
    await this.settle();
    for (let due = this.#next(until); due !== null; due = this.#next(until)) {
      this.#timers.delete(due);
      this.#passedMs = Math.max(this.#passedMs, due.at);
      due.call();
      await this.settle();
    }
    this.#passedMs = Math.max(this.#passedMs, until);
  }

  /** Runs everything that is ready, without letting time pass. */
  async settle(): Promise<void> {
    let quiet = 0;
    for (let turn = 0; turn < SETTLE_TURNS_MAX && quiet < QUIET_TURNS; turn += 1) {
      await new Promise<void>((resolve) => systemRuntime.afterIo(resolve));
      quiet = this.#afterIo === 0 ? quiet + 1 : 0;
    }
  }

  /** The timer that is due first; of several, the one that was set first. */
  #next(until: number): Due | null {
    let first: Due | null = null;
    for (const due of this.#timers) {
      if (due.at <= until && (first === null || due.at < first.at)) first = due;
    }
    return first;
  }
}

/** Uniform in [0, 1): a linear congruential generator, whose high bits are good enough. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  const draw = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  // The first numbers of similar seeds are similar.
  for (let skipped = 0; skipped < DRAWS_SKIPPED; skipped += 1) draw();
  return draw;
}
