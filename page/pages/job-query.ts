/** The filters of the list of jobs, as the address has them. */
import type { BulkFilter } from "../api.gen.ts";
import type { Input } from "../client.ts";
import { serverNow } from "../live.ts";
import { to } from "../router.ts";

interface FilterField {
  readonly name: keyof Input<"search">;
  /** What its chip says before the value. */
  readonly label: string;
  readonly hint: string;
  /** Whether a bulk action can use it. */
  readonly bulk?: boolean;
}

export const FIELDS: readonly FilterField[] = [
  { name: "queue", label: "queue", hint: "in a queue", bulk: true },
  { name: "task", label: "task", hint: "of a task", bulk: true },
  { name: "key", label: "key", hint: "with this key", bulk: true },
  { name: "tag", label: "tag", hint: "with a tag", bulk: true },
  { name: "worker", label: "worker", hint: "run by a worker", bulk: true },
  { name: "build", label: "build", hint: "run by a build", bulk: true },
  // A bulk action compares another text of the error, so it would act on other jobs than the list shows.
  { name: "error", label: "error has", hint: "part of the error" },
  { name: "payload", label: "payload has", hint: "part of the payload" },
  { name: "since", label: "enqueued in", hint: "since when" },
  { name: "prefix", label: "id begins with", hint: "the start of an id" },
];

export const SPANS: readonly (readonly [string, string, number])[] = [
  ["15m", "last 15 min", 900_000],
  ["1h", "last hour", 3_600_000],
  ["24h", "last 24 h", 86_400_000],
  ["7d", "last 7 d", 604_800_000],
];

export interface Chip {
  readonly name: string;
  readonly label: string;
  readonly value: string;
}

export function chipsOf(query: URLSearchParams): Chip[] {
  return FIELDS.flatMap(({ name, label }) => {
    const value = query.get(name);
    if (value === null || value === "") return [];
    return [{ name, label, value: name === "since" ? spanText(value) : value }];
  });
}

function spanText(value: string): string {
  return SPANS.find(([name]) => name === value)?.[1] ?? value;
}

function sinceOf(value: string): number {
  const span = SPANS.find(([name]) => name === value)?.[2];
  return span === undefined ? Number(value) : Math.floor((serverNow() - span) / 1_000) * 1_000;
}

/** How many rows a page has. */
export const PAGE = 50;

/** The search for a list, by the address. The server refuses a value that it does not know. */
export function searchOf(query: URLSearchParams): Input<"search"> {
  const asked: Partial<Record<keyof Input<"search">, unknown>> = { limit: PAGE };
  for (const name of ["status", "before", ...FIELDS.map((field) => field.name)] as const) {
    const value = query.get(name);
    if (value === null || value === "") continue;
    asked[name] = name === "since" ? sinceOf(value) : value;
  }
  return asked as Input<"search">;
}

/** The filter of a bulk action for all jobs that match; null: it has no such fields. */
export function bulkFilter(query: URLSearchParams): BulkFilter | null {
  const filter: Record<string, unknown> = {};
  const status = query.get("status");
  if (status !== null && status !== "") filter["status"] = status;
  for (const { name, bulk = false } of FIELDS) {
    const value = query.get(name);
    if (value === null || value === "") continue;
    if (!bulk) return null;
    if (name === "tag") filter["tags"] = [value];
    else filter[name] = value;
  }
  return Object.keys(filter).length === 0 ? { all: true } : filter;
}

/** The same list with another value of a filter; the page begins anew. */
export function withFilter(query: URLSearchParams, name: string, value: string | null): string {
  const next = new URLSearchParams(query);
  if (value === null) next.delete(name);
  else next.set(name, value);
  next.delete("before");
  return to("jobs", next);
}
