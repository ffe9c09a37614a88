/** Changes of the schema while other processes claim and settle. */
import { StoreBusyError } from "../../core/errors.ts";
import { type Runtime, sleep } from "../../core/runtime.ts";
import type { Engine, NewIndex, Transaction } from "../engine.ts";
import { createIndex } from "../migrate.ts";
import { sql } from "../sql.ts";
import type { Send, Sessions } from "./session.ts";

/** A migration may build an index over all jobs. */
export const MIGRATION_MS_MAX = 60 * 60_000;

/** How long DDL waits for a lock in one try; how long later on, when it outlasts `deadlock_timeout`; how long it is tried. */
export const DDL_LOCK_MS = 500;
const DDL_LOCK_MS_LATE = 1_500;
const DDL_MS_MAX = 60_000;

/**
 * In an open transaction, a statement with parameters keeps its snapshot until the next statement without, and an index that
 * is built online waits for all older snapshots.
 */
export const FORGET_SNAPSHOT = "select";

/**
 * No other process migrates until this transaction ends. It gives up at once, instead of waiting: a statement that waits has
 * a snapshot, and the other process may be building an index online.
 */
export async function beginMigration(
  send: Send,
  { schema, store }: { schema: string; store: string },
): Promise<void> {
  const text = "select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as held";
  const { rows } = await send({ text, values: [`holdfast migrates ${schema}`] });
  const [{ held } = { held: false }] = rows as { held: boolean }[];
  if (!held) throw new StoreBusyError({ store, waitedMs: DDL_MS_MAX });
  await send({ text: `set local statement_timeout = ${MIGRATION_MS_MAX}` });
  await send({ text: `set local idle_in_transaction_session_timeout = ${MIGRATION_MS_MAX}` });
}

/**
 * DDL that waits for a lock makes all later statements on that table wait, too. So it gives up soon, and runs again a moment
 * later. After half of the time it waits a little longer: only then does the server end an autovacuum in its way.
 */
export async function briefly<T>(
  runtime: Runtime,
  run: (lockMs: number) => Promise<T>,
): Promise<T> {
  const startedAt = runtime.monotonic();
  for (;;) {
    const passedMs = runtime.monotonic() - startedAt;
    try {
      return await run(passedMs < DDL_MS_MAX / 2 ? DDL_LOCK_MS : DDL_LOCK_MS_LATE);
    } catch (error) {
      const isLate = runtime.monotonic() - startedAt >= DDL_MS_MAX;
      if (!(error instanceof StoreBusyError) || isLate) throw error;
      await sleep(runtime, DDL_LOCK_MS * runtime.random());
    }
  }
}

interface Building {
  readonly engine: Pick<Engine, "all" | "runtime"> & {
    spell(text: string): string;
    transaction<T>(
      body: (tx: Transaction) => Promise<T>,
      options: { readonly lockMs: number },
    ): Promise<T>;
  };
  readonly sessions: Sessions;
  readonly schema: string;
  /** How long one index may take. */
  readonly limitMs: number;
}

/**
 * Builds an index while others write.
 *
 * PostgreSQL does so outside of a transaction only, and leaves an invalid index behind if it is interrupted. It cannot do so
 * for a partitioned table: each partition gets its own index, and the table's index becomes valid with the last of them.
 */
export async function buildIndex(building: Building, index: NewIndex): Promise<void> {
  const { name, table } = index;
  const partitions = await partitionsOf(building, table);
  if (partitions.length === 0) return buildOne(building, index);
  // First, so that a partition which is added meanwhile has the index from the start.
  await runBriefly(building, createIndex(index).replace(" on ", " on only "));
  for (const partition of partitions) {
    if (await isAttached(building, name, partition)) continue;
    const own = `${partition}_${name}`;
    await buildOne(building, { ...index, name: own, table: partition });
    await runBriefly(building, `alter index holdfast.${name} attach partition holdfast.${own}`);
  }
}

/** DDL that gives up soon, and is tried again, while others hold locks. */
function runBriefly({ engine }: Building, script: string): Promise<void> {
  return briefly(engine.runtime, (lockMs) =>
    engine.transaction((tx) => tx.script(script), { lockMs }),
  );
}

async function buildOne(building: Building, index: NewIndex): Promise<void> {
  const { engine, sessions, limitMs } = building;
  const isValid = await validity(building, index.name);
  if (isValid === true) return;
  await sessions.alone(async (send) => {
    const run = (text: string) => send({ text: engine.spell(text), answerMs: limitMs });
    // Through PgBouncer the settings would stay with a connection of others; our limits are not set there either.
    if (sessions.direct) {
      await run(`set statement_timeout = ${limitMs}`);
      await run(`set lock_timeout = ${limitMs}`);
    }
    if (isValid === false) await run(`drop index concurrently holdfast.${index.name}`);
    await run(createIndex(index).replace("index if not exists", "index concurrently"));
  });
}

/** Undefined: there is no such index. */
async function validity(building: Building, name: string): Promise<boolean | undefined> {
  const [row] = await building.engine.all<{ valid: boolean }>(sql`
    select i.indisvalid as valid
      from pg_catalog.pg_index i
     where i.indexrelid = to_regclass(${nameIn(building, name)})`);
  return row?.valid;
}

async function partitionsOf(building: Building, table: string): Promise<string[]> {
  const rows = await building.engine.all<{ name: string }>(sql`
    select c.relname as name
      from pg_catalog.pg_inherits i
      join pg_catalog.pg_class c on c.oid = i.inhrelid
     where i.inhparent = to_regclass(${nameIn(building, table)})
     order by c.relname`);
  return rows.map(({ name }) => name);
}

async function isAttached(building: Building, name: string, partition: string): Promise<boolean> {
  const rows = await building.engine.all(sql`
    select 1
      from pg_catalog.pg_inherits i
      join pg_catalog.pg_index x on x.indexrelid = i.inhrelid
     where i.inhparent = to_regclass(${nameIn(building, name)})
       and x.indrelid = to_regclass(${nameIn(building, partition)})`);
  return rows.length > 0;
}

const nameIn = ({ schema }: Building, name: string): string => `"${schema}".${name}`;
