/**
 * What a job reports while it runs: progress, log lines, and reports that its task names.
 *
 * Each report has a number, from 1 and without gaps. A reader that knows the last number it saw misses nothing and sees nothing
 * twice.
 */
import { InvalidArgumentError, invalid } from "./errors.ts";
import type { Status } from "./job.ts";
import { decode, encode, NotSerializableError, TooLargeError } from "./json.ts";
import { checkName } from "./name.ts";
import { checkText, shownNumber } from "./options.ts";

export const reportKinds = ["progress", "log", "report", "dropped"] as const;
/** What a report is. */
export type ReportKind = (typeof reportKinds)[number];

export const jobLogLevels = ["info", "warn", "error"] as const;
/** How much a line of the log of a job matters. */
export type JobLogLevel = (typeof jobLogLevels)[number];

/** Adds a line to the log of a job, with JSON data. A long text is cut. */
export interface JobLog {
  (text: string, data?: unknown): void;
  /** A line about what may become a problem. */
  warn(text: string, data?: unknown): void;
  /** A line about what went wrong. */
  error(text: string, data?: unknown): void;
}

export function logOf(say: (level: JobLogLevel, text: string, data: unknown) => void): JobLog {
  const at =
    (level: JobLogLevel) =>
    (text: string, data?: unknown): void =>
      say(level, text, data);
  return Object.assign(at("info"), { warn: at("warn"), error: at("error") });
}

/** The limit of the data of one report, as JSON. */
export const REPORT_DATA = { what: "data of a report", bytesMax: 16 * 1024 };
/** A longer text is cut: a long line of another program's output should not fail a job. */
export const REPORT_TEXT_MAX = 4_000;
/** Reports kept of each job. The oldest are deleted first, because people look for the last ones. */
export const REPORTS_MAX = 10_000;

/** A fraction from 0 to 1, or a count and its total. */
export type Progress =
  | number
  | {
      /** How much is done, in units of the task's choice. */
      readonly done: number;
      /** How much there is in all. */
      readonly total: number;
    };

/** What all reports of a job have. */
export interface Numbered {
  /** From 1, in the order of the reports. */
  readonly seq: number;
  /** By the clock of the database. */
  readonly at: number;
  /** The epoch of the attempt that reported it. */
  readonly epoch: number;
}

/** How far a job has come. */
export interface ProgressReport extends Numbered {
  /** Tells it from other reports. */
  readonly kind: "progress";
  /** From 0 to 1. */
  readonly share: number;
  /** Null if the task reported a fraction. */
  readonly done: number | null;
  /** How much there is in all. Null if the task reported a fraction. */
  readonly total: number | null;
  /** What the task said about it; null: nothing. */
  readonly text: string | null;
}

/** A line of the log of a job. */
export interface LogReport extends Numbered {
  /** Tells it from other reports. */
  readonly kind: "log";
  /** `info`, unless the task said that it is a warning or an error. */
  readonly level: JobLogLevel;
  /** The line; a long one is cut. */
  readonly text: string;
  /** What the task passed with it; null: nothing. */
  readonly data: unknown;
}

/** Data that a job reported under a name. */
export interface NamedReport extends Numbered {
  /** Tells it from other reports. */
  readonly kind: "report";
  /** The name that the task chose. */
  readonly name: string;
  /** What the task reported; null: nothing. */
  readonly data: unknown;
}

/** The task exceeded the rate limit: this many log lines and reports were dropped here. */
export interface DroppedReport extends Numbered {
  /** Tells it from other reports. */
  readonly kind: "dropped";
  /** How many were dropped. */
  readonly count: number;
}

/** A message that a job emitted about itself. */
export type Report = ProgressReport | LogReport | NamedReport | DroppedReport;

/** A change of status that a watcher saw. Its number is that of the report before it. */
export interface StatusChange extends Numbered {
  /** Tells it from reports. */
  readonly kind: "status";
  /** The new status. */
  readonly status: Status;
  /** How many attempts the job has used. */
  readonly attempts: number;
  /** When a job that waits for a time is due. */
  readonly dueAt: number | null;
}

/** A report of a job, or a change of its status. */
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

export function sayLog(text: string, data?: unknown, level: JobLogLevel = "info"): Said {
  const line = JSON.stringify(cutText(text));
  const degree = level === "info" ? "" : `,"level":"${level}"`;
  const rest = data === undefined ? "" : `,"data":${encodeData(data)}`;
  return { kind: "log", name: null, data: `{"text":${line}${degree}${rest}}` };
}

export function sayReport(name: string, data?: unknown): Said {
  const encoded = data === undefined ? null : encodeData(data);
  return { kind: "report", name: checkName("name", name), data: encoded };
}

export function sayDropped(count: number): Said {
  return { kind: "dropped", name: null, data: JSON.stringify({ count }) };
}

export function readReport({ kind, name, data, ...rest }: ReportRecord): Report {
  if (kind === "report") return { ...rest, kind, name: name ?? "", data: readable(data) };
  const stored = readable(data);
  const facts = (typeof stored === "object" && stored !== null ? stored : {}) as Record<
    string,
    never
  >;
  switch (kind) {
    case "progress": {
      const { share = 0, done = null, total = null, text = null } = facts;
      return { ...rest, kind, share, done, total, text };
    }
    case "log":
      return {
        ...rest,
        kind,
        level: levelIn(facts),
        text: facts["text"] ?? "",
        data: facts["data"],
      };
    case "dropped":
      return { ...rest, kind, count: facts["count"] ?? 0 };
  }
}

function levelIn({ level }: { readonly level?: unknown }): JobLogLevel {
  return jobLogLevels.find((one) => one === level) ?? "info";
}

/** Sums of fractions can end a little above 1. */
const ROUNDING = 1e-6;

function progressOf(value: Progress): { share: number; done?: number; total?: number } {
  if (typeof value === "object" && value !== null) return countOf(value);
  if (typeof value === "number" && value >= 0 && value <= 1 + ROUNDING) {
    return { share: Math.min(1, value) };
  }
  throw invalid(
    "value",
    `must be a number from 0 to 1, not ${shownNumber(value)}. For 25 of 100, pass { done: 25, total: 100 }.`,
  );
}

function countOf({ done, total }: { done: number; total: number }) {
  for (const [name, count] of Object.entries({ done, total })) {
    if (Number.isFinite(count) && count >= 0) continue;
    throw invalid(`value.${name}`, `must be a number of at least 0, not ${shownNumber(count)}.`);
  }
  // Totals are often estimates. More than the total counts as 1, and so does 0 of 0.
  return { share: done >= total ? 1 : done / total, done, total };
}

function cutText(text: string): string {
  const { length } = checkText("text", text);
  return length > REPORT_TEXT_MAX ? `${text.slice(0, REPORT_TEXT_MAX - 1)}…` : text;
}

/** Another code: a NotSerializableError would fail the job without a retry, too much for a mistake in a report. */
function encodeData(data: unknown): string {
  try {
    return encode(data, REPORT_DATA);
  } catch (error) {
    if (!(error instanceof NotSerializableError) && !(error instanceof TooLargeError)) throw error;
    throw new InvalidArgumentError({ field: "data", problem: error.message }, error);
  }
}

/** A row written by hand may not be JSON; then its text is shown. */
function readable(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    return decode(text);
  } catch {
    return text;
  }
}

export type ReportRecord = Numbered & Said;

/** Which reports of a job to list, and how many. */
export interface ReportsFilter {
  /** Only reports after this number. Default: from the first on. */
  readonly after?: number;
  /** Only reports of this kind. Default: all. */
  readonly kind?: ReportKind;
  /** The last reports instead of the first. Default false. */
  readonly newest?: boolean;
  /** The most reports of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

export interface ReportFilter extends ReportsFilter {
  readonly job: string;
  readonly after: number;
  readonly limit: number;
}

/** Where to begin to watch a job, and what ends it. */
export interface WatchOptions {
  /** Only reports after this number: the last one already seen. Default: from the first on. */
  readonly after?: number;
  /** Stops watching. */
  readonly signal?: AbortSignal;
}
