/**
 * MariaDB reads a table's triggers when it opens the table. A session that is killed in that moment leaves behind a table
 * whose triggers "have an error", and all writes are refused until the table is opened anew.
 */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { createConnection, type Connection } from "mysql2/promise";
import { openStore } from "../../src/app/store.ts";
import { newJob } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { sized } from "../support/scale.ts";
import { missingPrograms, startMariadb } from "../support/servers.ts";
import { adminOf, newDatabase, type Admin } from "./engines.ts";

/** Opens the table as a write does, and leaves nothing behind. */
const TOUCH = `
  start transaction;
  insert into holdfast_ready
         (id, queue, task, \`rank\`, job_key, epoch, attempts, crashes, max_attempts, ready_at, place)
  values (uuid(), 'touched', 'touched', 0, null, 0, 0, 0, 3, 1, 1);
  rollback`;
const SESSIONS = 6;
/** One try of a hundred is in time, and a hundred take a few seconds. */
const TRIES_MS_MAX = sized(10_000, 40_000);

/** Kills sessions that open the table until it is broken. The moment is short: false, if it was never met. */
async function breakTable(url: string, admin: Admin): Promise<boolean> {
  const endAt = performance.now() + TRIES_MS_MAX;
  while (performance.now() < endAt) {
    await admin.rows("flush tables");
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => connect(url)));
    const touches = sessions.map((session) => session.query(TOUCH).catch(() => {}));
    await admin.killSessions();
    await Promise.all(touches);
    for (const session of sessions) session.destroy();
    if (await isBroken(url)) return true;
  }
  return false;
}

async function isBroken(url: string): Promise<boolean> {
  const session = await connect(url);
  try {
    await session.query(TOUCH);
    return false;
  } catch (error) {
    assert.match(String(error), /trigger .*has an error in its body/i);
    return true;
  } finally {
    session.destroy();
  }
}

function connect(url: string): Promise<Connection> {
  return createConnection({ uri: url, multipleStatements: true });
}

const limits = { skip: missingPrograms("mysql"), timeout: 60_000 };

describe("MariaDB", limits, () => {
  test("a table that broke when a session was killed is repaired", async (t) => {
    await using server = await startMariadb();
    const { url, adminUrl } = await newDatabase({ kind: "mysql" }, server);
    const store = await openStore(url);
    try {
      await store.migrate();
      await using admin = await adminOf(adminUrl);
      if (!(await breakTable(url, admin))) return t.skip("the moment was never met");
      assert.ok(await isBroken(url), "it stays broken");
      const job = newJob();
      assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
      assert.equal(await isBroken(url), false);
    } finally {
      await store.close();
    }
  });
});

after(assertNothingRuns);
