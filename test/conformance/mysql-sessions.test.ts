/** What only MySQL and MariaDB can get wrong: how rows are found and locked, and what becomes of sessions. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import type { Engine } from "../../src/database/engine.ts";
import { openStore, storeOn, type Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { MysqlEngine } from "../../src/database/mysql/engine.ts";
import { mysqlAddress } from "../../src/database/mysql/address.ts";
import { deletion } from "../../src/database/mysql/transaction.ts";
import { statements } from "../../src/jobs/mysql-statements.ts";
import { statementsFor } from "../../src/jobs/statements.ts";
import { fill, jsonList, list, RawSql } from "../../src/database/mysql/session.ts";
import {
  done,
  enqueueOne,
  fenceOf,
  idsOf,
  newJob,
  nextId,
  startOne,
  upTo,
} from "../support/jobs.ts";
import { testRuntime } from "../support/runtime.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";

const limits = { timeout: 60_000, skip: missing("mysql") };

let database: ScratchDatabase;
let admin: Connection;
const opened: Store[] = [];

before(async () => {
  if (limits.skip !== false) return;
  database = await scratchDatabase("mysql");
  admin = await createConnection({ uri: database.url, multipleStatements: true });
  await admin.query("set session sql_mode = 'ANSI_QUOTES'");
  // MySQL 9 draws a tree unless it is told otherwise; the others know nothing else.
  await admin.query("set session explain_format = 'TRADITIONAL'").catch(() => {});
  await (await open()).migrate();
  // Of a key that is not there a plan says nothing.
  await admin.query(`
    insert into holdfast_worker_type (name) values ('worker');
    insert into holdfast_worker (id, type, instance, status, hostname, pid, version, node_version, platform, arch,
                                 queues, tasks, concurrency, started_at, heartbeat_at)
    values ('worker-1', 'worker', 1, 'running', 'h', 1, 'v', 'v', 'p', 'a', '[]', '[]', 1, 1, 1)`);
});
afterEach(async () => {
  await admin?.query("rollback");
  for (const store of opened.splice(0)) await store.close();
});
after(async () => {
  await admin?.end();
  await database?.drop();
});

async function open(): Promise<Store> {
  const engine = await MysqlEngine.open({ ...mysqlAddress(database.url), runtime: testRuntime() });
  const store = await storeOn(engine);
  opened.push(store);
  return store;
}

/** The server's list of transactions is not renewed while it is queried more than ten times a second. */
const LOOK_EVERY_MS = 120;

/** The sessions of the store, and whether one of them waits for a lock. */
async function sessions(): Promise<{ ids: number[]; waits: boolean }> {
  await pause(LOOK_EVERY_MS);
  const [rows] = await admin.query<(RowDataPacket & { id: number; state: string | null })[]>(`
    select p.id as id, t.trx_state as state
      from information_schema.processlist p
      left join information_schema.innodb_trx t on t.trx_mysql_thread_id = p.id
     where p.db = database() and p.id <> connection_id()`);
  return { ids: rows.map(({ id }) => id), waits: rows.some(({ state }) => state === "LOCK WAIT") };
}

describe("a hot statement", limits, () => {
  const ids = Array.from({ length: 300 }, () => nextId());
  const ofTask = new RawSql("and task in ('mail.send')");
  const keys = new RawSql("k.task = 'a' and k.job_key = 'b' or k.task = 'a' and k.job_key = 'c'");
  const examples: Record<string, string> = {
    findJobs: fill(statements.findJobs, jsonList(ids)),
    findKeys: fill(statements.findKeys, keys),
    lockKeys: fill(statements.lockKeys, keys),
    findKept: fill(statements.findKept, keys),
    deleteKeys: fill(statements.deleteKeys, jsonList(ids)),
    guard: fill(statements.guard, "worker-1"),
    anyPending: fill(statements.anyPending, "mail", ofTask),
    peek: fill(statements.peek, "mail", ofTask, 500),
    lockReady: fill(statements.lockReady, "mail", ofTask, 500),
    lockLane: fill(statements.lockLane, "mail", "lane", 1, ofTask, 50),
    governed: fill(statements.governed, list(["mail", "post"])),
    copyToLease: fill(statements.copyToLease, "w", 1, 1, 1, 1, jsonList(ids)),
    copyLanesToLease: fill(statements.copyLanesToLease, "w", 1, 1, 1, 1, jsonList(ids)),
    deleteDeadlines: fill(statements.deleteDeadlines, jsonList(ids)),
    deleteReady: fill(statements.deleteReady, jsonList(ids)),
    readJobs: fill(statements.readJobs, jsonList(ids)),
    lockLeases: fill(statements.lockLeases, jsonList(ids)),
    countLeases: fill(statements.countLeases, jsonList(ids), "w", 1),
    copyToFinished: fill(statements.copyToFinished, 1, jsonList(ids)),
    deleteLanes: fill(statements.deleteLanes, jsonList(ids)),
    deleteLeases: fill(statements.deleteLeases, jsonList(ids)),
    lockFreeLeases: fill(statements.lockFreeLeases, jsonList(ids)),
    seeLeases: fill(statements.seeLeases, jsonList(ids)),
    extendLeases: fill(statements.extendLeases, 1, 1, list(ids)),
    takeWaiting: deletion("waiting", ids),
    takeFinished: deletion("finished", ids),
  };

  test("is among those that these tests check, unless it only inserts", () => {
    const taken = ["takeWaiting", "takeFinished"]; // by the shared transaction
    const others = Object.keys(statements).filter((name) => !name.startsWith("insert"));
    assert.deepEqual([...others, ...taken].toSorted(), Object.keys(examples).toSorted());
  });

  const tables = ["holdfast_", "j", "k", "r", "l", "t", "e", "d"];
  for (const [name, text] of Object.entries(examples)) {
    test(`${name} finds its rows by an index, however few the server believes there are`, async () => {
      const [plan] = await admin.query<RowDataPacket[]>(`explain ${text}`);
      const ours = plan.filter(({ table }) => {
        const inserted = name.startsWith("copy") && String(table).startsWith("holdfast_");
        return tables.some((prefix) => String(table).startsWith(prefix)) && !inserted;
      });
      assert.ok(ours.length > 0);
      for (const { table, type } of ours) {
        assert.match(String(type), /^(const|eq_ref|ref|range)$/, `${table} is read by ${type}`);
      }
    });
  }
});

test(
  "the next lanes are found by one look each, however old the statistics are",
  limits,
  async () => {
    const store = await open();
    const lanes = Array.from({ length: 30 }, (_, at) => `lane ${String(at).padStart(2, "0")}`);
    const jobs = lanes.flatMap((lane) =>
      Array.from({ length: 100 }, () => newJob({ queue: "lanes", lane })),
    );
    await store.jobs.enqueue(jobs);
    const { engine } = store.db;
    const reads = sql`show session status like 'Handler_read_next'`;
    for (const lane of [null, "lane 03"]) {
      const { steps, rows } = engine.dialect.lanes("lanes", lane, 10);
      const answers = await engine.transaction((tx) => tx.allOf([reads, ...steps, rows, reads]));
      const from = lane === null ? 0 : 4;
      assert.deepEqual(
        answers.at(-2),
        lanes.slice(from, from + 10).map((name) => ({ lane: name })),
      );
      assert.deepEqual(answers.at(-1), answers[0]);
    }
    const { steps, rows } = engine.dialect.lanes("lanes", "lane 27", 10);
    const [last] = (await engine.transaction((tx) => tx.allOf([...steps, rows]))).slice(-1);
    assert.deepEqual(last, [{ lane: "lane 28" }, { lane: "lane 29" }]);
  },
);

describe("a lease", limits, () => {
  test("that another session locks for a moment is extended and not lost", async () => {
    const store = await open();
    const claimed = [await startOne(store), await startOne(store)];
    await admin.query("start transaction");
    await admin.query("select * from holdfast_lease where id = ? for update", [claimed[0]?.id]);
    const extending = store.jobs.extend(claimed, 90_000);
    await until("the extension waits", async () => (await sessions()).waits);
    await admin.query("commit");
    assert.deepEqual(idsOf(await extending).toSorted(), idsOf(claimed).toSorted());
    await store.jobs.settle(claimed.map((job) => done(job)));
  });

  test("that was settled while its extension waited is lost", async () => {
    const [store, other] = [await open(), await open()];
    const claimed = await startOne(store);
    await admin.query("start transaction");
    await admin.query("select * from holdfast_lease where id = ? for update", [claimed.id]);
    const settling = other.jobs.settle([done(claimed)]);
    await until("the settlement waits", async () => (await sessions()).waits);
    const extending = store.jobs.extend([fenceOf(claimed)], 90_000);
    await admin.query("commit");
    assert.equal((await settling).length, 1);
    assert.ok((await extending).length <= 1);
    assert.deepEqual(await store.jobs.extend([claimed], 90_000), []);
  });
});

describe("a claim of several queues", limits, () => {
  test("does not lock a job that it does not claim", async () => {
    const store = await open();
    for (const queue of ["a", "a", "b", "b"]) await enqueueOne(store, { queue });
    const statementsHere = await statementsFor(store.db.engine);
    // Inside its own transaction no other session sees it; so two claims at once share the jobs between them.
    const wanted = { ...upTo(2, { queues: ["a", "b"] }), claimId: 1 };
    const turns = await Promise.all([
      statementsHere.settleAndClaim([], wanted),
      statementsHere.settleAndClaim([], { ...wanted, worker: "worker-b" }),
    ]);
    const claimed = turns.flatMap((turn) => turn.claimed);
    assert.equal(claimed.length, 4);
    assert.equal(new Set(idsOf(claimed)).size, 4);
    await store.jobs.settle(claimed.map((job) => done(job)));
  });
});

describe("a session", limits, () => {
  test("that was killed while idle is replaced", async () => {
    const store = await open();
    await Promise.all(Array.from({ length: 5 }, () => store.jobs.stats()));
    await enqueueOne(store);
    const { ids } = await sessions();
    assert.ok(ids.length >= 5);
    for (const id of ids) await admin.query(`kill ${id}`);
    await Promise.all(Array.from({ length: 5 }, () => store.jobs.stats()));
    const [job] = await store.jobs.claim(upTo(1));
    await store.jobs.settle([done(job!)]);
  });

  test("that is killed before it commits costs nothing: its transaction is run again", async () => {
    const store = await open();
    const job = newJob();
    await admin.query("start transaction");
    await admin.query("insert into holdfast_job_key values (?, 'k', ?)", [job.task, nextId()]);
    const enqueueing = store.jobs.enqueue([{ ...job, key: "k" }]);
    await until("it waits for the key", async () => (await sessions()).waits);
    for (const id of (await sessions()).ids) await admin.query(`kill ${id}`);
    await admin.query("rollback");
    assert.deepEqual(await enqueueing, [{ id: job.id, added: true }]);
    assert.equal(await store.jobs.cancel(job.id), "cancelled");
  });

  test("is set up our way, whatever the server's defaults are", async () => {
    const { engine } = (await open()).db;
    const names = ["time_zone", "autocommit", "character_set_client", "sql_mode", "tx_isolation"];
    const rows = await engine.all<{ name: string; value: string }>(sql`
      select lower(variable_name) as name, variable_value as value
        from ${VARIABLES[flavour(engine)]}
       where ${engine.among(sql`variable_name`, [...names, "transaction_isolation"])}`);
    const set = new Map(rows.map(({ name, value }) => [name, value]));
    const isolation = set.get("transaction_isolation") ?? set.get("tx_isolation");
    assert.deepEqual(
      [set.get("time_zone"), set.get("autocommit"), set.get("character_set_client"), isolation],
      ["+00:00", "ON", "utf8mb4", "READ-COMMITTED"],
    );
    const modes = set.get("sql_mode")?.split(",").toSorted();
    assert.deepEqual(modes, ["ANSI_QUOTES", "NO_ENGINE_SUBSTITUTION", "STRICT_ALL_TABLES"]);
  });
});

const VARIABLES = {
  mariadb: sql`information_schema.session_variables`,
  mysql: sql`performance_schema.session_variables`,
};

/** The migrations are made for the server that was found. */
function flavour({ migrations }: Engine): keyof typeof VARIABLES {
  return migrations[0]?.script.includes("utf8mb4_nopad_bin") === true ? "mariadb" : "mysql";
}

describe("a database that cannot be opened", limits, () => {
  const changed = (change: (url: URL) => void): string => {
    const url = new URL(database.url);
    change(url);
    return url.href;
  };
  const reasons: Record<string, { url: () => string; says: RegExp }> = {
    "for want of the right password": {
      url: () => changed((url) => void (url.password = "wr0ng")),
      says: /refused the user or the password\. Check both/,
    },
    "because it does not exist": {
      url: () => changed((url) => void (url.pathname = "/nowhere")),
      says: /\/nowhere does not exist\. Create it/,
    },
    "because no server listens": {
      url: () => changed((url) => void (url.port = "1")),
      says: /No server is listening at mysql:\/\/.*:1\/.*Start the server/,
    },
    "because the host has no name": {
      url: () => changed((url) => void (url.hostname = "nowhere.invalid")),
      says: /host of mysql:\/\/nowhere\.invalid.* cannot be resolved/,
    },
  };
  for (const [why, { url, says }] of Object.entries(reasons)) {
    test(`${why} is unavailable, and says what to do`, async () => {
      await assert.rejects(openStore(url()), (error) => {
        assert.ok(error instanceof StoreUnavailableError);
        assert.match(error.message, says);
        const { password, username } = new URL(url());
        for (const secret of [password, `${username}:`]) assert.ok(!error.message.includes(secret));
        return true;
      });
    });
  }
});
