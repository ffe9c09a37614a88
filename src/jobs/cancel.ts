import { subjects } from "../audit/entry.ts";
import type { OperatorEntry } from "../audit/operator.ts";
import { noteAction } from "../audit/store.ts";
import { formatMs } from "../core/duration.ts";
import { IllegalMoveError, JobNotFoundError } from "../core/errors.ts";
import { mayMove, moves, type Status } from "../core/job.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { MoveContext } from "./hooks.ts";
import { holdAgain } from "./keys.ts";
import {
  type AttemptRow,
  type FinishedRow,
  hintPending,
  jobColumns,
  type JobColumns,
  putReady,
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

export async function cancel(
  context: MoveContext,
  id: string,
  operator: OperatorEntry | null = null,
): Promise<Cancelled> {
  const { engine } = context;
  for (let round = 0; round < CANCEL_ROUNDS_MAX; round += 1) {
    const found = await engine.transaction(async (tx) => {
      const stood = await cancelWhereItStands(context, tx, id);
      const { status: newStatus, from: oldStatus } = stood;
      if (operator === null || oldStatus === null) return stood;
      const action = { action: "job.cancel", subject: subjects.job(id), oldStatus, newStatus };
      await noteAction(engine, tx, operator, action);
      return stood;
    });
    if (found.status !== null) return found;
    const [known] = await engine.all(sql`select id from holdfast.job where id = ${id}`);
    if (known === undefined) break;
  }
  return { status: null, from: null, queues: [] };
}

/** Tries the tables in the order in which a job passes through them, so it cannot slip past. */
export async function cancelWhereItStands(
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
    };
    const queues = await moveWithHooks(context, tx, [{ table: "finished", row: finished }]);
    return { from: row.status ?? "pending", queues };
  }
  return null;
}

export function revive(
  context: MoveContext,
  id: string,
  attempts: number,
  operator: OperatorEntry | null = null,
): Promise<Hint[]> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const row = await reviveIn(context, tx, { id, attempts, now: await readNow(engine, tx) });
    if (row === null) throw await whyNotRevived(engine, tx, id);
    if (operator !== null) {
      const moved = { oldStatus: row.status, newStatus: "pending" };
      const action = { action: "job.retry", subject: subjects.job(id), ...moved };
      await noteAction(engine, tx, operator, action);
    }
    return hintPending(engine, tx, [row.queue]);
  });
}

/** Revives a finished job. Its last attempt stays in the history, and its epoch keeps counting. Null: it cannot be revived. */
export async function reviveIn(
  { engine, hooks }: MoveContext,
  tx: Transaction,
  { id, attempts, now }: { readonly id: string; readonly attempts: number; readonly now: number },
): Promise<FinishedRow | null> {
  const [row] = await tx.take<FinishedRow>({
    table: "finished",
    where: sql`id = ${id} and ${engine.among(sql`status`, moves.revive.from)}`,
  });
  if (row === undefined) return null;
  await holdAgain(tx, row, now);
  for (const hook of hooks) await hook.revived?.(tx, id);
  if (row.worker !== null) await tx.insert("attempt", [asRow(lastAttempt(row))]);
  const allowed = Math.max(row.max_attempts, row.attempts + attempts);
  await putReady(tx, [{ ...row, crashes: 0, max_attempts: allowed }], now);
  return row;
}

async function whyNotRevived(engine: Engine, tx: Transaction, id: string): Promise<Error> {
  const [row] = await tx.all<{ status: Status; attempts: number; most: number; inMs: number }>(sql`
    select status, attempts, max_attempts as most, due_at - ${engine.now()} as "inMs"
      from holdfast.job_state
     where id = ${id}`);
  if (row === undefined || mayMove("revive", row.status)) return new JobNotFoundError({ id });
  const { status, attempts, most, inMs } = row;
  if (status !== "retry") return new IllegalMoveError({ id, status, move: "revive" });
  const due = inMs > 0 ? `in ${formatMs(inMs)}` : "now";
  const detail = `is waiting for its next attempt (${attempts + 1} of ${most}, ${due})`;
  return new IllegalMoveError({ id, status, move: "revive", detail });
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
  };
}
