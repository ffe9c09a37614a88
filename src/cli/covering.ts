/**
 * What a log line tells, without secrets.
 *
 * Facts come from anywhere: an error of a driver brings its whole request along. So everything is copied, as far down as a reader would look; what
 * is called like a secret is covered, and so is what looks like one in any text.
 */
import { COVERED, isSecretName, masked } from "../config/masking.ts";

const DEPTH_MAX = 6;
const ENTRIES_MAX = 64;
const TEXT_LENGTH_MAX = 8_192;
/** As much of a text is searched. */
const READ_LENGTH_MAX = 2 * TEXT_LENGTH_MAX;
/** The end of what was searched may be the first half of a secret: so much of it is not shown. */
const SECRET_LENGTH_MAX = 1_024;
const CUT = "[…]";

export function coveredFacts(facts: object): Record<string, unknown> {
  return entriesOf(facts, 0, new Set());
}

/** A value that somebody printed. */
export function covered(value: unknown): unknown {
  return copy(value, 0, new Set());
}

/** Masked first, then cut: half of a secret does not look like one. */
export function coveredText(text: string): string {
  if (text.length <= TEXT_LENGTH_MAX) return masked(text);
  const shown = masked(text.slice(0, READ_LENGTH_MAX));
  const unsure = text.length > READ_LENGTH_MAX ? SECRET_LENGTH_MAX : 0;
  const length = Math.min(TEXT_LENGTH_MAX, Math.max(0, shown.length - unsure));
  return `${shown.slice(0, length)}${CUT}`;
}

type Above = Set<object>;

function copy(value: unknown, depth: number, above: Above): unknown {
  if (typeof value === "string") return coveredText(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "function" || typeof value === "symbol") return undefined;
  if (typeof value !== "object" || value === null) return value;
  if (above.has(value) || depth > DEPTH_MAX) return CUT;
  if (value instanceof Date || value instanceof URL) return coveredText(textOf(value));
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  const within = new Set(above).add(value);
  if (value instanceof Error) return errorOf(value, depth + 1, within);
  if (Array.isArray(value) || value instanceof Set) {
    return [...value].slice(0, ENTRIES_MAX).map((each) => copy(each, depth + 1, within));
  }
  if (value instanceof Map)
    return entriesOf(Object.fromEntries(value) as object, depth + 1, within);
  return entriesOf(value, depth + 1, within);
}

function textOf(value: Date | URL): string {
  if (value instanceof URL) return value.href;
  return Number.isNaN(value.getTime()) ? "no date" : value.toISOString();
}

function entriesOf(value: object, depth: number, above: Above): Record<string, unknown> {
  const copied: Record<string, unknown> = {};
  for (const name of Object.keys(value).slice(0, ENTRIES_MAX)) {
    const kept = coveredValue(name, read(value, name), depth, above);
    // Defined, not assigned: a fact may be called __proto__.
    if (kept !== undefined)
      Object.defineProperty(copied, name, { value: kept, enumerable: true, configurable: true });
  }
  return copied;
}

/** A number that is called a token is the fence of a lock, and no secret. */
function coveredValue(name: string, value: unknown, depth: number, above: Above): unknown {
  if (value === null || value === undefined || typeof value === "boolean") return value;
  if (!isSecretName(name)) return copy(value, depth, above);
  return typeof value === "number" && /token$/i.test(name) ? value : COVERED;
}

function errorOf(error: Error, depth: number, above: Above): Record<string, unknown> {
  const { cause } = error;
  // Its own fields come first: one that is called `type` must not hide what kind of error it is.
  return {
    ...entriesOf(error, depth, above),
    type: error.name,
    message: coveredText(error.message),
    ...(typeof error.stack === "string" ? { stack: coveredText(error.stack) } : {}),
    ...(cause === undefined ? {} : { cause: copy(cause, depth, above) }),
  };
}

/** A getter may throw. */
function read(value: object, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return CUT;
  }
}
