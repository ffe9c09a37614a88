/**
 * Keys: at most one live job of a task has a key, and a job may keep its key for a while after it ends.
 *
 * `job_key` has the keys of live jobs; its primary key decides which job gets one. `kept_key` says how long a job keeps its
 * key after it ends. It is written when the job is enqueued, never when it is settled: the job's finished row tells
 * whether the time is over. So a job first takes its key in `job_key`, then looks in `kept_key`: in between, no other job
 * can take the key, and the job that released it has its finished row.
 */
import { KeyTakenError } from "../core/errors.ts";
import { type FinalStatus, finalStatuses, type Status } from "../core/job.ts";
import { bareName } from "../core/name.ts";
import type { Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobColumns } from "./rows.ts";
import type { NewJob } from "./store.ts";

export interface Keyed extends NewJob {
  readonly key: string;
}

export function isKeyed(job: NewJob): job is Keyed {
  return job.key !== null;
}

/** Keys go by the name of a task without its version. */
interface TaskKey {
  readonly task: string;
  readonly key: string;
}

function taskKey({ task, key }: TaskKey): TaskKey {
  return { task: bareName(task), key };
}

/** A task and a key as one text. */
export function nameOf({ task, key }: TaskKey): string {
  return JSON.stringify([bareName(task), key]);
}

/** The job that holds a key. Not live: it has ended and keeps the key. */
export interface Holder {
  readonly id: string;
  readonly isLive: boolean;
}

interface KeptRow {
  id: string;
  /** Null: the job has not ended, or does not exist any more. */
  until: number | null;
}

export async function liveHolder(tx: Transaction, of: TaskKey): Promise<Holder | null> {
  const [row] = await tx.all<{ id: string }>(
    sql`select job_id as id from holdfast.job_key where ${isKey(of)}`,
  );
  return row === undefined ? null : { id: row.id, isLive: true };
}

export async function keptHolder(
  tx: Transaction,
  of: TaskKey,
  now: number,
): Promise<Holder | null> {
  const row = await findKept(tx, of);
  return row !== undefined && isKept(row, now) ? { id: row.id, isLive: false } : null;
}

/** Takes the key for a job that is about to be live. Returns the holder: this job, or the one that has it already. */
export async function hold(
  tx: Transaction,
  { id, keyForMs = null, ...job }: TaskKey & { id: string; keyForMs?: number | null },
  now: number,
): Promise<Holder> {
  const of = taskKey(job);
  const live = await liveHolder(tx, of);
  if (live !== null) return live;
  await tx.insert("job_key", [{ task: of.task, job_key: of.key, job_id: id }]);
  const row = await findKept(tx, of);
  if (row !== undefined && row.id !== id && isKept(row, now)) {
    await tx.run(sql`delete from holdfast.job_key where job_id = ${id}`);
    return { id: row.id, isLive: false };
  }
  if (keyForMs !== null) await keep(tx, { ...of, id, keyForMs, before: row });
  return { id, isLive: true };
}

/** Releases the key that a job has kept since it ended. */
export async function letGo(tx: Transaction, id: string): Promise<void> {
  await tx.run(sql`delete from holdfast.kept_key where job_id = ${id}`);
}

/** A job that is reopened needs its key again. */
export async function holdAgain(tx: Transaction, row: JobColumns, now: number): Promise<void> {
  if (row.job_key === null) return;
  const of = taskKey({ task: row.task, key: row.job_key });
  const holder = await hold(tx, { ...of, id: row.id }, now);
  if (holder.id !== row.id) throw await takenBy(tx, of, holder.id);
}

export async function takenBy(
  tx: Transaction,
  of: TaskKey,
  holder: string,
): Promise<KeyTakenError> {
  const status = (await statusOf(tx, holder)) ?? "pending"; // not written yet, in this transaction
  return new KeyTakenError({ ...taskKey(of), holder, status });
}

export async function statusOf(tx: Transaction, id: string): Promise<Status | null> {
  const [row] = await tx.all<{ status: Status }>(
    sql`select status from holdfast.job_state where id = ${id}`,
  );
  return row?.status ?? null;
}

export function isFinal(status: Status): boolean {
  return finalStatuses.includes(status as FinalStatus);
}

async function findKept(tx: Transaction, of: TaskKey): Promise<KeptRow | undefined> {
  const [row] = await tx.all<KeptRow>(sql`
    select k.job_id as id, f.finished_at + k.keep_ms as until
      from (select job_id, keep_ms from holdfast.kept_key where ${isKey(of)}) k
      left join holdfast.finished f on f.id = k.job_id`);
  return row;
}

function isKept({ until }: KeptRow, now: number): boolean {
  return until !== null && until > now;
}

/** Replaces only the row that was seen: in a user transaction, another process may have written one since. */
async function keep(
  tx: Transaction,
  kept: TaskKey & { id: string; keyForMs: number; before: KeptRow | undefined },
): Promise<void> {
  const { task, key, id, keyForMs, before } = kept;
  if (before !== undefined) {
    const seen = sql`${isKey(kept)} and job_id = ${before.id}`;
    await tx.run(sql`delete from holdfast.kept_key where ${seen}`);
  }
  await tx.insert("kept_key", [{ task, job_key: key, job_id: id, keep_ms: keyForMs }]);
}

function isKey({ task, key }: TaskKey): Sql {
  return sql`task = ${bareName(task)} and job_key = ${key}`;
}
