/**
 * Rates, as the generic cell rate algorithm counts them: one instant per limit says when the next start is due.
 *
 * In any interval of length W there are at most `burst + W / T` starts, where T is the time that one start costs. All times
 * are microseconds of the database's clock.
 */
export interface Rate {
  /** How many may start in a period. */
  readonly count: number;
  /** The length of the period, in milliseconds. */
  readonly periodMs: number;
  /** How many may start at once after a pause. */
  readonly burst: number;
}

/** What one start costs. Rounded up, so that a rate is never exceeded. */
function costOf({ count, periodMs }: Rate): number {
  return Math.ceil((periodMs * 1_000) / count);
}

/** The limit's instant, not before now. A clock that was set back must not stop the limit for as long as the step. */
function dueAt(rate: Rate, allowedAt: number, nowUs: number): number {
  const cost = costOf(rate);
  const isTooLate = allowedAt > nowUs + (rate.burst + 1) * cost;
  return isTooLate ? nowUs + (rate.burst - 1) * cost : Math.max(allowedAt, nowUs);
}

/** How many may start now. */
export function mayStart(rate: Rate, allowedAt: number, nowUs: number): number {
  const cost = costOf(rate);
  return Math.floor((nowUs + rate.burst * cost - dueAt(rate, allowedAt, nowUs)) / cost);
}

/** Where a rate lets so many jobs start at once, the few milliseconds between a claim and a start do not matter. */
const AHEAD_BURST = 50;

/** A job that is claimed ahead of a free slot would start later than its rate allowed it. */
export function isPaced({ rate }: { readonly rate: Rate | null }): boolean {
  return rate !== null && rate.burst < AHEAD_BURST;
}

/** The limit's instant after so many starts. */
export function afterStarts(rate: Rate, allowedAt: number, starts: number, nowUs: number): number {
  return dueAt(rate, allowedAt, nowUs) + starts * costOf(rate);
}

/** In how many milliseconds the next may start. */
export function nextStartMs(rate: Rate, allowedAt: number, nowUs: number): number {
  const due = dueAt(rate, allowedAt, nowUs) - (rate.burst - 1) * costOf(rate);
  return Math.max(0, Math.ceil((due - nowUs) / 1_000));
}

/** What accrues between two looks of a worker: with less, the rate would not be reached. */
const LOOK_MS = 50;

export function defaultBurst(count: number, periodMs: number): number {
  return Math.max(1, Math.ceil((count * LOOK_MS) / periodMs));
}
