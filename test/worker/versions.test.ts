import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { type Context, defineTask, openHoldfast } from "../../src/index.ts";
import { openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "./observe.ts";

after(assertNothingRuns);

const run = (_input: null, ctx: Context): string => ctx.task;
const ship = defineTask({ name: "ship", run });
const ship1 = defineTask({ name: "ship", version: 1, run });
const ship2 = defineTask({ name: "ship", version: 2, run });

suite("versions of a task", () => {
  test("run side by side, each by its own definition", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast } = kit;
    const jobs = [
      await holdfast.enqueue(ship, null),
      await holdfast.enqueue(ship1, null),
      await holdfast.enqueue(ship2, null),
      await holdfast.enqueue("ship@2", null),
    ];
    await kit.drain([ship, ship1, ship2]);
    const results = await Promise.all(jobs.map((job) => job.result()));
    assert.deepEqual(results, ["ship", "ship@1", "ship@2", "ship@2"]);
  });

  test("that no worker knows wait for one that does, and are listed meanwhile", async () => {
    await using kit = await openTestHoldfast();
    const { holdfast, clock } = kit;
    const job = await holdfast.enqueue(ship2, null);
    await kit.drain([ship, ship1]);
    assert.equal((await job.get()).status, "pending");
    await clock.advance(3_000);
    assert.deepEqual(await holdfast.jobs.unclaimable(), [
      { queue: "default", task: "ship@2", jobs: 1, waitedMs: 3_000 },
    ]);
    await kit.drain([ship2]);
    assert.equal(await job.result(), "ship@2");
    assert.deepEqual(await holdfast.jobs.unclaimable(), []);
  });

  test("cannot be defined twice for one worker", async () => {
    await using kit = await openTestHoldfast();
    await assert.rejects(kit.drain([ship2, ship2]), /two tasks are called 'ship@2'/);
  });
});

suite("builds that differ", () => {
  test("are reported: among workers of a name, and of processes that enqueue", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await using site = await openHoldfast(url, { version: "web-1" });
    await using old = await openHoldfast(url, { version: "app-1" });
    await using young = await openHoldfast(url, { version: "app-2" });
    await using unsure = await openHoldfast(url, { version: "build-1234567890" });
    await site.enqueue(ship, null);
    await unsure.enqueue(ship, null);
    await until(
      "it is noted who enqueued",
      async () => (await site.store.workers.enqueuers(60_000))[0],
    );
    // Without a worker there is nothing to differ from.
    assert.deepEqual(await site.workers.drift(), { workers: [], enqueuers: [] });
    await unsure.startWorker({ tasks: [ship] });
    assert.deepEqual(await site.workers.drift(), { workers: [], enqueuers: [] });
    await old.startWorker({ tasks: [ship] });
    const { workers, enqueuers } = await site.workers.drift();
    assert.deepEqual(workers, []);
    assert.deepEqual(
      enqueuers.map(({ version }) => version),
      ["web-1"],
    );
    await young.startWorker({ tasks: [ship] });
    const [drift] = (await site.workers.drift()).workers;
    assert.deepEqual(drift, { type: "worker", versions: ["app-2", "app-1"] });
  });

  test("are recorded by a process that enqueues about once a minute, without delaying it", async () => {
    const clock = testClock();
    await using holdfast = await openHoldfast("sqlite::memory:", {
      runtime: clock,
      version: "web-1",
    });
    await holdfast.enqueue(ship, null);
    const [first] = await until("it is noted", async () => {
      const noted = await holdfast.store.workers.enqueuers(60_000);
      return noted.length > 0 ? noted : undefined;
    });
    await clock.advance(59_000);
    await holdfast.enqueue(ship, null);
    await clock.advance(1_000);
    assert.equal((await holdfast.store.workers.enqueuers(90_000))[0]?.lastAt, first?.lastAt);
    await holdfast.enqueue(ship, null);
    await until("it is noted again", async () => {
      const [again] = await holdfast.store.workers.enqueuers(90_000);
      return again?.lastAt === (first?.lastAt ?? 0) + 60_000;
    });
  });
});
