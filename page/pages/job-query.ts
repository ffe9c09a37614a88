/** The filter of the list of jobs, as the address has it: the fields of the API by their names. */
import {
  isList,
  type JobFieldName,
  jobFieldNames,
  jobFields,
  wordsOf,
} from "../../src/core/job-query.ts";
import type { BulkFilter } from "../api.gen.ts";
import type { Input } from "../client.ts";
import * as f from "../format.ts";
import { serverNow } from "../live.ts";
import { to } from "../router.ts";

/** All fields but the status, which has tabs. */
export const FIELDS = jobFieldNames.filter((name) => name !== "status");

/** "enqueued since". */
export function labelOf(name: JobFieldName): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return ["error", "input"].includes(name) ? `${words} has` : words;
}

export function isInstant(name: string): boolean {
  return /(?:Since|Until)$/.test(name);
}

/** Spans that are offered. */
export const SPANS = ["15m", "1h", "24h", "7d"] as const;

const UNITS: Readonly<Record<string, readonly [ms: number, name: string]>> = {
  s: [1_000, "s"],
  m: [60_000, "min"],
  h: [3_600_000, "h"],
  d: [86_400_000, "days"],
};

function spanIn(value: string): { readonly ms: number; readonly text: string } | null {
  const [, count = "", unit = ""] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(value) ?? [];
  const [ms, name] = UNITS[unit] ?? [];
  return ms === undefined ? null : { ms: Number(count) * ms, text: `${count} ${name}` };
}

/** "15 min", of `15m`. */
export function spanText(value: string): string {
  return spanIn(value)?.text ?? value;
}

/** The instant of a time in an address; null: there is none. Spans are as of a whole second, so lists of one second are one. */
export function atOf(value: string | null): number | null {
  const span = spanIn(value ?? "");
  if (span !== null) return Math.floor((serverNow() - span.ms) / 1_000) * 1_000;
  if (value === null || value === "") return null;
  const at = /^\d{12,15}$/.test(value) ? Number(value) : Date.parse(value);
  return Number.isNaN(at) ? null : at;
}

/** "1 h ago", "14:00:00". */
export function instantText(value: string): string {
  const span = spanIn(value);
  if (span !== null) return `${span.text} ago`;
  const at = atOf(value);
  return at === null ? value : f.moment(at, serverNow());
}

export interface Chip {
  readonly name: JobFieldName;
  readonly label: string;
  readonly value: string;
  /** The value as people write it. */
  readonly text: string;
}

export function chipsOf(query: URLSearchParams): Chip[] {
  return FIELDS.flatMap((name) =>
    query.getAll(name).map((value) => {
      const text = isInstant(name) ? instantText(value) : value;
      return { name, label: labelOf(name), value, text };
    }),
  );
}

/** Lists of these begin with what ended last, if nothing is named that has few jobs. */
const BY_END: ReadonlySet<string> = new Set(["failed", "cancelled", "expired"]);

const HAS_FEW: readonly JobFieldName[] = ["id", "key", "keyPrefix", "flow"];

export function isByEnd(query: URLSearchParams): boolean {
  const status = query.getAll("status");
  const isRare = status.length > 0 && status.every((one) => BY_END.has(one));
  return isRare && !HAS_FEW.some((name) => query.has(name));
}

/** How many rows a page has. */
export const PAGE = 50;

/** The list that the address asks for. The server refuses a value that it does not know. */
export function listOf(query: URLSearchParams): Input<"jobs"> {
  const asked: Record<string, unknown> = { limit: PAGE };
  if (isByEnd(query)) asked["order"] = "ended";
  const before = query.get("before");
  if (before !== null) asked["before"] = before;
  for (const name of jobFieldNames) {
    const values = query.getAll(name).filter((value) => value !== "");
    if (values.length === 0) continue;
    if (isList(name)) asked[name] = values;
    else asked[name] = isInstant(name) ? String(atOf(values[0] ?? "") ?? values[0]) : values[0];
  }
  return asked;
}

/** The same filter for an action on all jobs that match. */
export function bulkFilter(query: URLSearchParams): BulkFilter {
  const { limit: _limit, order: _order, before: _before, ...filter } = listOf(query);
  const entries = Object.entries(filter).map(([name, value]) =>
    isInstant(name) ? [name, Number(value)] : [name, value],
  );
  return entries.length === 0 ? { all: true } : (Object.fromEntries(entries) as BulkFilter);
}

/** The same list with one more filter, or with another value of it; the page begins anew. */
export function withFilter(query: URLSearchParams, name: string, value: string | null): string {
  const next = new URLSearchParams(query);
  const isMore =
    value !== null && name !== "status" && name in jobFields && isList(name as JobFieldName);
  if (!isMore) next.delete(name);
  if (value !== null && !next.has(name, value)) next.append(name, value);
  next.delete("before");
  return to("jobs", next);
}

/** The same list without this chip. */
export function without(query: URLSearchParams, { name, value }: Chip): string {
  const next = new URLSearchParams(query);
  next.delete(name, value);
  next.delete("before");
  return to("jobs", next);
}

/** The list of a text such as `status:failed task:mail.send`; null: it has no field. */
export function withWords(query: URLSearchParams, text: string): string | null {
  const words = wordsOf(text);
  if (!words.some(([name]) => text.includes(`${name}:`))) return null;
  if (!words.every(([name]) => name in jobFields)) return null;
  const next = new URLSearchParams(query);
  for (const [name] of words) next.delete(name);
  for (const [name, value] of words) next.append(name, value);
  next.delete("before");
  return to("jobs", next);
}
