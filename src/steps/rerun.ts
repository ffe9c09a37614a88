/**
 * Running an ended job again from one of its steps.
 *
 * The steps before it keep their results and do not run again; that step and those after it are taken back, into
 * `rerun_step`. Effects, commits and calls among them happen again, so the caller must name each of them. A repeated effect
 * gets another key: with the old one, the other system would return its first answer and do nothing.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { moves } from "../core/job.ts";
import type { PlannedStep, RerunPlan, StepName, StepRecord } from "../core/task.ts";
import { asRow, type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { reopenIn, whyNotReopened } from "../jobs/cancel.ts";
import type { MoveContext } from "../jobs/hooks.ts";
import { changeInput, hintPending } from "../jobs/rows.ts";
import { RerunUnconfirmedError, StepNotFoundError } from "./errors.ts";

export interface RerunRequest {
  readonly job: string;
  /** Null: from the beginning. */
  readonly from: StepName | null;
  /** The labels of the steps that may happen again. */
  readonly confirm: readonly string[];
  readonly attempts: number;
  readonly payload: string | null;
  readonly operator: OperatorEntry;
}

/** A step that is known by its name alone if it is the first of that name. */
function labelOf({ name, occurrence }: StepName): string {
  return occurrence === 1 ? name : `${name} (${occurrence})`;
}

/** These change something outside of the job. */
const CHANGES = new Set(["effect", "commit", "call"]);

export function planOf(
  job: string,
  steps: readonly StepRecord[],
  from: StepName | null,
): RerunPlan {
  const first = from === null ? null : find(job, steps, from);
  const isRepeated = (step: StepRecord): boolean => first === null || isAtOrAfter(step, first);
  const repeats = steps.filter(isRepeated);
  return {
    job,
    from,
    keeps: steps.filter((step) => !isRepeated(step)).map(planned),
    repeats: repeats.map(planned),
    confirm: repeats.filter(({ kind }) => CHANGES.has(kind)).map(labelOf),
  };
}

function planned({ name, occurrence, kind, status }: StepRecord): PlannedStep {
  return { name, occurrence, kind, status };
}

function find(job: string, steps: readonly StepRecord[], wanted: StepName): StepRecord {
  const found = steps.find(
    ({ name, occurrence }) => name === wanted.name && occurrence === wanted.occurrence,
  );
  if (found !== undefined) return found;
  throw new StepNotFoundError({ id: job, step: labelOf(wanted), steps: steps.map(labelOf) });
}

/** Steps beside others have position 0 and follow all that have one. Among themselves, the time decides. */
function isAtOrAfter(step: StepRecord, first: StepRecord): boolean {
  if (first.position > 0) return step.position === 0 || step.position >= first.position;
  return step.position === 0 && (step === first || step.begunAt >= first.begunAt);
}

export function rerun(context: MoveContext, request: RerunRequest): Promise<Hint[]> {
  const { engine } = context;
  const { job: id, from, attempts, payload, operator } = request;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const row = await reopenIn(context, tx, { id, attempts, now, from: moves.rerun.from });
    if (row === null) throw await whyNotReopened(engine, tx, id, "rerun");
    // Under the lock of the ended job, so that what was confirmed is what happens.
    const plan = planOf(id, await stepsOf(engine, tx, id), from);
    checkConfirmed(plan, request.confirm);
    const [last] = await tx.all<{ run: number | null }>(
      sql`select max(run) as run from holdfast.rerun where job_id = ${id}`,
    );
    const run = (last?.run ?? 0) + 1;
    const { status, epoch, worker, started_at, finished_at, result, error } = row;
    const ended = { status, epoch, attempt: row.attempts, worker, started_at, finished_at };
    const step = { step: from?.name ?? null, occurrence: from?.occurrence ?? null };
    await tx.insert("rerun", [
      asRow({ job_id: id, run, ...step, ...ended, result, error, rerun_at: now }),
    ]);
    for (const one of plan.repeats) await takeBack(tx, id, run, one);
    const input = payload === null ? "" : `, ${await changeInput(tx, { id, payload, now })}`;
    const told = plan.confirm.length === 0 ? "" : `, again: ${plan.confirm.join(", ")}`;
    await noteAction(engine, tx, operator, {
      action: "job.rerun",
      subject: subjects.job(id),
      oldStatus: status,
      newStatus: "pending",
      detail: `from ${from === null ? "the beginning" : labelOf(from)}${told}${input}`,
    });
    return hintPending(engine, tx, [row.queue]);
  });
}

export function stepsOf(engine: Engine, tx: Pick<Transaction, "all">, job: string) {
  return tx.all<StepRecord>(sql`
    select name, occurrence, position, kind, status, result, epoch, begun_at as "begunAt", ended_at as "endedAt",
           ${engine.now()} - begun_at as "ageMs"
      from holdfast.step
     where job_id = ${job}
     order by position, name, occurrence`);
}

function checkConfirmed(plan: RerunPlan, confirm: readonly string[]): void {
  const given = new Set(confirm);
  const unconfirmed = plan.confirm.filter((label) => !given.has(label));
  if (unconfirmed.length > 0) throw new RerunUnconfirmedError({ id: plan.job, unconfirmed });
}

async function takeBack(
  tx: Transaction,
  job: string,
  run: number,
  { name, occurrence }: StepName,
): Promise<void> {
  const isStep = sql`job_id = ${job} and name = ${name} and occurrence = ${occurrence}`;
  await tx.run(sql`
    insert into holdfast.rerun_step
           (job_id, run, name, occurrence, position, kind, status, epoch, begun_at, ended_at, result)
    select job_id, ${run}, name, occurrence, position, kind, status, epoch, begun_at, ended_at, result
      from holdfast.step
     where ${isStep}`);
  await tx.run(sql`delete from holdfast.step where ${isStep}`);
}

/** How often each step of a job was taken back. */
export async function timesTakenBack(
  engine: Engine,
  job: string,
): Promise<(StepName & { readonly times: number })[]> {
  return engine.all(sql`
    select name, occurrence, count(*) as times
      from holdfast.rerun_step
     where job_id = ${job}
     group by name, occurrence`);
}
