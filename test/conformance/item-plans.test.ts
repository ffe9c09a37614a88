/**
 * How every database finds items, with tens of thousands of them: by an index that has them in the order they are wanted in, also where
 * what is asked for is rare and old, so that walking from the newest would read them all.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import mysql from "mysql2";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { Client } from "pg";
import { openStore, type Store } from "../../src/app/store.ts";
import { beginWith, startOptions } from "../../src/database/postgres/session.ts";
import { Sql, sql } from "../../src/database/sql.ts";
import type { ItemFilter } from "../../src/workflows/item-record.ts";
import { changeItem, lines, orders, pay, startItem } from "../support/items.ts";
import { nextId } from "../support/jobs.ts";
import { AT, fill, idOf } from "../support/many-items.ts";
import { ROWS } from "../support/many-rows.ts";
import { isLong } from "../support/scale.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { listenToSqliteTexts, listenToTexts } from "../support/sql-texts.ts";

const limits = { timeout: 180_000 };

/** What can be asked for, and the index that has it; the names of MySQL are without `item_`. */
const lists: readonly [filter: Partial<ItemFilter>, ...indexes: string[]][] = [
  [{}, "item_list"],
  [{ status: "shipped" }, "item_list_status"],
  [{ tenant: "rare" }, "item_list_tenant", "item_list_tenant_status"],
  // Of few rows, PostgreSQL finds those of a status as cheap.
  [
    { tenant: "default", status: "shipped" },
    "item_list_tenant_status",
    ...(isLong ? [] : ["item_list_status"]),
  ],
  [{ identifier: "item 7" }, "item_identifier"],
  [{ identifier: "item 7", tenant: "default" }, "item_identifier"],
  [{ identifier: "item 7", tenant: "default", status: "open" }, "item_identifier"],
  [{ workflow: "line", parent: idOf(0) }, "item_children"],
  [{ workflow: "line", parent: idOf(0), status: "new" }, "item_children", "item_parent"],
  [{ workflow: "line", parent: idOf(0), tenant: "default" }, "item_children"],
];

/** What people ask by hand, with the index that is there for it. Of an id, the primary key does as well. */
const byHand: readonly [where: string, ...indexes: string[]][] = [
  [`parent_id = '${idOf(0)}' and status = 'new' and updated_at < ${AT}`, "item_parent"],
  ["identifier = 'item 7' and tenant = 'default' and status = 'open'", "item_identifier"],
  [`id = '${idOf(7)}' and status = 'new'`, "item_status", "item_pkey"],
];

/** Whatever else looks for items. */
const verbs: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  "finding an item": (store) => store.items.find(idOf(7)),
  "its history": (store) => store.items.history({ item: idOf(7), after: 0, limit: 100 }),
  "its progress": (store) => store.items.progressOf(idOf(8)),
  "its jobs": (store) => store.items.jobsOf(idOf(7)),
  "all items in turn": (store) => store.items.after(idOf(ROWS / 2), 100),
  "what is due": (store) => store.items.due({ workflows: ["order", "line"], limit: 100 }),
  "postponing what is due": (store) =>
    store.items.postpone(
      { item: idOf(7), workflow: "line", reason: "limit", enteredAt: AT, dueAt: 1 },
      1,
    ),
  "what is kept no longer": (store) => store.items.prune(1),
  "starting and changing a child": async (store) => {
    const parent = await store.items.find(idOf(4_000));
    assert.ok(parent !== null);
    const child = await startItem(store, { workflow: "line", parent, limitMs: 5 });
    await changeItem(store, child, { move: "pack", to: "packed" });
    await store.items.change({
      id: nextId(),
      items: [child.id],
      decide: async (seen) => {
        await seen.progress(parent.id);
        return [];
      },
    });
    await changeItem(store, parent, pay);
  },
};

async function declare(store: Store): Promise<void> {
  await store.migrate();
  await store.items.declare(orders({ keepMs: 0 }));
  await store.items.declare(lines());
}

function list(store: Store, filter: Partial<ItemFilter>): Promise<unknown> {
  return store.items.list({ workflow: "order", limit: 50, ...filter });
}

function words(filter: object): string {
  return Object.keys(filter).join(", ") || "workflow alone";
}

/** Every question once from the newest, once from the middle. */
const questions = lists.flatMap(([filter, ...indexes]) =>
  [filter, { ...filter, before: idOf(ROWS / 2) }].map((asked) => ({ asked, indexes })),
);

describe("plans of items on SQLite", limits, () => {
  let store: Store;

  before(async () => {
    store = await openStore("sqlite::memory:");
    await declare(store);
    // An index that is made when the rows are there takes less.
    const parts = await store.db.engine.all<{ type: string; name: string; text: string }>(sql`
      select type, name, sql as text
        from sqlite_schema
       where type in ('trigger', 'index') and name like 'holdfast_item%' and sql is not null
       order by type, name`);
    const id = (n: string): string => `printf('%08x-aaaa-7000-8000-%012x', ${n}, ${n})`;
    await store.db.engine.transaction(async (tx) => {
      for (const { type, name } of parts) await tx.script(`drop ${type} ${name}`);
      const texts = fill((table) => `holdfast_${table}`, id);
      for (const text of texts) await tx.script(text);
      for (const { text } of parts) await tx.script(text);
    });
  });
  after(() => store?.close());

  async function plansOf(texts: readonly string[]): Promise<string[]> {
    const details: string[] = [];
    for (const text of texts) {
      const plan = new Sql([`explain query plan ${text}`], []);
      const rows = await store.db.engine.all<{ detail: string }>(plan);
      details.push(...rows.map(({ detail }) => detail));
    }
    return details;
  }

  for (const { asked, indexes } of questions) {
    test(`a list by ${words(asked)} goes by its index`, async () => {
      const listening = listenToSqliteTexts();
      await list(store, asked);
      const plan = await plansOf(listening.stop());
      assert.ok(
        indexes.some((index) => plan.some((line) => line.includes(`INDEX holdfast_${index} `))),
        plan.join("\n"),
      );
      assert.deepEqual(
        plan.filter((line) => line.startsWith("SCAN")),
        [],
      );
    });
  }

  for (const [name, run] of Object.entries(verbs)) {
    test(`${name}: every table is searched, and none read`, async () => {
      const listening = listenToSqliteTexts();
      await run(store);
      const scans = (await plansOf(listening.stop())).filter(
        (line) => /^SCAN (i|t|top|holdfast_item)/.test(line) && !line.includes("json_each"),
      );
      assert.deepEqual(scans, []);
    });
  }

  test("items are found by parent, status and time; by identifier, tenant and status; by id and status", async () => {
    for (const [where, ...indexes] of byHand) {
      const [line] = await plansOf([`select status from holdfast_item where ${where}`]);
      const names = indexes.map((index) => SQLITE_NAMES[index] ?? `holdfast_${index}`);
      assert.ok(
        names.some((index) => line?.includes(`INDEX ${index} `)),
        line,
      );
    }
  });

  test("this test notices a list that reads all items", async () => {
    const [line] = await plansOf([
      "select * from holdfast_item where tenant = 'rare' order by id desc",
    ]);
    assert.match(String(line), /^SCAN/);
  });
});

const SQLITE_NAMES: Readonly<Record<string, string>> = {
  item_pkey: "sqlite_autoindex_holdfast_item_1",
};

/** Those that no constraint needs: made when the rows are there, they take less. */
const INDEXES = `
  select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as text
    from pg_index
   where indrelid in ('holdfast.item'::regclass, 'holdfast.item_due'::regclass)
     and not exists (select from pg_constraint where conindid = indexrelid)`;

describe("plans of items on PostgreSQL", { ...limits, skip: missing("postgres") }, () => {
  let database: ScratchDatabase;
  let store: Store;

  before(async () => {
    database = await scratchDatabase("postgres");
    store = await openStore(database.url);
    await declare(store);
    const client = await connect("");
    const { rows: indexes } = await client.query<{ name: string; text: string }>(INDEXES);
    const id = (n: string): string => `pg_temp.id((${n})::int)`;
    const filled = ["item", "item_audit", "item_due", "item_job", "item_progress"];
    const tables = filled.map((table) => `alter table holdfast.${table}`);
    const texts = [
      `create function pg_temp.id(n int) returns uuid language sql immutable as $$
         select (lpad(to_hex(n), 8, '0') || '-aaaa-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$`,
      ...tables.map((table) => `${table} disable trigger all`),
      ...indexes.map(({ name }) => `drop index ${name}`),
      ...fill((table) => `holdfast.${table}`, id, `generate_series(0, ${ROWS - 1}) n`),
      ...indexes.map(({ text }) => text),
      ...tables.map((table) => `${table} enable trigger all`),
      "analyze",
    ];
    for (const text of texts) await client.query(text);
    await client.end();
  });
  after(async () => {
    await store?.close();
    await database?.drop();
  });

  async function connect(options: string): Promise<Client> {
    const client = new Client({ connectionString: database.url, options });
    await client.connect();
    return client;
  }

  /** How the statement is planned on connections of ours, and on others. */
  async function plansOf(text: string, values: readonly unknown[]): Promise<Plan[]> {
    const plans: Plan[] = [];
    for (const [options, begin] of [
      [startOptions("cold"), "begin"],
      ["", beginWith("cold")],
    ] as const) {
      const client = await connect(options);
      await client.query(begin);
      await client.query(`prepare asked as ${text}`);
      const given = values.map((value) =>
        value === null ? "null" : client.escapeLiteral(inArray(value)),
      );
      const { rows } = await client.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
        `explain (format json) execute asked ${given.length === 0 ? "" : `(${given.join(", ")})`}`,
      );
      plans.push(...rows.flatMap((row) => row["QUERY PLAN"].map(({ Plan: plan }) => plan)));
      await client.end();
    }
    return plans.flatMap(flat);
  }

  for (const { asked, indexes } of questions) {
    test(`a list by ${words(asked)} goes by its index`, async () => {
      const listening = listenToTexts(Client.prototype);
      await list(store, asked);
      const sent = listening.stop().find(({ text }) => text.includes("order by"));
      assert.ok(sent !== undefined);
      const used = (await plansOf(sent.text, sent.values)).flatMap(
        (plan) => plan["Index Name"] ?? [],
      );
      assert.equal(used.length, 2, used.join(", "));
      assert.ok(
        used.every((index) => indexes.includes(index)),
        used.join(", "),
      );
    });
  }

  test("items are found by parent, status and time; by identifier, tenant and status; by id and status", async () => {
    for (const [where, ...indexes] of byHand) {
      const plans = await plansOf(`select status from holdfast.item where ${where}`, []);
      const used = plans.flatMap((plan) => plan["Index Name"] ?? []);
      assert.equal(used.length, 2);
      assert.ok(
        used.every((index) => indexes.includes(index)),
        used.join(", "),
      );
    }
  });

  for (const [name, run] of Object.entries(verbs)) {
    test(`${name}: every table is searched, and none read`, async () => {
      const listening = listenToTexts(Client.prototype);
      await run(store);
      const sent = listening.stop().filter(({ text }) => /^\s*(select|update|delete)/i.test(text));
      assert.ok(sent.length > 0);
      for (const { text, values } of sent) {
        const scans = (await plansOf(text, values)).filter(
          (plan) => plan["Node Type"] === "Seq Scan",
        );
        assert.deepEqual(scans, [], text);
      }
    });
  }
});

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly Plans?: readonly Plan[];
}

function flat(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(flat)];
}

function inArray(value: unknown): string {
  return Array.isArray(value) ? `{${value.join(",")}}` : String(value);
}

describe("plans of items on MySQL", { ...limits, skip: missing("mysql") }, () => {
  let database: ScratchDatabase;
  let store: Store;
  let admin: Connection;

  before(async () => {
    database = await scratchDatabase("mysql");
    store = await openStore(database.url);
    await declare(store);
    admin = await createConnection({ uri: database.url, multipleStatements: true });
    await admin.query("set session sql_mode = 'ANSI_QUOTES'");
    await admin.query("set session explain_format = 'TRADITIONAL'").catch(() => {});
    const [triggers] = await admin.query<RowDataPacket[]>(
      "select trigger_name as name from information_schema.triggers where event_object_schema = database()",
    );
    const id = (n: string): string =>
      `lower(concat(lpad(hex(${n}), 8, '0'), '-aaaa-7000-8000-', lpad(hex(${n}), 12, '0')))`;
    const ours = triggers.map(({ name }) => String(name)).filter((name) => name.includes("item"));
    for (const name of ours) await admin.query(`drop trigger ${name}`);
    await admin.query("set foreign_key_checks = 0; start transaction");
    for (const text of fill((table) => `holdfast_${table}`, id)) await admin.query(text);
    await admin.query("commit; set foreign_key_checks = 1");
    await admin.query("analyze table holdfast_item");
  });
  after(async () => {
    await admin?.end();
    await store?.close();
    await database?.drop();
  });

  async function plansOf(text: string): Promise<RowDataPacket[]> {
    const [plan] = await admin.query<RowDataPacket[]>(`explain ${text}`);
    return plan.filter(({ table }) => table !== null);
  }

  for (const { asked, indexes } of questions) {
    test(`a list by ${words(asked)} goes by its index`, async () => {
      const listening = listenToTexts(mysql.Connection.prototype);
      await list(store, asked);
      const sent = listening.stop().find(({ text }) => text.includes("order by"));
      const [plan] = await plansOf(sent?.text ?? "");
      const names = indexes.map((index) => MYSQL_NAMES[index] ?? index.slice("item_".length));
      assert.ok(names.includes(String(plan?.["key"])), JSON.stringify(plan));
      assert.match(String(plan?.["type"]), /^(ref|range)$/);
    });
  }

  test("items are found by parent, status and time; by identifier, tenant and status; by id and status", async () => {
    for (const [where, ...indexes] of byHand) {
      const [plan] = await plansOf(`select status from holdfast_item where ${where}`);
      const names = indexes.map((index) => MYSQL_NAMES[index] ?? index);
      assert.ok(names.includes(String(plan?.["key"])), JSON.stringify(plan));
    }
  });

  for (const [name, run] of Object.entries(verbs)) {
    test(`${name}: every table is searched, and none read`, async () => {
      const listening = listenToTexts(mysql.Connection.prototype);
      await run(store);
      const texts = listening.stop().flatMap(({ text }) => text.split(";\n"));
      const asking = texts.filter((text) => /^\s*(select|update|delete)/i.test(text));
      assert.ok(asking.length > 0);
      for (const text of asking) {
        const reads = (await plansOf(text)).filter(
          ({ type, rows }) => type === "ALL" && Number(rows) > 1_000,
        );
        assert.deepEqual(reads, [], text);
      }
    });
  }
});

const MYSQL_NAMES: Readonly<Record<string, string>> = {
  item_identifier: "by_identifier",
  item_parent: "by_parent",
  item_status: "by_status",
  item_pkey: "PRIMARY",
};

after(assertNothingRuns);
