/** Jobs enqueued inside of a transaction of the application's own, with the drivers themselves. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection, createPool, type Connection } from "mysql2/promise";
import { Client, Pool } from "pg";
import {
  defineEvent,
  defineTask,
  type EnqueueOptions,
  type Holdfast,
  openHoldfast,
} from "../../src/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { codeOf, until, withCode } from "../worker/observe.ts";

const ship = defineTask({ name: "ship", run: (id: number) => id });
const packed = defineEvent<number>({ name: "packed" });

/** More turns of the promises than enqueueing takes. */
const TICKS = 60;
const ROWS = `
  select (select count(*) from holdfast_job) as jobs,
         (select count(*) from holdfast_ready) as ready,
         (select count(*) from holdfast_job_key) as keys`;

/** A connection of the application's, with its own way to say things. */
interface Shop extends AsyncDisposable {
  /** What `within` is given. */
  readonly tx: unknown;
  /** What looks like it and is none. */
  readonly notTx: unknown;
  run(text: string): Promise<void>;
  count(): Promise<number>;
}

const shops: Record<string, (url: string) => Promise<Shop>> = {
  async SQLite(url) {
    const db = new DatabaseSync(url.slice("sqlite:".length));
    return {
      tx: db,
      notTx: {},
      run: async (text) => db.exec(text === "begin" ? "begin immediate" : text),
      count: async () => Number(db.prepare("select count(*) as n from orders").get()?.["n"]),
      [Symbol.asyncDispose]: async () => db.close(),
    };
  },
  async PostgreSQL(url) {
    const client = new Client(url);
    const pool = new Pool({ connectionString: url });
    await client.connect();
    return {
      tx: client,
      notTx: pool,
      run: async (text) => void (await client.query(text)),
      count: async () =>
        Number((await client.query<{ n: string }>("select count(*) as n from orders")).rows[0]?.n),
      async [Symbol.asyncDispose]() {
        await client.end();
        await pool.end();
      },
    };
  },
  async MariaDB(url) {
    const connection: Connection = await createConnection(url);
    const pool = createPool(url);
    return {
      tx: connection,
      notTx: pool,
      run: async (text) => void (await connection.query(text)),
      async count() {
        const [rows] = await connection.query("select count(*) as n from orders");
        return Number((rows as { n: number }[])[0]?.n);
      },
      async [Symbol.asyncDispose]() {
        await connection.end();
        await pool.end();
      },
    };
  },
};

for (const { name, skip, place: open } of sampledEngines) {
  describe(`within a transaction on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let shop: Shop;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url, { version: "build-0" });
      shop = (await shops[name]?.(place.url)) as Shop;
      await shop.run("create table orders (id integer)");
    });
    after(async () => {
      await shop[Symbol.asyncDispose]();
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    // An SQLite file has one writer at a time.
    const beside = { skip: name === "SQLite" };
    test(
      "a job that began to wait after the transaction began receives its event",
      beside,
      async () => {
        const pack = defineTask({
          name: "pack",
          run: (key: string, ctx) => ctx.event(packed, key),
        });
        await using worker = await holdfast.startWorker({ tasks: [pack] });
        await shop.run("begin");
        await shop.count(); // what it sees from now on may be what was there at this moment
        const job = await holdfast.enqueue(pack, "late");
        await until("it waits", async () => (await job.get()).status === "waiting");
        const said = await holdfast.within(shop.tx).emit(packed, "late", 7);
        await shop.run("commit");
        assert.deepEqual(said, { first: true, woken: 1 });
        assert.equal(await job.result({ timeout: "10s" }), 7);
        assert.equal(worker.status().leasesLost, 0);
      },
    );

    test("several at once in one transaction do not disturb one another, nor the connection", async () => {
      await shop.run("begin");
      const enqueue = (id: number, options: EnqueueOptions = {}) =>
        holdfast.within(shop.tx).enqueue(ship, id, { queue: "at once", ...options });
      const jobs = await Promise.all([enqueue(1), enqueue(2, { key: "at once" }), enqueue(3)]);
      // In the mode that our statements need, this would be the name of a column.
      if (name === "MariaDB") await shop.run('select "text"');
      await shop.run("commit");
      for (const job of jobs) assert.equal(await job.cancel(), "cancelled");
    });

    const pending = async (): Promise<number> =>
      (await holdfast.jobs.list({ status: "pending" })).length;

    test("committed jobs are there, with the application's own rows", async () => {
      await shop.run("begin");
      await shop.run("insert into orders values (1)");
      const job = await holdfast.within(shop.tx).enqueue(ship, 1, { priority: 3, key: "order-1" });
      assert.equal(job.added, true);
      await shop.run("commit");
      const { status, input, priority, key } = await job.get();
      assert.deepEqual([status, input, priority, key], ["pending", 1, 3, "order-1"]);
      assert.equal(await shop.count(), 1);
      await job.cancel();
    });

    test("rolled-back jobs never existed", async () => {
      const countBefore = await shop.count();
      await shop.run("begin");
      await shop.run("insert into orders values (2)");
      const jobs = await holdfast.within(shop.tx).enqueueMany(ship, [1, 2, 3], { delay: "1h" });
      const keyed = await holdfast.within(shop.tx).enqueue("ship", 1, { key: "order-2" });
      await holdfast.within(shop.tx).emit(packed, "2", 7);
      await shop.run("rollback");
      for (const job of [...jobs, keyed]) assert.equal(await holdfast.jobs.get(job.id), null);
      assert.equal(await holdfast.store.steps.findEvent("packed", "2"), null);
      assert.equal(await shop.count(), countBefore);
      const again = await holdfast.enqueue(ship, 1, { key: "order-2" });
      assert.equal(again.added, true);
      await again.cancel();
    });

    test("a key that a live job holds gives that job", async () => {
      const holder = await holdfast.enqueue(ship, 1, { key: "order-3" });
      await shop.run("begin");
      const late = await holdfast.within(shop.tx).enqueue(ship, 2, { key: "order-3" });
      await shop.run("commit");
      assert.deepEqual([late.id, late.added], [holder.id, false]);
      await holder.cancel();
    });

    test("a key that a job keeps after its end gives that job, and is kept anew with the commit", async () => {
      const kept = { key: "order-3k", keyFor: "1h" } as const;
      const holder = await holdfast.enqueue(ship, 1, kept);
      await holder.cancel();
      await shop.run("begin");
      const late = await holdfast.within(shop.tx).enqueue(ship, 2, kept);
      assert.deepEqual([late.id, late.added], [holder.id, false]);
      const second = await holdfast
        .within(shop.tx)
        .enqueue(ship, 3, { ...kept, onConflict: "replace" });
      assert.equal(second.added, true);
      await shop.run("commit");
      await second.cancel();
      assert.equal((await holdfast.enqueue(ship, 4, { key: kept.key })).id, second.id);
    });

    test("a job is replaced with the commit, and not by what is rolled back", async () => {
      const replace = { key: "order-3r", onConflict: "replace" } as const;
      const holder = await holdfast.enqueue(ship, 1, { key: replace.key });
      for (const end of ["rollback", "commit"]) {
        await shop.run("begin");
        const job = await holdfast.within(shop.tx).enqueue(ship, 2, replace);
        await shop.run(end);
        assert.equal((await holder.get()).status, end === "commit" ? "cancelled" : "pending");
        if (end === "commit") await job.cancel();
        else assert.equal(await holdfast.jobs.get(job.id), null);
      }
    });

    test("a rejected call writes nothing, and the transaction can continue", async () => {
      const holder = await holdfast.enqueue(ship, 1, { key: "order-3x" });
      const countBefore = await shop.count();
      const free = { key: "order-3y", keyFor: "1h", onConflict: "reject" } as const;
      await shop.run("begin");
      await shop.run("insert into orders values (3)");
      const within = holdfast.within(shop.tx);
      for (const key of ["order-3x", "order-3y"]) {
        // The second is free, but for the job before it in the same call.
        const options = (n: number): EnqueueOptions => (n === 1 ? free : { ...free, key });
        await assert.rejects(within.enqueueMany(ship, [1, 2], options), withCode("KEY_TAKEN"));
      }
      await assert.rejects(
        within.enqueue(ship, 1, { ...free, key: "order-3x" }),
        withCode("KEY_TAKEN"),
      );
      await shop.run("commit");
      assert.equal(await shop.count(), countBefore + 1);
      const accepted = await holdfast.enqueue(ship, 1, free);
      assert.equal(accepted.added, true);
      await accepted.cancel();
      await holder.cancel();
    });

    test("of two transactions that take a key at once, one has it and the other begins again", async (t) => {
      if (name === "SQLite") return t.skip("one transaction at a time writes there");
      await using other = (await shops[name]?.(place.url)) as Shop;
      await shop.run("begin");
      await other.run("begin");
      const first = await holdfast.within(shop.tx).enqueue(ship, 1, { key: "order-5" });
      const second = holdfast
        .within(other.tx)
        .enqueue(ship, 2, { key: "order-5" })
        .then(({ id, added }) => [id, added])
        .catch((error: unknown) => codeOf(error));
      await pause(50); // long enough to come to the key, in most cases
      await shop.run("commit");
      const came = await second;
      if (came !== "STORE_BUSY") assert.deepEqual(came, [first.id, false]);
      await other.run("rollback");
      await other.run("begin");
      const again = await holdfast.within(other.tx).enqueue(ship, 2, { key: "order-5" });
      await other.run("commit");
      assert.deepEqual([again.id, again.added], [first.id, false]);
      await first.cancel();
    });

    test("an event and a cancelling are true when it is committed, and not before", async () => {
      const job = await holdfast.enqueue(ship, 1);
      await shop.run("begin");
      assert.equal(await holdfast.within(shop.tx).cancel(job.id), "cancelled");
      assert.deepEqual(await holdfast.within(shop.tx).emit(packed, "4", 7), {
        first: true,
        woken: 0,
      });
      if (name !== "SQLite") assert.equal((await job.get()).status, "pending");
      await shop.run("commit");
      assert.equal((await job.get()).status, "cancelled");
      assert.equal((await holdfast.store.steps.findEvent("packed", "4"))?.payload, "7");
      assert.deepEqual(await holdfast.emit(packed, "4", 8), { first: false, woken: 0 });
      assert.equal(await pending(), 0);
    });

    test("workers are notified on commit, and not of rolled-back jobs", async () => {
      const started: number[] = [];
      const task = defineTask({ name: "ship", run: (id: number) => void started.push(id) });
      const worker = await holdfast.startWorker({ tasks: [task], poll: "1h", heartbeat: "1h" });
      await shop.run("begin");
      await holdfast.within(shop.tx).enqueue(task, 1);
      await shop.run("rollback");
      await shop.run("begin");
      const job = await holdfast.within(shop.tx).enqueue(task, 2);
      await shop.run("commit");
      await until("it has run", async () => (await job.get()).status === "done");
      assert.deepEqual(started, [2]);
      await worker.stop();
    });

    test("a rollback that did not wait for the call leaves nothing behind", async (t) => {
      if (name !== "SQLite") return t.skip("elsewhere statements stand in line");
      const db = shop.tx as DatabaseSync;
      const rows = (): unknown => ({ ...db.prepare(ROWS).get() });
      const asBefore = rows();
      for (let ticks = 0; ticks < TICKS; ticks += 1) {
        await shop.run("begin");
        const enqueuing = holdfast.within(shop.tx).enqueue(ship, 1, { key: "order-6" });
        const ended = enqueuing.then(() => "there", codeOf);
        for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve();
        await shop.run("rollback");
        assert.match(await ended, /there|INVALID_ARGUMENT/);
        assert.deepEqual(rows(), asBefore);
      }
    });

    test("a value that is not a transaction is refused with what to pass instead", async () => {
      for (const wrong of [null, 42, "tx", shop.notTx]) {
        await assert.rejects(
          holdfast.within(wrong).enqueue(ship, 1),
          withCode("INVALID_ARGUMENT", "tx"),
        );
      }
    });

    test("inputs that are not a list are refused", async () => {
      const many = holdfast.within(shop.tx).enqueueMany(ship, 7 as unknown as number[]);
      await assert.rejects(many, withCode("INVALID_ARGUMENT", "inputs"));
    });

    test("a bad input is refused before any statement is sent", async () => {
      await shop.run("begin");
      await assert.rejects(
        holdfast.within(shop.tx).enqueue(ship, Number.NaN),
        withCode("NOT_SERIALIZABLE"),
      );
      await shop.run("insert into orders values (9)"); // the transaction goes on
      await shop.run("commit");
    });
  });
}

after(assertNothingRuns);
