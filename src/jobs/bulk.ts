/** Retrying and cancelling jobs by what they have in common: a bounded chunk at a call, from a cursor on. */
import { OPERATOR_OPTIONS, operatorOf, type OperatorOptions } from "../audit/operator.ts";
import { HoldfastError, InvalidArgumentError } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import type { Status } from "../core/job.ts";
import { checkName, checkTaskName, isReserved, versionsOf } from "../core/name.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
import type { JobsStore } from "./sql-jobs.ts";
import type { Chunk, Cursor, Looked, Walk } from "./store.ts";

/** Which jobs. All that is named has to fit. */
export interface BulkFilter {
  /** To retry: `failed` (the default) or `cancelled`. To cancel: any that has not ended; the default is all of these. */
  readonly status?: Status;
  readonly queue?: string;
  /** Without a version: of all versions. */
  readonly task?: string;
  /** Not before this instant, in milliseconds: when it ended, or, if it has not, when it was enqueued. */
  readonly since?: number | Date;
  /** Before this instant. */
  readonly until?: number | Date;
  /** A part of the last error's name or message, in either case. */
  readonly error?: string;
  /** The code, or the name, of the last error. */
  readonly code?: string;
  /** Every job that can be retried or cancelled: needed where nothing else is named. */
  readonly all?: boolean;
}

export interface BulkOptions extends OperatorOptions {
  /** Only tells which jobs fit. */
  readonly dryRun?: boolean;
  /** How many jobs are looked at. */
  readonly limit?: number;
  /** `next` of the chunk before. */
  readonly cursor?: string;
}

export interface BulkChunk {
  /** How many jobs were looked at. */
  readonly looked: number;
  /** How many of these fit. */
  readonly matched: number;
  /** Those that were changed, or with `dryRun` would be. */
  readonly ids: readonly string[];
  /** Those that fit and could not be changed, and why. */
  readonly refused: readonly {
    readonly id: string;
    readonly code: string;
    readonly message: string;
  }[];
  /** Where the next chunk goes on; null: that was all. */
  readonly next: string | null;
}

export const BULK_LIMIT_MAX = 1_000;

export const BULK_LIMIT_DEFAULT = 500;

/** Jobs in one transaction. */
const TOGETHER_MAX = 100;

const ERROR_LENGTH_MAX = 1_000;

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

/** What is done to the jobs that fit. */
export interface BulkAct {
  readonly move: "retry" | "cancel";
  /** Changes them in one transaction; gives those that it changed. */
  readonly together: (chunk: Chunk) => Promise<readonly string[]>;
  /** Changes one of them, or throws why it cannot be. */
  readonly alone: (id: string) => Promise<unknown>;
  /** Those that have to be changed one by one. */
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
  const next = nextOf({ at, walks, last: jobs.length < limit ? null : (jobs.at(-1)?.id ?? null) });
  const told = { looked: jobs.length, matched: found.length, next };
  if (dryRun) return { ...told, ids: found.map(({ id }) => id), refused: [] };
  const sign = (ids: readonly string[]): Chunk => {
    const signatures = ids.flatMap(() => operatorOf(options, newId) ?? []);
    return { ids, signatures: signatures.length === 0 ? null : signatures };
  };
  return { ...told, ...(await changeAll(found, act, sign)) };
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
      // One of them cannot be changed, and none was: which, they tell one by one.
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

/** It is about this job. Whatever is about the database ends the whole. */
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
      throw new InvalidArgumentError({
        field,
        problem: "must be a Date or milliseconds since 1970.",
      });
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

/** `<walk>` or `<walk>:<id>`: where the last chunk ended. */
function cursorOf(text: string | undefined, walks: readonly Walk[]): Cursor {
  if (text === undefined) return { walk: walks[0] as Walk, before: null };
  const [name, before = null] = text.split(":");
  const walk = walks.find((each) => each === name);
  if (walk !== undefined && (before === null || isId(before))) return { walk, before };
  const problem = "is not `next` of a chunk with the same filter.";
  throw new InvalidArgumentError({ field: "cursor", problem });
}

function nextOf(stand: {
  readonly at: Cursor;
  readonly walks: readonly Walk[];
  readonly last: string | null;
}): string | null {
  const { at, walks, last } = stand;
  if (last !== null) return `${at.walk}:${last}`;
  return walks[walks.indexOf(at.walk) + 1] ?? null;
}

function fits(job: Looked, filter: BulkFilter): boolean {
  const { status, queue, since, until, error, code } = filter;
  return (
    (status === undefined || job.status === status) &&
    (queue === undefined ? mayBeMeant(job, filter) : job.queue === queue) &&
    (filter.task === undefined || isOfTask(job.task, filter.task)) &&
    (since === undefined || job.at >= Number(since)) &&
    (until === undefined || job.at < Number(until)) &&
    (error === undefined || errorText(job).includes(error.toLowerCase())) &&
    (code === undefined || job.error?.code === code || job.error?.name === code)
  );
}

/** Jobs of Holdfast itself are meant only where their queue or task is named. */
function mayBeMeant({ queue }: Looked, { task }: BulkFilter): boolean {
  return task !== undefined || !isReserved(queue);
}

function isOfTask(task: string, wanted: string): boolean {
  const versions = versionsOf(wanted);
  return task === wanted || (versions !== null && task > versions.after && task < versions.before);
}

function errorText({ error }: Looked): string {
  return error === null ? "" : `${error.name}: ${error.message}`.toLowerCase();
}
