/**
 * Locks as rows: one for every key that was locked within the last hour.
 *
 * A lock is free when it has no holder or its time is over. Taking, extending and releasing it is one statement each, with
 * a condition that the database compares while it has locked the row, by its own clock. These writes do not wait for the
 * disk: a lock that a crash of the server undoes is lost like an expired one, and the next token is still larger.
 *
 * A token is one more than the last, and not below the database's clock, so tokens keep growing when the row was deleted.
 */
import { subjects } from "../audit/entry.ts";
import { asking, type Check } from "../database/check.ts";
import type { Database } from "../database/database.ts";
import { type Engine, readNow } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import {
  type LockAnswer,
  type LockBackend,
  type LockFilter,
  type LockHold,
  type LockRecord,
  type LockRequest,
  NEXT_MS,
} from "./lock.ts";
import { type LockWaitRow, type StoredWaitRow, WAIT_ROWS_MAX } from "./contention.ts";
import {
  type HeatRange,
  lockHeat,
  type LockHeat,
  type LockStatFilter,
  type LockStatRow,
} from "./stats.ts";

interface LockStanding {
  readonly owner: string;
  /** How long until its time is over; 0 or less: it is free. */
  readonly endsInMs: number;
  /** The contender for whom it is reserved, and for how long. */
  readonly next: string | null;
  readonly nextInMs: number;
}

/** Deletes up to `limit` rows that are older than `forMs`. */
interface Pruning {
  readonly forMs: number;
  readonly limit: number;
}

const TABLE = sql`holdfast.lock`;

const COLUMNS = [
  "name",
  "token",
  "holder",
  "owner",
  "trace",
  "acquired_at",
  "expires_at",
  "next_holder",
  "next_until",
];

const STAT_COLUMNS = [
  "minute",
  "type",
  "source",
  "acquisitions",
  "timeouts",
  "wait_ms_sum",
  "held_ms_max",
  "waits",
];

const WAIT_COLUMNS = ["name", "source", "owner", "waiting", "since_at", "timeouts", "seen_at"];

/** What a process that is gone told is deleted after this long. */
const WAITS_KEEP_MS = 3_600_000;

export type LocksStore = Pick<SqlLocks, keyof SqlLocks>;

/** All writes are idempotent, so a lost answer is recovered by writing again. */
export class SqlLocks {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** Takes a lock that is free and not reserved for another process. Null: it is not. The same holder gets it again. */
  async take(request: LockRequest): Promise<number | null> {
    const { key, holder, owner, trace, ttlMs, contender } = request;
    const [row] = await this.#twice((now) =>
      this.#engine.put<{ holder: string | null; token: number }>({
        table: TABLE,
        columns: COLUMNS,
        values: sql`${key}, ${now}, ${holder}, ${owner}, ${trace}, ${now}, ${now} + ${ttlMs}, null, null`,
        key: ["name"],
        set: sql`
          token = case when was.token < ${now} then ${now} else was.token + 1 end,
          holder = ${holder}, owner = ${owner}, trace = ${trace},
          acquired_at = ${now}, expires_at = ${now} + ${ttlMs}, next_holder = null, next_until = null`,
        where: sql`
          was.name = ${key}
          and (was.holder is null or was.holder = ${holder} or was.expires_at <= ${now})
          and (was.next_holder is null or was.next_holder = ${contender} or was.next_until <= ${now})`,
        returning: sql`holder, token`,
        durable: false,
      }),
    );
    // Some databases return the row as it is a moment later, when it may have become free.
    return row?.holder === holder ? row.token : null;
  }

  /**
   * Reserves the lock for a contender for `forMs`, unless it is reserved for another. Returns its state then; null: it is
   * reserved for another, or there is no such lock.
   */
  async noteNext({ key, contender }: LockRequest, forMs: number): Promise<LockStanding | null> {
    const [row] = await this.#change<LockStanding>((now) => ({
      set: sql`next_holder = ${contender}, next_until = ${now} + ${forMs}`,
      where: sql`
        name = ${key}
        and (next_holder is null or next_holder = ${contender} or next_until <= ${now})`,
      returning: standing(now),
    }));
    return row ?? null;
  }

  /** The state of a lock, held or not. Null: no process has asked for it lately. */
  async standing(key: string): Promise<LockStanding | null> {
    const [row] = await this.#engine.all<LockStanding>(
      sql`select ${standing(this.#engine.now())} from holdfast.lock where name = ${key}`,
    );
    return row ?? null;
  }

  /** Moves the end of a lock to now + `ttlMs`, never backwards. False: the lock is no longer ours. */
  async extend({ key, token }: LockHold, ttlMs: number): Promise<boolean> {
    const rows = await this.#change((now) => ({
      set: sql`expires_at = case when expires_at < ${now} + ${ttlMs} then ${now} + ${ttlMs} else expires_at end`,
      where: sql`name = ${key} and token = ${token} and holder is not null`,
    }));
    return rows.length > 0;
  }

  /** False: the lock was no longer ours. */
  async release({ key, token }: LockHold): Promise<boolean> {
    const rows = await this.#change((now) => ({
      set: sql`holder = null, expires_at = ${now}`,
      where: sql`name = ${key} and token = ${token}`,
    }));
    return rows.length > 0;
  }

  /** Releases a lock that its holder may have got without an answer. */
  async abandon(key: string, holder: string): Promise<void> {
    await this.#change((now) => ({
      set: sql`holder = null, expires_at = ${now}`,
      where: sql`name = ${key} and holder = ${holder}`,
    }));
  }

  /** A held lock; null: it is free. */
  async find(key: string): Promise<LockRecord | null> {
    const [row] = await this.#held(sql`and name = ${key}`);
    return row ?? null;
  }

  /** Held locks, oldest first. */
  list({ type, limit }: LockFilter): Promise<LockRecord[]> {
    return this.#held(sql`
             ${type === undefined ? nothing : ofType(type)}
       order by acquired_at, name
       limit ${limit}`);
  }

  /**
   * Deletes the rows of locks that no process has held for this long. Returns how many; call again on a full batch. They
   * are found without locking anything, and deleted only if they have not changed.
   */
  async prune({ forMs, limit }: Pruning): Promise<number> {
    const engine = this.#engine;
    const isOld = sql`expires_at < ${engine.now()} - ${forMs}`;
    const rows = await engine.all<{ name: string }>(
      sql`select name from holdfast.lock where ${isOld} limit ${limit}`,
    );
    if (rows.length === 0) return 0;
    const names = rows.map(({ name }) => name);
    return engine.run(
      sql`delete from holdfast.lock where ${engine.among(sql`name`, names)} and ${isOld}`,
    );
  }

  /** Replaces what the source of each row wrote for the same minute and type. */
  async putStats(rows: readonly LockStatRow[]): Promise<void> {
    for (const row of rows) await this.#twice(() => this.#putStat(row));
  }

  /** The rows of the last `forMs`, the newest first. */
  stats({ forMs, type, limit }: LockStatFilter): Promise<LockStatRow[]> {
    return this.#engine.all<LockStatRow>(sql`
      select minute, type, source, acquisitions, timeouts, wait_ms_sum as "waitMsSum", held_ms_max as "heldMsMax", waits
        from holdfast.lock_stat
       where minute > ${this.#engine.now()} - ${forMs}
             ${type === undefined ? nothing : sql`and type = ${type}`}
       order by minute desc, type, source
       limit ${limit}`);
  }

  /** Replaces what the process told of these keys. */
  async putWaits(rows: readonly LockWaitRow[]): Promise<void> {
    for (const row of rows) await this.#twice((now) => this.#putWait(row, now));
  }

  async dropWaits(source: string, keys: readonly string[]): Promise<void> {
    const engine = this.#engine;
    const isTheirs = sql`${engine.among(sql`name`, keys)} and source = ${source}`;
    await engine.run(sql`delete from holdfast.lock_wait where ${isTheirs}`);
  }

  /** What all processes told within the last hour. */
  waits(): Promise<StoredWaitRow[]> {
    const now = this.#engine.now();
    return this.#engine.all<StoredWaitRow>(sql`
      select name as "key", source, owner, waiting, since_at as since, timeouts, ${now} - seen_at as "silentMs"
        from holdfast.lock_wait
       where seen_at > ${now} - ${WAITS_KEEP_MS}
       order by waiting desc, timeouts desc
       limit ${WAIT_ROWS_MAX}`);
  }

  /** How locks were contended over time, by type. */
  async heat(range: HeatRange): Promise<LockHeat> {
    return lockHeat(this.#engine, await readNow(this.#engine), range);
  }

  /** Deletes old rows of whole minutes, so that no minute is partial. Returns how many; call again at `limit` or more. */
  async pruneStats({ forMs, limit }: Pruning): Promise<number> {
    const engine = this.#engine;
    const old = await engine.all<{ minute: number }>(sql`
      select minute from holdfast.lock_stat where minute < ${engine.now()} - ${forMs} order by minute limit ${limit}`);
    const last = old.at(-1);
    await engine.run(
      sql`delete from holdfast.lock_wait where seen_at < ${engine.now()} - ${WAITS_KEEP_MS}`,
    );
    if (last === undefined) return 0;
    return engine.run(sql`delete from holdfast.lock_stat where minute <= ${last.minute}`);
  }

  #held(rest: Sql): Promise<LockRecord[]> {
    const now = this.#engine.now();
    return this.#engine.all<LockRecord>(sql`
      select name as "key", token, owner, trace, acquired_at as "acquiredAt", expires_at as "expiresAt",
             expires_at - ${now} as "expiresInMs"
        from holdfast.lock
       where holder is not null
         and expires_at > ${now}
         ${rest}`);
  }

  async #putStat(row: LockStatRow): Promise<void> {
    const { minute, type, source, acquisitions, timeouts, waitMsSum, heldMsMax, waits } = row;
    await this.#engine.put({
      table: sql`holdfast.lock_stat`,
      columns: STAT_COLUMNS,
      values: sql`${minute}, ${type}, ${source}, ${acquisitions}, ${timeouts}, ${waitMsSum}, ${heldMsMax}, ${waits}`,
      key: ["minute", "type", "source"],
      set: sql`
        acquisitions = ${acquisitions}, timeouts = ${timeouts}, wait_ms_sum = ${waitMsSum},
        held_ms_max = ${heldMsMax}, waits = ${waits}`,
      where: sql`was.minute = ${minute} and was.type = ${type} and was.source = ${source}`,
      returning: sql`minute`,
      durable: false,
    });
  }

  #putWait(row: LockWaitRow, now: Sql): Promise<unknown> {
    const { key, source, owner, waiting, longestMs, timeouts } = row;
    return this.#engine.put({
      table: sql`holdfast.lock_wait`,
      columns: WAIT_COLUMNS,
      values: sql`${key}, ${source}, ${owner}, ${waiting}, ${now} - ${longestMs}, ${timeouts}, ${now}`,
      key: ["name", "source"],
      set: sql`
        waiting = ${waiting}, since_at = ${now} - ${longestMs}, timeouts = ${timeouts}, seen_at = ${now}`,
      where: sql`was.name = ${key} and was.source = ${source}`,
      returning: sql`name`,
      durable: false,
    });
  }

  #change<R>(change: (now: Sql) => { set: Sql; where: Sql; returning?: Sql }): Promise<R[]> {
    const rest = { table: TABLE, returning: sql`token`, durable: false };
    return this.#twice((now) => this.#engine.change<R>({ ...rest, ...change(now) }));
  }

  #twice<T>(write: (now: Sql) => Promise<T>): Promise<T> {
    const once = (): Promise<T> => write(this.#engine.now());
    return this.#db.write(once, once);
  }
}

function standing(now: Sql): Sql {
  return sql`
    owner, case when holder is null then 0 else expires_at - ${now} end as "endsInMs",
    next_holder as "next", coalesce(next_until - ${now}, 0) as "nextInMs"`;
}

function ofType(type: string): Sql {
  const prefix = `${type}:`;
  return sql`and (name = ${type} or substr(name, 1, ${Array.from(prefix).length}) = ${prefix})`;
}

/** Locks in rows of the database that the jobs are in. */
export class SqlLock implements LockBackend {
  readonly kind = "sql";
  readonly #rows: LocksStore;

  constructor(rows: LocksStore) {
    this.#rows = rows;
  }

  /** A repeated call reads first: many processes may wait for one lock, and a read is the cheapest for all. */
  async take(request: LockRequest, again: boolean): Promise<LockAnswer> {
    const seen = again ? await this.#rows.standing(request.key) : null;
    if (seen === null || isFreeFor(request, seen)) {
      const token = await this.#rows.take(request);
      if (token !== null) return { taken: true, token };
    }
    return this.#reserve(request, seen);
  }

  extend(hold: LockHold, ttlMs: number): Promise<boolean> {
    return this.#rows.extend(hold, ttlMs);
  }

  release(hold: LockHold): Promise<boolean> {
    return this.#rows.release(hold);
  }

  abandon(key: string, holder: string): Promise<void> {
    return this.#rows.abandon(key, holder);
  }

  find(key: string): Promise<LockRecord | null> {
    return this.#rows.find(key);
  }

  list(filter: LockFilter): Promise<LockRecord[]> {
    return this.#rows.list(filter);
  }

  /** The store closes the rows. */
  async close(): Promise<void> {}

  async #reserve(request: LockRequest, seen: LockStanding | null): Promise<LockAnswer> {
    if (seen !== null && seen.next !== null && seen.nextInMs > 0) {
      const isNext = seen.next === request.contender;
      if (!isNext || seen.nextInMs > NEXT_MS / 2) return notTaken(seen, isNext);
    }
    const noted = await this.#rows.noteNext(request, NEXT_MS);
    if (noted !== null) return notTaken(noted, true);
    return notTaken(await this.#rows.standing(request.key), false);
  }
}

function isFreeFor(
  { contender }: LockRequest,
  { endsInMs, next, nextInMs }: LockStanding,
): boolean {
  return endsInMs <= 0 && (next === null || next === contender || nextInMs <= 0);
}

function notTaken(found: LockStanding | null, isNext: boolean): LockAnswer {
  const owner = found !== null && found.endsInMs > 0 ? found.owner : null;
  return { taken: false, owner, isNext };
}

/** Any caller can take an expired lock; after an hour its row is deleted. */
const LEFT_MS = 10 * 60_000;

export const lockChecks: readonly Check[] = [
  {
    name: "lock-left-behind",
    severity: "info",
    problem: "Locks expired without being released: the owner died or was too slow.",
    remedy:
      "No process is blocked. Check whether the owners are alive, and whether the ttl of their locks is long enough.",
    cost: "quick",
    find: asking<{ key: string; owner: string; at: number }>(
      (engine, { limit }) => sql`
        select name as "key", owner, expires_at as at
          from holdfast.lock
         where holder is not null
           and expires_at < ${engine.now()} - ${LEFT_MS}
         order by expires_at
         limit ${limit}`,
      ({ key, owner, at }) => ({
        subject: subjects.lock(key),
        detail: `was not released by ${owner}`,
        sinceAt: at,
      }),
    ),
  },
];
