/** The lease renewer's thread comes with a lease and goes when there were none for a while. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Worker as Thread } from "node:worker_threads";
import { openStore } from "../../src/app/store.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { leaseList } from "../../src/worker/lease-renewer.ts";
import { type LeaseRenewerHost, startLeaseRenewer } from "../../src/worker/lease-renewer-host.ts";
import { tempFolder } from "../support/folder.ts";
import { done, fenceOf, mustFind, newJob, one } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { vitals } from "../support/workers.ts";
import { keepLog, until } from "./observe.ts";

after(assertNothingRuns);

const REST_MS = 200;
const LEASE_MS = 60_000;
const worker = "worker-1";

suite("the thread of a lease renewer", () => {
  test("ends without leases, and comes back with the next one; leases are renewed all the time", async () => {
    using folder = tempFolder();
    const store = await openStore(`sqlite:${folder.file(".db")}`);
    await store.migrate();
    const threads: Thread[] = [];
    const note = (thread: Thread): void => void threads.push(thread);
    process.on("worker", note);
    let held = leaseList([]);
    let beats = 0;
    const log = keepLog();
    const renewer: LeaseRenewerHost = startLeaseRenewer({
      store,
      runtime: systemRuntime,
      logger: log.logger,
      settings: {
        worker,
        leaseMs: LEASE_MS,
        extendAt: 0.5,
        maxBlockMs: 60_000,
        endBlocked: false,
        heartbeatMs: 60_000,
        queues: ["default"],
      },
      report: () => {},
      heartbeat: () => void (beats += 1),
      held: () => held,
      restMs: REST_MS,
    });
    renewer.vitals(vitals);
    const readyTimes = (): number => log.of("the lease renewer's thread is ready").length;
    const restTimes = (): number =>
      log.of("the lease renewer's thread ends: there is nothing to renew").length;
    for (const round of [1, 2]) {
      await store.jobs.enqueue([newJob()]);
      const claimed = await store.jobs.claim(one({ worker, leaseMs: LEASE_MS }));
      held = leaseList(claimed.map(fenceOf));
      renewer.hold(held, 0); // due at once
      await until("the thread is ready", () => readyTimes() === round);
      // Neither knows when the other sent the last heartbeat: too many are better than too few.
      await until("the thread sends a heartbeat", () => beats === 2 * round - 1);
      const [{ id, lockedUntil } = { id: "", lockedUntil: 0 }] = claimed;
      await until("the lease is renewed", async () => {
        const job = await mustFind(store, id);
        return (job.lockedUntil ?? 0) > lockedUntil;
      });
      assert.equal(restTimes(), round - 1);
      await renewer.stopRenewing(held);
      await store.jobs.settle(claimed.map((job) => done(job)));
      held = leaseList([]);
      await until("the thread rests", () => restTimes() === round);
      await until("the loop sends a heartbeat", () => beats === 2 * round);
      await until("the thread is gone", () => threads[round - 1]?.threadId === -1);
    }
    await renewer.stop();
    process.off("worker", note);
    assert.equal(threads.length, 2);
    await store.close();
  });
});
