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

export const SPANS: readonly (readonly [string, number])[] = [
  ["15m", 900_000],
  ["1h", 3_600_000],
  ["24h", 86_400_000],
  ["7d", 604_800_000],
];

export interface Chip {
  readonly name: JobFieldName;
  readonly label: string;
  readonly value: string;
}

export function chipsOf(query: URLSearchParams): Chip[] {
  return FIELDS.flatMap((name) =>
    query.getAll(name).map((value) => ({ name, label: labelOf(name), value })),
  );
}

/** A span before now as whole seconds, so that lists of one second are one; anything else as it is. */
function instantOf(value: string): string {
  const span = SPANS.find(([name]) => name === value)?.[1];
  return span === undefined ? value : String(Math.floor((serverNow() - span) / 1_000) * 1_000);
}

/** How many rows a page has. */
export const PAGE = 50;

/** The list that the address asks for. The server refuses a value that it does not know. */
export function listOf(query: URLSearchParams): Input<"jobs"> {
  const asked: Record<string, unknown> = { limit: PAGE };
  const before = query.get("before");
  if (before !== null) asked["before"] = before;
  for (const name of jobFieldNames) {
    const values = query.getAll(name).filter((value) => value !== "");
    if (values.length === 0) continue;
    if (isList(name)) asked[name] = values;
    else asked[name] = isInstant(name) ? instantOf(values[0] ?? "") : values[0];
  }
  return asked;
}

/** The same filter for an action on all jobs that match. */
export function bulkFilter(query: URLSearchParams): BulkFilter {
  const { limit: _limit, before: _before, ...filter } = listOf(query);
  const entries = Object.entries(filter).map(([name, value]) => {
    if (!isInstant(name)) return [name, value];
    const at = Number(value);
    return [name, Number.isNaN(at) ? Date.parse(String(value)) : at];
  });
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
