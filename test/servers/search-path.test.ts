/**
 * PostgreSQL looks first in a schema with the name of the user. A user called as our schema is warned of that, because the
 * application's own tables seem to disappear.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Client, Pool } from "pg";
import { Doctor } from "../../src/app/ops.ts";
import { openHoldfast } from "../../src/index.ts";
import { openStore } from "../../src/app/store.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missingPrograms, startPostgres, type GuardedServer } from "../support/servers.ts";
import { keepLog } from "../worker/observe.ts";

const PASSWORD = "of-the-test";

const CHECKS = ["schema-before-public", "foreign-table"];

describe("a user of PostgreSQL", { timeout: 60_000, skip: missingPrograms("postgres") }, () => {
  let server: GuardedServer;
  let databases = 0;
  before(async () => {
    server = await startPostgres();
    await asked(server.url, `create role holdfast login password '${PASSWORD}'`);
  });
  after(async () => server?.[Symbol.asyncDispose]());

  /** A database of its own, whose owner has this name. */
  async function ownedBy(role: string): Promise<string> {
    databases += 1;
    await asked(server.url, `create database search_${databases} owner ${role}`);
    const url = new URL(server.url);
    url.pathname = `/search_${databases}`;
    await asked(url.href, `grant all on schema public to ${role}`);
    url.username = role;
    if (role === "holdfast") url.password = PASSWORD;
    return url.href;
  }

  /** As an application does when it starts. */
  async function startShop(url: string): Promise<{ orders: number; warnings: string[] }> {
    await using pool = new EndingPool({ connectionString: url });
    await pool.query("create table if not exists orders (id text primary key)");
    await pool.query("insert into orders values (gen_random_uuid()::text)");
    const { rowCount } = await pool.query("select from orders");
    return { orders: rowCount ?? 0, warnings: await warningsOf(url) };
  }

  test("with the name of the schema loses sight of its tables, and is told so", async () => {
    const url = await ownedBy("holdfast");
    const first = await startShop(url);
    const second = await startShop(url);
    assert.deepEqual([first.orders, second.orders], [1, 1], "the fault that the warning is about");
    const told =
      /schema 'holdfast' .* first in the search_path of user 'holdfast'.*alter role "holdfast" set search_path = public/;
    for (const { warnings } of [first, second]) {
      assert.equal(warnings.length, 1);
      assert.match(warnings[0] ?? "", told);
    }
    assert.doesNotMatch(first.warnings[0] ?? "", /tables of others/);
    assert.match(second.warnings[0] ?? "", /contains tables of others: holdfast\.orders\./);
    assert.deepEqual(await found(url), [
      "schema-before-public: user holdfast",
      "foreign-table: table holdfast.orders",
    ]);
    await asked(url, "alter role holdfast set search_path = public");
    assert.deepEqual(await found(url), ["foreign-table: table holdfast.orders"]);
    await asked(url, "insert into public.orders select * from holdfast.orders");
    await asked(url, "drop table holdfast.orders");
    assert.deepEqual(await startShop(url), { orders: 3, warnings: [] });
    assert.deepEqual(await found(url), []);
    await asked(url, "alter role holdfast reset search_path");
  });

  test("with another name, or another schema, keeps its tables, and is not warned", async () => {
    const url = await ownedBy("app");
    for (const orders of [1, 2]) assert.deepEqual(await startShop(url), { orders, warnings: [] });
    assert.deepEqual(await found(url), []);
    const elsewhere = await ownedBy("holdfast");
    assert.deepEqual(await warningsOf(elsewhere, { schema: "jobs" }), []);
  });

  test("that sets the search_path itself is warned only if our schema hides 'public'", async () => {
    for (const [path, warned] of [
      ["holdfast, public", true],
      ["holdfast", true],
      ["other, holdfast, public", true],
      ["public, holdfast", false],
      ["other, holdfast", false],
    ] as const) {
      const url = await ownedBy("app");
      await asked(url, "create schema other");
      const name = new URL(url).pathname.slice(1);
      await asked(url, `alter database ${name} set search_path = ${path}`);
      const warnings = await warningsOf(url);
      assert.equal(warnings.length, warned ? 1 : 0, path);
    }
  });

  test("without a logger is warned by the process", async () => {
    const url = await ownedBy("holdfast");
    const heard = Promise.withResolvers<Error>();
    process.once("warning", heard.resolve);
    await (await openHoldfast(url)).close();
    const { name, message } = await heard.promise;
    assert.equal(name, "HoldfastWarning");
    assert.match(message, /first in the search_path/);
  });

  test("is not warned of tables that a newer version made, nor of weeks and views", async () => {
    const url = await ownedBy("app");
    const store = await openStore(url);
    await store.migrate();
    await store.close();
    await asked(url, "create view holdfast.mine as select 1 as one");
    assert.deepEqual(await warningsOf(url), []);
    await asked(url, "create table holdfast.from_the_future (id text)");
    assert.equal((await warningsOf(url)).length, 1);
    await asked(url, "insert into holdfast.migration values (9999, 'future', 0, 0)");
    assert.deepEqual(await warningsOf(url), []);
    assert.deepEqual(await found(url), []);
  });
});

class EndingPool extends Pool implements AsyncDisposable {
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end();
  }
}

async function asked(url: string, text: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

async function warningsOf(url: string, options: { schema?: string } = {}): Promise<string[]> {
  const { logger, lines } = keepLog();
  await (await openHoldfast(url, { ...options, logger })).close();
  return lines.flatMap(({ level, message }) => (level === "warn" ? [message] : []));
}

/** What the doctor finds: each check, with the first row. */
async function found(url: string): Promise<string[]> {
  await using holdfast = await openHoldfast(url, { logger: keepLog().logger });
  const { findings } = await new Doctor(holdfast).examine({ checks: CHECKS });
  return findings.map(({ check, offenders }) => `${check}: ${offenders[0]?.subject}`);
}

after(assertNothingRuns);
