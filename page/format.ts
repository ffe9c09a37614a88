/** Numbers, spans and instants as the page writes them. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const whole = new Intl.NumberFormat("en-US");

/** "1,209,739". */
export function count(value: number): string {
  return whole.format(value);
}

/** "3.6k", "12", "1.2M": at most four characters. */
export function brief(value: number): string {
  const units = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const;
  for (const [size, unit] of units) {
    if (Math.abs(value) >= size) return `${trimmed(value / size, 1)}${unit}`;
  }
  return trimmed(value, value < 10 ? 1 : 0);
}

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, "");
}

/** "1 job", "2 jobs". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** "99.98". */
export function percent(share: number): string {
  const value = share * 100;
  if (value >= 99.995 && share < 1) return "99.99";
  return trimmed(value, 2);
}

/** How long something took: "0.4 ms", "412 ms", "1.9 s", "16 min 10 s", "2 h 5 min", "3 d 4 h". */
export function span(ms: number): string {
  if (ms < 10) return `${trimmed(Math.max(0, ms), 1)} ms`;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${trimmed(ms / SECOND, 1)} s`;
  if (ms < HOUR) return two(ms, MINUTE, "min", SECOND, "s");
  if (ms < DAY) return two(ms, HOUR, "h", MINUTE, "min");
  return two(ms, DAY, "d", HOUR, "h");
}

function two(ms: number, big: number, bigName: string, small: number, smallName: string): string {
  const first = Math.floor(ms / big);
  const second = Math.floor((ms % big) / small);
  return second === 0 || first >= 100
    ? `${first} ${bigName}`
    : `${first} ${bigName} ${second} ${smallName}`;
}

/** As it is typed into a form, exactly: "10s", "90s", "1h", "250ms". */
export function durationText(ms: number): string {
  const units = [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "m"],
    [SECOND, "s"],
  ] as const;
  const [size, unit] = units.find(([each]) => ms > 0 && ms % each === 0) ?? [1, "ms"];
  return `${ms / size}${unit}`;
}

/** One unit only: "38 s", "4 min", "2 h", "3 d". */
export function age(ms: number): string {
  const past = Math.max(0, ms);
  if (past < MINUTE) return `${Math.floor(past / SECOND)} s`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (past < DAY) return `${Math.floor(past / HOUR)} h`;
  return `${Math.floor(past / DAY)} d`;
}

/** "44" and "ms", for a large figure with a small unit. */
export function spanParts(ms: number): readonly [string, string] {
  const [value = "", unit = ""] = span(ms).split(" ");
  return [value, unit];
}

const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const shortClock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayAndMonth = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const weekday = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
});
const exactly = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  timeZoneName: "short",
});

/** "10:41:08". */
export function timeOfDay(at: number): string {
  return clock.format(at);
}

/** "10:41". */
export function hourMinute(at: number): string {
  return shortClock.format(at);
}

/** "10:42:03.118", for log lines. */
export function withMillis(at: number): string {
  return `${clock.format(at)}.${String(Math.floor(at) % SECOND).padStart(3, "0")}`;
}

/** "Mon 16 Nov 02:30", by the clocks of that time zone. */
export function inZone(at: number, timeZone: string): string {
  try {
    const parts = { weekday: "short", day: "numeric", month: "short" } as const;
    const time = { hour: "2-digit", minute: "2-digit" } as const;
    const format = new Intl.DateTimeFormat("en-GB", { ...parts, ...time, timeZone });
    return format.format(at).replaceAll(",", "");
  } catch {
    return ""; // This browser does not know the zone.
  }
}

/** "Mon 16 Nov". */
export function dayOf(at: number): string {
  return weekday.format(at).replace(",", "");
}

/** "10:41:08" today, "yesterday 10:41", "13 Nov". */
export function moment(at: number, now: number): string {
  const days = dayNumber(now) - dayNumber(at);
  if (days === 0) return timeOfDay(at);
  if (days === 1) return `yesterday ${hourMinute(at)}`;
  if (days === -1) return `tomorrow ${hourMinute(at)}`;
  return `${dayAndMonth.format(at)} ${hourMinute(at)}`;
}

function dayNumber(at: number): number {
  const date = new Date(at);
  return Math.floor(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) / DAY);
}

/** The exact instant with its zone, for a title. */
export function exact(at: number): string {
  return exactly.format(at);
}

/** "Europe/Berlin". */
export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** "CET". */
export function zoneShort(at: number): string {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(at);
  return parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
}

/** "142 MB", "1.2 kB". */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1_000 && at < units.length - 1) {
    left /= 1_000;
    at += 1;
  }
  return `${left < 10 && at > 0 ? trimmed(left, 1) : Math.round(left)} ${units[at] ?? ""}`;
}

/** An id in a sentence: its first 13 characters, which hold its time. */
export function shortId(id: string): string {
  return id.length > 18 ? `${id.slice(0, 13)}…` : id;
}

/** A worker's name without its long random end. */
export function workerName(id: string): string {
  return id.replace(
    /-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-([0-9a-f]{12})$/,
    (_all, end: string) => `-${end.slice(-4)}`,
  );
}

/** "a", "a and b", "a, b and c", "a, b and 3 more". */
export function listed(parts: readonly string[], most = 3): string {
  if (parts.length > most) {
    const rest = parts.length - most + 1;
    return `${parts.slice(0, most - 1).join(", ")} and ${rest} more`;
  }
  const last = parts.at(-1) ?? "";
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(", ")} and ${last}`;
}

const CLAUSE_MAX = 200;

/** The first line of a text that a program wrote, as a part of a sentence. */
export function clause(text: string): string {
  const line = (text.split("\n")[0] ?? "").replace(/\.$/, "");
  return line.length > CLAUSE_MAX ? `${line.slice(0, CLAUSE_MAX)}…` : line;
}

/** "2026-11-19T14:00:00", as an input of a day and a time has it; empty: no time. */
export function clockOf(at: number | null): string {
  if (at === null) return "";
  const local = new Date(at - new Date(at).getTimezoneOffset() * MINUTE);
  return local.toISOString().slice(0, 19);
}

/** The instant of what such an input has; null: no time. */
export function instantIn(value: string): number | null {
  const at = new Date(value).getTime();
  return Number.isNaN(at) ? null : at;
}
