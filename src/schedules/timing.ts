/**
 * When a schedule runs: by a cron expression in a time zone, or at an interval.
 *
 * Where the clock is set forward or back, this follows Debian's cron. An expression whose minute and hour (and second) have
 * no star names times of day: one that the clock skips runs when the clock jumps, and one that it repeats runs the first
 * time only. Any other expression recurs within the day and follows real time: nothing is due in a skipped hour, and a
 * repeated hour has its runs twice.
 */
import { type Duration, toMs } from "../core/duration.ts";
import { type InvalidArgumentError, invalid } from "../core/errors.ts";
import { checkText, passed } from "../core/options.ts";
import { suggest } from "../core/text.ts";
import { type CronFields, parseCron, WallClock } from "./cron.ts";

const SECOND = 1_000;
const DAY = 86_400_000;

const EVERY_MS_MIN = SECOND;
const EVERY_MS_MAX = 366 * DAY;

export const DEFAULT_TIME_ZONE = "UTC";
const ZONE_LENGTH_MAX = 64;

/** Around a change of the clock, a few matches may fall away. */
const TRIES_MAX = 100;

/** Expressions and zones that are kept ready. */
const CACHED_MAX = 1_000;

/** As it is stored. */
export interface TimingRow {
  /** The cron expression; null: it is an interval. */
  readonly cron: string | null;
  /** The IANA zone of the expression; null: it is an interval. */
  readonly timeZone: string | null;
  /** The interval in milliseconds; null: it is a cron expression. */
  readonly everyMs: number | null;
  /** How long after each multiple of the interval it runs; null: it is a cron expression. */
  readonly offsetMs: number | null;
}

/** When a schedule is due: a cron expression in a time zone, or an interval. */
export interface TimingOptions {
  /** Five fields, or six with seconds first; or a nickname such as "@daily". */
  readonly cron?: string;
  /** The IANA name of the time zone of `cron`. Default "UTC". */
  readonly timeZone?: string;
  /** An interval, in whole seconds. Counted from 1970 in UTC, so restarts and edits do not shift it. */
  readonly every?: Duration;
  /** Shifts the runs of `every` by this much. Default 0. */
  readonly offset?: Duration;
}

/** They are checked together: see checkTiming. */
export const timingFields = {
  cron: passed<string>(),
  timeZone: passed<string>(),
  every: passed<Duration>(),
  offset: passed<Duration>(),
};

/** An endless row of instants, in order. */
export interface Timing {
  /** The first tick after this instant; null: there is none. */
  next(after: number): number | null;
  /** How the clock's next change moves one of its ticks, in a sentence; null: it moves none within a year. */
  clock(after: number): string | null;
}

export function checkTiming({ cron, timeZone, every, offset }: TimingOptions): TimingRow {
  if ((cron === undefined) === (every === undefined)) {
    const which = 'either cron ("30 2 * * *") or every ("10m")';
    const problem =
      cron === undefined ? `pass ${which}; neither was passed.` : `pass ${which}, but not both.`;
    throw invalid("cron", problem);
  }
  if (cron !== undefined) {
    if (offset !== undefined) throw belongsTo("offset", "every");
    parseCron("cron", cron);
    const zone = checkZone("timeZone", timeZone ?? DEFAULT_TIME_ZONE);
    return { cron: cron.trim(), timeZone: zone, everyMs: null, offsetMs: null };
  }
  if (timeZone !== undefined) throw belongsTo("timeZone", "cron");
  const everyMs = wholeSeconds("every", every as Duration, {
    min: EVERY_MS_MIN,
    max: EVERY_MS_MAX,
  });
  const offsetMs = wholeSeconds("offset", offset ?? 0, { min: 0, max: everyMs - SECOND });
  return { cron: null, timeZone: null, everyMs, offsetMs };
}

function belongsTo(field: string, other: string): InvalidArgumentError {
  return invalid(field, `requires ${other}.`);
}

function wholeSeconds(field: string, given: Duration, range: { min: number; max: number }): number {
  const ms = toMs(field, given, range);
  if (ms % SECOND === 0) return ms;
  throw invalid(field, "must be whole seconds.");
}

function checkZone(field: string, given: string): string {
  const name = checkText(field, given);
  if (name.length <= ZONE_LENGTH_MAX && zoneOf(name) !== null) return name;
  const meant = suggest(name.slice(0, ZONE_LENGTH_MAX), Intl.supportedValuesOf("timeZone"));
  const advice = meant === null ? "Use a name such as Europe/Berlin." : `Did you mean ${meant}?`;
  const problem = `${JSON.stringify(name.slice(0, ZONE_LENGTH_MAX))} is not a time zone. ${advice}`;
  throw invalid(field, problem);
}

const timings = new Map<string, Timing>();

/** Throws InvalidArgumentError if the row cannot be read here, as when this Node does not know its time zone. */
export function timingOf({ cron, timeZone, everyMs, offsetMs }: TimingRow): Timing {
  if (cron === null) return new Interval(everyMs ?? EVERY_MS_MAX, offsetMs ?? 0);
  const zoneName = timeZone ?? DEFAULT_TIME_ZONE;
  return cached(timings, `${zoneName} ${cron}`, () => {
    const zone = zoneOf(checkZone("timeZone", zoneName)) as Zone;
    return new CronTiming(parseCron("cron", cron), zone);
  });
}

/** The next ticks after an instant. */
export function nextTicks(timing: Timing, after: number, count: number): number[] {
  const ticks: number[] = [];
  let tick = timing.next(after);
  while (tick !== null && ticks.length < count) {
    ticks.push(tick);
    tick = timing.next(tick);
  }
  return ticks;
}

class Interval implements Timing {
  readonly #everyMs: number;
  readonly #offsetMs: number;

  constructor(everyMs: number, offsetMs: number) {
    this.#everyMs = everyMs;
    this.#offsetMs = offsetMs;
  }

  next(after: number): number {
    const [every, offset] = [this.#everyMs, this.#offsetMs];
    return (Math.floor((after - offset) / every) + 1) * every + offset;
  }

  /** Counted in UTC. */
  clock(): null {
    return null;
  }
}

class CronTiming implements Timing {
  readonly #wall: WallClock;
  readonly #recurs: boolean;
  /** It runs in every hour: a change of the clock is no event for it. */
  readonly #isHourly: boolean;
  readonly #zone: Zone;

  constructor(fields: CronFields, zone: Zone) {
    this.#wall = new WallClock(fields);
    this.#recurs = fields.recurs;
    this.#isHourly = fields.entries.hour.some(({ kind }) => kind === "all");
    this.#zone = zone;
  }

  next(after: number): number | null {
    const start = floorSecond(after);
    const found = this.#search(start + this.#zone.offsetAt(start), start);
    return this.#recurs ? this.#soonest(found, start) : found;
  }

  clock(after: number): string | null {
    if (this.#isHourly) return null;
    let from = after;
    // Forward and back: two a year.
    for (let changes = 0; changes < 2; changes += 1) {
      const change = this.#zone.nextChange(from);
      if (change === null) return null;
      if (this.#isMoved(change)) return clockText(change, this.#recurs);
      from = change.at;
    }
    return null;
  }

  /** Whether it has a time that the clock skips or repeats. */
  #isMoved({ from, to }: ClockChange): boolean {
    const first = this.#wall.after(Math.min(from, to) - SECOND);
    return first !== null && first < Math.max(from, to);
  }

  /** The first match whose wall-clock time is after this one, and whose instant is after `after`. */
  #search(from: number, after: number): number | null {
    let wall = this.#wall.after(from);
    for (let tries = 0; wall !== null && tries < TRIES_MAX; tries += 1) {
      const { instants, change } = this.#zone.resolve(wall);
      const [first = null] = instants;
      if (this.#recurs) {
        const at = instants.find((instant) => instant > after);
        if (at !== undefined) return at;
        // The clock skips this time: the next one is at the end of the gap or later.
        wall = change === null ? this.#wall.after(wall) : this.#wall.after(change.to - SECOND);
        continue;
      }
      const at = first ?? change?.at ?? null;
      if (at !== null && at > after) return at;
      // It ran when the clock showed this time first: the next one is behind the repeated hour.
      wall = this.#wall.after(change === null ? wall : Math.max(wall, change.from - SECOND));
    }
    return null;
  }

  /** If the clock is set back before the match, the repeated hour may have an earlier one. */
  #soonest(found: number | null, after: number): number | null {
    const change = this.#zone.change(after, after + DAY);
    if (change === null || change.to > change.from) return found;
    if (found !== null && found < change.at) return found;
    const wall = this.#wall.after(change.to - SECOND);
    const again = wall === null ? null : wall - (change.to - change.at);
    return again !== null && again > after && (found === null || again < found) ? again : found;
  }
}

function floorSecond(at: number): number {
  return Math.floor(at / SECOND) * SECOND;
}

/** No zone changes its clock forth and back in less. */
const CHANGE_SPAN_MS = 20 * DAY;

/** "On 2027-03-28 the clock goes forward from 02:00 to 03:00: a run in between is at 03:00." */
function clockText({ from, to }: ClockChange, recurs: boolean): string {
  const [day = "", time = ""] = wallText(from);
  const [, until = ""] = wallText(to);
  const isForward = to > from;
  const forward = recurs ? "nothing runs in between" : `a run in between is at ${until}`;
  const back = recurs ? "that time has its runs twice" : "a run in between is the first time only";
  return `On ${day} the clock goes ${isForward ? "forward" : "back"} from ${time} to ${until}: ${isForward ? forward : back}.`;
}

function wallText(wall: number): string[] {
  return new Date(wall).toISOString().slice(0, 16).split("T");
}

/** The clock jumps at this instant, from one wall-clock time to another. */
interface ClockChange {
  readonly at: number;
  readonly from: number;
  readonly to: number;
}

interface Resolved {
  /** When the clock shows this time: once, never or twice. */
  readonly instants: readonly number[];
  /** The change of the clock within a day, if the time is not shown exactly once. */
  readonly change: ClockChange | null;
}

const zones = new Map<string, Zone>();

/** Null: there is no such time zone. */
function zoneOf(name: string): Zone | null {
  try {
    return cached(zones, name, () => new Zone(name));
  } catch {
    return null;
  }
}

class Zone {
  readonly #format: Intl.DateTimeFormat | null;

  constructor(timeZone: string) {
    const parts = { year: "numeric", month: "numeric", day: "numeric" } as const;
    const time = { hour: "numeric", minute: "numeric", second: "numeric" } as const;
    const format = new Intl.DateTimeFormat("en-US", {
      ...parts,
      ...time,
      era: "short",
      hourCycle: "h23",
      timeZone,
    });
    this.#format = format.resolvedOptions().timeZone === "UTC" ? null : format;
  }

  /** How far the clock is ahead of UTC at this instant, in milliseconds. */
  offsetAt(at: number): number {
    if (this.#format === null) return 0;
    const second = floorSecond(at);
    const parts: Record<string, string> = {};
    for (const { type, value } of this.#format.formatToParts(second)) parts[type] = value;
    const number = (type: string): number => Number(parts[type]);
    const date = [number("year"), number("month") - 1, number("day")] as const;
    const time = [number("hour"), number("minute"), number("second")] as const;
    return Date.UTC(...date, ...time) - second;
  }

  resolve(wall: number): Resolved {
    const [before, after] = [wall - this.offsetAt(wall - DAY), wall - this.offsetAt(wall + DAY)];
    const instants = [...new Set([before, after])].filter((at) => at + this.offsetAt(at) === wall);
    if (instants.length === 1) return { instants, change: null };
    const change = this.change(wall - DAY, wall + DAY);
    return { instants: instants.toSorted((a, b) => a - b), change };
  }

  /** The first change of the clock within a year. */
  nextChange(after: number): ClockChange | null {
    for (let from = after; from < after + 366 * DAY; from += CHANGE_SPAN_MS) {
      const change = this.change(from, from + CHANGE_SPAN_MS);
      if (change !== null) return change;
    }
    return null;
  }

  /** The change of the clock after `from` and not after `to`; null: there is none. */
  change(from: number, to: number): ClockChange | null {
    const before = this.offsetAt(from);
    if (this.offsetAt(to) === before) return null;
    let [low, high] = [floorSecond(from), floorSecond(to)];
    while (high - low > SECOND) {
      const middle = floorSecond((low + high) / 2);
      if (this.offsetAt(middle) === before) low = middle;
      else high = middle;
    }
    return { at: high, from: high + before, to: high + this.offsetAt(high) };
  }
}

function cached<T>(kept: Map<string, T>, key: string, make: () => T): T {
  const known = kept.get(key);
  if (known !== undefined) return known;
  const made = make();
  if (kept.size >= CACHED_MAX) kept.delete(kept.keys().next().value as string);
  kept.set(key, made);
  return made;
}

// Decides which ticks of a schedule run now: those on time, and of the missed ones those that its policy names.

/** A tick that no scheduler has handled for longer than this is missed. Until then it is only late, and runs. */
export const LATE_MS = 60_000;

/** Missed ticks that `all` may run at once. */
export const MISSED_LIMIT_MAX = 1_000;

/** Missed ticks are counted up to this number. */
const MISSED_COUNT_MAX = 500;

/** The search for the newest ticks begins with this span, and grows. */
const SPAN_MS = 60_000;
const GROWTH = 4;

const missedPolicies = ["skip", "once", "all"] as const;
/** What runs at once if ticks were missed. */
export type MissedPolicy = (typeof missedPolicies)[number];

interface Due {
  /** The tick that is due. It may be of an earlier definition. */
  readonly nextAt: number;
  /** When the definition last changed: later ticks are its own, and after this. */
  readonly sinceAt: number;
  readonly missed: MissedPolicy;
  readonly missedLimit: number;
}

interface TickPlan {
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
export function between(timing: Timing, from: number, to: number, max: number): number[] {
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
