/** A queue that is worked on over HTTP is worked on: there is no alert while a remote worker runs, and one when it is gone. */
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Alerts } from "../../src/alerts/alerts.ts";
import { sql } from "../../src/database/sql.ts";
import { tempFolder } from "../support/folder.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
import { TestServer } from "./client.ts";

const folder = tempFolder();
const LIMIT_MS = 30_000;
/** For so long after it asked for jobs a program is taken to be there. */
const PRESENT_MS = 60_000;

/** What a monitor sees that has counted just now. */
async function look(api: TestServer, alerts: Alerts): Promise<readonly string[]> {
  const { holdfast } = api;
  const at = holdfast.runtime.now();
  const queues = (await holdfast.stats()).map((one) => ({ ...one, oldestPendingAt: null }));
  const counts = { countedAt: await holdfast.store.db.clock(), tookMs: 1, queues };
  await alerts.observe({ at, counts, minutes: [], findings: [], canaries: [] });
  const open = await holdfast.store.alerts.list({ which: "open", limit: 10 });
  return open.map(({ rule, subject }) => `${rule} ${subject}`);
}

async function untilRaised(api: TestServer, alerts: Alerts): Promise<void> {
  const giveUpAt = performance.now() + LIMIT_MS;
  while ((await look(api, alerts)).length === 0) {
    assert.ok(performance.now() < giveUpAt, "no alert was raised");
  }
}

for (const kind of ["sqlite", "postgres", "mysql"] as const) {
  describe(kind, { skip: kind !== "sqlite" && reasonOf(missing(kind), notItsTurn(kind)) }, () => {
    test("no-worker is raised when the worker over HTTP is gone, and not before", async () => {
      const scratch = kind === "sqlite" ? null : await scratchDatabase(kind);
      const url = scratch?.url ?? `sqlite:${folder.file(".db")}`;
      await using cleaning = { [Symbol.asyncDispose]: async () => scratch?.drop() };
      void cleaning;
      await using api = await TestServer.open(url);
      const alerts = new Alerts({ holdfast: api.holdfast, rules: { unworkedFor: 0, quiet: 0 } });
      const options = { queue: "remote" };
      for (const input of [1, 2, 3]) {
        await api.post("/api/v1/jobs", { task: "thumbnail", input, options }, 201);
      }
      const worker = { worker: "python-1", queues: ["remote"] };
      const { leases } = await api.post("/api/v1/leases/acquire", { ...worker, lease: "1h" });
      assert.deepEqual(await look(api, alerts), []);
      assert.deepEqual(await api.holdfast.jobs.unclaimable(), []);
      // It goes on with the next, and dies in the middle of it.
      const [{ id, epoch }] = leases;
      const settlement = { worker: "python-1", epoch, as: "done" };
      await api.post(`/api/v1/leases/${id}/settle`, settlement);
      await api.post("/api/v1/leases/acquire", { ...worker, lease: "100ms" });
      assert.deepEqual(await look(api, alerts), []);
      const { engine } = api.holdfast.store.db;
      await engine.transaction((tx) =>
        tx.run(
          sql`update holdfast.unregistered_worker set heartbeat_at = heartbeat_at - ${PRESENT_MS}`,
        ),
      );
      await untilRaised(api, alerts);
      assert.deepEqual(await look(api, alerts), ["no-worker remote"]);
      const [{ queue, task }] = (await api.holdfast.jobs.unclaimable()) as any;
      assert.deepEqual([queue, task], ["remote", "thumbnail"]);
      // Another comes: it is over.
      await api.post("/api/v1/leases/acquire", { ...worker, worker: "python-2", lease: "1h" });
      assert.deepEqual(await look(api, alerts), []);
      await alerts.stop();
    });
  });
}

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
