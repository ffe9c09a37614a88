/** The queries of the guide for operators, as they stand there, answered by every database through its plain driver. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { describe, test } from "node:test";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { ERROR, failed, settleOne, startOne } from "../support/jobs.ts";
import { start } from "../support/workers.ts";
import { engines, DoctorDatabase } from "./doctor-database.ts";

type Row = Record<string, unknown>;

const EXAMPLE_ID = "01a1e0ac-8e8f-7000-8000-000000000001";
const page = readFileSync(new URL("../../docs/guide/sql.md", import.meta.url), "utf8");

/** By the heading, and by the text between it and the query. */
function queriesFor(kind: string): [about: string, query: string][] {
  const queries: [string, string][] = [];
  for (const section of page.split(/^## /m).slice(1)) {
    let about = "";
    for (const part of section.split("```")) {
      const [kinds, query = ""] = /^sql ([a-z ]+)\n(.*)$/s.exec(part)?.slice(1) ?? [];
      if (kinds === undefined) about = part.trim() === "" ? about : part.trim();
      else if (kinds.split(" ").includes(kind)) queries.push([about, query]);
    }
  }
  return queries;
}

async function ask(url: string, query: string): Promise<Row[]> {
  if (url.startsWith("postgres")) {
    const client = new Client(url);
    await client.connect();
    try {
      return (await client.query<Row>(query)).rows;
    } finally {
      await client.end();
    }
  }
  if (url.startsWith("mysql")) {
    await using connection = await createConnection(url);
    const [rows] = await connection.query(query);
    return rows as Row[];
  }
  using db = new DatabaseSync(url.replace(/^sqlite:/, ""));
  return db.prepare(query).all();
}

test("every query is there for every database", () => {
  const counts = ["sqlite", "postgres", "mysql"].map((kind) => queriesFor(kind).length);
  assert.deepEqual(counts, [11, 11, 11]);
  assert.equal(page.match(/^```sql/gm)?.length, 22);
});

for (const engine of engines) {
  describe(engine.name, { skip: engine.skip, timeout: 60_000 }, () => {
    test("answers the guide's queries", async () => {
      await using database = await DoctorDatabase.make(engine);
      const { store, clock } = database;
      const atOnce = { queue: "b" };
      clock.set(Date.now() - 300_000);
      const crashed = await startOne(store, { queue: "c", maxAttempts: 1 }, { leaseMs: 1_000 });
      clock.advance(120_000);
      await store.jobs.reclaimExpired({ graceMs: 0, maxCrashes: 3, limit: 9 });
      const { id: stale } = await start(store, { version: "1.0.0" });
      const late = await startOne(store, { queue: "a" }, { worker: stale, leaseMs: 1_000 });
      clock.set(Date.now());
      const { id: fresh } = await start(store, { type: "packer", version: "1.0.1" });
      const running = await startOne(store, atOnce, { worker: fresh, leaseMs: 600_000 });
      await startOne(store, atOnce, { worker: fresh, leaseMs: 600_000 });
      const dead = await startOne(store, { queue: "d", key: "order-42" }, { worker: fresh });
      await settleOne(store, failed(dead));

      const answers = new Map<string, Row[]>();
      for (const [about, query] of queriesFor(database.kind)) {
        answers.set(about, await ask(database.url, query.replace(EXAMPLE_ID, dead.id)));
      }
      const answerTo = (words: RegExp): Row[] => {
        const found = [...answers].find(([about]) => words.test(about));
        return (
          found?.[1] ?? assert.fail(`nothing about ${words} in ${[...answers.keys()].join("\n")}`)
        );
      };
      const column = (words: RegExp, name: string): unknown[] =>
        answerTo(words).map((row) => row[name]);

      assert.equal(answers.size, 11);
      assert.ok(column(/^Active leases/, "trace_id").includes(`${fresh}-${running.id}-1`));
      assert.deepEqual(column(/^Expired leases/, "id"), [late.id]);
      assert.deepEqual(column(/^Age of heartbeats/, "locked_by"), [stale, fresh]);
      assert.deepEqual(column(/never renewed/, "id"), [late.id]);
      assert.deepEqual(column(/^Jobs by owner/, "locked_by"), [fresh, stale]);
      assert.deepEqual(column(/^The last ten failures/, "id"), [dead.id, crashed.id]);
      assert.deepEqual(
        [answerTo(/last ten/)[0]?.["last_error"], answerTo(/last ten/)[0]?.["job_key"]],
        [ERROR, "order-42"],
      );
      assert.deepEqual(column(/^Every attempt/, "trace_id"), [`${fresh}-${dead.id}-1`]);
      assert.deepEqual(column(/crash their workers/, "id"), [crashed.id]);
      assert.deepEqual(column(/^Workers: heartbeats/, "id"), [stale, fresh]);
      assert.deepEqual(column(/without a heartbeat/, "id"), [stale]);
      assert.deepEqual(column(/type and version/, "version"), ["1.0.0", "1.0.1"]);
    });
  });
}
