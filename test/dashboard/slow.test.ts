/** A database that is slow in the middle of a visit: the page says so, keeps what it had, and recovers by itself. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import mysql from "mysql2/promise";
import { Client } from "pg";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { closeBrowser, TestServer } from "./browser.ts";

/** How long a statement of the page may take here. */
const READ_MS = 400;

/** Locks the audit log until it is called. */
type Held = () => Promise<void>;

async function heldByPostgres(url: string): Promise<Held> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("begin; lock table holdfast.audit in access exclusive mode");
  return () => client.end();
}

async function heldByMysql(url: string): Promise<Held> {
  const client = await mysql.createConnection(url);
  await client.query("lock tables holdfast_audit write");
  return () => client.end();
}

const ENGINES = [
  ["postgres", heldByPostgres],
  ["mysql", heldByMysql],
] as const;

for (const [engine, hold] of ENGINES) {
  const skip = reasonOf(missing("chromium"), missing(engine), notItsTurn(engine));
  describe(`a slow database, ${engine}`, { skip }, () => {
    test("the database stops the statement, the page says so, and recovers when it answers", async () => {
      const database = await scratchDatabase(engine);
      const dashboard = await TestServer.open(database.url, { readMs: READ_MS });
      try {
        const page = await dashboard.page("audit");
        await page.getByText("queue.pause").waitFor();
        // A page reads again when something happens.
        const happen = () => dashboard.holdfast.enqueue("nobody.runs.this", {});
        const release = await hold(database.url);
        try {
          const begunAt = performance.now();
          const response = await fetch(`${dashboard.url}api/v1/audit`);
          const { code, detail } = (await response.json()) as { code: string; detail: string };
          assert.deepEqual([response.status, code], [503, "TOOK_TOO_LONG"]);
          assert.match(detail, /took longer than 0.4 s, so the request was stopped/);
          assert.ok(performance.now() - begunAt < READ_MS * 5, "it was stopped in time");
          await happen();
          await page.getByText(/The database took longer than 0.4 s/).waitFor();
          assert.equal(await page.getByText("queue.pause").count(), 1, "what was there stays");
        } finally {
          await release();
        }
        await happen();
        await page.getByText(/The database took longer/).waitFor({ state: "detached" });
        assert.equal(await page.getByText("queue.pause").count(), 1);
        dashboard.complaints.length = 0; // 503 is logged by the browser.
      } finally {
        await dashboard[Symbol.asyncDispose]();
        await database.drop();
        await closeBrowser();
      }
    });
  });
}
