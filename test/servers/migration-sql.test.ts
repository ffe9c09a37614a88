/** The SQL of `holdfast migrate --dry-run` makes the same tables when others apply it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { after, describe, test } from "node:test";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { openStore } from "../../src/app/store.ts";
import type { MigrationPlan } from "../../src/database/engine.ts";
import { engines, sampledEngines, type EngineUnderTest } from "../registry/places.ts";
import { done, settleOne, startOne } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing } from "../support/servers.ts";

after(assertNothingRuns);

/** How an operator starts the shell. */
function shellOf(url: string): [command: string, ...args: string[]] {
  if (url.startsWith("sqlite:")) return ["sqlite3", "-bail", url.slice("sqlite:".length)];
  const { protocol, hostname, port, username, pathname } = new URL(url);
  if (protocol === "postgres:") return ["psql", "-1", "-v", "ON_ERROR_STOP=1", "-q", url];
  const server = [`--host=${hostname}`, `--port=${port}`, `--user=${username}`];
  return ["mysql", ...server, pathname.slice(1)];
}

/** Null: it is not installed. */
function throughShell(url: string, script: string): true | null {
  const [command, ...args] = shellOf(url);
  const password = url.startsWith("sqlite:") ? "" : decodeURIComponent(new URL(url).password);
  const env = { ...process.env, MYSQL_PWD: password };
  const { error, status, stderr } = spawnSync(command, args, { input: script, env });
  if (error !== undefined && "code" in error && error.code === "ENOENT") return null;
  assert.deepEqual([status, String(stderr)], [0, ""]);
  return true;
}

async function throughDriver(url: string, script: string): Promise<void> {
  if (url.startsWith("postgres")) {
    const client = new Client(url);
    await client.connect();
    await client.query(script).finally(() => void client.end());
  } else if (url.startsWith("mysql")) {
    await using connection = await createConnection({ uri: url, multipleStatements: true });
    await connection.query(script);
  } else {
    using db = new DatabaseSync(url.replace(/^sqlite:/, ""));
    db.exec(script);
  }
}

/** Nothing is missing, nothing is left to do, and jobs run. */
async function assertComplete(url: string): Promise<void> {
  const store = await openStore(url);
  try {
    const { from, to, applied } = await store.migrate();
    assert.deepEqual([from, applied], [to, []]);
    assert.equal(await store.checks.examine("schema-missing", { limit: 9 }), null);
    assert.equal((await settleOne(store, done(await startOne(store)))).status, "done");
  } finally {
    await store.close();
  }
}

async function planOf(url: string): Promise<MigrationPlan> {
  const store = await openStore(url);
  return store.planMigration().finally(() => void store.close());
}

for (const engine of sampledEngines) {
  describe(engine.name, { skip: engine.skip, timeout: 60_000 }, () => {
    test("its shell makes the tables", async (t) => {
      await using place = await engine.place();
      const { shellSql } = await planOf(place.url);
      if (throughShell(place.url, shellSql) === null) return t.skip("its shell is not installed");
      await assertComplete(place.url);
    });

    test("a plain driver makes the tables", async () => {
      await using place = await engine.place();
      const { from, to, migrations, sql } = await planOf(place.url);
      assert.deepEqual([from, to], [0, migrations.at(-1)?.version]);
      await throughDriver(place.url, sql);
      await assertComplete(place.url);
      const nothing = { from: to, to, migrations: [], sql: "", shellSql: "" };
      assert.deepEqual(await planOf(place.url), nothing);
    });
  });
}

describe("the guide's function for other roles", { skip: missing("postgres") }, () => {
  test("lets a role enqueue one thing, and nothing else", async () => {
    await using place = await (engines[1] as EngineUnderTest).place();
    const store = await openStore(place.url);
    await store.migrate();
    const page = readFileSync(new URL("../../docs/guide/migrations.md", import.meta.url), "utf8");
    const [, block = ""] = /```sql supabase\n(.*?)```/s.exec(page) ?? [];
    // Roles are of the whole server, which others use, too.
    const mark = `holdfast_${process.pid}`;
    const roles = ["anon", "authenticated", "service_role"].map((role) => `${mark}_${role}`);
    const text = block.replaceAll(/\b(anon|authenticated|service_role)\b/g, `${mark}_$1`);
    const client = new Client(place.url);
    await client.connect();
    try {
      for (const role of roles) await client.query(`create role ${role}`);
      await client.query(text);
      const as = async (role: string, query: string): Promise<unknown> => {
        await client.query(`set role ${mark}_${role}`);
        const asked = client.query<{ id: string }>(query);
        return asked.then(({ rows }) => rows[0]?.id).finally(() => void client.query("reset role"));
      };
      const send = "select public.send_welcome('ada@example.com') as id";
      const id = String(await as("service_role", send));
      assert.equal(await as("service_role", send), id, "the key makes it one job");
      const job = await store.jobs.find(id);
      assert.deepEqual([job?.task, job?.payload], ["mail.welcome", '{"to" : "ada@example.com"}']);
      await assert.rejects(as("anon", send), /permission denied/);
      await assert.rejects(
        as("service_role", "select holdfast.enqueue('x') as id"),
        /permission denied/,
      );
    } finally {
      await client.query("drop function if exists public.send_welcome");
      for (const role of roles) await client.query(`drop role if exists ${role}`);
      await client.end();
      await store.close();
    }
  });
});
