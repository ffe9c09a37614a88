/**
 * The steps of jobs.
 *
 * Every write checks the fence in the statement that writes the row: it locks the lease and compares it. A process that
 * takes the job back waits for the step, or the step finds the lease gone.
 */
import { subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import type { Emitted, NewEvent } from "../core/event.ts";
import type {
  EffectInDoubt,
  NewStep,
  RerunPlan,
  StepName,
  StepRecord,
  StepState,
  UserTransaction,
} from "../core/task.ts";
import {
  EffectNotFoundError,
  JobNotFoundError,
  LeaseLostError,
  StoreRefusedError,
} from "../core/errors.ts";
import type { Fence, Wait } from "../core/job.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import type { Resolution } from "../jobs/jobs.ts";
import { pendingAgain } from "../jobs/recovery.ts";
import { hintPending, putReady, type WaitingRow } from "../jobs/rows.ts";
import {
  declareEvent,
  emit,
  emitIn,
  type EventRecord,
  findEvent,
  forget,
  stopWaiting,
} from "./events.ts";
import { tookSince } from "./failed-step.ts";
import { planOf, rerun, type RerunRequest, stepsOf, timesTakenBack } from "./rerun.ts";

export interface StepWrite extends NewStep {
  readonly status: StepState;
  /** Its result, or the value stored when it began. */
  readonly result: string | null;
  /** False: it began before. */
  readonly isNew: boolean;
  /** How long it has run, if it is written once, when it is done. */
  readonly tookMs?: number;
}

/** The public methods of the class, for other implementations. */
export type StepsStore = Pick<SqlSteps, keyof SqlSteps>;

export class SqlSteps {
  readonly #db: Database;
  readonly #engine: Engine;

  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /** The steps of a job, in the order in which they first began. */
  async list(job: string): Promise<StepRecord[]> {
    const engine = this.#engine;
    if (!engine.mayBeId(job)) return [];
    return stepsOf(engine, engine, job);
  }

  /** How often each step of a job was taken back by a rerun. */
  takenBack(job: string) {
    return timesTakenBack(this.#engine, job);
  }

  /** Null: the job does not exist. */
  async planRerun(job: string, from: StepName | null): Promise<RerunPlan | null> {
    const engine = this.#engine;
    if (!engine.mayBeId(job)) return null;
    const [known] = await engine.all(sql`select id from holdfast.job where id = ${job}`);
    return known === undefined ? null : planOf(job, await this.list(job), from);
  }

  /** Makes an ended job pending again from one of its steps. Always audited. */
  async rerun(request: RerunRequest): Promise<void> {
    const { job, operator } = request;
    if (!this.#engine.mayBeId(job)) throw new JobNotFoundError({ id: job });
    const act = (): Promise<Hint[]> => rerun(this.#context, request);
    const done = (): Promise<Hint[]> => pendingAgain(this.#engine, job);
    const hints = await actOrLookUp(this.#db, operator, act, done);
    for (const hint of hints) this.#db.announce(hint);
  }

  /**
   * Writes a step of a claimed job under its fence: begun, done with a result, or in doubt. False: another worker owns the
   * job, and nothing was written. A step that is done never changes.
   */
  put(fence: Fence, step: StepWrite): Promise<boolean> {
    return this.#db.write(
      () => putStep(this.#engine, fence, step),
      () => lookUpStep(this.#engine, fence, step),
    );
  }

  /** Deletes a step that began and did not happen. False: another worker owns the job. */
  drop(fence: Fence, step: StepName): Promise<boolean> {
    const engine = this.#engine;
    const drop = async (): Promise<boolean> => {
      await engine.run(sql`
        delete from holdfast.step
         where ${isStep(fence.id, step)}
           and status <> 'done'
           and ${isHeld(engine, fence)}`);
      const [lease] = await engine.all(sql`select id from holdfast.lease where ${isFence(fence)}`);
      return lease !== undefined;
    };
    return this.#db.write(drop, drop); // idempotent
  }

  /**
   * Runs the body in a transaction and writes the step, with the body's result, in the same transaction. Throws
   * LeaseLostError when another worker owns the job; nothing that the body wrote is kept then.
   */
  async commit(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void> {
    const engine = this.#engine;
    const hints: Hint[] = [];
    const { runtime } = engine;
    let begunAt = runtime.monotonic();
    const collecting = (tx: UserTransaction): Promise<string | null> => {
      begunAt = runtime.monotonic();
      this.#db.collectHints(tx, hints);
      return body(tx);
    };
    const commit = async (): Promise<void> => {
      await engine.userTransaction(collecting, async (tx, result) => {
        const tookMs = tookSince(runtime, begunAt);
        const done = { ...step, status: "done", result, isNew: true, tookMs } as const;
        const written = await tx.run(insertion(engine, fence, done));
        if (written === 0) throw new LeaseLostError(fence);
      });
    };
    await this.#db.write(commit, () => lookUpCommit(engine, fence, step));
    // The commit was ours: an engine that reports other processes' commits does not report it.
    for (const hint of hints) this.#db.announce(hint);
  }

  /** From now on this event is stored when it is emitted, so that a job can wait for it. */
  async expect(wait: Wait): Promise<void> {
    await declareEvent(this.#engine, wait);
  }

  /** Deletes an event that no job will wait for again. */
  forget(wait: Wait): Promise<void> {
    const drop = (): Promise<void> => forget(this.#engine, wait);
    return this.#db.write(drop, drop); // idempotent
  }

  /** Emits an event and wakes the jobs that wait for it. Only the first emission counts. */
  async emit(event: NewEvent): Promise<Emitted> {
    const { hints, ...emitted } = await emit(this.#engine, event);
    for (const hint of hints) this.#db.announce(hint);
    return emitted;
  }

  /** Null: it has not been emitted. */
  findEvent(name: string, key: string): Promise<EventRecord | null> {
    return findEvent(this.#engine, name, key);
  }

  /** Effects that block their jobs because they may or may not have happened, oldest first. */
  effectsInDoubt({ limit }: { readonly limit: number }): Promise<EffectInDoubt[]> {
    return this.#engine.all<EffectInDoubt>(sql`
      select s.job_id as job, s.name, s.occurrence, s.begun_at as "begunAt", j.task, j.queue
        from holdfast.step s
        join holdfast.waiting j on j.id = s.job_id
       where s.status = 'doubt'
       order by s.begun_at
       limit ${limit}`);
  }

  /** Records an operator's decision whether an effect happened; its job resumes. False: the job is not waiting. */
  async resolveEffect(resolution: Resolution): Promise<boolean> {
    const engine = this.#engine;
    const { job } = resolution;
    if (!engine.mayBeId(job)) return false;
    const resolve = (): Promise<Hint[] | null> => resolveEffect(engine, resolution);
    const hints = await actOrLookUp(this.#db, resolution, resolve, () => pendingAgain(engine, job));
    for (const hint of hints ?? []) this.#db.announce(hint);
    return hints !== null;
  }

  /** Its writes take effect if and when the user commits; no job wakes before. */
  in(joined: JoinedTransaction): Pick<SqlSteps, "emit"> {
    return { emit: (event) => emitIn(this.#engine, joined, event) };
  }
}

export async function putStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const written = await engine.run(
    step.isNew ? insertion(engine, fence, step) : update(engine, fence, step),
  );
  return written > 0;
}

/** After a lost answer: the row was written, or is written now. */
async function lookUpStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const [row] = await engine.all<{ status: string; epoch: number }>(
    sql`select status, epoch from holdfast.step where ${isStep(fence.id, step)}`,
  );
  if (row === undefined) return putStep(engine, fence, { ...step, isNew: true });
  if (row.status === step.status && row.epoch === fence.epoch) return true;
  return putStep(engine, fence, { ...step, isNew: false });
}

/** After a lost answer: the step was committed, or the job must be retried. */
async function lookUpCommit(engine: Engine, fence: Fence, step: NewStep): Promise<void> {
  const [row] = await engine.all<{ epoch: number }>(
    sql`select epoch from holdfast.step where ${isStep(fence.id, step)} and status = 'done'`,
  );
  if (row?.epoch === fence.epoch) return;
  throw new StoreRefusedError({
    problem: `the transaction of step '${step.name}' was not committed.`,
  });
}

function insertion(engine: Engine, fence: Fence, step: StepWrite): Sql {
  const { name, occurrence, position, kind, status, result, tookMs = 0 } = step;
  const now = engine.now();
  return sql`
    insert into holdfast.step
           (job_id, name, occurrence, position, kind, status, epoch, begun_at, ended_at, result)
    select l.id, ${engine.typed(name)}, ${engine.typed(occurrence)}, ${engine.typed(position)}, ${engine.typed(kind)},
           ${engine.typed(status)}, l.epoch, ${now} - ${engine.typed(tookMs)}, ${status === "begun" ? sql`null` : now}, ${engine.typed(result)}
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

/** Null: the job is not waiting. */
function resolveEffect(engine: Engine, resolution: Resolution): Promise<Hint[] | null> {
  const { job, happened, name } = resolution;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const [row] = await tx.take<WaitingRow>({ table: "waiting", where: sql`id = ${job}` });
    if (row === undefined) return null;
    const settled = await settleEffect(tx, resolution, now);
    if (!settled) throw await notInDoubt(tx, resolution);
    if (row.status === "waiting") await stopWaiting(engine, tx, [row.id]);
    await putReady(engine, tx, [row], now);
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
    select name, occurrence from holdfast.step where job_id = ${id} and status = 'doubt' order by position`);
  const inDoubt = rows.map(({ name, occurrence }) =>
    occurrence === 1 ? name : `${name} (occurrence ${occurrence})`,
  );
  const { name, occurrence } = step;
  return new EffectNotFoundError({ id, name, occurrence, inDoubt });
}

async function settleEffect(
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
