/** Which jobs: one filter for lists, counts, bulk actions, commands, the API and the dashboard. */
import { toMs } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { idRange, isId } from "../core/id.ts";
import { type Status, statuses } from "../core/job.ts";
import { isList, type JobFieldName, jobFieldNames, jobFields } from "../core/job-query.ts";
import { checkKey, checkName, checkTags, checkTaskName } from "../core/name.ts";
import {
  by,
  type Checked,
  checkList,
  checkText,
  checkWords,
  type Option,
  optionsOf,
  whole,
} from "../core/options.ts";

/** Which jobs. A job must match all given fields. Jobs of Holdfast itself match only by queue, task, key, kind or id. */
export interface JobFilter {
  /** With this status, or with one of these. */
  readonly status?: Status | readonly Status[];
  /** Of this queue. */
  readonly queue?: string;
  /** Of this task. A name without a version matches all versions. */
  readonly task?: string;
  /** Enqueued with this key. */
  readonly key?: string;
  /** Whose key begins with this. */
  readonly keyPrefix?: string;
  /** With this tag, or with all of these. */
  readonly tag?: string | readonly string[];
  /** Of this lane. */
  readonly lane?: string;
  /** That ran or run on this worker. */
  readonly worker?: string;
  /** That ran or run on a worker of this build. */
  readonly build?: string;
  /** Of the flow or batch with this id. */
  readonly flow?: string;
  /** That this schedule enqueued. */
  readonly schedule?: string;
  /** That failed with this kind of error, or are not over and had it last: an id of `errors.list()`. */
  readonly kind?: string;
  /** Whose last error has this code or name. */
  readonly code?: string;
  /** Part of the last error's `name: message`, in upper or lower case. */
  readonly error?: string;
  /** Part of the input as JSON, in upper or lower case. */
  readonly input?: string;
  /** Enqueued at or after this time (ms since 1970, or a Date). */
  readonly enqueuedSince?: number | Date;
  /** Enqueued before this time. */
  readonly enqueuedUntil?: number | Date;
  /** Whose running or last attempt started at or after this time. */
  readonly startedSince?: number | Date;
  /** Whose running or last attempt started before this time. */
  readonly startedUntil?: number | Date;
  /** That ended at or after this time. */
  readonly endedSince?: number | Date;
  /** That ended before this time. */
  readonly endedUntil?: number | Date;
  /** With one of these ids, at most 1,000; or, if it is one, with ids that begin with it. */
  readonly id?: string | readonly string[];
}

/** Which jobs to list, and how many. */
export interface JobListFilter extends JobFilter {
  /** The last id of the page before. */
  readonly before?: string;
  /** The most jobs of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

/** A checked filter, as bulk actions store it: instants are milliseconds. */
export interface CheckedFilter extends JobFilter {
  /** One of these. */
  readonly status?: readonly Status[];
  /** All of these. */
  readonly tag?: readonly string[];
  /** One of these, newest first. */
  readonly id?: readonly string[];
  /** At or after this time (ms since 1970). */
  readonly enqueuedSince?: number;
  /** Before this time (ms since 1970). */
  readonly enqueuedUntil?: number;
  /** At or after this time (ms since 1970). */
  readonly startedSince?: number;
  /** Before this time (ms since 1970). */
  readonly startedUntil?: number;
  /** At or after this time (ms since 1970). */
  readonly endedSince?: number;
  /** Before this time (ms since 1970). */
  readonly endedUntil?: number;
}

export const FILTER_TEXT_MAX = 1_000;
export const FILTER_IDS_MAX = 1_000;

export const PAGE_DEFAULT = 50;
export const PAGE_MAX = 1_000;

const RANGES = [
  ["enqueuedSince", "enqueuedUntil"],
  ["startedSince", "startedUntil"],
  ["endedSince", "endedUntil"],
] as const;

type FieldTable = {
  readonly [Name in keyof Required<JobFilter>]: Option<
    Exclude<JobFilter[Name], undefined>,
    Exclude<CheckedFilter[Name], undefined>
  >;
};

// A message names the field alone: it may come from an address or a flag.
const fields = Object.fromEntries(
  jobFieldNames.map((name) => [name, by((_field, value: never) => checkValue(name, value))]),
) as unknown as FieldTable;

const filterOptions = optionsOf<JobFilter>()(fields);

const listOptions = optionsOf<JobListFilter>()({
  ...fields,
  before: by(checkText),
  limit: whole(1, PAGE_MAX, PAGE_DEFAULT),
});

/** A filter and a page. */
export function checkListed(options: JobListFilter): Checked<typeof listOptions.table> {
  return listOptions.read(options);
}

/** Refuses unknown fields and wrong values. `field` is the option that holds the filter, unless the options are the filter. */
export function checkFilter(filter: JobFilter, field = "options"): CheckedFilter {
  const checked = filterOptions.read(filter, { field, example: '{ task: "mail.send" }' });
  for (const [begin, end] of RANGES) {
    const { [begin]: since = -1, [end]: until = Number.POSITIVE_INFINITY } = checked;
    if (since >= until) throw invalid(end, `must be after ${begin}.`);
  }
  return checked;
}

function checkValue(name: JobFieldName, value: never): unknown {
  switch (jobFields[name].kind) {
    case "status":
      return [...new Set(listOf(name, value).map(checkStatus))];
    case "ids":
      return checkIds(listOf(name, value));
    case "tags":
      return checkTags(name, listOf(name, value));
    case "instant":
      return checkInstant(name, value);
    case "id":
      if (isId(value)) return value;
      throw invalid(name, "is not an id. Pass the whole id.");
    case "name":
      return checkName(name, value);
    case "task":
      return checkTaskName(name, value);
    case "key":
      return checkKey(name, value);
    case "text":
      if (value === "") throw invalid(name, "must not be empty.");
      return checkWords(name, value, FILTER_TEXT_MAX);
  }
}

function listOf(name: string, value: unknown): readonly string[] {
  const list = Array.isArray(value) ? value : [value];
  if (list.length === 0) throw invalid(name, "is empty.");
  return checkList(name, list as string[]);
}

function checkStatus(status: string): Status {
  if (statuses.includes(status as Status)) return status as Status;
  throw invalid("status", `'${status}' is not a status. The statuses are: ${statuses.join(", ")}.`);
}

/** Newest first, as they are looked at. */
function checkIds(given: readonly string[]): readonly string[] {
  const ids = [...new Set(given)];
  const [only = ""] = ids;
  if (ids.length === 1 && typeof only === "string" && idRange(only) !== null) return ids;
  const wrong = ids.findIndex((id) => typeof id !== "string" || !isId(id));
  if (wrong >= 0) {
    const problem = "is not the id of a job. Pass full ids, or the beginning of one.";
    throw invalid(`id[${wrong}]`, problem);
  }
  if (ids.length > FILTER_IDS_MAX) {
    throw invalid("id", `has ${ids.length} ids; at most ${FILTER_IDS_MAX} are allowed.`);
  }
  return ids.toSorted().toReversed();
}

/** No id has a later time. */
const INSTANT_MAX = 2 ** 48 - 1;

function checkInstant(name: string, instant: number | Date): number {
  const at = Number(instant);
  if (Number.isInteger(at) && at >= 0 && at <= INSTANT_MAX) return at;
  throw invalid(name, "must be a Date or milliseconds since 1970.");
}

/**
 * The filter of an address, of flags, or of words in a box. Lists may be repeated, statuses also with commas between them.
 * `now` is the database's clock: `1h` means an hour before it.
 */
export function readFilter(
  given: Iterable<readonly [name: string, text: string]>,
  now: number,
): CheckedFilter {
  const filter: Record<string, string | number | string[]> = {};
  for (const [name, text] of given) {
    if (!Object.hasOwn(jobFields, name)) {
      throw invalid(name, `is not a field of jobs. The fields are: ${jobFieldNames.join(", ")}.`);
    }
    if (text === "") throw invalid(name, "must not be empty.");
    const field = name as JobFieldName;
    if (isList(field)) {
      const more = jobFields[field].kind === "status" ? text.split(",") : [text];
      filter[name] = [...((filter[name] as string[] | undefined) ?? []), ...more];
    } else {
      if (name in filter) throw invalid(name, "is given twice.");
      filter[name] = jobFields[field].kind === "instant" ? readInstant(name, text, now) : text;
    }
  }
  return checkFilter(filter);
}

/** Milliseconds since 1970, a time, or a span before now. */
export function readInstant(name: string, text: string, now: number): number {
  if (/^\d{12,15}$/.test(text)) return Number(text);
  const at = /^\d{4}-\d\d-\d\d(?:[T ]|$)/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(at)) return at;
  try {
    return Math.floor(now - toMs(name, text));
  } catch {
    const problem =
      "must be a duration (15m, 2h or 7d ago) or a time such as 2027-01-31T09:00:00Z.";
    throw invalid(name, problem);
  }
}
