/**
 * Durations as people write them.
 *
 * Inside the library a duration is a whole number of milliseconds and its name ends in `Ms`. Input such as "10m" is converted
 * once, at the edge, where the name of its option is known.
 */
import { InvalidArgumentError, invalid } from "./errors.ts";

/** Milliseconds, or a string such as "250ms", "10s", "1.5m", "2h", "7d" or "1h30m". */
export type Duration = number | string;

/** A hundred years: an instant plus any duration is still an exact integer on every engine. */
export const DURATION_MS_MAX = 36_500 * 86_400_000;
const TEXT_LENGTH_MAX = 64;

/** Largest first, the order in which they are written. */
const units = [
  { name: "d", ms: 86_400_000 },
  { name: "h", ms: 3_600_000 },
  { name: "m", ms: 60_000 },
  { name: "s", ms: 1_000 },
  { name: "ms", ms: 1 },
] as const;

/** The duration in whole milliseconds. `field` is the option's name as the caller wrote it. */
export function toMs(
  field: string,
  duration: Duration,
  limits: { min?: number; max?: number } = {},
): number {
  const exactMs = typeof duration === "string" ? parse(duration) : duration;
  if (typeof exactMs !== "number" || !Number.isFinite(exactMs)) {
    throw new InvalidArgumentError({
      field,
      problem:
        `${show(duration)} is not a duration. ` +
        `Write milliseconds (500) or a string such as "250ms", "10s", "1.5m", "2h", "7d" or "1h30m".`,
    });
  }
  const ms = Math.round(exactMs);
  const { min = 0, max = DURATION_MS_MAX } = limits;
  if (ms < min) throw outOfRange(field, duration, "least", min);
  if (ms > max) throw outOfRange(field, duration, "most", max);
  return ms;
}

/** For people: the two largest units, such as "1m 30s" or "250ms", rounded down, so an age is never overstated. */
export function formatMs(ms: number): string {
  if (!Number.isFinite(ms)) return String(ms);
  const whole = Math.floor(Math.abs(ms));
  const largest = units.findIndex((unit) => whole >= unit.ms);
  if (largest === -1) return "0ms";
  const parts: string[] = [];
  let rest = whole;
  for (const unit of units.slice(largest, largest + 2)) {
    const count = Math.floor(rest / unit.ms);
    if (count > 0) parts.push(`${count}${unit.name}`);
    rest %= unit.ms;
  }
  return (ms < 0 ? "-" : "") + parts.join(" ");
}

/** The duration in milliseconds, or null. Each unit may occur once, the largest first. */
function parse(text: string): number | null {
  if (text.length > TEXT_LENGTH_MAX) return null;
  const part = /(\d+(?:\.\d+)?)(ms|[smhd]) ?/y; // sticky: continues where it stopped
  const trimmed = text.trim();
  let totalMs = 0;
  let next = 0;
  while (part.lastIndex < trimmed.length) {
    const [, count, name] = part.exec(trimmed) ?? [];
    const found = units.findIndex((unit) => unit.name === name);
    const unit = units[found];
    if (unit === undefined || found < next) return null;
    totalMs += Number(count) * unit.ms;
    next = found + 1;
  }
  return next === 0 ? null : totalMs;
}

function outOfRange(
  field: string,
  duration: Duration,
  bound: "least" | "most",
  ms: number,
): InvalidArgumentError {
  const problem = `must be at ${bound} ${ms} ms (${formatMs(ms)}); it is ${show(duration)}.`;
  return invalid(field, problem);
}

function show(given: unknown): string {
  if (typeof given === "string") return JSON.stringify(given.slice(0, TEXT_LENGTH_MAX));
  return typeof given === "number" ? String(given) : `A value of type ${typeof given}`;
}
