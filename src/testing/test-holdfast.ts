/** A Holdfast for one test: a database in memory, on a clock that the test moves. */
import type { Logger } from "../core/log.ts";
import type { Task } from "../core/task.ts";
import { openHoldfast, type Holdfast } from "../worker/holdfast.ts";
import { testClock, type TestClock } from "./clock.ts";
import { drain, type Drained, type DrainOptions } from "./drain.ts";

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
  drain(tasks: readonly Task[], options?: DrainOptions): Promise<Drained>;
}

/** Opens one; `await using` closes it. Nothing is shared with any other. */
export async function openTestHoldfast(options: TestHoldfastOptions = {}): Promise<TestHoldfast> {
  const { start, logger } = options;
  const clock = testClock(start, options);
  const holdfast = await openHoldfast("sqlite::memory:", {
    runtime: clock,
    ...(logger === undefined ? {} : { logger }),
  });
  return {
    holdfast,
    clock,
    drain: (tasks, drainOptions) => drain(holdfast, tasks, drainOptions),
    [Symbol.asyncDispose]: () => holdfast.close(),
  };
}
