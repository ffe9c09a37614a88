/**
 * What a job tells about itself while it runs: how far it is, lines of a log, and whatever else its task reports.
 *
 * Each report has a number, from 1 and without gaps. A reader that knows the last number it has seen misses nothing and
 * sees nothing twice.
 */
import { InvalidArgumentError } from "./errors.ts";
import type { Status } from "./job.ts";
import { decode, encode } from "./json.ts";
import { checkName } from "./name.ts";
import { shownNumber } from "./options.ts";
import { NotSerializableError, TooLargeError } from "./value-errors.ts";

export const reportKinds = ["progress", "log", "report", "dropped"] as const;
export type ReportKind = (typeof reportKinds)[number];

/** What may come with one report, as JSON. */
export const REPORT_DATA = { what: "data of a report", bytesMax: 16 * 1024 };
/** A text that is longer is cut: a long line of somebody else's output is no reason to fail. */
export const REPORT_TEXT_MAX = 4_000;
/** Of each job so many are kept; the oldest go first, since the last words of a job are what people look for. */
export const REPORTS_MAX = 10_000;

/** How far a job is: a share from 0 to 1, or so many of so many. */
export type Progress = number | { readonly done: number; readonly total: number };

interface Numbered {
  /** From 1, in the order in which they were reported. */
  readonly seq: number;
  /** When, by the database's clock. */
  readonly at: number;
  /** Of the attempt that reported it. */
  readonly epoch: number;
}

export interface ProgressReport extends Numbered {
  readonly kind: "progress";
  /** From 0 to 1. */
  readonly share: number;
  /** Null where the task said a share alone. */
  readonly done: number | null;
  readonly total: number | null;
  readonly text: string | null;
}

export interface LogReport extends Numbered {
  readonly kind: "log";
  readonly text: string;
  readonly data: unknown;
}

export interface NamedReport extends Numbered {
  readonly kind: "report";
  /** As the task called it. */
  readonly name: string;
  readonly data: unknown;
}

/** The task said more than may be written in a second; so many log lines and reports are missing here. */
export interface DroppedReport extends Numbered {
  readonly kind: "dropped";
  readonly count: number;
}

export type Report = ProgressReport | LogReport | NamedReport | DroppedReport;

/** What became of the job, as whoever watches it saw. Its number is that of the report before it. */
export interface StatusChange extends Numbered {
  readonly kind: "status";
  readonly status: Status;
  readonly attempts: number;
  /** When a job that waits for its time goes on. */
  readonly dueAt: number | null;
}

export type WatchEntry = Report | StatusChange;

/** A report as it is stored. */
export interface Said {
  readonly kind: ReportKind;
  readonly name: string | null;
  readonly data: string | null;
}

export function sayProgress(value: Progress, text?: string): Said {
  const facts = { ...progressOf(value), text: text === undefined ? text : cutText(text) };
  return { kind: "progress", name: null, data: JSON.stringify(facts) };
}

export function sayLog(text: string, data?: unknown): Said {
  const line = JSON.stringify(cutText(text));
  const rest = data === undefined ? "" : `,"data":${encodeData(data)}`;
  return { kind: "log", name: null, data: `{"text":${line}${rest}}` };
}

export function sayReport(name: string, data?: unknown): Said {
  const encoded = data === undefined ? null : encodeData(data);
  return { kind: "report", name: checkName("name", name), data: encoded };
}

export function sayDropped(count: number): Said {
  return { kind: "dropped", name: null, data: JSON.stringify({ count }) };
}

export function readReport({ kind, name, data, ...rest }: Numbered & Said): Report {
  if (kind === "report") return { ...rest, kind, name: name ?? "", data: readable(data) };
  const told = readable(data);
  const facts = (typeof told === "object" && told !== null ? told : {}) as Record<string, never>;
  switch (kind) {
    case "progress": {
      const { share = 0, done = null, total = null, text = null } = facts;
      return { ...rest, kind, share, done, total, text };
    }
    case "log":
      return { ...rest, kind, text: facts["text"] ?? "", data: facts["data"] };
    case "dropped":
      return { ...rest, kind, count: facts["count"] ?? 0 };
  }
}

/** Sums of shares end a little above 1. */
const ROUNDING = 1e-6;

function progressOf(value: Progress): { share: number; done?: number; total?: number } {
  if (typeof value === "object" && value !== null) return countOf(value);
  if (typeof value === "number" && value >= 0 && value <= 1 + ROUNDING) {
    return { share: Math.min(1, value) };
  }
  throw new InvalidArgumentError({
    field: "value",
    problem: `must be a share from 0 to 1, not ${shownNumber(value)}. Of 25 out of 100, say { done: 25, total: 100 }.`,
  });
}

function countOf({ done, total }: { done: number; total: number }) {
  for (const [name, count] of Object.entries({ done, total })) {
    if (Number.isFinite(count) && count >= 0) continue;
    throw new InvalidArgumentError({
      field: `value.${name}`,
      problem: `must be a number from 0 on, not ${shownNumber(count)}.`,
    });
  }
  // Totals are often guessed. More than all of it is all of it, and so is nothing of nothing.
  return { share: done >= total ? 1 : done / total, done, total };
}

function cutText(text: string): string {
  if (typeof text !== "string") {
    const problem = `must be text, not ${text === null ? "null" : typeof text}.`;
    throw new InvalidArgumentError({ field: "text", problem });
  }
  return text.length > REPORT_TEXT_MAX ? `${text.slice(0, REPORT_TEXT_MAX - 1)}…` : text;
}

/** A report that cannot be written is a mistake in one line of a task, and no reason to give its job up for good. */
function encodeData(data: unknown): string {
  try {
    return encode(data, REPORT_DATA);
  } catch (error) {
    if (!(error instanceof NotSerializableError) && !(error instanceof TooLargeError)) throw error;
    throw new InvalidArgumentError({ field: "data", problem: error.message }, error);
  }
}

/** What somebody wrote into the table by hand may be no JSON; then it is shown as it is. */
function readable(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return decode(text);
  } catch {
    return text;
  }
}

// How reports are read.

export interface ReportRecord extends Said {
  readonly seq: number;
  readonly epoch: number;
  readonly at: number;
}

export interface ReportFilter {
  readonly job: string;
  /** Only those behind this number. */
  readonly after: number;
  readonly kind?: ReportKind;
  /** The last ones instead of the first. */
  readonly newest?: boolean;
  readonly limit: number;
}

export interface WatchOptions {
  /** Only what was reported behind this number: where an earlier look ended. */
  readonly after?: number;
  /** Ends it. */
  readonly signal?: AbortSignal;
}
