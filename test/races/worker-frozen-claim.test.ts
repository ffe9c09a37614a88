/**
 * A worker that is frozen by SIGSTOP while it holds the gates of a queue with limits: the server ends its transaction, and
 * the other workers go on within a lease.
 */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { defineTask, openHoldfast } from "../../src/index.ts";
import { engines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { until } from "../worker/observe.ts";
import { isStopped, WorkerProcess } from "./worker-process.ts";

after(assertNothingRuns);

const LEASE_MS = 8_000;
const PROGRAM = "worker-frozen-claim-child.ts";
const JOBS = 40;
const turns = { PostgreSQL: notItsTurn("postgres"), MariaDB: notItsTurn("mysql") };

suite(
  "a worker frozen inside a claim under limits",
  { concurrency: true, skip: noFreezing() },
  () => {
    for (const { name, skip, place: open } of engines) {
      if (name === "SQLite") continue; // no server is there that could end its transaction
      const reason = reasonOf(skip, turns[name as keyof typeof turns]);
      test(
        `on ${name} holds up the others for a fraction of its lease`,
        { skip: reason },
        async (t) => {
          await using place = await open();
          const { url } = place;
          await using holdfast = await openHoldfast(url);
          await holdfast.queues.set("default", { concurrency: 20, eachLane: { concurrency: 10 } });
          await holdfast.queues.set("other", { concurrency: 20 });
          let done = 0;
          const pick = defineTask({
            name: "pick",
            run: (n: number) => void (done += n >= 0 ? 1 : 0),
          });
          const queues = ["default", "other"];
          const worker = {
            lease: LEASE_MS,
            grace: 100,
            maintenanceInterval: 50,
            poll: 200,
            queues,
          };
          const enqueue = (): Promise<unknown> =>
            holdfast.enqueueMany(
              pick,
              Array.from({ length: JOBS }, (_, n) => n),
            );
          await enqueue();
          await using frozen = new WorkerProcess(PROGRAM, { url, role: "frozen", worker });
          await until("it is frozen", () => isStopped(frozen.pid));

          const frozenAt = performance.now();
          await holdfast.startWorker({ ...worker, tasks: [pick] });
          await until("the other worker has run all jobs", () => done === JOBS, LEASE_MS);
          const ms = Math.round(performance.now() - frozenAt);
          t.diagnostic(`all jobs were done ${ms} ms after the freeze; the lease is ${LEASE_MS} ms`);
          assert.deepEqual(frozen.of("ran"), [], "it had not started any");

          await enqueue();
          frozen.signal("SIGCONT");
          await until("all jobs have run", () => done + frozen.of("ran").length >= 2 * JOBS);
          assert.equal(done + frozen.of("ran").length, 2 * JOBS, "its claim was undone as a whole");
        },
      );
    }
  },
);

function noFreezing(): string | false {
  return process.platform === "linux" ? false : "only Linux shows that a process is frozen";
}
