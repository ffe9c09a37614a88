/**
 * The steps of jobs.
 *
 * Every write shows the fence where the row is written: the lease is locked and compared in the same statement, so
 * whoever takes the job back waits for the step, or the step finds the lease gone.
 */
import { subjects } from "../core/audit.ts";
import type { UserTransaction } from "../core/step.ts";
import { LeaseLost, StoreRefused } from "../core/errors.ts";
import { DoubtNotFound } from "../core/step-errors.ts";
import type { Fence } from "../core/job.ts";
import { noteAction } from "./audit.ts";
import type { Engine, Transaction } from "./engine.ts";
import type { Doubt, NewStep, Resolution, StepName, StepRecord, StepWrite } from "./journal.ts";

import { stopWaiting } from "./jobs.ts";
import { hintPending, putReady, readNow } from "./moving.ts";
import type { WaitingRow } from "./rows.ts";
import { sql, type Sql } from "./sql.ts";
import type { Hint } from "./store.ts";

export function steps(engine: Engine, job: string): Promise<StepRecord[]> {
  return engine.all<StepRecord>(sql`
    select name, occurrence, place, kind, status, result, epoch, begun_at as "begunAt", ended_at as "endedAt",
           ${engine.now()} - begun_at as "ageMs"
      from holdfast.step
     where job_id = ${job}
     order by place, name, occurrence`);
}

export async function putStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const written = await engine.run(
    step.isNew ? insertion(engine, fence, step) : update(engine, fence, step),
  );
  return written > 0;
}

/** After an answer was lost: what was to be written stands there, or has to be written now. */
export async function lookUpStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const [row] = await engine.all<{ status: string; epoch: number }>(
    sql`select status, epoch from holdfast.step where ${isStep(fence.id, step)}`,
  );
  if (row === undefined) return putStep(engine, fence, { ...step, isNew: true });
  if (row.status === step.status && row.epoch === fence.epoch) return true;
  return putStep(engine, fence, { ...step, isNew: false });
}

export async function dropStep(engine: Engine, fence: Fence, step: StepName): Promise<boolean> {
  await engine.run(sql`
    delete from holdfast.step
     where ${isStep(fence.id, step)}
       and status <> 'done'
       and ${isHeld(engine, fence)}`);
  const [lease] = await engine.all(sql`
    select id from holdfast.lease where ${isFence(fence)}`);
  return lease !== undefined;
}

export async function commitStep(
  engine: Engine,
  fence: Fence,
  { step, body }: { step: NewStep; body: (tx: UserTransaction) => Promise<string | null> },
): Promise<void> {
  await engine.userTransaction(body, async (tx, result) => {
    const done = { ...step, status: "done", result, isNew: true } as const;
    const written = await tx.run(insertion(engine, fence, done));
    if (written === 0) throw new LeaseLost(fence);
  });
}

/** After an answer was lost: it was committed, or the job has to be tried again. */
export async function lookUpCommit(engine: Engine, fence: Fence, step: NewStep): Promise<void> {
  const [row] = await engine.all<{ epoch: number }>(
    sql`select epoch from holdfast.step where ${isStep(fence.id, step)} and status = 'done'`,
  );
  if (row?.epoch === fence.epoch) return;
  throw new StoreRefused({ problem: `the transaction of step '${step.name}' was not committed.` });
}

function insertion(engine: Engine, fence: Fence, step: StepWrite): Sql {
  const { name, occurrence, place, kind, status, result } = step;
  const now = engine.now();
  return sql`
    insert into holdfast.step
           (job_id, name, occurrence, place, kind, status, epoch, begun_at, ended_at, result)
    select l.id, ${engine.typed(name)}, ${engine.typed(occurrence)}, ${engine.typed(place)}, ${engine.typed(kind)},
           ${engine.typed(status)}, l.epoch, ${now}, ${status === "begun" ? sql`null` : now}, ${engine.typed(result)}
      from (select id, epoch from holdfast.lease where ${isFence(fence)} ${engine.lockRows()}) l`;
}

function update(engine: Engine, fence: Fence, step: StepWrite): Sql {
  return sql`
    update holdfast.step
       set status = ${step.status}, epoch = ${fence.epoch}, result = ${step.result},
           ended_at = ${step.status === "begun" ? sql`null` : engine.now()}
     where ${isStep(fence.id, step)}
       and status <> 'done'
       and ${isHeld(engine, fence)}`;
}

function isStep(job: string, { name, occurrence }: StepName): Sql {
  return sql`job_id = ${job} and name = ${name} and occurrence = ${occurrence}`;
}

function isFence({ id, worker, epoch }: Fence): Sql {
  return sql`id = ${id} and locked_by = ${worker} and epoch = ${epoch}`;
}

function isHeld(engine: Engine, fence: Fence): Sql {
  return sql`exists (select 1 from holdfast.lease where ${isFence(fence)} ${engine.lockRows()})`;
}

export function doubts(engine: Engine, limit: number): Promise<Doubt[]> {
  return engine.all<Doubt>(sql`
    select s.job_id as job, s.name, s.occurrence, s.begun_at as "begunAt", j.task, j.queue
      from holdfast.step s
      join holdfast.waiting j on j.id = s.job_id
     where s.status = 'doubt'
     order by s.begun_at
     limit ${limit}`);
}

/** Returns the queue in which the job goes on; null: the step is not in doubt, or its job has ended. */
export function resolveDoubt(engine: Engine, resolution: Resolution): Promise<Hint[] | null> {
  const { job, happened, name } = resolution;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const [row] = await tx.take<WaitingRow>({ table: "waiting", where: sql`id = ${job}` });
    if (row === undefined) return null;
    const settled = await settleDoubt(tx, resolution, now);
    if (!settled) throw await notInDoubt(tx, resolution);
    await stopWaiting(engine, tx, [row]);
    await putReady(tx, [row], now);
    await noteAction(engine, tx, resolution, {
      action: happened === null ? "step.not-done" : "step.done",
      subject: subjects.job(job),
      oldStatus: row.status,
      newStatus: "pending",
      detail: name,
    });
    return hintPending(engine, tx, [row.queue]);
  });
}

async function notInDoubt(tx: Transaction, { job: id, ...step }: Resolution): Promise<Error> {
  const rows = await tx.all<StepName>(sql`
    select name, occurrence from holdfast.step where job_id = ${id} and status = 'doubt' order by place`);
  const inDoubt = rows.map(({ name, occurrence }) =>
    occurrence === 1 ? name : `${name} (occurrence ${occurrence})`,
  );
  const { name, occurrence } = step;
  return new DoubtNotFound({ id, name, occurrence, inDoubt });
}

async function settleDoubt(
  tx: Transaction,
  { job, happened, ...step }: Resolution,
  now: number,
): Promise<boolean> {
  const inDoubt = sql`${isStep(job, step)} and status = 'doubt'`;
  const changed = await tx.run(
    happened === null
      ? sql`delete from holdfast.step where ${inDoubt}`
      : sql`update holdfast.step set status = 'done', result = ${happened.result}, ended_at = ${now} where ${inDoubt}`,
  );
  return changed > 0;
}
