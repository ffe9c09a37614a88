/**
 * Locks as rows: one for every key that was locked within the last hour.
 *
 * A lock is free when nobody holds it or its time is over. Taking, extending and releasing it is one statement each, with a
 * condition that the database compares while it has the row, by its own clock. Nobody waits for the disk: a lock that a
 * crash of the server undoes is lost like one that ran out, and the next token is larger all the same.
 *
 * A token is one more than the last, and not below the database's clock. So it goes on growing when the row was deleted.
 */
import type { LockFilter, LockHold, LockRecord, LockRequest } from "../core/lock.ts";
import type { Engine } from "./engine.ts";
import { nothing, sql, type Sql } from "./sql.ts";

export interface LockRows {
  /** Takes a lock that is free and not kept for somebody else. Null: it is not. Asked again, whoever has it has it again. */
  takeLock(request: LockRequest): Promise<number | null>;

  /**
   * Notes who is to have the lock when it becomes free, for `forMs`, unless somebody else is noted. Returns how the lock stands
   * then; null: somebody else is noted, or there is no such lock.
   */
  noteNext(request: LockRequest, forMs: number): Promise<LockStanding | null>;

  /** How a lock stands, whoever has it. Null: nobody has asked for it lately. */
  lockStanding(key: string): Promise<LockStanding | null>;

  /** Moves the end of a lock to now + `ttlMs`, never backwards. False: it is not ours any more. */
  extendLock(hold: LockHold, ttlMs: number): Promise<boolean>;

  /** False: it was not ours any more. */
  releaseLock(hold: LockHold): Promise<boolean>;

  /** Gives a lock back that somebody may have got without hearing of it. */
  abandonLock(key: string, holder: string): Promise<void>;

  /** A lock that somebody has; null: it is free. */
  findLock(key: string): Promise<LockRecord | null>;
  /** Locks that somebody has, those that were taken first first. */
  locks(filter: LockFilter): Promise<LockRecord[]>;

  /** Deletes the rows of locks that nobody has had for this long. Returns how many; call again on a full batch. */
  pruneLocks(chore: { forMs: number; limit: number }): Promise<number>;
}

export interface LockStanding {
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

export async function takeLock(engine: Engine, request: LockRequest): Promise<number | null> {
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

export async function noteNext(
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

export async function lockStanding(engine: Engine, key: string): Promise<LockStanding | null> {
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

export async function extendLock(engine: Engine, hold: LockHold, ttlMs: number): Promise<boolean> {
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

export async function releaseLock(engine: Engine, hold: LockHold): Promise<boolean> {
  const rows = await engine.change({
    table: TABLE,
    set: sql`holder = null, expires_at = ${engine.now()}`,
    where: sql`name = ${hold.key} and token = ${hold.token}`,
    returning: sql`token`,
    durable: false,
  });
  return rows.length > 0;
}

export async function abandonLock(engine: Engine, key: string, holder: string): Promise<void> {
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

export async function findLock(engine: Engine, key: string): Promise<LockRecord | null> {
  const [row] = await engine.all<LockRecord>(sql`
    select ${record(engine)}
      from holdfast.lock
     where name = ${key}
       and holder is not null
       and expires_at > ${engine.now()}`);
  return row ?? null;
}

export function listLocks(engine: Engine, { type, limit }: LockFilter): Promise<LockRecord[]> {
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
export async function pruneLocks(
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
