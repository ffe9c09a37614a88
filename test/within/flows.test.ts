/** Flows inside of an application's own transactions: they exist if, and when, it commits. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Fence } from "../../src/core/job.ts";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { sampledEngines, type Place } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { connections, type Connection } from "./connections.ts";

const one = defineTask({ name: "one", run: () => 1 });

after(assertNothingRuns);

for (const { name, skip, place: open } of sampledEngines) {
  describe(`flows in a transaction on ${name}`, { skip, timeout: 60_000 }, () => {
    let place: Place;
    let holdfast: Holdfast;
    let shop: Connection;
    before(async () => {
      place = await open();
      holdfast = await openHoldfast(place.url);
      shop = (await connections[name]?.(place.url)) as Connection;
      await shop.run("create table orders (id integer)");
    });
    after(async () => {
      await shop[Symbol.asyncDispose]();
      await holdfast.close();
      await place[Symbol.asyncDispose]();
    });

    const claim = async (): Promise<Fence> => {
      const worker = { worker: "w", queues: ["default"], tasks: null, limit: 1, leaseMs: 60_000 };
      const [job] = await holdfast.store.jobs.claim(worker);
      assert.ok(job !== undefined);
      return job;
    };
    const done = async (fence: Fence): Promise<void> => {
      const outcome = { kind: "done", result: null } as const;
      assert.equal((await holdfast.store.jobs.settle([{ ...fence, outcome }])).length, 1);
    };
    const statusOf = async (id: string): Promise<string | undefined> =>
      (await holdfast.jobs.get(id))?.status;

    test("a flow and a batch come with the commit, and not after a rollback", async () => {
      const within = (): ReturnType<Holdfast["within"]> => holdfast.within(shop.tx);
      await shop.run("begin");
      const gone = await within().flows.enqueue("gone", (jobs) => jobs.job(one, null));
      await shop.run("rollback");
      assert.equal(await holdfast.flows.get(gone.id), null);
      await shop.run("begin");
      await shop.run("insert into orders values (1)");
      const flow = await within().flows.enqueue("kept", (jobs) =>
        jobs.job(one, null, { after: [jobs.job(one, null)], delay: "1h" }),
      );
      const batch = await within().batches.enqueue("both", [[one, null]], {
        callback: [one, null],
      });
      await shop.run("commit");
      assert.equal((await holdfast.flows.get(flow.id))?.live, 2);
      const first = await claim();
      await shop.run("begin");
      await within().flows.add(flow.id, (jobs) => jobs.job(one, null, { after: [first.id] }));
      await shop.run("commit");
      await done(first);
      const states = (await holdfast.flows.jobs(flow.id)).map(({ status }) => status);
      assert.deepEqual(states.toSorted(), ["done", "pending", "scheduled"]);
      await done(await claim());
      await done(await claim());
      assert.equal(await statusOf(batch.callback?.id ?? ""), "pending");
      await done(await claim());
    });

    test("a job that is completed in a transaction starts the job after it, with the commit", async () => {
      const flow = await holdfast.flows.enqueue("complete", (jobs) =>
        jobs.job(one, null, { after: [jobs.job(one, null)], runAt: 1 }),
      );
      const last = flow.jobs[1]?.id ?? "";
      const fence = await claim();
      await shop.run("begin");
      const { db, jobs } = holdfast.store;
      await db.inUserTransaction(shop.tx, (joined) => jobs.in(joined).complete(fence, null));
      if (name !== "SQLite") assert.equal(await statusOf(last), "waiting");
      await shop.run("commit");
      assert.equal(await statusOf(last), "pending");
      await done(await claim());
    });

    test("a job that is added behind the back of an old snapshot is not missed", async (t) => {
      if (name === "SQLite") return t.skip("a writing transaction is alone");
      const first = await holdfast.flows.enqueue("snapshot", (jobs) => jobs.job(one, null));
      const fence = await claim();
      await shop.run("set transaction isolation level repeatable read");
      await shop.run("begin");
      if (name === "PostgreSQL") await shop.run("set transaction isolation level repeatable read");
      await shop.run("insert into orders values (2)");
      await shop.count(); // now the snapshot is taken
      const added = await holdfast.enqueue(one, null, { after: [fence.id] });
      const { db, jobs, flows } = holdfast.store;
      const completing = db.inUserTransaction(shop.tx, (joined) =>
        jobs.in(joined).complete(fence, null),
      );
      // It is refused, because the row has changed; or it does not see the new job, and maintenance does.
      const isRefused = await completing.then(
        () => false,
        () => true,
      );
      await shop.run(isRefused ? "rollback" : "commit");
      if (isRefused) await done(fence);
      await until("it starts", async () => {
        await flows.sweep({ after: null, limit: 100, all: false });
        return (await statusOf(added.id)) === "pending";
      });
      assert.equal((await holdfast.flows.get(first.id))?.status, "done");
      t.diagnostic(isRefused ? "refused" : "left to maintenance");
      await done(await claim());
    });
  });
}
