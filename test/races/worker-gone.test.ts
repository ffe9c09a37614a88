/** The jobs of a worker that was killed come back at once on its own host, long before their leases end. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { openStore } from "../../src/app/store.ts";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { drawnEngines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { sized } from "../support/scale.ts";
import { until } from "../worker/observe.ts";
import { wrapStore } from "../worker/wrapped-store.ts";
import { WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const LEASE_MS = 300_000;
const JOBS = 5;
const ROUNDS = sized(1, 5);
const SOON = { timeout: "60s" } as const;

const worker = { lease: LEASE_MS, heartbeat: "1s", concurrency: JOBS } as const;
const hold = defineTask({ name: "hold", run: () => "done here" });
const nothing = Array.from({ length: JOBS }, () => null);

for (const { name, skip, place: open } of drawnEngines("gone")) {
  suite(`the jobs of a killed worker on ${name}`, { skip, concurrency: true }, () => {
    for (const successor of ["starts later", "runs beside it"] as const) {
      test(`come back at once when the next worker ${successor}`, async (t) => {
        await using place = await open();
        const { url } = place;
        for (let round = 0; round < ROUNDS; round += 1) {
          await using holdfast = await openHoldfast(url);
          await using killed = victim(url);
          await killed.until("ready");
          const jobs = await holdfast.enqueueMany(hold, nothing);
          await until("it has them", async () => (await holdfast.leases.list()).length === JOBS);
          const start = () => holdfast.startWorker({ ...worker, tasks: [hold] });
          if (successor === "runs beside it") await start();
          const killedAt = performance.now();
          killed.signal("SIGKILL");
          await killed.ended;
          if (successor === "starts later") await start();
          await assertDone(jobs);
          t.diagnostic(`${Math.round(performance.now() - killedAt)} ms`);
          for (const { id } of jobs) {
            const [first] = await holdfast.jobs.attempts(id);
            assert.deepEqual([first?.outcome, first?.error?.code], ["crashed", "WORKER_GONE"]);
          }
        }
      });
    }

    test("come back soon when the server carries out its last claim after its end", async () => {
      await using place = await open();
      const { url } = place;
      await using killed = victim(url);
      const { worker: id } = await killed.until("ready");
      killed.signal("SIGKILL");
      await killed.ended;
      const real = await openStore(url);
      const reclaims: number[] = [];
      const store = wrapStore(real, () => ({
        jobs: {
          async reclaimFrom(chore) {
            const reclaimed = await real.jobs.reclaimFrom(chore);
            reclaims.push(reclaimed.length);
            return reclaimed;
          },
        },
      }));
      await using holdfast = await openHoldfast(store);
      await holdfast.startWorker({ ...worker, tasks: [hold], queues: ["default"] });
      await until("its jobs were reclaimed", () => reclaims.length > 0);
      await using late = await openHoldfast(url);
      // In a queue that the other worker does not serve: the claim is the killed worker's.
      const jobs = await late.enqueueMany(hold, nothing, { queue: "late" });
      const queues = ["late"];
      const claimed = await real.jobs.claim({
        worker: String(id),
        queues,
        tasks: null,
        leaseMs: LEASE_MS,
        limit: JOBS,
      });
      assert.equal(claimed.length, JOBS);
      await until("they are reclaimed too", () => reclaims.includes(JOBS));
      await late.startWorker({ ...worker, tasks: [hold], queues });
      await assertDone(jobs);
    });
  });
}

function victim(url: string): WorkerProcess {
  return new WorkerProcess("worker-tasks-child.ts", { url, role: "killed", worker });
}

interface Enqueued {
  result(options: typeof SOON): Promise<unknown>;
}

async function assertDone(jobs: readonly Enqueued[]): Promise<void> {
  const results = await Promise.all(jobs.map((job) => job.result(SOON)));
  assert.deepEqual(new Set(results), new Set(["done here"]));
}
