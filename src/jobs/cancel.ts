import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { noteAction, noteActions } from "../audit/store.ts";
import { formatMs } from "../core/duration.ts";
import { IllegalMoveError, JobNotFoundError, StoreBusyError } from "../core/errors.ts";
import { isCalled } from "../core/id.ts";
import { mayMove, moves, type Status } from "../core/job.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { MoveContext, Reopening, Reopened } from "./hooks.ts";
import { holdAgain } from "./keys.ts";
import {
  type AttemptRow,
  changeInput,
  type FinishedRow,
  hintPending,
  jobColumns,
  type JobColumns,
  laneName,
  markLanes,
  putReady,
  readyRow,
  type WaitingRow,
} from "./rows.ts";
import { moveWithHooks, stopWaiting, type Touched } from "./settle.ts";

/** How often a cancel looks for a job that moves between tables in the meantime. */
const CANCEL_ROUNDS_MAX = 10;

export interface Cancelled extends Touched {
  /** The new status; null: the job does not exist. */
  readonly status: Status | null;
  /** The old status; null: nothing was changed. */
  readonly from: Status | null;
}

export function cancel(
  context: MoveContext,
  id: string,
  operator: OperatorEntry | null = null,
): Promise<Cancelled> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const stood = await cancelWhereItStands(context, tx, id);
    const { status: newStatus, from: oldStatus } = stood;
    if (operator === null || oldStatus === null) return stood;
    const action = { action: "job.cancel", subject: subjects.job(id), oldStatus, newStatus };
    await noteAction(engine, tx, operator, action);
    return stood;
  });
}

/** Jobs that are changed in one transaction. */
export interface Chunk {
  readonly ids: readonly string[];
  /** One audit entry per job; null: the program acts by itself and writes none. */
  readonly operators: readonly OperatorEntry[] | null;
}

export interface CancelledAll extends Touched {
  /** The cancelled jobs. The others had ended. */
  readonly ids: readonly string[];
}

/** Cancels jobs in one transaction; running jobs are marked. */
export function cancelAll(context: MoveContext, { ids, operators }: Chunk): Promise<CancelledAll> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const queues = new Set<string>();
    const lines: Parameters<typeof noteActions>[2][number][] = [];
    const cancelled: string[] = [];
    for (const [index, id] of ids.entries()) {
      const stood = await cancelWhereItStands(context, tx, id);
      for (const queue of stood.queues) queues.add(queue);
      if (stood.from === null) continue;
      cancelled.push(id);
      const operator = operators?.[index];
      const statuses = { oldStatus: stood.from, newStatus: stood.status };
      const action = { action: "job.cancel", subject: subjects.job(id), ...statuses };
      if (operator !== undefined) lines.push({ operator, action });
    }
    // After all jobs: the head of the audit log must be the last row that is locked.
    await noteActions(engine, tx, lines);
    return { ids: cancelled, queues: [...queues] };
  });
}

/** After a lost answer: an audit entry proves the commit. Without entries it is repeated, which changes only the rest. */
export async function cancelledAll(context: MoveContext, chunk: Chunk): Promise<CancelledAll> {
  const { ids, operators } = chunk;
  const lines = operators?.map(({ id }) => id) ?? [];
  const { engine } = context;
  const noted =
    lines.length === 0
      ? []
      : await engine.all(
          sql`select id from holdfast.audit where ${engine.among(sql`id`, lines)} limit 1`,
        );
  if (noted.length > 0) return { ids, queues: [] };
  return { ids, queues: (await cancelAll(context, chunk)).queues };
}

/**
 * Cancels a job in the table where it is. A job that a worker hands back can slip from one table past the next, because each
 * statement sees what has been committed by then: a job that is in no table is looked for again.
 */
export async function cancelWhereItStands(
  context: MoveContext,
  tx: Transaction,
  id: string,
): Promise<Cancelled> {
  for (let round = 0; round < CANCEL_ROUNDS_MAX; round += 1) {
    const stood = await cancelInSomeTable(context, tx, id);
    if (stood.status !== null) return stood;
    const [known] = await tx.all(sql`select id from holdfast.job where id = ${id}`);
    if (known === undefined) return stood;
  }
  // Not "there is no such job": the caller may try again.
  throw new StoreBusyError({ store: context.engine.name, waitedMs: 0 });
}

/** Tries the tables in the order in which a job passes through them, so it rarely slips past. */
async function cancelInSomeTable(
  context: MoveContext,
  tx: Transaction,
  id: string,
): Promise<Cancelled> {
  const now = await readNow(context.engine, tx);
  const unclaimed = await cancelUnclaimed(context, tx, id, { now, error: null });
  if (unclaimed !== null) return { status: "cancelled", ...unclaimed };
  const marked = await tx.run(sql`
    update holdfast.lease
       set cancel_requested_at = coalesce(cancel_requested_at, ${now})
     where id = ${id}`);
  if (marked > 0) return { status: "processing", from: "processing", queues: [] };
  const [ended] = await tx.all<FinishedRow>(
    sql`select status from holdfast.finished where id = ${id}`,
  );
  return { status: ended?.status ?? null, from: null, queues: [] };
}

/** Cancels an unclaimed job. Returns its old status and the queues of the jobs that waited for it; null: it is claimed. */
export async function cancelUnclaimed(
  context: MoveContext,
  tx: Transaction,
  id: string,
  because: { readonly now: number; readonly error: string | null },
): Promise<({ readonly from: Status } & Touched) | null> {
  for (const table of ["ready", "waiting"] as const) {
    const [row] = await tx.take<JobColumns & Partial<WaitingRow>>({
      table,
      where: sql`id = ${id}`,
    });
    if (row === undefined) continue;
    await stopWaiting(context, tx, [row]);
    const finished: FinishedRow = {
      ...jobColumns(row),
      status: "cancelled",
      worker: null,
      started_at: null,
      finished_at: because.now,
      result: null,
      error: because.error,
      error_kind: null,
    };
    const queues = await moveWithHooks(context, tx, [{ table: "finished", row: finished }]);
    return { from: row.status ?? "pending", queues };
  }
  return null;
}

export function retry(
  context: MoveContext,
  id: string,
  { attempts, operator = null, payload }: RetryTerms,
): Promise<Hint[]> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const row = await reopenIn(context, tx, { id, attempts, now });
    if (row === null) throw await whyNotReopened(engine, tx, id, "reopen");
    const detail = payload === undefined ? null : await changeInput(tx, { id, payload, now });
    if (operator !== null) {
      const moved = { oldStatus: row.status, newStatus: "pending", detail };
      const what = detail === null ? "job.retry" : "job.edit";
      await noteAction(engine, tx, operator, { action: what, subject: subjects.job(id), ...moved });
    }
    return hintPending(engine, tx, [row.queue]);
  });
}

/** How many jobs are reopened in one transaction because the job that ended them is. The others can be retried later. */
const FOLLOWERS_MAX = 1_000;

export interface RetryTerms {
  /** Additional attempts. */
  readonly attempts: number;
  readonly operator?: OperatorEntry | null;
  /** Replaces the input of the job. */
  readonly payload?: string;
}

interface ReopenTerms {
  readonly id: string;
  readonly attempts: number;
  readonly now: number;
  /** The statuses that the job may have. Default: those of a reopening. */
  readonly from?: readonly Status[];
}

/**
 * Reopens a finished job, and the jobs that ended because of it. Its last attempt stays in the history, and its epoch keeps
 * counting. Null: it cannot be reopened.
 */
export async function reopenIn(
  context: MoveContext,
  tx: Transaction,
  reopening: ReopenTerms,
): Promise<FinishedRow | null> {
  const { row, followers } = await reopenOne(context, tx, { ...reopening, follows: false });
  const queue = [...followers];
  for (let reopened = 0; queue.length > 0 && reopened < FOLLOWERS_MAX; reopened += 1) {
    const id = queue.shift() as string;
    const { attempts, now } = reopening;
    const next = await reopenOne(context, tx, { id, attempts, now, follows: true });
    queue.push(...next.followers);
  }
  return row;
}

async function reopenOne(
  context: MoveContext,
  tx: Transaction,
  { id, attempts, now, from, follows }: ReopenTerms & { readonly follows: boolean },
): Promise<{ readonly row: FinishedRow | null; readonly followers: readonly string[] }> {
  const { engine, hooks } = context;
  const where = sql`id = ${id} and ${engine.among(sql`status`, from ?? moves.reopen.from)}`;
  const member = isCalled(id)
    ? await reopenMember(context, tx, { where, reopening: { id, now, follows } })
    : NOT_A_MEMBER;
  const [row] =
    member === null ? [] : await tx.take<FinishedRow>({ table: "finished", where, ids: [id] });
  if (member === null || row === undefined) return { row: null, followers: [] };
  await holdAgain(tx, row, now);
  for (const hook of hooks) await hook.reopened?.(tx, id);
  // The row of a rerun has the attempt that was done.
  const isAttempt = row.worker !== null && row.status !== "done";
  if (isAttempt) await tx.insert("attempt", [asRow(lastAttempt(row))]);
  const allowed = Math.max(row.max_attempts, row.attempts + attempts);
  const reopened = { ...row, crashes: 0, max_attempts: allowed };
  const { missing, followers } = member;
  if (missing === 0) await putReady(engine, tx, [reopened], now);
  else await putMissing(tx, reopened, missing);
  return { row, followers };
}

const NOT_A_MEMBER: Reopened = { missing: 0, followers: [] };

/** What a job that may belong to a flow waits for again. Null: it is not to be reopened. */
async function reopenMember(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  { where, reopening }: { readonly where: Sql; readonly reopening: Reopening },
): Promise<Reopened | null> {
  const finished = sql`select id from holdfast.finished where ${where} ${engine.lockRows()}`;
  if ((await tx.all(finished)).length === 0) return null;
  for (const hook of hooks) {
    if (hook.reopenMember === undefined) continue;
    return hook.reopenMember(engine, tx, reopening);
  }
  return NOT_A_MEMBER;
}

async function putMissing(tx: Transaction, row: JobColumns, missing: number): Promise<void> {
  await tx.insert("waiting", [
    asRow({ ...jobColumns(row), status: "waiting", due_at: null, start_by: null, missing }),
  ]);
}

export async function whyNotReopened(
  engine: Engine,
  tx: Transaction,
  id: string,
  move: "reopen" | "rerun",
): Promise<Error> {
  const [row] = await tx.all<{ status: Status; attempts: number; most: number; inMs: number }>(sql`
    select status, attempts, max_attempts as most, due_at - ${engine.now()} as "inMs"
      from holdfast.job_state
     where id = ${id}`);
  if (row === undefined || mayMove(move, row.status)) return new JobNotFoundError({ id });
  const { status, attempts, most, inMs } = row;
  const refused = { id, status, move: move === "reopen" ? "retry" : move } as const;
  if (status !== "retry") return new IllegalMoveError(refused);
  const due = inMs > 0 ? `in ${formatMs(inMs)}` : "now";
  const detail = `is waiting for its next attempt (${attempts + 1} of ${most}, ${due})`;
  return new IllegalMoveError({ ...refused, detail });
}

function lastAttempt(row: FinishedRow): AttemptRow {
  return {
    job_id: row.id,
    epoch: row.epoch,
    attempt: row.attempts,
    worker: row.worker ?? "",
    outcome: row.status === "cancelled" ? "cancelled" : "failed",
    started_at: row.started_at ?? row.finished_at,
    ended_at: row.finished_at,
    error: row.error,
    error_kind: row.error_kind,
  };
}

// Moves unclaimed jobs to another queue, or gives them another priority. They keep their place in time.

export type Relocation = { readonly queue: string } | { readonly priority: number };

export interface Relocated {
  readonly id: string;
  readonly status: Status;
  /** The queue it is in now. */
  readonly queue: string;
  /** The old queue or priority. */
  readonly before: string | number;
}

/** Leaves out jobs that are claimed or have ended, and those that need no change. */
export async function relocate(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
  to: Relocation,
): Promise<Relocated[]> {
  const relocated: Relocated[] = [];
  const isOther = "queue" in to ? sql`queue <> ${to.queue}` : sql`"rank" <> ${0 - to.priority}`;
  const set = "queue" in to ? { queue: to.queue } : { rank: 0 - to.priority };
  // In the order in which a job passes through them, so it cannot slip past.
  for (const table of ["waiting", "ready"] as const) {
    const where = sql`${engine.among(sql`id`, ids)} and ${isOther}`;
    const rows = await tx.take<JobColumns & Partial<WaitingRow>>({ table, where });
    if (rows.length === 0) continue;
    await tx.insert(
      table,
      rows.map((row) => asRow(placed(engine, { ...row, ...set }))),
    );
    const hasLanes = rows.some(({ lane }) => laneName(lane) !== null);
    if ("queue" in to && hasLanes) await markLanes(engine, tx, to.queue);
    relocated.push(
      ...rows.map((row) => ({
        id: row.id,
        status: row.status ?? ("pending" as const),
        queue: "queue" in to ? to.queue : row.queue,
        before: "queue" in to ? row.queue : 0 - row.rank,
      })),
    );
  }
  const moved = relocated.map(({ id }) => id);
  if (moved.length === 0) return [];
  const where = engine.among(sql`id`, moved);
  await tx.run(
    "queue" in to
      ? sql`update holdfast.job set queue = ${to.queue} where ${where}`
      : sql`update holdfast.job set "rank" = ${0 - to.priority} where ${where}`,
  );
  return relocated;
}

/** A pending job gets the position in its new queue that it would have if it had become pending there. */
function placed(engine: Engine, row: JobColumns & { ready_at?: number }): object {
  if (row.ready_at === undefined) return row;
  const { lane, place, ready_at } = readyRow(engine, jobColumns(row), row.ready_at);
  return { ...row, lane, place, ready_at };
}
