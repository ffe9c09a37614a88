/** A worker that was evicted registers again, and counts from zero: the sum over the rows has every job once. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { drawnEngines } from "./places.ts";

after(assertNothingRuns);

const count = defineTask({ name: "count", run: (input: number) => input });

describe("the counters of an evicted worker", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("counters")) {
    test(`have every job once, on ${name}`, { skip, timeout: 60_000 }, async () => {
      await using place = await open();
      await using holdfast = await openHoldfast(place.url);
      const { workers } = holdfast.store;
      const worker = await holdfast.startWorker({ tasks: [count], heartbeat: "1s", poll: "100ms" });
      const first = worker.id;
      const run = async (jobs: number): Promise<void> => {
        for (let job = 0; job < jobs; job += 1) {
          await (await holdfast.enqueue(count, job)).result({ timeout: "30s" });
        }
      };
      const counted = async (id: string): Promise<unknown[]> => {
        const row = await workers.find(id);
        return [row?.claimed, row?.done];
      };
      await run(3);
      await until("its row has them", async () => (await counted(first)).join() === "3,3");
      await workers.closeDead({ staleMs: 1e9, hungMs: 1e9, gone: [first] });
      await until("it has registered again", () => worker.id !== first);
      await run(2);
      const second = worker.id;
      await worker.stop();
      assert.deepEqual(
        [await counted(first), await counted(second)],
        [
          [3, 3],
          [2, 2],
        ],
      );
      const { claimed, done } = worker.status();
      assert.deepEqual([claimed, done], [5, 5]); // the worker itself goes on counting
    });
  }
});
