/**
 * Many jobs by what they have in common, a chunk at a time.
 *
 * A chunk is bounded by how many jobs are looked at and not by how many fit, so one that finds nothing costs no more than one
 * that finds all. Jobs are walked newest first: a called job comes before the one that called it, and one that fails again
 * meanwhile lies behind and is not met twice.
 */
import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { noteAction } from "../audit/store.ts";
import { decodeError } from "../core/error-record.ts";
import type { Status } from "../core/job.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { cancelWhereItStands, reviveIn } from "./cancel.ts";
import type { MoveContext } from "./hooks.ts";
import { hintPending } from "./rows.ts";
import type { Chunk, Cursor, Looked, Walk } from "./store.ts";

/** What is walked one after the other, in the order in which jobs pass through it. */
const walks: Readonly<Record<Walk, Sql>> = {
  failed: sql`holdfast.finished p where p.status = 'failed'`,
  cancelled: sql`holdfast.finished p where p.status = 'cancelled'`,
  waiting: sql`holdfast.waiting p where p.id is not null`,
  pending: sql`holdfast.ready p where p.id is not null`,
  processing: sql`holdfast.lease p where p.id is not null`,
};

interface Row {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  readonly at: number | null;
  readonly error: string | null;
}

/** The next jobs of a walk, at most `limit`, found in the order of an index. */
export async function lookAt(engine: Engine, at: Cursor, limit: number): Promise<Looked[]> {
  const { walk, before } = at;
  const rows = await engine.all<Row>(sql`
    select p.id, p.queue, p.task, ${columnsOf(walk)}
      from ${walks[walk]}
           ${before === null ? nothing : sql`and p.id < ${before}`}
     order by p.id desc
     limit ${limit}`);
  const enqueued = await enqueuedAt(engine, idsOf(rows.filter((row) => row.at === null)));
  const errors = await lastErrors(engine, idsOf(rows.filter((row) => row.error === null)));
  return rows.map(({ error: own, ...row }) => {
    const error = own ?? errors.get(row.id) ?? null;
    return {
      ...row,
      at: row.at ?? enqueued.get(row.id) ?? 0,
      error: error === null ? null : decodeError(error),
    };
  });
}

function columnsOf(walk: Walk): Sql {
  switch (walk) {
    case "failed":
    case "cancelled":
      return sql`p.status, p.finished_at as at, p.error`;
    case "waiting":
      return sql`p.status, null as at, null as error`;
    case "pending":
      return sql`'pending' as status, null as at, null as error`;
    case "processing":
      return sql`'processing' as status, null as at, null as error`;
  }
}

function idsOf(rows: readonly { readonly id: string }[]): string[] {
  return rows.map(({ id }) => id);
}

async function enqueuedAt(engine: Engine, ids: readonly string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; at: number }>(
    sql`select id, enqueued_at as at from holdfast.job where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(rows.map(({ id, at }) => [id, at]));
}

async function lastErrors(engine: Engine, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await engine.all<{ id: string; error: string }>(sql`
    select job_id as id, error
      from holdfast.attempt
     where ${engine.among(sql`job_id`, ids)}
       and error is not null
     order by job_id, epoch`);
  // The last one of each stays.
  return new Map(rows.map(({ id, error }) => [id, error]));
}

export interface Changed {
  /** What others should hear: queues that have jobs now. */
  readonly hints: readonly Hint[];
  /** Those that were changed. The others had changed by themselves meanwhile. */
  readonly ids: readonly string[];
}

/** Revives jobs in one transaction: all of them, or none when it throws. */
export function reviveAll(context: MoveContext, chunk: Chunk, attempts: number): Promise<Changed> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const queues = new Set<string>();
    const done: Done[] = [];
    for (const [index, id] of chunk.ids.entries()) {
      const row = await reviveIn(context, tx, { id, attempts, now });
      if (row === null) continue;
      queues.add(row.queue);
      done.push({
        id,
        signature: chunk.signatures?.[index],
        action: "job.retry",
        oldStatus: row.status,
        newStatus: "pending",
      });
    }
    await noteAll(engine, tx, done);
    return { ids: done.map(({ id }) => id), hints: await hintPending(engine, tx, [...queues]) };
  });
}

/** Cancels jobs in one transaction; those that are worked on are marked. */
export function cancelAll(context: MoveContext, chunk: Chunk): Promise<Changed> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const queues = new Set<string>();
    const done: Done[] = [];
    for (const [index, id] of chunk.ids.entries()) {
      const { status, from, queues: others } = await cancelWhereItStands(context, tx, id);
      for (const queue of others) queues.add(queue);
      if (from === null) continue;
      done.push({
        id,
        signature: chunk.signatures?.[index],
        action: "job.cancel",
        oldStatus: from,
        newStatus: status,
      });
    }
    await noteAll(engine, tx, done);
    return { ids: done.map(({ id }) => id), hints: await hintPending(engine, tx, [...queues]) };
  });
}

interface Done {
  readonly id: string;
  readonly signature: OperatorEntry | undefined;
  readonly action: string;
  readonly oldStatus: Status;
  readonly newStatus: Status | null;
}

/** After all jobs: nothing is locked behind the head of the audit. */
async function noteAll(engine: Engine, tx: Transaction, done: readonly Done[]): Promise<void> {
  for (const { id, signature, ...action } of done) {
    if (signature === undefined) continue;
    await noteAction(engine, tx, signature, { ...action, subject: subjects.job(id) });
  }
}

/** After an answer was lost: a line tells that it was committed. Without lines it is done again, which changes the rest. */
export async function changedBefore(
  engine: Engine,
  { ids, signatures }: Chunk,
  act: () => Promise<Changed>,
): Promise<Changed> {
  const lines = signatures?.map(({ id }) => id) ?? [];
  if (lines.length > 0) {
    const noted = await engine.all(
      sql`select id from holdfast.audit where ${engine.among(sql`id`, lines)} limit 1`,
    );
    if (noted.length > 0) return { ids, hints: [] };
  }
  return { hints: (await act()).hints, ids };
}
