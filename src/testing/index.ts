/** Published as `holdfast/testing`: what an application's own tests need. */

export type { Gauge, Runtime, Timer } from "../core/runtime.ts";
export { testClock, type TestClock, type TestClockOptions } from "./clock.ts";
export {
  drain,
  DRAIN_ATTEMPTS_MAX,
  DrainLimitError,
  type Drained,
  type DrainedJob,
  type DrainOptions,
} from "./drain.ts";
export { openTestHoldfast, type TestHoldfast, type TestHoldfastOptions } from "./drain.ts";
