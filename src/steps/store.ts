/**
 * The steps of jobs.
 *
 * Every write shows the fence where the row is written: the lease is locked and compared in the same statement, so
 * whoever takes the job back waits for the step, or the step finds the lease gone.
 */
import { subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { LeaseLostError, StoreRefusedError } from "../core/errors.ts";
import type { Fence, Wait } from "../core/job.ts";
import type {
  EffectInDoubt,
  NewStep,
  StepName,
  StepRecord,
  StepState,
  UserTransaction,
} from "../core/task.ts";
import { EffectNotFoundError } from "../core/value-errors.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import type { Resolution } from "../jobs/jobs.ts";
import { pendingAgain } from "../jobs/recovery.ts";
import { hintPending, putReady, type WaitingRow } from "../jobs/rows.ts";
import {
  declareEvent,
  emit,
  emitIn,
  type Emitted,
  type EventRecord,
  findEvent,
  forget,
  type NewEvent,
  stopWaiting,
} from "./events.ts";

function steps(engine: Engine, job: string): Promise<StepRecord[]> {
  return engine.all<StepRecord>(sql`
    select name, occurrence, position, kind, status, result, epoch, begun_at as "begunAt", ended_at as "endedAt",
           ${engine.now()} - begun_at as "ageMs"
      from holdfast.step
     where job_id = ${job}
     order by position, name, occurrence`);
}

export async function putStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const written = await engine.run(
    step.isNew ? insertion(engine, fence, step) : update(engine, fence, step),
  );
  return written > 0;
}

/** After an answer was lost: what was to be written stands there, or has to be written now. */
async function lookUpStep(engine: Engine, fence: Fence, step: StepWrite): Promise<boolean> {
  const [row] = await engine.all<{ status: string; epoch: number }>(
    sql`select status, epoch from holdfast.step where ${isStep(fence.id, step)}`,
  );
  if (row === undefined) return putStep(engine, fence, { ...step, isNew: true });
  if (row.status === step.status && row.epoch === fence.epoch) return true;
  return putStep(engine, fence, { ...step, isNew: false });
}

async function dropStep(engine: Engine, fence: Fence, step: StepName): Promise<boolean> {
  await engine.run(sql`
    delete from holdfast.step
     where ${isStep(fence.id, step)}
       and status <> 'done'
       and ${isHeld(engine, fence)}`);
  const [lease] = await engine.all(sql`
    select id from holdfast.lease where ${isFence(fence)}`);
  return lease !== undefined;
}

async function commitStep(
  engine: Engine,
  fence: Fence,
  { step, body }: { step: NewStep; body: (tx: UserTransaction) => Promise<string | null> },
): Promise<void> {
  await engine.userTransaction(body, async (tx, result) => {
    const done = { ...step, status: "done", result, isNew: true } as const;
    const written = await tx.run(insertion(engine, fence, done));
    if (written === 0) throw new LeaseLostError(fence);
  });
}

/** After an answer was lost: it was committed, or the job has to be tried again. */
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
  const { name, occurrence, position, kind, status, result } = step;
  const now = engine.now();
  return sql`
    insert into holdfast.step
           (job_id, name, occurrence, position, kind, status, epoch, begun_at, ended_at, result)
    select l.id, ${engine.typed(name)}, ${engine.typed(occurrence)}, ${engine.typed(position)}, ${engine.typed(kind)},
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

function effectsInDoubt(engine: Engine, limit: number): Promise<EffectInDoubt[]> {
  return engine.all<EffectInDoubt>(sql`
    select s.job_id as job, s.name, s.occurrence, s.begun_at as "begunAt", j.task, j.queue
      from holdfast.step s
      join holdfast.waiting j on j.id = s.job_id
     where s.status = 'doubt'
     order by s.begun_at
     limit ${limit}`);
}

/** Returns the queue in which the job goes on; null: the step is not in doubt, or its job has ended. */
function resolveEffect(engine: Engine, resolution: Resolution): Promise<Hint[] | null> {
  const { job, happened, name } = resolution;
  return engine.transaction(async (tx) => {
    const now = await readNow(engine, tx);
    const [row] = await tx.take<WaitingRow>({ table: "waiting", where: sql`id = ${job}` });
    if (row === undefined) return null;
    const settled = await settleEffect(tx, resolution, now);
    if (!settled) throw await notInDoubt(tx, resolution);
    if (row.status === "waiting") await stopWaiting(engine, tx, [row.id]);
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

// What the store promises about what jobs have done so far, and what they wait for; see steps.ts and events.ts.

export interface StepWrite extends NewStep {
  readonly status: StepState;
  /** Its result, or what it was begun with. */
  readonly result: string | null;
  /** False: it was begun before. */
  readonly isNew: boolean;
}

// The verbs about steps and events.

export interface StepsStore {
  /** The steps of a job, in the order in which they were first begun. */
  list(job: string): Promise<StepRecord[]>;

  /**
   * Writes a step of a claimed job under its fence: that it was begun, that it is done with a result, or that nobody knows
   * whether it happened. False: the job is not ours any more, and nothing was written. What is done stays as it is.
   */
  put(fence: Fence, step: StepWrite): Promise<boolean>;

  /** Takes back that a step was begun: it did not happen. False: as above. */
  drop(fence: Fence, step: StepName): Promise<boolean>;

  /**
   * Runs the body in a transaction of its own and writes the step, done with what the body returned as its result, into
   * the same one. Throws LeaseLostError when the job is not ours any more; then nothing that the body did is kept.
   */
  commit(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void>;

  /** From now on it is kept when this is said: for whoever will wait for it. */
  expect(wait: Wait): Promise<void>;

  /** Nobody will wait for this any more. */
  forget(wait: Wait): Promise<void>;

  /** Says once and for all that something happened. The first to say it is believed; jobs that wait for it go on. */
  emit(event: NewEvent): Promise<Emitted>;

  /** What was said; null: nothing yet. */
  findEvent(name: string, key: string): Promise<EventRecord | null>;

  /** Jobs that stopped because nobody knows whether a step happened, those that wait longest first. */
  effectsInDoubt(filter: { readonly limit: number }): Promise<EffectInDoubt[]>;

  /** A person says whether a step happened that is in doubt; its job goes on. False: it is not in doubt. */
  resolveEffect(resolution: Resolution): Promise<boolean>;

  in(joined: JoinedTransaction): StepsInTransaction;
}

/** What it writes is there if, and when, the user commits; no job is woken before. */
type StepsInTransaction = Pick<StepsStore, "emit">;

export class SqlSteps implements StepsStore {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  async list(job: string): Promise<StepRecord[]> {
    return this.#engine.mayBeId(job) ? steps(this.#engine, job) : [];
  }

  put(fence: Fence, step: StepWrite): Promise<boolean> {
    return this.#db.write(
      () => putStep(this.#engine, fence, step),
      () => lookUpStep(this.#engine, fence, step),
    );
  }

  drop(fence: Fence, step: StepName): Promise<boolean> {
    const drop = (): Promise<boolean> => dropStep(this.#engine, fence, step);
    return this.#db.write(drop, drop); // dropping twice is dropping once
  }

  async commit(
    fence: Fence,
    step: NewStep,
    body: (tx: UserTransaction) => Promise<string | null>,
  ): Promise<void> {
    const told: Hint[] = [];
    const theirs = (tx: UserTransaction): Promise<string | null> => {
      this.#db.collectHints(tx, told);
      return body(tx);
    };
    await this.#db.write(
      () => commitStep(this.#engine, fence, { step, body: theirs }),
      () => lookUpCommit(this.#engine, fence, step),
    );
    // The commit was ours: an engine that sees those of others does not see it.
    for (const hint of told) this.#db.announce(hint);
  }

  async expect(wait: Wait): Promise<void> {
    await declareEvent(this.#engine, wait);
  }

  forget(wait: Wait): Promise<void> {
    const drop = (): Promise<void> => forget(this.#engine, wait);
    return this.#db.write(drop, drop); // twice is once
  }

  async emit(event: NewEvent): Promise<Emitted> {
    const { hints, ...emitted } = await emit(this.#engine, event);
    for (const hint of hints) this.#db.announce(hint);
    return emitted;
  }

  in(joined: JoinedTransaction): StepsInTransaction {
    return { emit: (event) => emitIn(this.#engine, joined, event) };
  }

  findEvent(name: string, key: string): Promise<EventRecord | null> {
    return findEvent(this.#engine, name, key);
  }

  effectsInDoubt({ limit }: { readonly limit: number }): Promise<EffectInDoubt[]> {
    return effectsInDoubt(this.#engine, limit);
  }

  async resolveEffect(resolution: Resolution): Promise<boolean> {
    const engine = this.#engine;
    const { job } = resolution;
    if (!engine.mayBeId(job)) return false;
    const resolve = (): Promise<Hint[] | null> => resolveEffect(engine, resolution);
    const hints = await actOrLookUp(this.#db, resolution, resolve, () => pendingAgain(engine, job));
    for (const hint of hints ?? []) this.#db.announce(hint);
    return hints !== null;
  }
}
