/** A schedule in words: "At 02:30 on Monday to Friday (Europe/Berlin)". */
import { type CronFields, type Entry, type FieldName, LAST, parseCron, valuesOf } from "./cron.ts";
import { DEFAULT_TIME_ZONE, type TimingRow } from "./timing.ts";

const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const NTH = ["", "first", "second", "third", "fourth", "fifth", "last"];

/** More times of day than this are described by their fields. */
const TIMES_MAX = 6;

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
] as const;

export function inWords(timing: TimingRow): string {
  const { cron, timeZone, everyMs, offsetMs } = timing;
  if (cron === null) return intervalInWords(everyMs ?? 0, offsetMs ?? 0);
  const fields = parseCron("cron", cron);
  const time = timeInWords(fields);
  const days = [daysInWords(fields, time.startsWith("every")), monthsInWords(fields)];
  const sentence = [time, ...days].filter((part) => part !== "").join(" ");
  return `${capitalised(sentence)} (${timeZone ?? DEFAULT_TIME_ZONE})`;
}

function intervalInWords(everyMs: number, offsetMs: number): string {
  const shift = offsetMs === 0 ? "" : `, shifted by ${lengthInWords(offsetMs)}`;
  const length = lengthInWords(everyMs);
  return `Every ${length.replace(/^1 (\w+)$/, "$1")}${shift}`;
}

/** "1 hour and 30 minutes". */
function lengthInWords(ms: number): string {
  let left = ms;
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count} ${unit}${count === 1 ? "" : "s"}`);
    left -= count * size;
  }
  return listed(parts);
}

function timeInWords({ entries }: CronFields): string {
  const { second, minute, hour } = entries;
  const exact = timesOfDay(entries);
  if (exact !== null) return `at ${listed(exact)}`;
  const hours = isAll(hour) ? "" : ` ${hoursInWords(hour)}`;
  const everySecond = repeated("second", second);
  if (everySecond !== null && isAll(minute)) return `every ${everySecond}${hours}`;
  const atZero = isOnly(second, 0);
  const everyMinute = repeated("minute", minute);
  if (atZero && everyMinute !== null) return `every ${everyMinute}${hours}`;
  const everyHour = repeated("hour", hour);
  const past = isOnly(minute, 0) && atZero ? "" : ` at ${pastHour(second, minute)}`;
  if (everyHour !== null) return `every ${everyHour}${past}`;
  return `${past === "" ? "every hour" : past.trim()}${hours}`;
}

/** "minute 15", "minutes 5 to 10, second 30". */
function pastHour(second: readonly Entry[], minute: readonly Entry[]): string {
  const seconds = isOnly(second, 0) ? "" : `, ${plural("second", second)}`;
  return `${isAll(minute) ? "every minute" : plural("minute", minute)}${seconds}`;
}

/** Every time of day, if there are only a few; null: there are many. */
function timesOfDay({ second, minute, hour }: CronFields["entries"]): string[] | null {
  const [seconds, minutes, hours] = [second, minute, hour].map(fewValues);
  if (seconds === undefined || minutes === undefined || hours === undefined) return null;
  if (seconds.length * minutes.length * hours.length > TIMES_MAX) return null;
  return hours.flatMap((h) =>
    minutes.flatMap((m) =>
      seconds.map((s) => [h, m, ...(s === 0 ? [] : [s])].map(twoDigits).join(":")),
    ),
  );
}

/** Undefined: all of them, or too many to list. */
function fewValues(entries: readonly Entry[]): number[] | undefined {
  const values = new Set<number>();
  for (const entry of entries) {
    if (entry.kind !== "range") return undefined;
    for (const value of valuesOf(entry)) values.add(value);
  }
  return values.size > TIMES_MAX ? undefined : [...values].toSorted((a, b) => a - b);
}

/** "minute" or "5 minutes", for a star with or without steps; null: it is neither. */
function repeated(unit: "second" | "minute" | "hour", entries: readonly Entry[]): string | null {
  const [entry, ...others] = entries;
  if (entry === undefined || others.length > 0) return null;
  if (entry.kind === "all") return unit;
  if (entry.kind !== "range" || entry.from !== 0 || entry.step === 1) return null;
  const size = unit === "hour" ? 24 : 60;
  if (entry.to !== size - 1 || size % entry.step !== 0) return null;
  return `${entry.step} ${unit}s`;
}

/** "from 09:00 to 17:59", "in hours 9 and 12". */
function hoursInWords(hour: readonly Entry[]): string {
  const [entry, ...others] = hour;
  if (entry?.kind === "range" && others.length === 0 && entry.step === 1)
    return `from ${twoDigits(entry.from)}:00 to ${twoDigits(entry.to)}:59`;
  return `in ${plural("hour", hour)}`;
}

function daysInWords({ entries, both }: CronFields, recurs: boolean): string {
  const { day, weekday } = entries;
  if (isAll(day) && isAll(weekday)) return recurs ? "" : "every day";
  const parts = [
    isAll(day) ? "" : `on ${daysOfMonth(day)}`,
    isAll(weekday) ? "" : `on ${weekdaysOf(weekday)}`,
  ];
  return parts
    .filter((part) => part !== "")
    .join(both ? " if it is also " : " or ")
    .replace("also on", "also");
}

function daysOfMonth(entries: readonly Entry[]): string {
  const numbers = entries.filter((entry) => entry.kind === "range");
  const special = entries.flatMap((entry) => {
    if (entry.kind === "last") return entry.weekday ? "the last weekday" : "the last day";
    return entry.kind === "nearest" ? `the weekday nearest to day ${entry.day}` : [];
  });
  const days = numbers.length === 0 ? [] : [plural("day", numbers)];
  return `${listed([...days, ...special])} of the month`;
}

function weekdaysOf(entries: readonly Entry[]): string {
  const parts = entries.map((entry) => {
    if (entry.kind === "nth") {
      const nth = entry.nth === LAST ? "last" : (NTH[entry.nth] ?? "");
      return `the ${nth} ${WEEKDAYS[entry.weekday]} of the month`;
    }
    return entry.kind === "range" ? ranged(entry, (value) => WEEKDAYS[value % 7] ?? "") : "";
  });
  return listed(parts);
}

function monthsInWords({ entries: { month } }: CronFields): string {
  if (isAll(month)) return "";
  const parts = month.map((entry) => (entry.kind === "range" ? ranged(entry, monthName) : ""));
  return `in ${listed(parts)}`;
}

function monthName(value: number): string {
  return MONTHS[value - 1] ?? "";
}

/** "minutes 5 and 10 to 20". */
function plural(unit: FieldName, entries: readonly Entry[]): string {
  const parts = entries.map((entry) => (entry.kind === "range" ? ranged(entry, String) : ""));
  const [only] = entries;
  const isOne = entries.length === 1 && only?.kind === "range" && only.from === only.to;
  return `${unit}${isOne ? "" : "s"} ${listed(parts)}`;
}

function ranged(
  entry: { readonly from: number; readonly to: number; readonly step: number },
  name: (value: number) => string,
): string {
  const { from, to, step } = entry;
  const values = valuesOf(entry);
  if (values.length <= 2 || (step > 1 && values.length <= TIMES_MAX))
    return listed(values.map(name));
  return `${name(from)} to ${name(to)}${step === 1 ? "" : ` in steps of ${step}`}`;
}

function isAll(entries: readonly Entry[]): boolean {
  return entries.some(({ kind }) => kind === "all");
}

function isOnly(entries: readonly Entry[], value: number): boolean {
  const [entry] = entries;
  return (
    entries.length === 1 && entry?.kind === "range" && entry.from === value && entry.to === value
  );
}

function listed(parts: readonly string[]): string {
  const [last, ...others] = parts.toReversed();
  if (last === undefined) return "";
  return others.length === 0 ? last : `${others.toReversed().join(", ")} and ${last}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
