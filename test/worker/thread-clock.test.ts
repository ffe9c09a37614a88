/** Runtimes whose threads do not share a monotonic clock: leases are renewed on the main thread, and the log says so. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { openHoldfast } from "../../src/index.ts";
import { WorkerProcess } from "../races/worker-process.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "./observe.ts";

after(assertNothingRuns);

const LEASE_MS = 1_500;
const worker = { lease: LEASE_MS, grace: 200, maintenanceInterval: 50 };

for (const clock of ["behind", "ahead"] as const) {
  suite(`a thread whose clock is ${clock}`, () => {
    test("does not cost a job its lease, and the worker warns once", async () => {
      using folder = tempFolder();
      const url = `sqlite:${folder.file(".db")}`;
      await using holdfast = await openHoldfast(url);
      await using child = new WorkerProcess("worker-tasks-child.ts", {
        url,
        role: "one",
        worker,
        threadClock: { preload: join(import.meta.dirname, "thread-clock.ts"), is: clock },
      });
      await child.until("ready");
      const warnings = (): string[] =>
        child
          .of("log")
          .flatMap(({ level, message }) => (level === "warn" ? [String(message)] : []));
      await (await holdfast.enqueue("echo", null)).result();
      await until("it has compared the clocks", () => child.hasThread || warnings().length > 0);
      const job = await holdfast.enqueue("linger", { ms: 3 * LEASE_MS });
      assert.equal(await job.result(), "one");
      const { epoch, attempts, crashes } = await job.get();
      assert.deepEqual({ epoch, attempts, crashes }, { epoch: 1, attempts: 1, crashes: 0 });
      assert.deepEqual(child.of("lost"), []);
      const [warning, ...more] = warnings();
      assert.match(String(warning), /different monotonic clocks.* renewed on the main thread/);
      assert.deepEqual(more, []);
      assert.equal(child.hasThread, false);
    });
  });
}
