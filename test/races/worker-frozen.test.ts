/**
 * A worker that is frozen by SIGSTOP after it has written that an effect begins and before it acts. When it wakes up, the
 * job's next owner has made the effect: it must not make it once more.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { drawnEngines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { isStopped, WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const worker = { lease: 2_000, grace: 100, maintenanceInterval: 50, poll: 200 };
const PROGRAM = "worker-frozen-child.ts";

suite("an effect", { concurrency: true, skip: noFreezing() }, () => {
  for (const { name, skip, place: open } of drawnEngines("frozen")) {
    test(`on ${name} is not made by a former owner that wakes up`, { skip }, async () => {
      await using place = await open();
      const { url } = place;
      await using holdfast = await openHoldfast(url);
      let acts = 0;
      const charge = defineTask({
        name: "charge",
        run: (_input: null, ctx) => ctx.effect("charge", () => (acts += 1), { verify: () => null }),
      });
      const job = await holdfast.enqueue(charge, null);
      await using frozen = new WorkerProcess(PROGRAM, { url, role: "frozen", worker });
      await until("it is frozen", () => isStopped(frozen.pid));
      await holdfast.startWorker({ ...worker, tasks: [charge] });
      await until("the next owner is done", async () => (await job.get()).status === "done");
      assert.deepEqual([acts, frozen.of("acted")], [1, []]);

      frozen.signal("SIGCONT");
      assert.deepEqual(await frozen.until("threw"), { code: "LEASE_LOST" });
      await frozen.until("lost");
      assert.deepEqual(frozen.of("acted"), [], "the effect was made twice");
    });
  }
});

function noFreezing(): string | false {
  return process.platform === "linux" ? false : "only Linux shows that a process is frozen";
}
