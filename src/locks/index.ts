/** Published as `holdfast/locks`: the types of `holdfast.locks`, and its errors. */

export type { LockHold, LockRecord } from "./lock.ts";
export type { ContendedLock, LockWaiter } from "./contention.ts";
export { LockLostError, LockNotAcquiredError } from "./lock.ts";
export type { Lock } from "./lock.ts";
export type { LockMode } from "./lock.ts";
export type { LockOptions, Locks, WithLockOptions } from "./locks.ts";
export type {
  HeatRange,
  LockHeat,
  LockStatistics,
  LockStatsOptions,
  LockTimes,
  LockTotals,
} from "./stats.ts";
