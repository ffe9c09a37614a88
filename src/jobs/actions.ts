/**
 * What an operator does to one job, beside cancelling and retrying it: run it now, change it, delete it, replay it.
 *
 * Each takes the row of the job from the table of its state, in the transaction that writes the line of the audit: a job that
 * a worker claims, or that ends, in the meantime is refused and stays as it is.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { IllegalMoveError, invalid, JobInUseError, JobNotFoundError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { enqueueIn } from "./enqueue-policy.ts";
import type { MoveContext } from "./hooks.ts";
import { deleteEnded } from "./maintenance.ts";
import {
  changeInput,
  FIRST_UNTIL,
  firstPlace,
  hintPending,
  jobColumns,
  type JobColumns,
  laneName,
  markLanes,
  readyRow,
  type ReadyRow,
  type WaitingRow,
} from "./rows.ts";
import type { NewJob } from "./store.ts";

type Refused = "run now" | "edit" | "delete" | "replay";

async function refusal(tx: Transaction, id: string, move: Refused): Promise<Error> {
  const [job] = await tx.all<{ status: Status }>(
    sql`select status from holdfast.job_state where id = ${id}`,
  );
  if (job === undefined) return new JobNotFoundError({ id });
  return new IllegalMoveError({ id, move, status: job.status });
}

// Running a job now: it goes first in its lane, and past a pause of its queue.
//
// A pause is lifted for one claim of one job: the row of the queue names the job, and claims of a paused queue look for those
// alone (limits/claim.ts). Limits, lanes and rates hold as for any claim. The job is not moved to a lane or a queue of its
// own, because it would then count towards other limits. Its position says whether it may still pass: an attempt that is
// handed back, or fails and is retried, gets another position and waits for the queue.

/** Jobs that one pause lets through and that are not claimed yet. */
export const LET_THROUGH_MAX = 1_000;

export interface RunNow {
  /** The status before. */
  readonly status: Status;
  readonly hints: readonly Hint[];
}

export function runNow(
  { engine }: MoveContext,
  id: string,
  operator: OperatorEntry,
): Promise<RunNow> {
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const row = await takeUnclaimed(tx, id);
    if (row === null) throw await refusal(tx, id, "run now");
    const { status: oldStatus = "pending" } = row;
    // It waits because its task, or the job that it depends on, says so.
    if (oldStatus === "waiting") {
      throw new IllegalMoveError({ id, move: "run now", status: oldStatus });
    }
    const ready = { ...readyRow(engine, row, row.ready_at ?? now), lane: row.lane ?? "" };
    await tx.insert("ready", [asRow({ ...ready, place: firstPlace(now) })]);
    await letThrough(engine, tx, row);
    const action = { action: "job.run-now", subject: subjects.job(id), oldStatus };
    await noteAction(engine, tx, operator, { ...action, newStatus: "pending" });
    return { status: oldStatus, hints: await hintPending(engine, tx, [row.queue]) };
  });
}

/** A row of `ready` has the time at which it became pending, one of `waiting` a status. */
type Unclaimed = JobColumns & Partial<Pick<ReadyRow, "ready_at" | "place">> & Partial<WaitingRow>;

/** In the order in which a job passes through the tables, so it cannot slip past. */
async function takeUnclaimed(tx: Transaction, id: string): Promise<Unclaimed | null> {
  for (const table of ["waiting", "ready"] as const) {
    const [row] = await tx.take<Unclaimed>({ table, where: sql`id = ${id}` });
    if (row !== undefined) return row;
  }
  return null;
}

async function letThrough(
  engine: Engine,
  tx: Transaction,
  { id, queue }: Pick<JobColumns, "id" | "queue">,
): Promise<void> {
  const [paused] = await tx.all<{ through: string | null }>(sql`
    select let_through as through
      from holdfast.queue
     where name = ${queue}
       and paused_at is not null
       ${engine.lockRows()}`);
  if (paused === undefined) return;
  const named = [...(JSON.parse(paused.through ?? "[]") as string[]), id];
  const passing = await tx.all<{ id: string }>(sql`
    select id
      from holdfast.ready
     where ${engine.among(sql`id`, named)}
       and place < ${FIRST_UNTIL}
     order by place desc
     limit ${LET_THROUGH_MAX + 1}`);
  if (passing.length > LET_THROUGH_MAX) {
    const many = LET_THROUGH_MAX.toLocaleString("en");
    const detail = `is in the paused queue '${queue}', and ${many} of its jobs that were run now are not claimed yet`;
    throw new IllegalMoveError({ id, move: "run now", status: "pending", detail });
  }
  const ids = JSON.stringify(passing.map((row) => row.id));
  await tx.run(sql`update holdfast.queue set let_through = ${ids} where name = ${queue}`);
}

// Changing a job that no worker holds.

export interface EditTerms {
  readonly payload?: string;
  readonly priority?: number;
  /** Null: now. */
  readonly start?: NewJob["start"];
  readonly queue?: string;
}

export interface Edited {
  /** The status now. */
  readonly status: Status;
  readonly hints: readonly Hint[];
}

/** The key stays with the job: it is unique among all queues. What was not given stays as it is. */
export function edit(
  { engine }: MoveContext,
  id: string,
  terms: EditTerms,
  operator: OperatorEntry,
): Promise<Edited> {
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const before = await takeUnclaimed(tx, id);
    if (before === null) throw await refusal(tx, id, "edit");
    const { table, row } = editedRow(engine, before, terms, now);
    await tx.insert(table, [asRow(row)]);
    const told = await editJob(engine, tx, { before, row, terms, now });
    const oldStatus = before.status ?? "pending";
    const newStatus = row.status ?? "pending";
    if (told.length > 0) {
      const action = { action: "job.edit", subject: subjects.job(id), oldStatus, newStatus };
      await noteAction(engine, tx, operator, { ...action, detail: told.join(", ") });
    }
    if (newStatus !== "pending") return { status: newStatus, hints: [{ kind: "waiting" }] };
    return { status: newStatus, hints: await hintPending(engine, tx, [row.queue]) };
  });
}

interface EditedRow {
  readonly table: "ready" | "waiting";
  readonly row: Unclaimed;
}

function editedRow(engine: Engine, before: Unclaimed, terms: EditTerms, now: number): EditedRow {
  const { queue = before.queue, priority = 0 - before.rank, start } = terms;
  const row: Unclaimed = { ...before, queue, rank: 0 - priority };
  const isPlaced = queue === before.queue && row.rank === before.rank && start === undefined;
  if (isPlaced) return { table: before.ready_at === undefined ? "waiting" : "ready", row };
  const startBy = before.start_by ?? null;
  const columns = { ...jobColumns(row), start_by: startBy };
  if (start === undefined) {
    if (before.ready_at === undefined) return { table: "waiting", row };
    return { table: "ready", row: readyRow(engine, columns, before.ready_at) };
  }
  // A time of its own has an end of its own: that of a timer, an event or another job.
  if (before.status === "waiting") {
    const detail = "is waiting, and continues when what it waits for happens";
    throw new IllegalMoveError({ id: before.id, status: "waiting", move: "edit", detail });
  }
  const dueAt = start === null ? now : "at" in start ? start.at : now + start.delayMs;
  if (startBy !== null && dueAt >= startBy) {
    const problem = `the job must start by ${new Date(startBy).toISOString()}: it would expire.`;
    throw invalid("runAt", problem);
  }
  if (dueAt <= now) return { table: "ready", row: readyRow(engine, columns, now) };
  const status = before.status ?? "scheduled";
  return { table: "waiting", row: { ...columns, status, due_at: dueAt } };
}

/** The row that keeps what the job was enqueued with. Returns what changed, for the audit. */
async function editJob(
  engine: Engine,
  tx: Transaction,
  change: { before: Unclaimed; row: Unclaimed; terms: EditTerms; now: number },
): Promise<string[]> {
  const { before, row, terms, now } = change;
  const { id, queue, rank } = row;
  const told: string[] = [];
  if (queue !== before.queue) {
    await tx.run(sql`update holdfast.job set queue = ${queue} where id = ${id}`);
    if (laneName(row.lane) !== null) await markLanes(engine, tx, queue);
    told.push(`queue ${before.queue} to ${queue}`);
  }
  if (rank !== before.rank) {
    await tx.run(sql`update holdfast.job set "rank" = ${rank} where id = ${id}`);
    told.push(`priority ${0 - before.rank} to ${0 - rank}`);
  }
  if (terms.start !== undefined) {
    told.push(`due ${new Date(row.due_at ?? row.ready_at ?? now).toISOString()}`);
  }
  const { payload } = terms;
  if (payload !== undefined) told.push(await changeInput(tx, { id, payload, now }));
  return told;
}

// Deleting an ended job, with its attempts, steps and reports.

export function deleteOne(
  context: MoveContext,
  id: string,
  operator: OperatorEntry,
): Promise<void> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const [ended] = await tx.all<{ status: Status }>(
      sql`select status from holdfast.finished where id = ${id} ${engine.lockRows()}`,
    );
    if (ended === undefined) throw await refusal(tx, id, "delete");
    const { status } = ended;
    if ((await deleteEnded(context, tx, { ids: [id], statuses: [status] })).length === 0) {
      throw new JobInUseError({ id });
    }
    const action = { action: "job.delete", subject: subjects.job(id), oldStatus: status };
    await noteAction(engine, tx, operator, action);
  });
}

// Replaying an ended job: a new job with its input.

/**
 * The tag that leads from a replay to the job, and by which a list finds all replays of it. It comes on top of as many tags
 * as an application may give: none of those is dropped for it.
 */
function replayTag(id: string): string {
  return `${REPLAY_OF}${id}`;
}

const REPLAY_OF = "replay-of:";

export interface Replay {
  readonly id: string;
  /** The id of the new job. */
  readonly newId: string;
  /** Instead of the input of the old job. */
  readonly payload?: string;
}

interface Original {
  readonly queue: string;
  readonly task: string;
  readonly payload: string;
  readonly rank: number;
  readonly maxAttempts: number;
  readonly lane: string | null;
  readonly status: Status;
}

/**
 * The new job has the task, queue, priority, lane, limit of attempts and tags of the old one. It does not have its key, which
 * another job may hold by now, nor its place in a flow, a workflow or a schedule: it runs once, for itself.
 */
export function replay(
  context: MoveContext,
  { id, newId, payload }: Replay,
  operator: OperatorEntry,
): Promise<readonly Hint[]> {
  const { engine } = context;
  return engine.transaction(async (tx) => {
    const [old] = await tx.all<Original>(sql`
      select f.queue, f.task, j.payload, f.rank, j.max_attempts as "maxAttempts", f.lane, f.status
        from holdfast.finished f
        join holdfast.job j on j.id = f.id
       where f.id = ${id}`);
    if (old === undefined) throw await refusal(tx, id, "replay");
    const tags = await tx.all<{ tag: string }>(
      sql`select tag from holdfast.job_tag where job_id = ${id} order by tag`,
    );
    const { queue, task, rank, maxAttempts, lane, status } = old;
    const kept = tags.map(({ tag }) => tag).filter((tag) => !tag.startsWith(REPLAY_OF));
    const job: NewJob = {
      id: newId,
      queue,
      task,
      payload: payload ?? old.payload,
      priority: 0 - rank,
      maxAttempts,
      key: null,
      start: null,
      lane: laneName(lane),
      tags: [...kept, replayTag(id)],
    };
    const { hints } = await enqueueIn(context, tx, [job]);
    const detail = `as job ${newId}${payload === undefined ? "" : ", with another input"}`;
    const action = { action: "job.replay", subject: subjects.job(id), detail };
    await noteAction(engine, tx, operator, { ...action, oldStatus: status, newStatus: status });
    await engine.notifyInTx(tx, hints);
    return hints;
  });
}
