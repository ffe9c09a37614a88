/** Bulk retry and cancel of the jobs that match a filter: each call handles a bounded chunk and returns a cursor. */
import { OPERATOR_OPTIONS, operatorOf, type OperatorOptions } from "../audit/operator.ts";
import { HoldfastError, InvalidArgumentError } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import type { Status } from "../core/job.ts";
import { checkName, checkTaskName, isReserved, versionsOf } from "../core/name.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
import type { JobsStore } from "./sql-jobs.ts";
import type { Chunk, Cursor, Looked, Walk } from "./store.ts";

/** A job must match all given fields. */
export interface BulkFilter {
  /** To retry: `failed` (the default) or `cancelled`. To cancel: any unfinished status; the default is all of these. */
  readonly status?: Status;
  readonly queue?: string;
  /** A name without a version matches all versions. */
  readonly task?: string;
  /** Only jobs that ended (or, if not ended, were enqueued) at or after this time. */
  readonly since?: number | Date;
  /** Before this time. */
  readonly until?: number | Date;
  /** Part of the last error's name or message, case-insensitive. */
  readonly error?: string;
  /** The code or name of the last error. */
  readonly code?: string;
  /** All eligible jobs: required if no other field is given. */
  readonly all?: boolean;
}

export interface BulkOptions extends OperatorOptions {
  /** Only reports the matching jobs. */
  readonly dryRun?: boolean;
  /** The number of jobs to examine. */
  readonly limit?: number;
  /** `next` of the previous chunk. */
  readonly cursor?: string;
}

export interface BulkChunk {
  /** How many jobs were examined. */
  readonly looked: number;
  readonly matched: number;
  /** The changed jobs, or with `dryRun` the matching ones. */
  readonly ids: readonly string[];
  /** The matching jobs that could not be changed, and why. */
  readonly refused: readonly {
    readonly id: string;
    readonly code: string;
    readonly message: string;
  }[];
  /** The cursor of the next chunk; null: this was the last. */
  readonly next: string | null;
}

export const BULK_LIMIT_MAX = 1_000;

export const BULK_LIMIT_DEFAULT = 500;

/** Jobs in one transaction. */
const TOGETHER_MAX = 100;

export const ERROR_LENGTH_MAX = 1_000;

const FILTERS = ["status", "queue", "task", "since", "until", "error", "code", "all"] as const;

export const BULK_OPTIONS = ["dryRun", "limit", "cursor", ...OPERATOR_OPTIONS] as const;

const OF_RETRY: Partial<Record<Status, Walk>> = { failed: "failed", cancelled: "cancelled" };

const OF_CANCEL: Partial<Record<Status, Walk>> = {
  scheduled: "waiting",
  retry: "waiting",
  waiting: "waiting",
  pending: "pending",
  processing: "processing",
};

/** The change that is made to the matching jobs. */
export interface BulkAct {
  readonly move: "retry" | "cancel";
  /** Changes jobs in one transaction; returns those that it changed. */
  readonly together: (chunk: Chunk) => Promise<readonly string[]>;
  /** Changes one job, or throws why it cannot. */
  readonly alone: (id: string) => Promise<unknown>;
  /** Whether the job must be changed by itself. */
  readonly isApart: (job: Looked) => boolean;
}

export async function bulkChunk(
  { store, newId }: { readonly store: { readonly jobs: JobsStore }; readonly newId: () => string },
  { filter, options, act }: { filter: BulkFilter; options: BulkOptions; act: BulkAct },
): Promise<BulkChunk> {
  const walks = walksOf(filter, act.move);
  const { limit = BULK_LIMIT_DEFAULT, dryRun = false } = options;
  checkWhole("limit", limit, { least: 1, most: BULK_LIMIT_MAX });
  operatorOf(options, newId); // wrong options are refused before anything is done
  const at = cursorOf(options.cursor, walks);
  const jobs = await store.jobs.lookAt(at, limit);
  const found = jobs.filter((job) => fits(job, filter));
  const last = jobs.length < limit ? undefined : jobs.at(-1);
  const nextWalk = walks[walks.indexOf(at.walk) + 1] ?? null;
  const next = last === undefined ? nextWalk : `${at.walk}:${last.id}`;
  const counts = { looked: jobs.length, matched: found.length, next };
  if (dryRun) return { ...counts, ids: found.map(({ id }) => id), refused: [] };
  const sign = (ids: readonly string[]): Chunk => {
    const operators = ids.flatMap(() => operatorOf(options, newId) ?? []);
    return { ids, operators: operators.length === 0 ? null : operators };
  };
  return { ...counts, ...(await changeAll(found, act, sign)) };
}

async function changeAll(
  found: readonly Looked[],
  act: BulkAct,
  sign: (ids: readonly string[]) => Chunk,
): Promise<Pick<BulkChunk, "ids" | "refused">> {
  const ids: string[] = [];
  const refused: BulkChunk["refused"][number][] = [];
  for (let start = 0; start < found.length; start += TOGETHER_MAX) {
    const some = found.slice(start, start + TOGETHER_MAX);
    const together = some.filter((job) => !act.isApart(job)).map(({ id }) => id);
    let apart = some.filter(act.isApart).map(({ id }) => id);
    try {
      if (together.length > 0) ids.push(...(await act.together(sign(together))));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // One job cannot be changed, so none was: change them one by one.
      apart = some.map(({ id }) => id);
    }
    for (const id of apart) {
      try {
        await act.alone(id);
        ids.push(id);
      } catch (error) {
        if (!isRefusal(error)) throw error;
        refused.push({ id, code: error.code, message: error.message });
      }
    }
  }
  return { ids, refused };
}

/** Whether the error is about one job. Errors about the database end the whole call. */
function isRefusal(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && !/^(?:STORE|SCHEMA|OUTCOME|CLOSED)/.test(error.code);
}

export function checkBulk(filter: BulkFilter, options: object, known: readonly string[]): void {
  checkKnown(filter, new Set(FILTERS));
  checkKnown(options, new Set(known));
  const { queue, task, error, code } = filter;
  if (queue !== undefined) checkName("queue", queue);
  if (task !== undefined) checkTaskName("task", task);
  for (const [field, text] of Object.entries({ error, code })) {
    if (text === undefined) continue;
    if (checkText(field, text).length > ERROR_LENGTH_MAX) {
      const problem = `has more than ${ERROR_LENGTH_MAX} characters.`;
      throw new InvalidArgumentError({ field, problem });
    }
  }
  for (const field of ["since", "until"] as const) {
    const instant = filter[field];
    if (instant !== undefined && !Number.isFinite(Number(instant))) {
      const problem = "must be a Date or milliseconds since 1970.";
      throw new InvalidArgumentError({ field, problem });
    }
  }
  if (Object.values(filter).every((value) => value === undefined || value === false)) {
    const problem = `name at least one of ${FILTERS.slice(0, -1).join(", ")}; or say all: true.`;
    throw new InvalidArgumentError({ field: "filter", problem });
  }
}

function walksOf({ status }: BulkFilter, move: BulkAct["move"]): Walk[] {
  const known = move === "retry" ? OF_RETRY : OF_CANCEL;
  if (status === undefined)
    return move === "retry" ? ["failed"] : [...new Set(Object.values(known))];
  const walk = known[status];
  if (walk !== undefined) return [walk];
  const problem = `${status} jobs cannot be ${move === "retry" ? "retried" : "cancelled"}. Use ${Object.keys(known).join(", ")}.`;
  throw new InvalidArgumentError({ field: "status", problem });
}

/** A cursor is `<walk>` or `<walk>:<id>`: where the last chunk ended. */
function cursorOf(text: string | undefined, walks: readonly Walk[]): Cursor {
  if (text === undefined) return { walk: walks[0] as Walk, before: null };
  const [name, before = null] = text.split(":");
  const walk = walks.find((each) => each === name);
  if (walk !== undefined && (before === null || isId(before))) return { walk, before };
  const problem = "is not `next` of a chunk with the same filter.";
  throw new InvalidArgumentError({ field: "cursor", problem });
}

function fits(job: Looked, filter: BulkFilter): boolean {
  const { status, queue, task, since, until, error, code } = filter;
  // Holdfast's internal jobs match only if their queue or task is given.
  const isGeneral = queue === undefined && task === undefined;
  return (
    (status === undefined || job.status === status) &&
    (queue === undefined || job.queue === queue) &&
    !(isGeneral && isReserved(job.queue)) &&
    (task === undefined || isOfTask(job.task, task)) &&
    (since === undefined || job.at >= Number(since)) &&
    (until === undefined || job.at < Number(until)) &&
    (error === undefined || errorText(job).includes(error.toLowerCase())) &&
    (code === undefined || job.error?.code === code || job.error?.name === code)
  );
}

function isOfTask(task: string, wanted: string): boolean {
  const versions = versionsOf(wanted);
  return task === wanted || (versions !== null && task > versions.after && task < versions.before);
}

function errorText({ error }: Looked): string {
  return error === null ? "" : `${error.name}: ${error.message}`.toLowerCase();
}
