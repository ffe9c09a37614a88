/**
 * Errors by kind: counted when a minute is folded, in the same transaction, so each error counts once.
 *
 * A minute with more errors than are read is counted in proportion: the figures of a storm are estimates.
 */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import { kindOf, type KindFacts } from "../core/error-kind.ts";
import { decodeError } from "../core/error-record.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow, type Transaction } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Errors of one minute that are read; the others count in proportion. */
const READ_MAX = 1_000;

/** Kinds of one minute that are written, the most frequent first. */
const KINDS_MAX = 200;

/** Builds that a kind names, newest last. */
const BUILDS_MAX = 10;

export const KINDS_LISTED_MAX = 200;

/** Kinds are deleted this long after they were last seen, and their hours after a week. */
const KEEP_MS = 90 * 24 * HOUR_MS;
const HOURS_KEEP_MS = 8 * 24 * HOUR_MS;

/** A kind is new for this long. */
const NEW_MS = 24 * HOUR_MS;

const TREND_HOURS = 24;

export const kindStates = ["open", "resolved", "muted"] as const;
/** What an operator decided about a kind of error. */
export type ErrorKindState = (typeof kindStates)[number];

interface Read {
  readonly id: string;
  readonly task: string;
  readonly worker: string | null;
  readonly at: number;
  readonly error: string;
}

interface Tally extends KindFacts {
  failed: number;
  retried: number;
  readonly sample: { readonly job: string; readonly message: string };
  firstAt: number;
  lastAt: number;
  readonly builds: Set<string>;
  readonly hours: Map<number, { failed: number; retried: number }>;
}

/** Errors of one task with the same name and code, and a message that differs in values only. */
export interface ErrorKind {
  /** 32 hexadecimal digits. */
  readonly id: string;
  /** The task, without its version. */
  readonly task: string;
  /** The name of the error. */
  readonly name: string;
  /** Its code; null: it has none. */
  readonly code: string | null;
  /** The message with … in place of values. */
  readonly message: string;
  /** A resolved kind is open again when it comes back; a muted one is not. */
  readonly state: ErrorKindState;
  /** Jobs that failed for good with it. */
  readonly failed: number;
  /** Attempts that failed with it and were followed by another. */
  readonly retried: number;
  /** When it was first seen. */
  readonly firstAt: number;
  /** When it was last seen. */
  readonly lastAt: number;
  /** The build in which it was first seen; null: unknown. */
  readonly firstBuild: string | null;
  /** The builds in which it was seen, newest last. At most ten. */
  readonly builds: readonly string[];
  /** The newest message, and its job. */
  readonly sample: {
    /** The id of the job. */
    readonly job: string;
    /** The whole message. */
    readonly message: string;
  };
  /** When it was last resolved, muted or opened; null: never. */
  readonly changedAt: number | null;
  /** Who did that. */
  readonly changedBy: string | null;
  /** It counts as resolved in builds that were first seen after it was resolved. */
  readonly resolvedIn: string | null;
  /** When it was seen again after it was resolved; null: it was not. */
  readonly cameBackAt: number | null;
  /** First seen within the last 24 hours. */
  readonly isNew: boolean;
  /** Failed and retried in each of the last 24 hours, oldest first. */
  readonly trend: readonly number[];
}

/** Part of every fold of minutes. */
export const errorFold = {
  async read(
    engine: Engine,
    from: number,
    until: number,
  ): Promise<(tx: Transaction) => Promise<void>> {
    const kinds = new Map<string, Tally>();
    for (let minute = from; minute < until; minute += MINUTE_MS) {
      await addMinute(engine, kinds, minute);
    }
    const most = [...kinds.values()]
      .toSorted((a, b) => b.failed + b.retried - (a.failed + a.retried))
      .slice(0, KINDS_MAX);
    return async (tx) => {
      for (const tally of most) await keep(tx, tally);
      if (Math.floor(until / HOUR_MS) > Math.floor(from / HOUR_MS)) await prune(tx, until);
    };
  },
};

async function addMinute(engine: Engine, kinds: Map<string, Tally>, minute: number): Promise<void> {
  for (const as of ["failed", "retried"] as const) {
    const { rows, weight } = await errorsIn(engine, as, minute);
    const builds = await buildsOf(engine, rows);
    for (const row of rows) add(kinds, row, { as, weight, build: builds.get(row.worker ?? "") });
  }
}

/** The errors of a minute, at most so many, and how many each of them stands for. */
async function errorsIn(
  engine: Engine,
  as: "failed" | "retried",
  minute: number,
): Promise<{ rows: Read[]; weight: number }> {
  const end = minute + MINUTE_MS;
  const from =
    as === "failed"
      ? sql`
          from holdfast.finished f
         where f.status = 'failed'
           and f.finished_at >= ${minute}
           and f.finished_at < ${end}
           and f.error is not null`
      : sql`
          from holdfast.attempt f
         where f.outcome in ('retry', 'crashed')
           and f.ended_at >= ${minute}
           and f.ended_at < ${end}
           and f.error is not null`;
  const columns =
    as === "failed"
      ? sql`f.id, f.task, f.worker, f.finished_at as at, f.error`
      : sql`f.job_id as id, '' as task, f.worker, f.ended_at as at, f.error`;
  const rows = await engine.all<Read>(sql`select ${columns} ${from} limit ${READ_MAX}`);
  const tasks = as === "failed" ? null : await tasksOf(engine, rows);
  const named = rows.map((row) => ({ ...row, task: tasks?.get(row.id) ?? row.task }));
  if (rows.length < READ_MAX) return { rows: named, weight: 1 };
  const [all] = await engine.all<{ n: number }>(sql`select count(*) as n ${from}`);
  return { rows: named, weight: Math.max(1, (all?.n ?? 0) / READ_MAX) };
}

async function tasksOf(engine: Engine, rows: readonly Read[]): Promise<Map<string, string>> {
  if (rows.length === 0) return new Map();
  const ids = [...new Set(rows.map(({ id }) => id))];
  const jobs = await engine.all<{ id: string; task: string }>(
    sql`select id, task from holdfast.job where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(jobs.map(({ id, task }) => [id, task]));
}

async function buildsOf(engine: Engine, rows: readonly Read[]): Promise<Map<string, string>> {
  const ids = [...new Set(rows.flatMap(({ worker }) => worker ?? []))];
  if (ids.length === 0) return new Map();
  const workers = await engine.all<{ id: string; version: string }>(
    sql`select id, version from holdfast.worker where ${engine.among(sql`id`, ids)}`,
  );
  return new Map(workers.map(({ id, version }) => [id, version]));
}

function add(
  kinds: Map<string, Tally>,
  { id, task, at, error }: Read,
  { as, weight, build }: { as: "failed" | "retried"; weight: number; build: string | undefined },
): void {
  const record = decodeError(error);
  const kind = kindOf(task, record);
  const sample = { job: id, message: record.message };
  const none = {
    failed: 0,
    retried: 0,
    firstAt: at,
    lastAt: at,
    builds: new Set<string>(),
    hours: new Map<number, { failed: number; retried: number }>(),
  };
  const before = kinds.get(kind.id) ?? { ...kind, ...none, sample };
  before[as] += weight;
  before.firstAt = Math.min(before.firstAt, at);
  if (build !== undefined) before.builds.add(build);
  const hour = Math.floor(at / HOUR_MS) * HOUR_MS;
  const count = before.hours.get(hour) ?? { failed: 0, retried: 0 };
  count[as] += weight;
  before.hours.set(hour, count);
  kinds.set(kind.id, at >= before.lastAt ? { ...before, lastAt: at, sample } : before);
}

interface Row {
  readonly state: ErrorKindState;
  readonly lastAt: number;
  readonly builds: string;
  readonly changedAt: number | null;
  readonly resolvedIn: string | null;
}

async function keep(tx: Transaction, tally: Tally): Promise<void> {
  const [known] = await tx.all<Row>(sql`
    select state, last_at as "lastAt", builds, changed_at as "changedAt", resolved_in as "resolvedIn"
      from holdfast.error_kind
     where id = ${tally.id}`);
  const { failed, retried } = {
    failed: Math.round(tally.failed),
    retried: Math.round(tally.retried),
  };
  const builds = [
    ...new Set([
      ...(known === undefined ? [] : (JSON.parse(known.builds) as string[])),
      ...tally.builds,
    ]),
  ].slice(-BUILDS_MAX);
  const { sample } = tally;
  if (known === undefined) {
    const { id, task, name, code, message, firstAt, lastAt } = tally;
    await tx.insert("error_kind", [
      {
        id,
        task,
        name,
        code,
        message,
        sample: sample.message,
        sample_job: sample.job,
        state: "open",
        first_at: firstAt,
        last_at: lastAt,
        first_build: builds[0] ?? null,
        builds: JSON.stringify(builds),
        failed,
        retried,
        changed_at: null,
        changed_by: null,
        resolved_in: null,
        came_back_at: null,
      },
    ]);
  } else {
    const isBack = cameBack(known, tally);
    await tx.run(sql`
      update holdfast.error_kind
         set last_at = ${Math.max(known.lastAt, tally.lastAt)}, sample = ${sample.message}, sample_job = ${sample.job},
             builds = ${JSON.stringify(builds)}, failed = failed + ${failed}, retried = retried + ${retried}
             ${isBack ? sql`, state = 'open', came_back_at = ${tally.lastAt}` : nothing}
       where id = ${tally.id}`);
  }
  for (const [hour, count] of tally.hours) await keepHour(tx, tally.id, hour, count);
}

/** Resolved in the next build: only a build that was not known before brings it back. */
function cameBack({ state, changedAt, builds, resolvedIn }: Row, tally: Tally): boolean {
  if (state !== "resolved" || tally.lastAt <= (changedAt ?? 0)) return false;
  if (resolvedIn === null) return true;
  const known = JSON.parse(builds) as string[];
  return tally.builds.has(resolvedIn) || [...tally.builds].some((build) => !known.includes(build));
}

async function keepHour(
  tx: Transaction,
  id: string,
  hour: number,
  count: { failed: number; retried: number },
): Promise<void> {
  const [failed, retried] = [Math.round(count.failed), Math.round(count.retried)];
  const changed = await tx.run(sql`
    update holdfast.error_hour
       set failed = failed + ${failed}, retried = retried + ${retried}
     where kind_id = ${id}
       and hour = ${hour}`);
  if (changed === 0) await tx.insert("error_hour", [{ kind_id: id, hour, failed, retried }]);
}

async function prune(tx: Transaction, until: number): Promise<void> {
  await tx.run(sql`delete from holdfast.error_hour where hour < ${until - HOURS_KEEP_MS}`);
  await tx.run(sql`delete from holdfast.error_kind where last_at < ${until - KEEP_MS}`);
}

/** The public methods of the class, for other implementations. */
export type ErrorKindsStore = Pick<SqlErrorKinds, keyof SqlErrorKinds>;

export class SqlErrorKinds {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** The kinds in a state, last seen first. */
  async list({
    state,
    limit = KINDS_LISTED_MAX,
  }: {
    state: ErrorKindState;
    limit?: number;
  }): Promise<ErrorKind[]> {
    const now = await readNow(this.#engine);
    const rows = await this.#rows(sql`
       where state = ${state}
       order by last_at desc
       limit ${Math.min(limit, KINDS_LISTED_MAX)}`);
    return this.#withTrends(rows, now);
  }

  async find(id: string): Promise<ErrorKind | null> {
    const now = await readNow(this.#engine);
    const rows = await this.#rows(sql`where id = ${id}`);
    return (await this.#withTrends(rows, now))[0] ?? null;
  }

  /** Those whose ids begin with this. */
  async withPrefix(
    prefix: string,
    limit: number,
  ): Promise<Pick<ErrorKind, "id" | "task" | "name">[]> {
    // No hexadecimal digit comes after f.
    return this.#engine.all(sql`
      select id, task, name
        from holdfast.error_kind
       where id >= ${prefix}
         and id < ${`${prefix}g`}
       order by id
       limit ${limit}`);
  }

  /** How many kinds there are in each state, and how many of the open ones are new. */
  async counts(): Promise<Record<ErrorKindState | "new", number>> {
    const rows = await this.#engine.all<{
      state: ErrorKindState;
      n: number;
      fresh: number | string;
    }>(sql`
      select state, count(*) as n,
             sum(case when first_at > ${this.#engine.now()} - ${NEW_MS} then 1 else 0 end) as fresh
        from holdfast.error_kind
       group by state`);
    const of = (state: ErrorKindState): number => rows.find((row) => row.state === state)?.n ?? 0;
    const fresh = Number(rows.find((row) => row.state === "open")?.fresh ?? 0);
    return { open: of("open"), resolved: of("resolved"), muted: of("muted"), new: fresh };
  }

  /** False: there is no such kind, or it is in that state. */
  async change(
    id: string,
    { state, resolvedIn = null }: { state: ErrorKindState; resolvedIn?: string | null },
    by: OperatorEntry,
  ): Promise<boolean> {
    const engine = this.#engine;
    const act = (): Promise<boolean> =>
      engine.transaction(async (tx) => {
        const [before] = await tx.all<{ state: ErrorKindState }>(
          sql`select state from holdfast.error_kind where id = ${id} ${engine.lockRows()}`,
        );
        if (before === undefined || before.state === state) return false;
        await tx.run(sql`
          update holdfast.error_kind
             set state = ${state}, changed_at = ${engine.now()}, changed_by = ${by.actor},
                 resolved_in = ${resolvedIn}, came_back_at = null
           where id = ${id}`);
        const states = { oldStatus: before.state, newStatus: state };
        await noteAction(engine, tx, by, {
          action: ACTIONS[state],
          subject: subjects.error(id),
          ...states,
        });
        return true;
      });
    return actOrLookUp(this.#db, by, act, async () => true);
  }

  #rows(rest: Sql): Promise<KindRow[]> {
    return this.#engine.all<KindRow>(sql`
      select id, task, name, code, message, sample, sample_job as "sampleJob", state, first_at as "firstAt",
             last_at as "lastAt", first_build as "firstBuild", builds, failed, retried,
             changed_at as "changedAt", changed_by as "changedBy", resolved_in as "resolvedIn",
             came_back_at as "cameBackAt"
        from holdfast.error_kind
        ${rest}`);
  }

  async #withTrends(rows: readonly KindRow[], now: number): Promise<ErrorKind[]> {
    if (rows.length === 0) return [];
    const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
    const first = hour - (TREND_HOURS - 1) * HOUR_MS;
    const ids = rows.map(({ id }) => id);
    const hours = await this.#engine.all<{ id: string; hour: number; n: number }>(sql`
      select kind_id as id, hour, failed + retried as n
        from holdfast.error_hour
       where ${this.#engine.among(sql`kind_id`, ids)}
         and hour >= ${first}`);
    const byKind = Map.groupBy(hours, ({ id }) => id);
    return rows.map(({ sample: message, sampleJob: job, builds, ...row }) => {
      const trend = Array.from({ length: TREND_HOURS }, () => 0);
      for (const one of byKind.get(row.id) ?? []) {
        const at = (one.hour - first) / HOUR_MS;
        if (at < TREND_HOURS) trend[at] = one.n;
      }
      const isNew = row.firstAt > now - NEW_MS;
      return {
        ...row,
        builds: JSON.parse(builds) as string[],
        sample: { job, message },
        isNew,
        trend,
      };
    });
  }
}

interface KindRow extends Omit<ErrorKind, "builds" | "sample" | "trend" | "isNew"> {
  readonly builds: string;
  readonly sample: string;
  readonly sampleJob: string;
}

const ACTIONS: Readonly<Record<ErrorKindState, string>> = {
  open: "error.reopen",
  resolved: "error.resolve",
  muted: "error.mute",
};
