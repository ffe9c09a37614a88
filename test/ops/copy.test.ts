/** A database that was in use is copied to another engine, and goes on there. */
import assert from "node:assert/strict";
import { after, describe, suite, test } from "node:test";
import { Doctor } from "../../src/app/ops.ts";
import { openHoldfast } from "../../src/index.ts";
import { makeIds } from "../../src/core/id.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { copyDatabase, type Copied, type CopyProgress } from "../../src/copy/copy.ts";
import { columnsOf, COPIED_TABLES, INDEX_TABLES, OWN_TABLES } from "../../src/copy/tables.ts";
import type { Engine } from "../../src/database/engine.ts";
import { openEngine } from "../../src/database/open.ts";
import { partsOf } from "../../src/database/dialect.ts";
import { sql } from "../../src/database/sql.ts";
import {
  mysqlMigrations,
  postgresMigrations,
  sqliteMigrations,
} from "../../src/database/migrate.ts";
import { engines, type Place } from "../registry/places.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { newWorker } from "../support/workers.ts";
import { until, withCode } from "../worker/observe.ts";
import {
  ada,
  contentOf,
  fill,
  line,
  packed,
  parcel,
  plain,
  ran,
  tasks,
  withoutTheCopy,
} from "./moved-database.ts";

after(assertNothingRuns);

const folder = tempFolder();
const file = (): string => `sqlite:${folder.file(".db")}`;
const newId = makeIds(systemRuntime);
const [, postgres, mariadb] = engines;

let filled: Promise<{ url: string; order: string }> | null = null;

/** A database that every test copies and none changes. */
function used(): Promise<{ url: string; order: string }> {
  const make = async (): Promise<{ url: string; order: string }> => {
    const url = file();
    return { url, ...(await fill(url)) };
  };
  filled ??= make();
  return filled;
}

async function copy(
  fromUrl: string,
  toUrl: string,
  options: { signal?: AbortSignal; onProgress?: (progress: CopyProgress) => void } = {},
): Promise<Copied> {
  await using from = await opened(fromUrl);
  await using to = await opened(toUrl);
  const signature = { id: newId(), actor: "ada" };
  return await copyDatabase({ from: from.engine, to: to.engine, operator: signature, ...options });
}

async function opened(url: string): Promise<AsyncDisposable & { engine: Engine }> {
  const engine = await openEngine(url);
  return { engine, [Symbol.asyncDispose]: () => engine.close() };
}

async function onEngine<T>(url: string, body: (engine: Engine) => Promise<T>): Promise<T> {
  await using place = await opened(url);
  return await body(place.engine);
}

suite("the tables of a copy", () => {
  const schemas = {
    onSqlite: sqliteMigrations(),
    onPostgres: postgresMigrations(),
    onMysql: mysqlMigrations({ collation: "utf8mb4_bin" }),
  };

  for (const [name, migrations] of Object.entries(schemas)) {
    test(`are all tables that the migrations create: ${name}`, () => {
      const made = partsOf(migrations).flatMap((part) => {
        const [, table = null] = /^table (?!\w+_default$)(\w+)$/.exec(part) ?? [];
        return table === null ? [] : [table];
      });
      const copied = COPIED_TABLES.map((table) => table.name);
      const known = [...copied, ...OWN_TABLES, ...(name === "onMysql" ? INDEX_TABLES : [])];
      assert.deepEqual(new Set([...made, "migration"]), new Set(known));
    });
  }

  test("have the same columns everywhere, but for those that MySQL generates", () => {
    const [sqlite = new Map(), ...others] = Object.values(schemas).map((migrations) =>
      columnsOf({ migrations } as unknown as Engine),
    );
    for (const { name } of COPIED_TABLES) {
      for (const other of others) assert.deepEqual(other.get(name), sqlite.get(name), name);
    }
  });

  test("have no number that a sequence of the database gives", () => {
    const scripts = Object.values(schemas).flat();
    for (const { script } of scripts) {
      assert.doesNotMatch(script, /auto_increment|autoincrement|\bserial\b|generated .*identity/i);
    }
  });
});

describe("a database in use", { timeout: 120_000 }, () => {
  test("moves from engine to engine with all its data, and its jobs continue there", async () => {
    const places: Place[] = [];
    try {
      const { url: first, order: waiting } = await used();
      const content = await contentOf(first);
      const empty = Object.entries(content).filter(([, rows]) => rows.length === 0);
      assert.deepEqual(
        empty.map(([table]) => table).filter((table) => table !== "lease"),
        [],
        "every table has a row",
      );
      const urls = [first];
      for (const engine of [postgres, mariadb]) {
        if (engine?.skip !== false) continue;
        const place = await engine.place();
        places.push(place);
        urls.push(place.url);
      }
      urls.push(file());
      let lines = 0;
      for (const [index, url] of urls.entries()) {
        if (index === 0) continue;
        const copied = await copy(urls[index - 1] ?? "", url);
        lines += 1;
        assert.equal(copied.run, "new");
        const there = await contentOf(url);
        assert.equal(
          (there["audit"] ?? []).filter((row) => row.includes("database.copy")).length,
          lines,
        );
        assert.deepEqual(withoutTheCopy(there), withoutTheCopy(content));
      }
      for (const url of urls.slice(1)) await goesOn(url, waiting);
    } finally {
      for (const place of places) await place[Symbol.asyncDispose]();
    }
  });
});

/** The audit is intact, the doctor finds nothing, and a worker finishes the rest without repeating a step. */
async function goesOn(url: string, waiting: string): Promise<void> {
  await using holdfast = await openHoldfast(url, { version: "abc1234" });
  const verified = await holdfast.audit.verify();
  assert.deepEqual([verified.held, verified.breaks], [true, []]);
  assert.ok(verified.lines >= 8, "lines of items");
  const [last] = (await holdfast.audit.list()).slice(-1);
  assert.equal(last?.action, "database.copy");
  const { findings } = await new Doctor(holdfast).examine({ deep: true });
  assert.deepEqual(
    findings.map(({ check }) => check),
    ["effect-in-doubt"],
  );
  assert.equal((await holdfast.jobs.effectsInDoubt()).length, 1, "no payment was made twice");
  const [before] = await holdfast.jobs.steps(waiting);
  const quotes = ran.quote;
  const worker = await holdfast.startWorker({
    name: "mailer",
    slots: 1,
    tasks,
    workflows: [parcel, line],
  });
  await holdfast.emit(packed, "o-1", null);
  const result = await holdfast.jobs.result(waiting, { timeout: "20s" });
  assert.deepEqual(result, before?.result);
  assert.equal(ran.quote, quotes, "a finished step was done again");
  await until("the rest is done", async () => {
    const stats = (await holdfast.stats()).find(({ queue }) => queue === "default");
    return stats?.counts.pending === 0 && stats.counts.processing === 0;
  });
  const [flow] = await holdfast.flows.list();
  assert.equal((await holdfast.flows.get(flow?.id ?? ""))?.status, "done", "a flow goes on");
  const { added } = await holdfast.enqueue(plain, 1, { key: "plain-1" });
  assert.equal(added, false, "a kept key was lost");
  const [child] = (await holdfast.workflows.list(line, { status: "new" })).slice(0, 1);
  await child?.move("pack", ada);
  assert.equal((await holdfast.audit.verify()).held, true);
  await worker.stop();
}

suite("a copy that is interrupted", () => {
  const places: readonly Pick<CopyProgress, "phase" | "table">[] = [
    { phase: "copy", table: "job" },
    { phase: "copy", table: "item" },
    { phase: "copy", table: "audit_head" },
    { phase: "copy", table: "request" },
    { phase: "check", table: "step" },
  ];
  for (const { phase, table } of places) {
    test(`resumes after the ${phase} of ${table}, with the same result`, async () => {
      const { url } = await used();
      const target = file();
      const ending = new AbortController();
      const onProgress = (progress: CopyProgress): void => {
        if (progress.phase === phase && progress.table === table) ending.abort(new Error("killed"));
      };
      await assert.rejects(copy(url, target, { signal: ending.signal, onProgress }), /killed/);
      for (const migrate of [true, false]) {
        await assert.rejects(openHoldfast(target, { migrate }), withCode("STORE_COPY_INCOMPLETE"));
      }
      assert.equal((await copy(url, target)).run, "resumed");
      assert.deepEqual(
        withoutTheCopy(await contentOf(target)),
        withoutTheCopy(await contentOf(url)),
      );
    });
  }

  test("that was already complete is reported as such, and nothing is written again", async () => {
    const { url } = await used();
    const target = file();
    const { rows, tables } = await copy(url, target);
    const content = await contentOf(target);
    const again = await copy(url, target);
    assert.deepEqual([again.run, again.rows, again.tables], ["before", rows, tables]);
    assert.deepEqual(await contentOf(target), content);
  });
});

suite("a copy is refused", () => {
  test("while a worker is alive, a lease is active or a lock is held, and says which", async () => {
    const source = file();
    await using holdfast = await openHoldfast(source);
    await holdfast.enqueue(plain, 1);
    const worker = newWorker({ slots: null });
    await holdfast.store.workers.register(worker);
    const leaseMs = 60_000;
    const wanted = { queues: ["default"], tasks: null, limit: 1, leaseMs, worker: worker.id };
    const [job] = await holdfast.store.jobs.claim(wanted);
    const target = file();
    await holdfast.locks.with("order:7", {}, async () => {
      await assert.rejects(copy(source, target), (error: Error) => {
        assert.match(error.message, new RegExp(`Worker ${worker.id} \\(process 4711 on host-a\\)`));
        assert.match(error.message, new RegExp(`lease on job ${job?.id} for another (60|59) s`));
        assert.match(error.message, /holds the lock order:7/);
        return withCode("COPY_REFUSED")(error);
      });
    });
    assert.deepEqual(
      await onEngine(target, (engine) => engine.all(sql`select * from holdfast.copy`)),
      [],
    );
  });

  test("but not by a dead worker, whose expired lease is copied unchanged", async () => {
    const [source, target] = [file(), file()];
    const worker = newWorker({ slots: null });
    let id: string;
    {
      await using holdfast = await openHoldfast(source);
      ({ id } = await holdfast.enqueue(plain, 1));
      await holdfast.store.workers.register(worker);
      const wanted = { queues: ["default"], tasks: null, limit: 1, leaseMs: 100 };
      await holdfast.store.jobs.claim({ ...wanted, worker: worker.id });
    }
    await onEngine(source, async (engine) => {
      await engine.run(sql`update holdfast.worker set heartbeat_at = heartbeat_at - 61000`);
      await until("the lease is over", async () => {
        const [left] = await engine.all(
          sql`select 1 as one from holdfast.lease where locked_until > ${engine.now()}`,
        );
        return left === undefined;
      });
    });
    await copy(source, target);
    await using holdfast = await openHoldfast(target);
    const [row] = await holdfast.store.workers.list({ limit: 10 });
    assert.deepEqual([row?.id, row?.status, row?.reason], [worker.id, "stopped", "stale"]);
    assert.equal((await holdfast.jobs.get(id))?.status, "processing");
    await using second = await holdfast.startWorker({ name: "mailer", tasks });
    void second;
    assert.equal(await holdfast.jobs.result(id, { timeout: "20s" }), 1);
  });

  test("into a database that holds rows, that is another's copy, or that is the source", async () => {
    const [source, other, target] = [file(), file(), file()];
    await using holdfast = await openHoldfast(source);
    await using others = await openHoldfast(other);
    await holdfast.enqueue(plain, 1);
    await others.enqueue(plain, 1);
    await assert.rejects(copy(source, other), (error: Error) => {
      assert.match(error.message, /is not empty: it has rows in job, ready/);
      return withCode("COPY_REFUSED")(error);
    });
    await assert.rejects(copy(source, source), withCode("INVALID_ARGUMENT", "target"));
    await copy(source, target);
    await assert.rejects(copy(other, target), /is the copy of another source: sqlite:/);
  });

  test("when a row was written to either side meanwhile", async () => {
    const [source, target] = [file(), file()];
    await using holdfast = await openHoldfast(source);
    await holdfast.enqueueMany(plain, [1, 2]);
    const writes: Promise<unknown>[] = [];
    const onProgress = ({ table }: CopyProgress): void => {
      if (table === "event" && writes.length === 0) writes.push(holdfast.enqueue(plain, 3));
    };
    await assert.rejects(copy(source, target, { onProgress }), (error: Error) => {
      assert.match(error.message, /job \(3 rows in the source, 2 in the target\)/);
      return withCode("COPY_MISMATCH")(error);
    });
    await Promise.all(writes);
    await assert.rejects(openHoldfast(target), withCode("STORE_COPY_INCOMPLETE"));
  });
});

const MARKER = {
  id: 1,
  source: "s",
  fingerprint: "f".repeat(64),
  begun_at: 1,
  ended_at: null,
  batches: 0,
  progress: "{}",
};

for (const { name, skip, place } of engines) {
  test(
    `${name} suspends its rules in an empty database only, once, and for no worker`,
    { skip, timeout: 60_000 },
    async () => {
      await using at = await place();
      await using holdfast = await openHoldfast(at.url);
      const { engine } = holdfast.store.db;
      const begin = (): Promise<void> => engine.transaction((tx) => tx.insert("copy", [MARKER]));
      await holdfast.enqueue(plain, 1);
      await assert.rejects(begin(), /a copy begins in an empty database/);
      await engine.run(sql`delete from holdfast.ready`);
      await engine.run(sql`delete from holdfast.job`);
      await begin();
      const worker = newWorker({ slots: null });
      await assert.rejects(holdfast.store.workers.register(worker), /this database is incomplete/);
      await assert.rejects(begin(), withCode("STORE_REFUSED"));
      await assert.rejects(engine.run(sql`delete from holdfast.copy`), /is not deleted/);
      await engine.run(sql`update holdfast.copy set ended_at = 5`);
      const reopen = sql`update holdfast.copy set ended_at = null`;
      await assert.rejects(engine.run(reopen), /stays complete/);
      await holdfast.store.workers.register(worker);
    },
  );
}

test(
  "the SQL functions of PostgreSQL refuse a database whose copy is incomplete",
  { skip: postgres?.skip, timeout: 60_000 },
  async () => {
    await using at = (await postgres?.place()) as Place;
    await using holdfast = await openHoldfast(at.url);
    const { engine } = holdfast.store.db;
    await engine.transaction((tx) => tx.insert("copy", [MARKER]));
    for (const call of [sql`holdfast.enqueue('mail')`, sql`holdfast.acquire_lease('a')`]) {
      await assert.rejects(engine.all(sql`select ${call}`), /this database is incomplete/);
    }
  },
);
