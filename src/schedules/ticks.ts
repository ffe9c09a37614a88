/** Decides which ticks of a schedule run now: those on time, and of the missed ones those that its policy names. */
import type { Timing } from "./timing.ts";

/** A tick that no scheduler has handled for longer than this is missed. Until then it is only late, and runs. */
export const LATE_MS = 60_000;

/** Missed ticks that `all` may run at once. */
export const MISSED_LIMIT_MAX = 1_000;

/** Missed ticks are counted up to this number. */
export const MISSED_COUNT_MAX = 500;

/** The search for the newest ticks begins with this span, and grows. */
const SPAN_MS = 60_000;
const GROWTH = 4;

export const missedPolicies = ["skip", "once", "all"] as const;
export type MissedPolicy = (typeof missedPolicies)[number];

interface Due {
  /** The tick that is due. It may be of an earlier definition. */
  readonly nextAt: number;
  /** When the definition last changed: later ticks are its own, and after this. */
  readonly sinceAt: number;
  readonly missed: MissedPolicy;
  readonly missedLimit: number;
}

export interface TickPlan {
  /** Oldest first. */
  readonly run: readonly number[];
  /** Ticks that are left out, counted up to a limit. */
  readonly left: number;
  /** The tick after the last one that is due; null: there is none. */
  readonly next: number | null;
}

/** `now` is the database's clock, and not before `nextAt`. */
export function planTicks(timing: Timing, due: Due, now: number): TickPlan {
  const { nextAt, sinceAt, missed, missedLimit } = due;
  // Ticks of this definition come after its beginning and after the tick that is due.
  const from = Math.max(nextAt, sinceAt);
  const lateUntil = now - LATE_MS;
  const onTime = [
    ...(nextAt > lateUntil ? [nextAt] : []),
    ...between(timing, Math.max(from, lateUntil), now, Number.POSITIVE_INFINITY),
  ];
  const late = nextAt > lateUntil ? 0 : 1 + countUntil(timing, from, lateUntil);
  const caughtUp = (limit: number): number[] => {
    if (late === 0) return [];
    const newest = newestOf(timing, { from, to: lateUntil }, limit);
    return newest.length < limit ? [nextAt, ...newest] : newest;
  };
  const wanted = { skip: 0, once: onTime.length > 0 ? 0 : 1, all: missedLimit }[missed];
  const again = wanted === 0 ? [] : caughtUp(wanted);
  const run = [...again, ...onTime];
  // From the last tick, never from now: a tick between the two would be lost.
  const last = run.at(-1) ?? newestOf(timing, { from, to: now }, 1)[0] ?? nextAt;
  return { run, left: late - again.length, next: timing.next(Math.max(last, sinceAt)) };
}

/** The ticks after `from` and not after `to`, at most `max`. */
function between(timing: Timing, from: number, to: number, max: number): number[] {
  const ticks: number[] = [];
  let tick = timing.next(from);
  while (tick !== null && tick <= to && ticks.length < max) {
    ticks.push(tick);
    tick = timing.next(tick);
  }
  return ticks;
}

function countUntil(timing: Timing, from: number, to: number): number {
  return between(timing, from, to, MISSED_COUNT_MAX).length;
}

/** The newest `count` ticks of a time span, oldest first. The search goes backwards, in parts that hold a bounded number. */
function newestOf(timing: Timing, span: { from: number; to: number }, count: number): number[] {
  const parts: number[][] = [];
  let found = 0;
  let { to } = span;
  let lengthMs = SPAN_MS;
  const partMax = Math.max(count, SPAN_MS / 1_000) * GROWTH;
  while (found < count && to > span.from) {
    const from = Math.max(span.from, to - lengthMs);
    const part = between(timing, from, to, partMax + 1);
    if (part.length > partMax) {
      lengthMs = Math.ceil(lengthMs / GROWTH);
      continue;
    }
    parts.unshift(part);
    found += part.length;
    to = from;
    lengthMs *= GROWTH;
  }
  return parts.flat().slice(-count);
}
