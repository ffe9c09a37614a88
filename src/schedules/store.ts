/**
 * Schedules and their runs in the database.
 *
 * A scheduler locks the row of a schedule, so of many schedulers one handles a tick. It moves `next_at`, writes the run of
 * the tick and enqueues the job in one transaction; the key of the run refuses a second one even if `next_at` was set back.
 * Time is the database's.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, findAction, noteAction } from "../audit/store.ts";
import { makeIds } from "../core/id.ts";
import type { Database } from "../database/database.ts";
import { type Engine, type Hint, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { JobHooks, MoveContext } from "../jobs/hooks.ts";
import {
  changesOf,
  type Definition,
  firstTick,
  isOutage,
  type RunRecord,
  ScheduleChangedError,
  type ScheduleChanges,
  ScheduleDeclaredError,
  ScheduleExistsError,
  ScheduleNotFoundError,
  type ScheduleRecord,
} from "./schedule.ts";
import { pruneRuns } from "./open-runs.ts";
import {
  adoptSchedule,
  deleteSchedule,
  detailOf,
  findSchedule,
  type Fired,
  fireIn,
  insertAgain,
  insertSchedule,
  lockSchedule,
  type RecentFilter,
  recentRuns,
  releaseIn,
  requestRunIn,
  runOf,
  type RunRow,
  RUNS,
  SCHEDULES,
  writeDefinition,
} from "./runs.ts";

/** The text of an error that is kept with a schedule. */
const ERROR_LENGTH_MAX = 1_000;

/** Schedules that one name of workers may have declared before; more are reconciled at the next start. */
const DECLARED_MAX = 10_000;

export interface DueSchedules {
  /** Longest overdue first. */
  readonly due: readonly string[];
  /** Those with runs that wait for the end of a job. */
  readonly queued: readonly string[];
  /** Milliseconds until the next tick of any other schedule; null: there is none. */
  readonly nextInMs: number | null;
}

export interface ScheduleFilter {
  readonly task?: string;
  readonly paused?: boolean;
  /** The last name of the page before. */
  readonly after?: string;
  readonly limit: number;
}

export interface RunFilter {
  readonly schedule: string;
  /** The last tick of the page before. */
  readonly before?: number;
  readonly limit: number;
}

/** What a worker's code declares. */
export interface Declared {
  readonly definition: Definition;
  /** Of the declaration: an operator's edit stays until it changes. */
  readonly hash: string;
}

export interface Reconciled {
  readonly added: string[];
  readonly changed: string[];
  readonly removed: string[];
  /** Changed ones that workers of another name had declared differently. */
  readonly taken: { readonly schedule: string; readonly from: string }[];
}

export interface ScheduleStanding {
  readonly schedules: number;
  readonly paused: number;
  /** Those whose last tick could not be handled. */
  readonly failing: number;
  /** How long the most overdue tick has waited; 0: none is overdue. */
  readonly lateMs: number;
  /** Ticks that were left out because they were missed, of all schedules that exist. */
  readonly missed: number;
}

export type SchedulesStore = Pick<SqlSchedules, keyof SqlSchedules>;

export class SqlSchedules {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #context: MoveContext;

  constructor(db: Database, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#context = { engine: db.engine, hooks };
  }

  /** Throws ScheduleExistsError. */
  create(
    definition: Definition,
    by: OperatorEntry,
    { paused = false }: { readonly paused?: boolean } = {},
  ): Promise<ScheduleRecord> {
    const { name } = definition;
    return this.#change(name, by, async (tx) => {
      if ((await lockSchedule(this.#engine, tx, name)) !== null) {
        // A repeated call finds its own line.
        if ((await findAction(tx, by.id)) !== null) return null;
        throw new ScheduleExistsError({ schedule: name });
      }
      const pausedBy = paused ? by.actor : null;
      await insertSchedule(this.#engine, tx, definition, { pausedBy, declared: null });
      return { action: "schedule.create", detail: detailOf(definition) };
    });
  }

  /**
   * Changes a schedule. Ticks that are due have their runs as it was before; the next one follows from the new timing and
   * comes after this moment. Throws ScheduleChangedError if `revision` is given and is not the present one.
   */
  async edit(
    name: string,
    changes: ScheduleChanges,
    by: OperatorEntry,
    { revision }: { readonly revision?: number } = {},
  ): Promise<ScheduleRecord> {
    await this.#handleDue(name);
    return this.#change(name, by, async (tx) => {
      const before = await this.#locked(tx, name);
      if (revision !== undefined && revision !== before.revision) {
        const facts = { schedule: name, revision: before.revision, expected: revision };
        throw new ScheduleChangedError(facts);
      }
      const after = { ...before, ...changesOf(before, changes) };
      await writeDefinition(this.#engine, tx, before, after);
      return { action: "schedule.edit", detail: detailOf(after) };
    });
  }

  /** A paused schedule has no ticks. Pausing it again changes nothing. A tick that is due already has its run. */
  async pause(name: string, by: OperatorEntry): Promise<ScheduleRecord> {
    await this.#handleDue(name);
    return this.#change(name, by, async (tx) => {
      const before = await this.#locked(tx, name);
      if (before.pausedAt !== null) return null;
      await tx.run(sql`
        update holdfast.schedule
           set paused_at = ${this.#engine.now()}, paused_by = ${by.actor}, ${this.#touched()}
         where name = ${name}`);
      return { action: "schedule.pause", newStatus: "paused" };
    });
  }

  /** Ticks that fell into the pause are skipped. One that was due when the pause began is due now. */
  resume(name: string, by: OperatorEntry): Promise<ScheduleRecord> {
    return this.#change(name, by, async (tx) => {
      const before = await this.#locked(tx, name);
      if (before.pausedAt === null) return null;
      const now = await readNow(this.#engine, tx);
      const isOwed = before.nextAt !== null && before.nextAt <= before.pausedAt;
      const next = isOwed ? before.nextAt : firstTick(before, now);
      await tx.run(sql`
        update holdfast.schedule
           set paused_at = null, paused_by = null, next_at = ${next}, since_at = ${now}, ${this.#touched()}
         where name = ${name}`);
      return { action: "schedule.resume", newStatus: "active" };
    });
  }

  /** Deletes a schedule and its runs; its jobs stay. Throws ScheduleDeclaredError unless `force` is given. */
  async delete(
    name: string,
    by: OperatorEntry,
    { force = false }: { readonly force?: boolean } = {},
  ): Promise<void> {
    const remove = (): Promise<void> =>
      this.#engine.transaction(async (tx) => {
        const { declaredBy } = await this.#locked(tx, name);
        if (declaredBy !== null && !force)
          throw new ScheduleDeclaredError({ schedule: name, declaredBy });
        await deleteSchedule(tx, name);
        const subject = subjects.schedule(name);
        await noteAction(this.#engine, tx, by, { action: "schedule.delete", subject });
      });
    await actOrLookUp(this.#db, by, remove, async () => {});
  }

  /** Enqueues a job of the schedule at once, also if it is paused. Returns the id of the job. */
  async run(name: string, by: OperatorEntry): Promise<string> {
    const run = async (): Promise<{ job: string; hints: readonly Hint[] }> =>
      this.#engine.transaction(async (tx) => {
        const schedule = await this.#locked(tx, name);
        const requested = await requestRunIn(this.#context, tx, schedule);
        const subject = subjects.schedule(name);
        const detail = `job ${requested.job}`;
        await noteAction(this.#engine, tx, by, { action: "schedule.run", subject, detail });
        await this.#engine.notifyInTx(tx, requested.hints);
        return requested;
      });
    const { job, hints } = await actOrLookUp(this.#db, by, run, async ({ detail }) => {
      const found = (detail ?? "").slice("job ".length);
      return { job: found, hints: [{ kind: "unknown" }] satisfies Hint[] };
    });
    this.#announce(hints);
    return job;
  }

  /**
   * Stores what workers of one name declare: adds new schedules, changes those whose declaration changed, whatever the name
   * of the workers that declared it before, and deletes those that are not declared any more. Returns the names of each kind.
   */
  async declare(group: string, schedules: readonly Declared[], actor: string): Promise<Reconciled> {
    const newId = makeIds(this.#engine.runtime);
    const newEntry = (): OperatorEntry => ({ id: newId(), actor });
    const reconciled: Reconciled = { added: [], changed: [], removed: [], taken: [] };
    for (const declared of schedules) {
      const { name } = declared.definition;
      const { kind, from } = await this.#declareOne(group, declared, newEntry());
      if (kind !== null) reconciled[kind].push(name);
      if (kind === "changed" && from !== null) reconciled.taken.push({ schedule: name, from });
    }
    const wanted = new Set(schedules.map(({ definition }) => definition.name));
    const known = await this.#engine.all<{ name: string }>(sql`
      select name from holdfast.schedule where declared_by = ${group} order by name limit ${DECLARED_MAX}`);
    for (const { name } of known.filter((one) => !wanted.has(one.name))) {
      if (await this.#undeclare(group, name, newEntry())) reconciled.removed.push(name);
    }
    if ([reconciled.added, reconciled.changed, reconciled.removed].some(({ length }) => length > 0))
      this.#announceChange();
    return reconciled;
  }

  /** What is due now, and when the next tick is. */
  async due({ limit }: { readonly limit: number }): Promise<DueSchedules> {
    const engine = this.#engine;
    // One more than wanted tells when to look again.
    const rows = await engine.all<{ name: string; inMs: number }>(sql`
      select name, next_at - ${engine.now()} as "inMs"
        from holdfast.schedule
       where paused_at is null
         and next_at is not null
       order by next_at
       limit ${limit + 1}`);
    const queued = await engine.all<{ name: string }>(sql`
      select name from holdfast.schedule where queued_count > 0 and paused_at is null order by name limit ${limit}`);
    const due = rows.filter(({ inMs }) => inMs <= 0).slice(0, limit);
    const next = rows[due.length];
    return {
      due: due.map(({ name }) => name),
      queued: queued.map(({ name }) => name),
      nextInMs: next === undefined ? null : Math.max(0, next.inMs),
    };
  }

  /**
   * Handles the due ticks of a schedule. Null: none is due, because another scheduler handled them. With `onTime`, ticks
   * that count as missed are left to a scheduler.
   */
  async fire(name: string, how: { readonly onTime?: boolean } = {}): Promise<Fired | null> {
    const fire = (): Promise<Fired | null> =>
      this.#engine.transaction(async (tx) => {
        const schedule = await lockSchedule(this.#engine, tx, name);
        if (schedule === null) return null;
        const fired = await fireIn(this.#context, tx, schedule, how);
        if (fired !== null) await this.#engine.notifyInTx(tx, fired.hints);
        return fired;
      });
    // If the answer was lost, the ticks were handled, or are handled now.
    const fired = await this.#db.write(fire, async () => {
      this.#announce([{ kind: "unknown" }]);
      return fire();
    });
    if (fired !== null) this.#announce(fired.hints);
    return fired;
  }

  /** Enqueues the oldest run that waits, if no job of the schedule is left. Null: there is none, or one is. */
  async release(name: string): Promise<Fired | null> {
    const release = (): Promise<Fired | null> =>
      this.#engine.transaction(async (tx) => {
        const schedule = await lockSchedule(this.#engine, tx, name);
        if (schedule === null) return null;
        const fired = await releaseIn(this.#context, tx, schedule);
        if (fired !== null) await this.#engine.notifyInTx(tx, fired.hints);
        return fired;
      });
    const fired = await this.#db.write(release, release); // idempotent
    if (fired !== null) this.#announce(fired.hints);
    return fired;
  }

  /** Keeps with a schedule why its tick could not be handled. */
  async noteError(name: string, error: string): Promise<void> {
    await this.#engine.run(sql`
      update holdfast.schedule
         set error = ${error.slice(0, ERROR_LENGTH_MAX).toWellFormed()}, error_at = ${this.#engine.now()}
       where name = ${name}`);
  }

  /** Deletes runs that are not needed any more. Returns how many. */
  pruneRuns(name: string): Promise<number> {
    return pruneRuns(this.#engine, name);
  }

  find(name: string): Promise<ScheduleRecord | null> {
    return findSchedule(this.#engine, name);
  }

  /** A page of schedules, by name. */
  async list({ task, paused, after, limit }: ScheduleFilter): Promise<ScheduleRecord[]> {
    const isPaused = paused === true ? sql`and paused_at is not null` : sql`and paused_at is null`;
    return this.#engine.all<ScheduleRecord>(sql`
      ${SCHEDULES}
       where name > ${after ?? ""}
             ${task === undefined ? nothing : sql`and task = ${task}`}
             ${paused === undefined ? nothing : isPaused}
       order by name
       limit ${limit}`);
  }

  /** A page of runs, newest first. */
  async runs({ schedule, before, limit }: RunFilter): Promise<RunRecord[]> {
    const rows = await this.#engine.all<RunRow>(sql`
      ${RUNS}
       where schedule = ${schedule}
             ${before === undefined ? nothing : sql`and tick < ${before}`}
       order by tick desc, is_manual desc
       limit ${limit}`);
    return rows.map(runOf);
  }

  /** The newest runs of each of these schedules, newest first. */
  recent(filter: RecentFilter): Promise<RunRecord[]> {
    return recentRuns(this.#engine, filter);
  }

  /** The run that enqueued a job; null: no schedule did, or the run was pruned. */
  async runOf(job: string): Promise<RunRecord | null> {
    if (!this.#engine.mayBeId(job)) return null;
    const [row] = await this.#engine.all<RunRow>(sql`
      ${RUNS} where job_id = ${job} order by tick limit 1`);
    return row === undefined ? null : runOf(row);
  }

  /** How far the most overdue tick is behind, how many schedules are active, and how many fail. */
  async standing(): Promise<ScheduleStanding> {
    const [row] = await this.#engine.all<
      Record<keyof ScheduleStanding, number | string | null>
    >(sql`
      select count(*) as "schedules",
             sum(case when paused_at is not null then 1 else 0 end) as "paused",
             sum(case when error is not null then 1 else 0 end) as "failing",
             ${this.#engine.now()} - min(case when paused_at is null then next_at end) as "lateMs",
             sum(missed_count) as "missed"
        from holdfast.schedule`);
    const number = (key: keyof ScheduleStanding): number => Math.max(0, Number(row?.[key] ?? 0));
    return {
      schedules: number("schedules"),
      paused: number("paused"),
      failing: number("failing"),
      lateMs: number("lateMs"),
      missed: number("missed"),
    };
  }

  async #declareOne(
    group: string,
    { definition, hash }: Declared,
    by: OperatorEntry,
  ): Promise<{ readonly kind: "added" | "changed" | null; readonly from: string | null }> {
    const { name } = definition;
    // Most starts find what they declare. An operator may have edited it since: it stays as it is.
    const known = await findSchedule(this.#engine, name);
    if (known?.declared === hash) {
      const adopt = () => adoptSchedule(this.#engine, name, { by: group, hash });
      if (known.declaredBy !== group) await this.#db.write(adopt, adopt); // idempotent
      return { kind: null, from: null };
    }
    const owner = known?.declaredBy ?? group;
    if (known !== null) await this.#handleDue(name);
    const declare = (): Promise<"added" | "changed" | null> =>
      this.#engine.transaction(async (tx) => {
        const engine = this.#engine;
        const before = await lockSchedule(engine, tx, name);
        if (before?.declared === hash) return null;
        const declared = { by: group, hash };
        if (before === null) {
          await insertSchedule(engine, tx, definition, { pausedBy: null, declared });
        } else {
          await writeDefinition(engine, tx, before, { ...before, ...definition });
          await tx.run(sql`
            update holdfast.schedule set declared_by = ${group}, declared = ${hash} where name = ${name}`);
        }
        const subject = subjects.schedule(name);
        const action = { action: "schedule.declare", subject, detail: detailOf(definition) };
        await noteAction(engine, tx, by, action);
        return before === null ? "added" : "changed";
      });
    // Another worker may declare the same at this moment: the next look finds its row.
    const kind = await actOrLookUp<"added" | "changed" | null>(
      this.#db,
      by,
      () => insertAgain(declare),
      async () => "changed",
    );
    return { kind, from: owner === group ? null : owner };
  }

  async #undeclare(group: string, name: string, by: OperatorEntry): Promise<boolean> {
    const undeclare = (): Promise<boolean> =>
      this.#engine.transaction(async (tx) => {
        const before = await lockSchedule(this.#engine, tx, name);
        if (before?.declaredBy !== group) return false;
        await deleteSchedule(tx, name);
        const action = { action: "schedule.undeclare", subject: subjects.schedule(name) };
        await noteAction(this.#engine, tx, by, action);
        return true;
      });
    return actOrLookUp(this.#db, by, undeclare, async () => true);
  }

  /**
   * Before a change: a tick that came due before it belongs to the schedule as it was. If its job cannot be enqueued, the
   * change may be the remedy; then the tick stays due.
   */
  async #handleDue(name: string): Promise<void> {
    try {
      await this.fire(name, { onTime: true });
    } catch (error) {
      if (isOutage(error)) throw error;
    }
  }

  /** Makes an operator's change and its audit line in one transaction. A change that returns null changed nothing. */
  async #change(
    name: string,
    by: OperatorEntry,
    change: (
      tx: Transaction,
    ) => Promise<{ action: string; detail?: string; newStatus?: string } | null>,
  ): Promise<ScheduleRecord> {
    const act = (): Promise<ScheduleRecord> =>
      this.#engine.transaction(async (tx) => {
        const action = await change(tx);
        const after = await this.#locked(tx, name);
        if (action !== null) {
          await noteAction(this.#engine, tx, by, { ...action, subject: subjects.schedule(name) });
        }
        return after;
      });
    const changed = await actOrLookUp(
      this.#db,
      by,
      () => insertAgain(act),
      async () => {
        const after = await findSchedule(this.#engine, name);
        if (after === null) throw new ScheduleNotFoundError({ schedule: name });
        return after;
      },
    );
    this.#announceChange();
    return changed;
  }

  async #locked(tx: Transaction, name: string): Promise<ScheduleRecord> {
    const schedule = await lockSchedule(this.#engine, tx, name);
    if (schedule === null) throw new ScheduleNotFoundError({ schedule: name });
    return schedule;
  }

  #touched(): Sql {
    return sql`revision = revision + 1, updated_at = ${this.#engine.now()}`;
  }

  /** Schedulers look again, so that a change takes effect at once. */
  #announceChange(): void {
    this.#db.announce({ kind: "waiting" });
  }

  #announce(hints: readonly Hint[]): void {
    for (const hint of hints) this.#db.announce(hint);
  }
}
