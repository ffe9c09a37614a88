/** A lock does not wait for the disk, where the database lets it; whatever else is written waits as ever. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, describe, test } from "node:test";
import { Client } from "pg";
import { LockNotAcquiredError } from "../../src/locks/index.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { onFile } from "./places.ts";

const FULL = 2;
const NORMAL = 1;

/** The very connection that a store writes with. */
async function connectionOf({ db: { engine } }: Store): Promise<DatabaseSync> {
  const taken = await engine.userTransaction(
    async ({ client }) => client,
    async () => {},
  );
  return taken as DatabaseSync;
}

function levelOf(connection: DatabaseSync): unknown {
  return connection.prepare("pragma synchronous").get()?.["synchronous"];
}

test("on SQLite, commits after a lock wait for the disk again", async () => {
  await using site = await onFile({ locks: "sql" });
  const { locks, store } = await site.open();
  const { engine } = store.db;
  const connection = await connectionOf(store);
  const levels: unknown[] = [];
  const look = async (): Promise<void> => void levels.push(levelOf(connection));
  for (let round = 0; round < 2; round += 1) {
    await locks.with("order:42", {}, look);
    await engine.transaction(look);
    await locks.with("order:42", {}, () => {});
    await store.jobs.enqueue([newJob()]);
    await look(); // as it was written
  }
  assert.deepEqual(levels, [NORMAL, FULL, FULL, NORMAL, FULL, FULL]);
});

test("on SQLite, a lock that finds the database locked changes nothing for others", async () => {
  await using site = await onFile({ locks: "sql" });
  const { locks, store } = await site.open();
  const connection = await connectionOf(store);
  const other = new DatabaseSync(site.url.slice("sqlite:".length));
  other.exec("begin immediate");
  await assert.rejects(locks.acquire("order:42", { wait: 0 }), LockNotAcquiredError);
  other.exec("commit");
  other.close();
  await store.jobs.enqueue([newJob()]);
  assert.equal(levelOf(connection), FULL);
});

describe("on PostgreSQL", { skip: missing("postgres"), timeout: 30_000 }, () => {
  test("the setting is part of the statement, and applies only to its own transaction", async () => {
    await using database = await scratchDatabase("postgres");
    const admin = new Client({ connectionString: database.url });
    await admin.connect();
    // The servers of the tests need not wait; here it has to be seen who does.
    await admin.query(
      `alter database "${new URL(database.url).pathname.slice(1)}" set synchronous_commit = on`,
    );
    await admin.end();
    for (const url of [database.url, database.pooledUrl]) {
      if (url !== null) assert.deepEqual(await settingsOn(url), ["off", "on", "off", "on", "on"]);
    }
  });
});

/** How each of some writes would be committed. */
async function settingsOn(url: string): Promise<unknown[]> {
  const store = await openStore(url);
  try {
    await store.migrate();
    const { engine } = store.db;
    const returning = sql`current_setting('synchronous_commit') as setting`;
    const put = {
      table: sql`holdfast.enqueuer`,
      columns: ["version", "first_at", "last_at"],
      values: sql`'1', 1, 1`,
      key: ["version"],
      set: sql`last_at = 2`,
      where: sql`was.version = '1'`,
      returning,
    };
    const { table, set } = put;
    const change = { table, set, where: sql`version = '1'`, returning };
    const rows = [
      await engine.put({ ...put, durable: false }),
      await engine.put(put),
      await engine.change({ ...change, durable: false }),
      await engine.change(change),
      await engine.all(sql`select ${returning}`),
    ];
    return rows.map(([row]) => (row as { setting: string }).setting);
  } finally {
    await store.close();
  }
}

after(assertNothingRuns);
