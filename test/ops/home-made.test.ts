/** docs/guide/home-made.md: its SQL and its script bring a home-made queue over, on every engine. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { Doctor } from "../../src/app/ops.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { schema } from "../../src/app/settings.ts";
import { openEngine } from "../../src/database/open.ts";
import { drawnEngines } from "../registry/places.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";

after(assertNothingRuns);

const page = readFileSync(new URL("../../docs/guide/home-made.md", import.meta.url), "utf8");
const folder = tempFolder();

function block(info: string): string {
  const [, text] = new RegExp(`^\`\`\`${info}\\n(.*?)^\`\`\``, "ms").exec(page) ?? [];
  assert.ok(text !== undefined, `no block ${info}`);
  return text;
}

const statementsOf = (text: string): string[] =>
  text.split(";").filter((statement) => statement.trim() !== "");

/** A table as people write it. */
const OLD = (id: string, time: string): string => `
  create table queue_jobs (
    id ${id}, queue varchar(50) not null, type varchar(50) not null, payload text not null, status varchar(20) not null,
    priority int not null, attempts int not null, max_attempts int not null, run_at ${time} null, locked_by varchar(50),
    locked_until ${time} null, last_error text, result text, created_at ${time} not null, finished_at ${time} null)`;

const ROWS = `
  insert into queue_jobs (id, queue, type, payload, status, priority, attempts, max_attempts, run_at, locked_by, last_error,
                          result, created_at, finished_at) values
  (11, 'default', 'mail', '{"to":"ada"}', 'pending', 0, 0, 3, null, null, null, null, '2026-01-02 03:04:05', null),
  (12, 'default', 'mail', '{"to":"bob"}', 'retry', 5, 2, 3, '2026-01-02 04:00:00', null, 'no ''route''', null, '2026-01-02 03:04:05', null),
  (13, 'default', 'mail', '{"to":"cyd"}', 'processing', 0, 1, 3, null, 'worker-9', null, null, '2026-01-02 03:04:05', null),
  (14, 'default', 'mail', '{"to":"dan"}', 'pending', 0, 0, 3, '2037-01-01 00:00:00', null, null, null, '2026-01-02 03:04:05', null),
  (15, 'default', 'mail', '{"to":"eve"}', 'completed', 0, 1, 3, null, null, null, '"sent"', '2026-01-02 03:04:05', '2026-01-02 03:05:00'),
  (16, 'default', 'mail', '{"to":"fay"}', 'failed', 0, 3, 3, null, null, 'gone', null, '2026-01-02 03:04:05', '2026-01-02 03:05:00'),
  (17, 'default', 'mail', '{"to":"gus"}', 'processing', 0, 3, 3, null, 'worker-9', 'hung', null, '2026-01-02 03:04:05', null)`;

const DIALECTS: Record<string, { block: string; id: string; time: string; prefix: string }> = {
  SQLite: {
    block: "sql sqlite",
    id: "integer primary key",
    time: "text",
    prefix: "holdfast_",
  },
  PostgreSQL: {
    block: "sql postgres",
    id: "bigint primary key",
    time: "timestamptz",
    prefix: "holdfast.",
  },
  MariaDB: {
    block: "sql mariadb",
    id: "bigint primary key",
    time: "datetime",
    prefix: "holdfast_",
  },
};

for (const { name, skip, place } of drawnEngines("home-made")) {
  describe(`docs/guide/home-made.md on ${name}`, { skip, timeout: 60_000 }, () => {
    test("its SQL brings jobs over with their ids, attempts and times", async () => {
      await using at = await place();
      const dialect = DIALECTS[name];
      assert.ok(dialect !== undefined);
      await using holdfast = await openHoldfast(at.url, { version: "abc1234" });
      const inserts = statementsOf(block("sql")).map((statement) =>
        statement.replaceAll(/holdfast_(?!import)/g, dialect.prefix),
      );
      const engine = await openEngine(at.url);
      try {
        const setup = [OLD(dialect.id, dialect.time), ROWS, ...statementsOf(block(dialect.block))];
        for (const statement of setup) {
          await engine.transaction((tx) => tx.script(statement.trim()));
        }
        const bring = (): Promise<void> =>
          engine.transaction(async (tx) => {
            for (const statement of inserts) await tx.script(statement.trim());
          });
        await bring();
        await assert.rejects(bring(), "a second run");
      } finally {
        await engine.close();
      }
      const [bob] = await holdfast.jobs.list({ key: "12" });
      assert.match(bob?.id ?? "", /^[0-9a-f]{8}-[0-9a-f]{4}-7000-8000-000000000012$/);
      assert.deepEqual(
        [bob?.status, bob?.attempts, bob?.maxAttempts, bob?.priority],
        ["retry", 2, 3, 5],
      );
      const [attempt] = await holdfast.jobs.attempts(bob?.id ?? "");
      assert.equal(attempt?.error?.message, "no 'route'");
      const stands = async (key: string) => (await holdfast.jobs.list({ key }))[0];
      const when = Date.parse("2037-01-01");
      const dan = await holdfast.jobs.get((await stands("14"))?.id ?? "");
      assert.equal(dan?.status, "scheduled");
      assert.ok(Math.abs((dan?.dueAt ?? 0) - when) < 86_400_000);
      const eve = await holdfast.jobs.get((await stands("15"))?.id ?? "");
      assert.deepEqual([eve?.status, eve?.result], ["done", "sent"]);
      const gus = await holdfast.jobs.get((await stands("17"))?.id ?? "");
      assert.deepEqual([gus?.status, gus?.lastError?.message], ["failed", "hung"]);
      const said: string[] = [];
      const mail = defineTask({
        name: "mail",
        retry: { maxAttempts: 3 },
        async run({ to }: { to: string }, ctx) {
          said.push(`${to} ${ctx.attempt}`);
        },
      });
      const worker = await holdfast.startWorker({ tasks: [mail] });
      await until("all that is due is done", () => said.length === 3);
      await worker.stop();
      assert.deepEqual(said.toSorted(), ["ada 1", "bob 3", "cyd 2"]);
      const { findings } = await new Doctor(holdfast).examine({ deep: true });
      assert.deepEqual(findings, []);
      await toursComeOver(holdfast);
    });
  });
}

async function toursComeOver(holdfast: Awaited<ReturnType<typeof openHoldfast>>): Promise<void> {
  const path = folder.file(".ts");
  const library = join(import.meta.dirname, "../../src/workflows/index.ts");
  writeFileSync(path, block("ts").replace('"holdfast/workflows"', JSON.stringify(library)));
  const { importTours, tour } = await import(path);
  const at = (text: string): Date => new Date(text);
  const rows = [
    {
      id: 1,
      status: "driving",
      driver: "Ada",
      created_at: at("2026-01-01"),
      updated_at: at("2026-01-02"),
    },
    {
      id: 2,
      status: "finished",
      driver: "Bob",
      created_at: at("2026-01-01"),
      updated_at: at("2026-01-03"),
    },
  ];
  assert.equal(await importTours(holdfast, rows), 2);
  assert.equal(await importTours(holdfast, rows), 0, "a second run");
  const [first] = await holdfast.workflows.list(tour, { identifier: "tour-1" });
  assert.deepEqual([first?.status, first?.enteredAt], ["driving", Date.parse("2026-01-02")]);
  assert.equal((await first?.move("finish", { actor: "ada" }))?.status, "finished");
  assert.equal((await holdfast.audit.verify()).held, true);
}

test("docs/guide/home-made.md names settings that there are", () => {
  const known = new Set(Object.values(schema).flatMap((setting) => setting.env ?? []));
  const named = [...page.matchAll(/HOLDFAST_[A-Z_]+/g)].map(([setting]) => setting);
  assert.ok(named.length > 5);
  for (const setting of named) assert.ok(known.has(setting), setting);
});
