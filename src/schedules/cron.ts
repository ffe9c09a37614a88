/**
 * Cron expressions: five fields, or six with seconds first.
 *
 * The text is checked here before anything expands it, so hostile text costs nothing. What passes is handed to croner in one
 * spelling, and croner answers which wall-clock times match. Time zones are added in timing.ts.
 */
import { Cron } from "croner";
import { invalid } from "../core/errors.ts";
import { checkText } from "../core/options.ts";

export const CRON_LENGTH_MAX = 256;

/** Entries of one field, separated by commas. */
const ENTRIES_MAX = 60;

const SHOWN_MAX = 40;

const fieldNames = ["second", "minute", "hour", "day", "month", "weekday"] as const;
export type FieldName = (typeof fieldNames)[number];

/** One entry of a field: every value from `from` to `to`, in steps, or a special day. */
export type Entry =
  | { readonly kind: "all" }
  | { readonly kind: "range"; readonly from: number; readonly to: number; readonly step: number }
  /** The last day of the month, or its last weekday. */
  | { readonly kind: "last"; readonly weekday: boolean }
  /** The weekday nearest to a day of the month. */
  | { readonly kind: "nearest"; readonly day: number }
  /** Such as the second Friday of the month; 6: the last. */
  | { readonly kind: "nth"; readonly weekday: number; readonly nth: number };

export const LAST = 6;

export interface CronFields {
  readonly entries: Readonly<Record<FieldName, readonly Entry[]>>;
  /** In one spelling, with six fields. */
  readonly text: string;
  /** The day and the weekday must both match. Otherwise one of them is enough, if neither is a star. */
  readonly both: boolean;
  /** Second, minute or hour begins with a star: it recurs within the day and follows real time. */
  readonly recurs: boolean;
}

interface Limits {
  readonly least: number;
  readonly most: number;
  readonly names?: readonly string[];
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const LIMITS: Readonly<Record<FieldName, Limits>> = {
  second: { least: 0, most: 59 },
  minute: { least: 0, most: 59 },
  hour: { least: 0, most: 23 },
  day: { least: 1, most: 31 },
  month: { least: 1, most: 12, names: MONTHS },
  weekday: { least: 0, most: 7, names: WEEKDAYS },
};

const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ["@yearly", "0 0 1 1 *"],
  ["@annually", "0 0 1 1 *"],
  ["@monthly", "0 0 1 * *"],
  ["@weekly", "0 0 * * 0"],
  ["@daily", "0 0 * * *"],
  ["@midnight", "0 0 * * *"],
  ["@hourly", "0 * * * *"],
]);

const EXAMPLE = 'such as "30 2 * * *" for 02:30 every day';

/** The fields of an expression, or InvalidArgumentError that names the field and the remedy. */
export function parseCron(field: string, given: string): CronFields {
  const text = checkText(field, given);
  const refuse = (problem: string): never => {
    throw invalid(field, problem);
  };
  if (text.length > CRON_LENGTH_MAX)
    return refuse(`has ${text.length} characters; at most ${CRON_LENGTH_MAX} are allowed.`);
  const trimmed = text.trim();
  if (trimmed.startsWith("@") && !NICKNAMES.has(trimmed))
    return refuse(`has no nickname '${shown(trimmed)}'. Use ${[...NICKNAMES.keys()].join(", ")}.`);
  const parts = (NICKNAMES.get(trimmed) ?? trimmed).split(/[ \t]+/);
  if (parts.length !== 5 && parts.length !== 6) {
    const found = trimmed === "" ? "is empty" : `has ${parts.length} fields`;
    return refuse(
      `${found}. Write minute, hour, day, month and weekday, ${EXAMPLE}; with six fields, the first is the second.`,
    );
  }
  const both = parts.at(-1)?.startsWith("+") === true;
  const weekday = parts.pop()?.slice(both ? 1 : 0) ?? "";
  const all = [...(parts.length === 5 ? [] : ["0"]), ...parts, weekday];
  const named = fieldNames.map(
    (name, at) => [name, entriesOf(name, all[at] ?? "", refuse)] as const,
  );
  const entries = Object.fromEntries(named) as unknown as CronFields["entries"];
  return {
    entries,
    text: fieldNames
      .map((name) => `${both && name === "weekday" ? "+" : ""}${spelled(name, entries[name])}`)
      .join(" "),
    both,
    recurs: all.slice(0, 3).some((part) => part.startsWith("*")),
  };
}

type Refuse = (problem: string) => never;

function entriesOf(name: FieldName, text: string, refuse: Refuse): Entry[] {
  const texts = text.split(",");
  if (texts.length > ENTRIES_MAX)
    refuse(`the ${name} field has ${texts.length} entries; at most ${ENTRIES_MAX} are allowed.`);
  const entries = texts.map((one) => entryOf(name, one.toUpperCase(), refuse));
  if (entries.length > 1 && entries.some((entry) => entry.kind === "last" && entry.weekday))
    refuse("the day field has LW in a list. Write a schedule of its own for LW.");
  return entries;
}

const RANGE = /^(\*|\?|[A-Z]{3}|\d{1,2})(?:-([A-Z]{3}|\d{1,2}))?(?:\/(\d{1,2}))?$/;
const NEAREST = /^(\d{1,2})W$/;
const NTH = /^([A-Z]{3}|\d)(?:#([1-5L])|(L))$/;

function entryOf(name: FieldName, text: string, refuse: Refuse): Entry {
  const special = name === "day" || name === "weekday" ? specialDay(name, text, refuse) : null;
  if (special !== null) return special;
  const [match, first = "", last, steps] = RANGE.exec(text) ?? [];
  const isAll = first === "*" || (first === "?" && (name === "day" || name === "weekday"));
  if (match === undefined || (first === "?" && !isAll) || (isAll && last !== undefined))
    return refuse(notAllowed(name, text));
  const { least, most } = LIMITS[name];
  const [step, stepMost] = [Number(steps ?? 1), most - least + 1];
  if (step < 1 || step > stepMost)
    return refuse(`the ${name} field steps by ${step}. Write a step from 1 to ${stepMost}.`);
  if (isAll && steps === undefined) return { kind: "all" };
  const from = isAll ? least : valueOf(name, first, refuse);
  const end = name === "weekday" ? most - 1 : most;
  const open = isAll || (steps !== undefined && last === undefined) ? end : from;
  const to = last === undefined ? open : valueOf(name, last, refuse);
  if (from <= to) return { kind: "range", from, to, step };
  return refuse(`the ${name} field has '${shown(text)}', which runs backwards. Write two ranges.`);
}

function specialDay(name: "day" | "weekday", text: string, refuse: Refuse): Entry | null {
  if (name === "day") {
    if (text === "L" || text === "LW") return { kind: "last", weekday: text === "LW" };
    const day = NEAREST.exec(text)?.[1];
    return day === undefined ? null : { kind: "nearest", day: valueOf("day", day, refuse) };
  }
  const [match, weekday = "", nth = "L"] = NTH.exec(text) ?? [];
  if (match === undefined) return null;
  return {
    kind: "nth",
    weekday: valueOf("weekday", weekday, refuse) % 7,
    nth: nth === "L" ? LAST : Number(nth),
  };
}

function valueOf(name: FieldName, text: string, refuse: Refuse): number {
  const { least, most, names = [] } = LIMITS[name];
  const at = names.indexOf(text);
  if (at !== -1) return at + least;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : refuse(notAllowed(name, text));
}

function notAllowed(name: FieldName, text: string): string {
  const { least, most, names } = LIMITS[name];
  const words = names === undefined ? "" : `, or ${names[0]} to ${names.at(-1)}`;
  const values = `${least} to ${most}${words}, with *, lists (1,2), ranges (1-5) and steps (*/2)`;
  return `'${shown(text)}' is not valid in the ${name} field. Allowed: ${values}.`;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, SHOWN_MAX)).slice(1, -1);
}

function spelled(name: FieldName, entries: readonly Entry[]): string {
  // A star beside other entries allows everything that they do.
  if (entries.some(({ kind }) => kind === "all")) return "*";
  return entries.map((entry) => spelledEntry(name, entry)).join(",");
}

function spelledEntry(name: FieldName, entry: Entry): string {
  switch (entry.kind) {
    case "all":
      return "*";
    case "last":
      return entry.weekday ? "LW" : "L";
    case "nearest":
      return `${entry.day}W`;
    case "nth":
      return `${entry.weekday}#${entry.nth === LAST ? "L" : entry.nth}`;
    case "range": {
      const { from, to, step } = entry;
      // Sunday is 0 and 7.
      if (name === "weekday" && to === 7)
        return valuesOf(entry)
          .map((day) => day % 7)
          .join(",");
      return from === to ? String(from) : `${from}-${to}${step === 1 ? "" : `/${step}`}`;
    }
  }
}

export function valuesOf({ from, to, step }: { from: number; to: number; step: number }): number[] {
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, at) => from + at * step);
}

/** The wall-clock times that match, as if every clock showed UTC. */
export class WallClock {
  readonly #cron: Cron;
  /** To croner, the 31st of February is a day of March, and it leaves out the days before that. */
  readonly #skipsMarch: boolean;

  constructor({ text, entries }: CronFields) {
    this.#cron = new Cron(text, { mode: "6-part", utcOffset: 0 });
    this.#skipsMarch = entries.day.some((entry) => entry.kind === "range" && entry.to >= 30);
  }

  /** The first match after this time; null: there is none. */
  after(wall: number): number | null {
    const found = this.#next(wall);
    if (!this.#skipsMarch || found === null) return found;
    for (let march = marchAfter(wall); march < found; march = marchAfter(march)) {
      const earlier = this.#next(march - 1);
      if (earlier !== null && earlier < found) return earlier;
    }
    return found;
  }

  #next(wall: number): number | null {
    return this.#cron.nextRun(new Date(wall))?.getTime() ?? null;
  }
}

function marchAfter(wall: number): number {
  const year = new Date(wall).getUTCFullYear();
  return Date.UTC(wall < Date.UTC(year, 2) ? year : year + 1, 2);
}
