/** A Holdfast for one test: a database in memory, with a clock that the test moves. */
import { type Holdfast, openHoldfast } from "../app/holdfast.ts";
import type { Logger } from "../core/log.ts";
import { checkKnown } from "../core/options.ts";
import type { AnyTask } from "../core/task.ts";
import { testClock, type TestClock } from "./clock.ts";
import { drain, type Drained, type DrainOptions } from "./drain.ts";

const CLOSE_STEP_MS = 1_000;

/** A constant, so that a test does not depend on the application's version. */
const NO_VERSION = "build-0";

const KNOWN = new Set(["start", "seed", "logger"]);

export interface TestHoldfastOptions {
  /** The initial time. Default: an instant in January 2027. */
  readonly start?: Date | number;
  /** The same seed gives the same run. Default 1. */
  readonly seed?: number;
  readonly logger?: Logger;
}

export interface TestHoldfast extends AsyncDisposable {
  readonly holdfast: Holdfast;
  readonly clock: TestClock;
  /** `drain()` on this Holdfast. */
  drain(tasks: readonly AnyTask[], options?: DrainOptions): Promise<Drained>;
}

/** Opens a Holdfast that shares nothing with others; `await using` closes it, with its workers. */
export async function openTestHoldfast(options: TestHoldfastOptions = {}): Promise<TestHoldfast> {
  checkKnown(options, KNOWN);
  const { start, logger, ...rest } = options;
  const clock = testClock(start, rest);
  const holdfast = await openHoldfast("sqlite::memory:", {
    runtime: clock,
    version: NO_VERSION,
    locks: "sql", // Ignores the environment.
    ...(logger === undefined ? {} : { logger }),
  });
  return {
    holdfast,
    clock,
    drain: (tasks, drainOptions) => drain(holdfast, tasks, drainOptions),
    [Symbol.asyncDispose]: () => close(holdfast, clock),
  };
}

/** A stopping worker waits for its jobs by this clock, so the clock runs until it has stopped. */
async function close(holdfast: Holdfast, clock: TestClock): Promise<void> {
  const closed = new AbortController();
  const closing = holdfast.close().finally(() => closed.abort());
  const passing = (async () => {
    while (!closed.signal.aborted) await clock.advance(CLOSE_STEP_MS);
  })();
  await Promise.all([closing, passing]);
}
