/**
 * Locks as rows: one for every key that was locked within the last hour.
 *
 * A lock is free when nobody holds it or its time is over. Taking, extending and releasing it is one statement each, with a
 * condition that the database compares while it has the row, by its own clock. Nobody waits for the disk: a lock that a
 * crash of the server undoes is lost like one that ran out, and the next token is larger all the same.
 *
 * A token is one more than the last, and not below the database's clock. So it goes on growing when the row was deleted.
 */
import type { Database } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import {
  type LockAnswer,
  type LockBackend,
  type LockFilter,
  type LockHold,
  type LockRecord,
  type LockRequest,
  NEXT_MS,
} from "./backend.ts";
import * as stats from "./stats.ts";
import type { LockStatFilter, LockStatRow } from "./stats.ts";

interface LockStanding {
  readonly owner: string;
  /** How long until its time is over; 0 or less: it is free. */
  readonly endsInMs: number;
  /** Who is noted to have it next, and for how long. */
  readonly next: string | null;
  readonly nextInMs: number;
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

async function takeLock(engine: Engine, request: LockRequest): Promise<number | null> {
  const { key, holder, owner, trace, ttlMs, contender } = request;
  const now = engine.now();
  const [row] = await engine.put<{ holder: string | null; token: number }>({
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
  });
  // Some databases return the row as it is a moment later, when it may have become free.
  return row?.holder === holder ? row.token : null;
}

async function noteNext(
  engine: Engine,
  { key, contender }: LockRequest,
  forMs: number,
): Promise<LockStanding | null> {
  const now = engine.now();
  const [row] = await engine.change<LockStanding>({
    table: TABLE,
    set: sql`next_holder = ${contender}, next_until = ${now} + ${forMs}`,
    where: sql`
      name = ${key}
      and (next_holder is null or next_holder = ${contender} or next_until <= ${now})`,
    returning: standing(engine),
    durable: false,
  });
  return row ?? null;
}

async function lockStanding(engine: Engine, key: string): Promise<LockStanding | null> {
  const [row] = await engine.all<LockStanding>(
    sql`select ${standing(engine)} from holdfast.lock where name = ${key}`,
  );
  return row ?? null;
}

function standing(engine: Engine): Sql {
  const now = engine.now();
  return sql`
      owner, case when holder is null then 0 else expires_at - ${now} end as "endsInMs",
      next_holder as "next", coalesce(next_until - ${now}, 0) as "nextInMs"`;
}

async function extendLock(engine: Engine, hold: LockHold, ttlMs: number): Promise<boolean> {
  const until = sql`${engine.now()} + ${ttlMs}`;
  const rows = await engine.change({
    table: TABLE,
    set: sql`expires_at = case when expires_at < ${until} then ${until} else expires_at end`,
    where: sql`name = ${hold.key} and token = ${hold.token} and holder is not null`,
    returning: sql`token`,
    durable: false,
  });
  return rows.length > 0;
}

async function releaseLock(engine: Engine, hold: LockHold): Promise<boolean> {
  const rows = await engine.change({
    table: TABLE,
    set: sql`holder = null, expires_at = ${engine.now()}`,
    where: sql`name = ${hold.key} and token = ${hold.token}`,
    returning: sql`token`,
    durable: false,
  });
  return rows.length > 0;
}

async function abandonLock(engine: Engine, key: string, holder: string): Promise<void> {
  await engine.change({
    table: TABLE,
    set: sql`holder = null, expires_at = ${engine.now()}`,
    where: sql`name = ${key} and holder = ${holder}`,
    returning: sql`token`,
    durable: false,
  });
}

const record = (engine: Engine): Sql => sql`
      name as "key", token, owner, trace, acquired_at as "acquiredAt", expires_at as "expiresAt",
      expires_at - ${engine.now()} as "expiresInMs"`;

async function findLock(engine: Engine, key: string): Promise<LockRecord | null> {
  const [row] = await engine.all<LockRecord>(sql`
    select ${record(engine)}
      from holdfast.lock
     where name = ${key}
       and holder is not null
       and expires_at > ${engine.now()}`);
  return row ?? null;
}

function listLocks(engine: Engine, { type, limit }: LockFilter): Promise<LockRecord[]> {
  return engine.all<LockRecord>(sql`
    select ${record(engine)}
      from holdfast.lock
     where holder is not null
       and expires_at > ${engine.now()}
           ${type === undefined ? nothing : ofType(type)}
     order by acquired_at, name
     limit ${limit}`);
}

function ofType(type: string): Sql {
  const prefix = `${type}:`;
  return sql`and (name = ${type} or substr(name, 1, ${Array.from(prefix).length}) = ${prefix})`;
}

/** They are looked for without locking anything, and deleted only if they still are as they were. */
async function pruneLocks(
  engine: Engine,
  { forMs, limit }: { forMs: number; limit: number },
): Promise<number> {
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

// Locks in rows of the database that the jobs are in.

/** How a lock stands; see locks/store.ts. */
interface Standing {
  readonly owner: string;
  readonly endsInMs: number;
  readonly next: string | null;
  readonly nextInMs: number;
}

/** What a store can do with the rows of locks. Said here, because the store is on the same floor. */
export interface LockRows {
  take(request: LockRequest): Promise<number | null>;
  noteNext(request: LockRequest, forMs: number): Promise<Standing | null>;
  standing(key: string): Promise<Standing | null>;
  extend(hold: LockHold, ttlMs: number): Promise<boolean>;
  release(hold: LockHold): Promise<boolean>;
  abandon(key: string, holder: string): Promise<void>;
  find(key: string): Promise<LockRecord | null>;
  list(filter: LockFilter): Promise<LockRecord[]>;
}

export class SqlLock implements LockBackend {
  readonly kind = "sql";
  readonly #rows: LockRows;

  constructor(rows: LockRows) {
    this.#rows = rows;
  }

  /** Whoever asks again looks first: many may wait for one lock, and a look costs them all the least. */
  async take(request: LockRequest, again: boolean): Promise<LockAnswer> {
    const seen = again ? await this.#rows.standing(request.key) : null;
    if (seen === null || isFreeFor(request, seen)) {
      const token = await this.#rows.take(request);
      if (token !== null) return { taken: true, token };
    }
    return this.#comeNext(request, seen);
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

  /** The rows are closed with their store. */
  async close(): Promise<void> {}

  async #comeNext(request: LockRequest, seen: Standing | null): Promise<LockAnswer> {
    if (seen !== null && seen.next !== null && seen.nextInMs > 0) {
      const isNext = seen.next === request.contender;
      if (!isNext || seen.nextInMs > NEXT_MS / 2) return notTaken(seen, isNext);
    }
    const noted = await this.#rows.noteNext(request, NEXT_MS);
    if (noted !== null) return notTaken(noted, true);
    return notTaken(await this.#rows.standing(request.key), false);
  }
}

function isFreeFor({ contender }: LockRequest, { endsInMs, next, nextInMs }: Standing): boolean {
  return endsInMs <= 0 && (next === null || next === contender || nextInMs <= 0);
}

function notTaken(found: Standing | null, isNext: boolean): LockAnswer {
  const owner = found !== null && found.endsInMs > 0 ? found.owner : null;
  return { taken: false, owner, isNext };
}

// The verbs about locks. Each of them made twice is the same as once, so that is how a lost answer is looked up.

export interface LocksStore {
  /** Takes a lock that is free and not kept for somebody else. Null: it is not. Asked again, whoever has it has it again. */
  take(request: LockRequest): Promise<number | null>;

  /**
   * Notes who is to have the lock when it becomes free, for `forMs`, unless somebody else is noted. Returns how the lock stands
   * then; null: somebody else is noted, or there is no such lock.
   */
  noteNext(request: LockRequest, forMs: number): Promise<LockStanding | null>;

  /** How a lock stands, whoever has it. Null: nobody has asked for it lately. */
  standing(key: string): Promise<LockStanding | null>;

  /** Moves the end of a lock to now + `ttlMs`, never backwards. False: it is not ours any more. */
  extend(hold: LockHold, ttlMs: number): Promise<boolean>;

  /** False: it was not ours any more. */
  release(hold: LockHold): Promise<boolean>;

  /** Gives a lock back that somebody may have got without hearing of it. */
  abandon(key: string, holder: string): Promise<void>;

  /** A lock that somebody has; null: it is free. */
  find(key: string): Promise<LockRecord | null>;
  /** Locks that somebody has, those that were taken first first. */
  list(filter: LockFilter): Promise<LockRecord[]>;

  /** Deletes the rows of locks that nobody has had for this long. Returns how many; call again on a full batch. */
  prune(chore: { forMs: number; limit: number }): Promise<number>;

  /** Writes rows, in place of what their source wrote for the same minute and type. */
  putStats(rows: readonly LockStatRow[]): Promise<void>;
  /** The rows of the last `forMs`, the newest first. */
  stats(filter: LockStatFilter): Promise<LockStatRow[]>;
  /** Deletes what is older than this. Returns how many; call again when it is `limit` or more. */
  pruneStats(chore: { forMs: number; limit: number }): Promise<number>;
}

export class SqlLocks implements LocksStore {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  take(request: LockRequest): Promise<number | null> {
    return this.#twice(() => takeLock(this.#engine, request));
  }

  noteNext(request: LockRequest, forMs: number): Promise<LockStanding | null> {
    return this.#twice(() => noteNext(this.#engine, request, forMs));
  }

  standing(key: string): Promise<LockStanding | null> {
    return lockStanding(this.#engine, key);
  }

  extend(hold: LockHold, ttlMs: number): Promise<boolean> {
    return this.#twice(() => extendLock(this.#engine, hold, ttlMs));
  }

  release(hold: LockHold): Promise<boolean> {
    return this.#twice(() => releaseLock(this.#engine, hold));
  }

  abandon(key: string, holder: string): Promise<void> {
    return this.#twice(() => abandonLock(this.#engine, key, holder));
  }

  find(key: string): Promise<LockRecord | null> {
    return findLock(this.#engine, key);
  }

  list(filter: LockFilter): Promise<LockRecord[]> {
    return listLocks(this.#engine, filter);
  }

  prune(chore: { forMs: number; limit: number }): Promise<number> {
    return pruneLocks(this.#engine, chore);
  }

  async putStats(news: readonly LockStatRow[]): Promise<void> {
    for (const row of news) await this.#twice(() => stats.putLockStat(this.#engine, row));
  }

  stats(filter: LockStatFilter): Promise<LockStatRow[]> {
    return stats.lockStats(this.#engine, filter);
  }

  pruneStats(chore: { forMs: number; limit: number }): Promise<number> {
    return stats.pruneLockStats(this.#engine, chore);
  }

  #twice<T>(write: () => Promise<T>): Promise<T> {
    return this.#db.write(write, write);
  }
}
