/**
 * A later version adds indexes to tables that are in use: jobs come and go meanwhile, also while a transaction is open that
 * the index has to wait for, and a build that was interrupted is done again.
 */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { Client } from "pg";
import { openStore, type Store, storeOn } from "../../src/app/store.ts";
import type { Migration } from "../../src/database/engine.ts";
import { withMigrations } from "../support/later-version.ts";
import { done, settleOne, startOne } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";

after(assertNothingRuns);

/** Each of nine statements may wait for a try of the migration, which lasts a second; DDL that waits would hold up one for longer. */
const TRIES_MS_MAX = 18_000;

/** The next version: `script` is its migration. */
async function nextVersion(
  store: Store,
  script: string,
  { online }: { online: boolean },
): Promise<Store> {
  const { engine } = store.db;
  const version = Math.max(...engine.migrations.map((migration) => migration.version)) + 1;
  const named = engine.migrationDialect.named(script);
  const added: Migration = { version, name: "later", breaking: false, online, script: named };
  return storeOn(withMigrations(engine, [...engine.migrations, added]));
}

/** An index on a table that is partitioned on PostgreSQL, and one on a table that is not. */
const INDEXES = `
  create index if not exists later_finished on holdfast.finished (status, id);
  create unique index if not exists later_ready on holdfast.ready (task, id);`;

const withIndexes = (store: Store): Promise<Store> => nextVersion(store, INDEXES, { online: true });

/** Its claims and results fail if they wait for more than seconds. */
async function runJobs(store: Store): Promise<void> {
  for (let jobs = 0; jobs < 3; jobs += 1) await settleOne(store, done(await startOne(store)));
}

/** A session of an application. */
interface Session {
  /** Begins a transaction that has written to the table, or to one of its partitions. */
  hold(table: string): Promise<void>;
  commit(): Promise<unknown>;
  /** In the text of DDL that builds the index of the table online. */
  readonly online: (table: string) => string;
  /** The session whose DDL has this text and waits for the transaction. */
  waiting(text: string): Promise<number | null>;
  stop(session: number): Promise<unknown>;
  /** The tables that have their new index, ready for use. */
  indexed(): Promise<string[]>;
  end(): Promise<void>;
}

async function postgres(url: string): Promise<Session> {
  const [client, watcher] = [new Client(url), new Client(url)];
  await Promise.all([client.connect(), watcher.connect()]);
  const { rows: own } = await client.query("select pg_backend_pid() as pid");
  const holder = (own[0] as { pid: number }).pid;
  return {
    async hold(table) {
      const { rows } = await client.query(
        "select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass limit 1",
        [`holdfast.${table}`],
      );
      const { name } = (rows[0] as { name: string } | undefined) ?? { name: `holdfast.${table}` };
      await client.query(`begin; delete from ${name} where id is null`);
    },
    commit: () => client.query("commit"),
    online: (table) => `index concurrently %later_${table}`,
    async waiting(text) {
      const { rows } = await watcher.query(
        `select pid from pg_stat_activity
          where query ilike $1 and $2 = any (pg_blocking_pids(pid))`,
        [`%${text}%`, holder],
      );
      return (rows[0] as { pid: number } | undefined)?.pid ?? null;
    },
    stop: (session) => watcher.query("select pg_terminate_backend($1)", [session]),
    async indexed() {
      const { rows } = await watcher.query(
        `select indrelid::regclass::text as name from pg_index
          where indisvalid and indexrelid in (to_regclass('holdfast.later_finished'), to_regclass('holdfast.later_ready'))`,
      );
      return (rows as { name: string }[]).map(({ name }) => name.replace("holdfast.", ""));
    },
    end: async () => void (await Promise.all([client.end(), watcher.end()])),
  };
}

async function mysql(url: string): Promise<Session> {
  const [client, watcher] = [await createConnection(url), await createConnection(url)];
  const read = async (text: string): Promise<RowDataPacket[]> =>
    (await watcher.query<RowDataPacket[]>(text))[0];
  return {
    async hold(table) {
      await client.query("begin");
      await client.query(`delete from holdfast_${table} where id is null`);
    },
    commit: () => client.query("commit"),
    online: (table) => `later_${table}%lock = none`,
    async waiting(text) {
      const [row] = await read(
        `select id from information_schema.processlist
          where info like 'alter table%${text}%' and db = database()`,
      );
      return row === undefined ? null : Number(row["id"]);
    },
    stop: (session) => watcher.query(`kill ${session}`),
    async indexed() {
      const rows = await read(
        "select distinct table_name as name from information_schema.statistics where table_schema = database() and index_name like 'later_%'",
      );
      return rows.map((row) => String(row["name"]).replace("holdfast_", ""));
    },
    end: async () => void (await Promise.all([client.end(), watcher.end()])),
  };
}

const places = [
  { name: "postgres", kind: "postgres", open: postgres, needs: ["postgres"] },
  {
    name: "postgres through PgBouncer",
    kind: "postgres",
    open: postgres,
    needs: ["postgres", "pgbouncer"],
  },
  { name: "mysql", kind: "mysql", open: mysql, needs: ["mysql"] },
] as const;

for (const { name, kind, open, needs } of places) {
  const skip = needs.map((need) => missing(need)).find((reason) => reason !== false) ?? false;
  describe(`indexes that a later version adds on ${name}`, { skip, timeout: 120_000 }, () => {
    let scratch: ScratchDatabase;
    let url: string;
    let store: Store;
    let session: Session;

    beforeEach(async () => {
      scratch = await scratchDatabase(kind);
      url = needs.length > 1 ? String(scratch.pooledUrl) : scratch.url;
      store = await openStore(url);
      await store.migrate();
      session = await open(scratch.url);
    });
    afterEach(async () => {
      await session.end();
      await store.close();
      await scratch.drop();
    });

    for (const table of ["finished", "ready"]) {
      test(`are built while jobs come and go, and a transaction on '${table}' is open`, async () => {
        const later = await withIndexes(store);
        const other = await openStore(url);
        await session.hold(table);
        const migrated = Promise.all([
          later.migrate(),
          withIndexes(other).then((same) => same.migrate()),
        ]);
        await until("the index waits", () => session.waiting(session.online(table)));
        await runJobs(store);
        assert.ok(
          !(await session.indexed()).includes(table),
          "work went on before the index was there",
        );
        await session.commit();
        const applied = (await migrated).map((one) => one.applied);
        assert.deepEqual(applied.flat(), ["later"], "one of two processes migrates");
        assert.deepEqual((await session.indexed()).toSorted(), ["finished", "ready"]);
        assert.deepEqual((await later.migrate()).applied, []);
        await other.close();
      });

      test(`are built again after the session that built the one on '${table}' was lost`, async () => {
        const later = await withIndexes(store);
        await session.hold(table);
        const lost = assert.rejects(later.migrate());
        await session.stop(
          await until("the index waits", () => session.waiting(session.online(table))),
        );
        await lost;
        await session.commit();
        await assert.rejects(later.checkSchema(), { code: "SCHEMA_TOO_OLD" });
        assert.deepEqual((await later.migrate()).applied, ["later"]);
        assert.deepEqual((await session.indexed()).toSorted(), ["finished", "ready"]);
      });
    }

    test("and a column that it adds holds no claim up while it waits for a transaction", async () => {
      const script = "alter table holdfast.ready add column later integer;";
      const later = await nextVersion(store, script, { online: false });
      await session.hold("ready");
      const migrated = later.migrate();
      await until("the column waits", () => session.waiting("add column"));
      const startedAt = performance.now();
      await runJobs(store);
      const tookMs = performance.now() - startedAt;
      assert.ok(tookMs < TRIES_MS_MAX, `three jobs took ${tookMs} ms`);
      await session.commit();
      assert.deepEqual((await migrated).applied, ["later"]);
    });
  });
}
