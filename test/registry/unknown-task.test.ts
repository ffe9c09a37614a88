/** A job that is enqueued by a name that no worker has had waits: the application hears it once, and pays no query for it. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { keepLog, until } from "../worker/observe.ts";
import { wrapStore } from "../worker/wrapped-store.ts";
import { sampledEngines } from "./places.ts";

after(assertNothingRuns);

const ship = defineTask({ name: "ship", run: () => null });

for (const { name, skip, place: open } of sampledEngines) {
  suite(`a task that is enqueued by name on ${name}`, { skip }, () => {
    test("is warned of once if no worker has had it", async () => {
      await using place = await open();
      let lookups = 0;
      const real = await openStore(place.url);
      const store = wrapStore(real, () => ({
        workers: {
          taskNames: (limit) => {
            lookups += 1;
            return real.workers.taskNames(limit);
          },
        },
      }));
      const { logger, lines } = keepLog();
      const holdfast = await openHoldfast(store, { logger });
      await holdfast.enqueue("early", null); // No worker has run: nothing is known.
      await until("it was looked up", () => lookups === 1);
      await holdfast.startWorker({ tasks: [ship] });
      await until("its task is known", async () => (await real.workers.taskNames(1)).length > 0);
      await holdfast.enqueue("ship", null);
      await holdfast.enqueue("shipp", null);
      await holdfast.enqueue("shipp", null);
      await holdfast.enqueueMany([["shipp"], [ship], ["mail", null]]);
      await holdfast.flows.enqueue("flow", (flow) => void flow.job("bill", null));
      await holdfast.batches.enqueue("batch", [["pack"], ["shipp"]]);
      await holdfast.leases.acquire({ worker: "elsewhere", queues: ["other"], tasks: ["draw"] });
      await holdfast.enqueue("draw", null);
      await holdfast.close();
      const said = lines.filter(({ facts }) => facts["event"] === "task:unknown");
      assert.deepEqual(
        said.map(({ level, facts }) => [level, facts["task"]]),
        ["shipp", "mail", "bill", "pack"].map((task) => ["warn", task]),
      );
      assert.equal(
        said[0]?.message,
        "No worker has had the task 'shipp' so far: jobs of it wait for one that does. Did you mean ship?",
      );
      assert.equal(lookups, 7, "once for each name");
    });
  });
}

test("without a logger, Node prints the warning", async () => {
  const printed: Error[] = [];
  const listen = (warning: Error): unknown => printed.push(warning);
  process.on("warning", listen);
  try {
    const holdfast = await openHoldfast("sqlite::memory:");
    await holdfast.startWorker({ tasks: [ship] });
    await until("known", async () => (await holdfast.store.workers.taskNames(1)).length > 0);
    await holdfast.enqueue("shipp", null);
    await holdfast.close();
    await until("it is printed", () => printed.length > 0);
  } finally {
    process.off("warning", listen);
  }
  assert.match(printed[0]?.message ?? "", /'shipp'/);
});
