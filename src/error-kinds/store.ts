/** Kinds of errors as they were counted (fold.ts), and what operators decided about them. */
import { type OperatorEntry, subjects } from "../audit/entry.ts";
import { actOrLookUp, noteAction } from "../audit/store.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

export const KINDS_LISTED_MAX = 200;

/** Kinds that are looked through for those of a time or a build, the most frequent first. */
const KINDS_WITHIN_MAX = 1_000;

/** How long there are counts by minute: after that, by hour. */
export const MINUTES_KEEP_MS = 26 * HOUR_MS;

/** Failed jobs that are looked at to say how many of a kind there are now, the newest first. */
const FAILED_LOOKED_AT_MAX = 10_000;

/** A kind is new for this long. */
const NEW_MS = 24 * HOUR_MS;

const TREND_HOURS = 24;

export const kindStates = ["open", "resolved", "muted"] as const;
/** What an operator decided about a kind of error. */
export type ErrorKindState = (typeof kindStates)[number];

/** A job that had an error of the kind, and its whole message. */
export interface ErrorExample {
  /** The id of the job. */
  readonly job: string;
  /** The whole message. */
  readonly message: string;
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
  /** The first job that had it. */
  readonly first: ErrorExample;
  /** The newest job that had it. */
  readonly sample: ErrorExample;
  /** Jobs that failed with it and still are: not retried, not deleted. */
  readonly failedNow: number;
  /** Whether these are all; otherwise there are at least so many. */
  readonly isFailedNowExact: boolean;
  /** What it did in the time or the build that was asked for; null: all was. */
  readonly within: {
    /** Jobs that failed for good with it. */
    readonly failed: number;
    /** Attempts that failed with it and were followed by another. */
    readonly retried: number;
  } | null;
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

/** The public methods of the class, for other implementations. */
export type ErrorKindsStore = Pick<SqlErrorKinds, keyof SqlErrorKinds>;

export class SqlErrorKinds {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** The kinds in a state, last seen first; of a time or a build, the most frequent first. */
  async list({
    state,
    task,
    build,
    since,
    until,
    limit = KINDS_LISTED_MAX,
  }: KindsWanted): Promise<ErrorKind[]> {
    const now = await readNow(this.#engine);
    const most = Math.min(limit, KINDS_LISTED_MAX);
    const which = sql`where state = ${state} ${task === undefined ? nothing : sql`and task = ${task}`}`;
    if (build === undefined && since === undefined && until === undefined) {
      const rows = await this.#rows(sql`${which} order by last_at desc limit ${most}`);
      return this.#complete(rows, now);
    }
    const within = await countsWithin(this.#engine, now, { build, since, until });
    if (within.size === 0) return [];
    const among = this.#engine.among(sql`id`, [...within.keys()]);
    const rows = await this.#rows(sql`${which} and ${among}`);
    const weight = ({ id }: KindRow): number => {
      const { failed = 0, retried = 0 } = within.get(id) ?? {};
      return failed + retried;
    };
    const largest = rows.toSorted((a, b) => weight(b) - weight(a) || b.lastAt - a.lastAt);
    return this.#complete(largest.slice(0, most), now, within);
  }

  async find(id: string): Promise<ErrorKind | null> {
    const now = await readNow(this.#engine);
    const rows = await this.#rows(sql`where id = ${id}`);
    return (await this.#complete(rows, now))[0] ?? null;
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
      select id, task, name, code, message, sample, sample_job as "sampleJob",
             first_sample as "firstSample", first_job as "firstJob", state, first_at as "firstAt",
             last_at as "lastAt", first_build as "firstBuild", builds, failed, retried,
             changed_at as "changedAt", changed_by as "changedBy", resolved_in as "resolvedIn",
             came_back_at as "cameBackAt"
        from holdfast.error_kind
        ${rest}`);
  }

  async #complete(
    rows: readonly KindRow[],
    now: number,
    within?: ReadonlyMap<string, NonNullable<ErrorKind["within"]>>,
  ): Promise<ErrorKind[]> {
    if (rows.length === 0) return [];
    const failed = await failedNow(this.#engine);
    const hour = Math.floor(now / HOUR_MS) * HOUR_MS;
    const first = hour - (TREND_HOURS - 1) * HOUR_MS;
    const ids = rows.map(({ id }) => id);
    const hours = await this.#engine.all<{ id: string; hour: number; n: string }>(sql`
      select kind_id as id, hour, sum(failed + retried) as n
        from holdfast.error_hour
       where ${this.#engine.among(sql`kind_id`, ids)}
         and hour >= ${first}
       group by kind_id, hour`);
    const byKind = Map.groupBy(hours, ({ id }) => id);
    return rows.map(({ sample, sampleJob, firstSample, firstJob, builds, ...row }) => {
      const trend = Array.from({ length: TREND_HOURS }, () => 0);
      for (const one of byKind.get(row.id) ?? []) {
        const at = (one.hour - first) / HOUR_MS;
        if (at < TREND_HOURS) trend[at] = Number(one.n);
      }
      const isNew = row.firstAt > now - NEW_MS;
      return {
        ...row,
        builds: JSON.parse(builds) as string[],
        first: { job: firstJob, message: firstSample },
        sample: { job: sampleJob, message: sample },
        failedNow: failed.byKind.get(row.id) ?? 0,
        isFailedNowExact: failed.isAll,
        within: within?.get(row.id) ?? null,
        isNew,
        trend,
      };
    });
  }
}

interface KindRow extends Omit<ErrorKind, (typeof COMPLETED)[number]> {
  readonly builds: string;
  readonly sample: string;
  readonly sampleJob: string;
  readonly firstSample: string;
  readonly firstJob: string;
}

const COMPLETED = [
  "builds",
  "first",
  "sample",
  "failedNow",
  "isFailedNowExact",
  "within",
  "trend",
  "isNew",
] as const;

export interface KindsWanted {
  readonly state: ErrorKindState;
  readonly task?: string | undefined;
  readonly build?: string | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly limit?: number | undefined;
}

type Within = Pick<KindsWanted, "build" | "since" | "until">;

/** Whole minutes of the last day, whole hours of the last week. */
async function countsWithin(
  engine: Engine,
  now: number,
  { build, since = 0, until = now + MINUTE_MS }: Within,
): Promise<Map<string, { failed: number; retried: number }>> {
  const isRecent = since >= now - MINUTES_KEEP_MS;
  const [table, at, stepMs] = isRecent
    ? [sql`holdfast.error_minute`, sql`minute`, MINUTE_MS]
    : [sql`holdfast.error_hour`, sql`hour`, HOUR_MS];
  const rows = await engine.all<{ id: string; failed: string; retried: string }>(sql`
    select kind_id as id, sum(failed) as failed, sum(retried) as retried
      from ${table}
     where ${at} >= ${Math.floor(since / stepMs) * stepMs}
       and ${at} < ${until}
           ${build === undefined ? nothing : sql`and build = ${build}`}
     group by kind_id
     order by sum(failed + retried) desc
     limit ${KINDS_WITHIN_MAX}`);
  // Some drivers give a sum as text.
  return new Map(
    rows.map(({ id, failed, retried }) => [
      id,
      { failed: Number(failed), retried: Number(retried) },
    ]),
  );
}

/** How many jobs are failed now, by kind. The index by status has the newest first on every engine. */
async function failedNow(
  engine: Engine,
): Promise<{ byKind: ReadonlyMap<string, number>; isAll: boolean }> {
  const rows = await engine.all<{ kind: string | null; n: number }>(sql`
    select error_kind as kind, count(*) as n
      from (select error_kind
              from holdfast.finished
             where status = 'failed'
             order by id desc
             limit ${FAILED_LOOKED_AT_MAX}) newest
     group by error_kind`);
  const all = rows.reduce((sum, { n }) => sum + n, 0);
  return {
    byKind: new Map(rows.flatMap(({ kind, n }) => (kind === null ? [] : [[kind, n] as const]))),
    isAll: all < FAILED_LOOKED_AT_MAX,
  };
}

const ACTIONS: Readonly<Record<ErrorKindState, string>> = {
  open: "error.reopen",
  resolved: "error.resolve",
  muted: "error.mute",
};
