/** What docs/guide/testing.md shows: workflows, transactions of one's own and handlers in tests. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, suite, test } from "node:test";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { defineSchedule } from "../../src/schedules/index.ts";
import { defineWorkflow } from "../../src/workflows/index.ts";
import { drain, openTestHoldfast, testClock } from "../../src/testing/index.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "../worker/observe.ts";

const folder = tempFolder();
after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});

const ship = defineTask({ name: "ship", run: ({ id }: { id: string }) => `T-${id}` });

suite("a test of an application's own", () => {
  test("declares a schedule, and lets the time of its tick pass", async () => {
    const report = defineTask({ name: "report", run: () => {} });
    const nightly = defineSchedule({
      name: "report.nightly",
      task: report,
      cron: "30 2 * * *",
      timeZone: "Europe/Berlin",
    });
    await using bench = await openTestHoldfast({ start: new Date("2027-03-01T12:00:00Z") });
    await bench.drain([report], { schedules: [nightly] });
    await bench.clock.advance("1d");
    const { totals } = await bench.drain([report]);
    assert.equal(totals.done, 1);
    const runs = await bench.holdfast.schedules.runs("report.nightly");
    assert.deepEqual(
      runs.map(({ tick }) => new Date(tick).toISOString()),
      ["2027-03-02T01:30:00.000Z"],
    );
  });

  test("lets the time of an item pass", async () => {
    const order = defineWorkflow({
      name: "order",
      initial: "open",
      states: {
        open: { limit: { after: "3d", move: "expire" } },
        paid: {},
        expired: { final: true },
      },
      moves: {
        pay: { from: "open", to: "paid" },
        ship: { from: "paid", to: "expired" },
        expire: { from: "open", to: "expired" },
      },
    });
    await using bench = await openTestHoldfast();
    const { holdfast, clock } = bench;
    const item = await holdfast.workflows.start(order, { data: {}, actor: "test" });
    await assert.rejects(item.move("ship", { actor: "test" }), withCode("INVALID_MOVE"));
    await clock.advance("3d");
    await holdfast.startWorker({ tasks: [ship], workflows: [order] });
    await clock.advance("5s");
    assert.equal((await holdfast.workflows.item(order, item.id)).status, "expired");
  });

  test("sees committed jobs, and no rolled-back ones", async () => {
    const file = folder.file(".db");
    await using holdfast = await openHoldfast(`sqlite:${file}`, { runtime: testClock() });
    const db = new DatabaseSync(file, { timeout: 5_000 });
    for (const end of ["rollback", "commit"]) {
      db.exec("begin immediate");
      await holdfast.within(db).enqueue(ship, { id: end });
      db.exec(end);
    }
    db.close();
    const { jobs } = await drain(holdfast, [ship]);
    assert.deepEqual(
      jobs.map(({ status }) => status),
      ["done"],
    );
  });

  test("calls a handler that waits for a result, beside a worker", async () => {
    const handler = async (holdfast: Holdfast): Promise<string> =>
      (await holdfast.enqueue(ship, { id: "7" })).result({ timeout: "10s" });
    await using bench = await openTestHoldfast();
    await bench.holdfast.startWorker({ tasks: [ship] });
    assert.equal(await handler(bench.holdfast), "T-7");
  });
});
