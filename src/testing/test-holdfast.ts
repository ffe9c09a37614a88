/** A Holdfast for one test: a database in memory, on a clock that the test moves. */
import { type Holdfast, openHoldfast } from "../app/holdfast.ts";
import type { Logger } from "../core/log.ts";
import { checkKnown } from "../core/options.ts";
import type { AnyTask } from "../core/task.ts";
import { testClock, type TestClock } from "./clock.ts";
import { drain, type Drained, type DrainOptions } from "./drain.ts";

/** Time that passes between two looks whether closing is over. */
const CLOSE_STEP_MS = 1_000;

/** The same whatever is tested and wherever: one that says nothing. */
const NO_VERSION = "build-0";

const KNOWN = new Set(["start", "seed", "logger"]);

export interface TestHoldfastOptions {
  /** When the test begins. Default: a moment in January 2027. */
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

/** Opens one; `await using` closes it, workers included. Nothing is shared with any other. */
export async function openTestHoldfast(options: TestHoldfastOptions = {}): Promise<TestHoldfast> {
  checkKnown(options, KNOWN);
  const { start, logger, ...rest } = options;
  const clock = testClock(start, rest);
  const holdfast = await openHoldfast("sqlite::memory:", {
    runtime: clock,
    version: NO_VERSION,
    locks: "sql", // whatever the environment says: nothing outside of the test has a part in it
    ...(logger === undefined ? {} : { logger }),
  });
  return {
    holdfast,
    clock,
    drain: (tasks, drainOptions) => drain(holdfast, tasks, drainOptions),
    [Symbol.asyncDispose]: () => close(holdfast, clock),
  };
}

/** A worker that stops waits for its jobs, by this clock: so the clock goes on until it has stopped. */
async function close(holdfast: Holdfast, clock: TestClock): Promise<void> {
  const closed = new AbortController();
  const closing = holdfast.close().finally(() => closed.abort());
  const passing = (async () => {
    while (!closed.signal.aborted) await clock.advance(CLOSE_STEP_MS);
  })();
  await Promise.all([closing, passing]);
}
