/**
 * Bulk changes of jobs, a chunk at a time.
 *
 * A chunk is bounded by how many jobs it examines, not by how many match, so a chunk without matches costs no more than a
 * full one. Jobs are examined newest first: a called job comes before its caller, and a job that fails again in the
 * meantime is not examined twice.
 */
import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { type NewAction, noteAction } from "../audit/store.ts";
import { decodeError } from "../core/error-record.ts";
import type { Status } from "../core/job.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import { cancelWhereItStands, reviveIn } from "./cancel.ts";
import type { MoveContext } from "./hooks.ts";
import { hintPending } from "./rows.ts";
import type { Chunk, Cursor, Looked, Walk } from "./store.ts";

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
  // The last error of each job replaces the others.
  return new Map(rows.map(({ id, error }) => [id, error]));
}

export interface Changed {
  /** Queues that have pending jobs now. */
  readonly hints: readonly Hint[];
  /** The changed jobs. The others changed in the meantime. */
  readonly ids: readonly string[];
}

/** Revives jobs in one transaction: all of them, or none if it throws. */
export function reviveAll(context: MoveContext, chunk: Chunk, attempts: number): Promise<Changed> {
  return changeAll(context.engine, chunk, async (tx, id, now) => {
    const row = await reviveIn(context, tx, { id, attempts, now });
    if (row === null) return { action: null, queues: [] };
    const action = { action: "job.retry", oldStatus: row.status, newStatus: "pending" };
    return { action, queues: [row.queue] };
  });
}

/** Cancels jobs in one transaction; running jobs are marked. */
export function cancelAll(context: MoveContext, chunk: Chunk): Promise<Changed> {
  return changeAll(context.engine, chunk, async (tx, id) => {
    const { status, from, queues } = await cancelWhereItStands(context, tx, id);
    const action = { action: "job.cancel", oldStatus: from, newStatus: status };
    return { action: from === null ? null : action, queues };
  });
}

interface Change {
  /** Null: the job was not changed. */
  readonly action: Omit<NewAction, "subject"> | null;
  readonly queues: readonly string[];
}

function changeAll(
  engine: Engine,
  { ids, operators }: Chunk,
  change: (tx: Transaction, id: string, now: number) => Promise<Change>,
): Promise<Changed> {
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const queues = new Set<string>();
    const changed: { id: string; operator: OperatorEntry | undefined; action: NewAction }[] = [];
    for (const [index, id] of ids.entries()) {
      const { action, queues: touched } = await change(tx, id, now);
      for (const queue of touched) queues.add(queue);
      if (action === null) continue;
      const operator = operators?.[index];
      changed.push({ id, operator, action: { ...action, subject: subjects.job(id) } });
    }
    // After all jobs: the head of the audit log must be the last row that is locked.
    for (const { operator, action } of changed) {
      if (operator !== undefined) await noteAction(engine, tx, operator, action);
    }
    return { ids: changed.map(({ id }) => id), hints: await hintPending(engine, tx, [...queues]) };
  });
}

/** After a lost answer: an audit entry proves the commit. Without entries it is repeated, which changes only the rest. */
export async function changedBefore(
  engine: Engine,
  { ids, operators }: Chunk,
  act: () => Promise<Changed>,
): Promise<Changed> {
  const lines = operators?.map(({ id }) => id) ?? [];
  if (lines.length > 0) {
    const noted = await engine.all(
      sql`select id from holdfast.audit where ${engine.among(sql`id`, lines)} limit 1`,
    );
    if (noted.length > 0) return { ids, hints: [] };
  }
  return { hints: (await act()).hints, ids };
}
