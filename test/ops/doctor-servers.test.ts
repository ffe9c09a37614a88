/** What only a server, or only a file, can have: each is brought about for real and found. */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import type { Check, Offender } from "../../src/database/check.ts";
import { Doctor } from "../../src/app/ops.ts";
import { openHoldfast } from "../../src/index.ts";
import { historyList, oldTransaction as oldOnMysql } from "../../src/doctor/mysql.ts";
import {
  deadRows,
  oldTransaction as oldOnPostgres,
  preparedTransaction,
} from "../../src/doctor/postgres.ts";
import { walFile } from "../../src/doctor/sqlite.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { tempFolder } from "../support/folder.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import {
  missing,
  missingPrograms,
  scratchDatabase,
  startPostgres,
  type GuardedServer,
  type ScratchDatabase,
} from "../support/servers.ts";
import { until } from "../worker/observe.ts";
import { assertFound } from "./doctor-database.ts";

const look = { limit: 10, deep: false, sinceAt: null, pushWorks: async () => null };

/** With another limit than the usual one, which takes minutes or gigabytes to reach. */
function found(store: Store, check: Check): Promise<Offender[]> {
  return check.find(store.db.engine, look);
}

const PASSWORD = "clerk";
const TOLD_ANEW_MS = 150;

function asClerk(url: string): string {
  const parsed = new URL(url);
  parsed.username = "clerk";
  parsed.password = PASSWORD;
  return parsed.href;
}

/** Of what the user may not see it is said that it was not seen; everything else is looked at. */
async function assertBlind(url: string, blind: readonly string[]): Promise<void> {
  await using holdfast = await openHoldfast(asClerk(url), { migrate: false });
  const { healthy, checks, findings } = await new Doctor(holdfast).examine();
  assert.equal(healthy, true);
  const failed = checks.filter(({ outcome }) => outcome === "failed").map(({ name }) => name);
  assert.deepEqual(failed, blind);
  for (const finding of findings) {
    assert.match(finding.problem, /^The check could not run: /);
    assert.equal(finding.severity, "info");
  }
  assert.ok(checks.filter(({ outcome }) => outcome === "ok").length > 40);
}

describe("an SQLite file", { timeout: 60_000 }, () => {
  test("a log that is too large is found, and a file that breaks its own rules", async () => {
    using folder = tempFolder();
    const path = folder.file(".db");
    const store = await openStore(`sqlite:${path}`);
    await store.migrate();
    assert.equal(await store.checks.examine("wal-file", { limit: 1 }), null);
    const [large] = await found(store, walFile({ bytesMax: 1_000 }));
    assert.equal(large?.subject, `file ${path}-wal`);
    assert.equal(await store.checks.examine("file-integrity", { limit: 1, deep: true }), null);
    const db = new DatabaseSync(path);
    db.exec("pragma ignore_check_constraints = on");
    db.exec("insert into holdfast_worker_type (name, slots) values ('crowd', 5000)");
    db.close();
    await assertFound(store, "file-integrity", "file");
    await store.close();
  });

  test("a file that other users can read is found", async () => {
    using folder = tempFolder();
    const path = folder.file(".db");
    const store = await openStore(`sqlite:${path}`);
    await store.migrate();
    assert.equal(await store.checks.examine("file-permissions", { limit: 3 }), null);
    chmodSync(path, 0o640);
    await assertFound(store, "file-permissions", `file ${path}`);
    chmodSync(path, 0o600);
    chmodSync(`${path}-wal`, 0o604);
    await assertFound(store, "file-permissions", `file ${path}-wal`);
    await store.close();
  });
});

describe("a PostgreSQL", { timeout: 120_000, skip: missingPrograms("postgres") }, () => {
  let server: GuardedServer;
  let store: Store;
  let other: Client;
  before(async () => {
    const settings = { wal_level: "logical", max_prepared_transactions: "2", autovacuum: "off" };
    server = await startPostgres({ settings });
    store = await openStore(server.url);
    await store.migrate();
    other = new Client({ connectionString: server.url, application_name: "stranger" });
    await other.connect();
  });
  after(async () => {
    await other?.end();
    await store?.close();
    await server?.[Symbol.asyncDispose]();
  });

  test("an autovacuum that is off is found, of the server and of a table", async () => {
    await assertFound(store, "autovacuum-off", "server");
    await other.query("alter table holdfast.lock set (autovacuum_enabled = false)");
    const finding = await store.checks.examine("autovacuum-off", { limit: 5 });
    assert.deepEqual(
      finding?.offenders.map(({ subject }) => subject),
      ["server", "table lock"],
    );
  });

  test("dead rows that are not cleaned up are found", async () => {
    assert.deepEqual(await found(store, deadRows({ most: 10 })), []);
    assert.equal(await store.checks.examine("dead-rows", { limit: 1 }), null);
    await store.jobs.enqueue(Array.from({ length: 50 }, () => newJob()));
    await other.query("delete from holdfast.ready");
    await other.query("select pg_stat_force_next_flush()").catch(() => {}); // before 15 it takes its time
    const dead = await until("the dead rows are counted", async () => {
      const tables = await found(store, deadRows({ most: 10 }));
      return tables.find(({ subject }) => subject === "table ready");
    });
    assert.match(dead.detail, /^has 50 dead rows and 0 live ones$/);
    await other.query("delete from holdfast.job");
  });

  test("a transaction that stays open is found, with whose it is", async () => {
    assert.equal(await store.checks.examine("old-transaction", { limit: 1 }), null);
    await other.query("begin");
    const { rows } = await other.query<{ pid: number }>("select pg_backend_pid() as pid");
    const sessions = await found(store, oldOnPostgres({ openMsMax: 0 }));
    await other.query("rollback");
    const session = sessions.find(({ subject }) => subject === `session ${rows[0]?.pid}`);
    assert.match(
      session?.detail ?? "",
      /^of app \(stranger\) is idle in transaction and has been in a transaction for /,
    );
  });

  test("a transaction that was prepared and forgotten is found", async () => {
    await other.query(
      "begin; update holdfast.audit_head set seq = seq; prepare transaction 'left'",
    );
    assert.equal(await store.checks.examine("prepared-transaction", { limit: 1 }), null);
    const [prepared] = await found(store, preparedTransaction({ openMsMax: 0 }));
    await other.query("rollback prepared 'left'");
    assert.equal(prepared?.subject, "prepared transaction left");
  });

  test("an unused replication slot is found", async () => {
    assert.equal(await store.checks.examine("replication-slot", { limit: 1 }), null);
    await other.query("select pg_create_logical_replication_slot('left', 'test_decoding')");
    await assertFound(store, "replication-slot", "slot left");
    await other.query("select pg_drop_replication_slot('left')");
  });

  test("a user that cannot see other sessions gets an info, and the other checks run", async () => {
    await other.query("alter system set autovacuum = on");
    await other.query("select pg_reload_conf()");
    await other.query("alter table holdfast.lock reset (autovacuum_enabled)");
    await other.query(`
      create role clerk login password '${PASSWORD}';
      grant usage on schema holdfast to clerk;
      grant select on all tables in schema holdfast to clerk`);
    // The setting was given with the server's start, where it stays; so the finding is left out by asking for the rest.
    await using holdfast = await openHoldfast(asClerk(server.url), { migrate: false });
    const doctor = new Doctor(holdfast);
    const names = (await doctor.checks()).map(({ name }) => name);
    const rest = names.filter((name) => name !== "autovacuum-off");
    const { healthy, checks, findings } = await doctor.examine({ checks: rest });
    const failed = checks.filter(({ outcome }) => outcome === "failed").map(({ name }) => name);
    assert.deepEqual([healthy, failed], [true, ["old-transaction"]]);
    assert.match(findings[0]?.problem ?? "", /^The check could not run: .*pg_read_all_stats/);
  });
});

describe("a MariaDB", { timeout: 120_000, skip: missing("mysql") }, () => {
  let database: ScratchDatabase;
  let store: Store;
  before(async () => {
    database = await scratchDatabase("mysql");
    store = await openStore(database.url);
    await store.migrate();
  });
  after(async () => {
    await store?.close();
    await database?.drop();
  });

  test("a transaction that stays open is found, and the old versions that it keeps", async () => {
    assert.equal(await store.checks.examine("old-transaction", { limit: 1 }), null);
    assert.equal(await store.checks.examine("history-list", { limit: 1 }), null);
    const other = await createConnection(database.url);
    await other.query("start transaction with consistent snapshot");
    await other.query("select * from holdfast_audit_head for update");
    // For a tenth of a second after a query, the server gives the same answer again.
    await until("the transaction is found", async () => {
      await pause(TOLD_ANEW_MS);
      const sessions = await found(store, oldOnMysql({ openMsMax: 0 }));
      return sessions.some(({ subject }) => subject === `session ${other.threadId}`);
    });
    const history = await until("the old versions are counted", async () => {
      for (let heartbeat = 0; heartbeat < 20; heartbeat += 1)
        await store.workers.noteEnqueuer("abc1234");
      return (await found(store, historyList({ most: 10 })))[0];
    });
    assert.equal(history.subject, "server");
    await other.end();
  });

  test("a user that cannot see other transactions gets an info, and the other checks run", async () => {
    const { pathname } = new URL(database.url);
    const other = await createConnection(database.url);
    await other.query(`create or replace user clerk@'%' identified by '${PASSWORD}'`);
    await other.query(`grant select on \`${pathname.slice(1)}\`.* to clerk@'%'`);
    await assertBlind(database.url, ["schema-missing", "old-transaction", "history-list"]);
    await other.query("drop user clerk@'%'");
    await other.end();
  });
});

after(assertNothingRuns);
