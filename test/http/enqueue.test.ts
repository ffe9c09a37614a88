/** A job that arrives over HTTP takes the path of `holdfast.enqueue`. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import * as z from "zod";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { startServer } from "../../src/app/server.ts";
import { HoldfastError } from "../../src/core/errors.ts";
import { defineTask } from "../../src/index.ts";
import { drain } from "../../src/testing/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";
import { TestServer, send } from "./client.ts";
import { ship } from "./shop.ts";

const order = { order: "1" };

const wrong: Record<string, { task?: string; input?: unknown; options?: object; status?: number }> =
  {
    "an input that the schema rejects": { input: { order: 1 } },
    "no input": { input: null },
    "a version that is no number": { task: "order.ship@x" },
    "a queue of Holdfast's": { options: { queue: "holdfast.alerts" } },
    "a delay and a time": { options: { delay: "1h", runAt: 1 } },
    "a delay that cannot be read": { options: { delay: "soon" } },
    "a key's time without a key": { options: { keyFor: "1h" } },
    "an input that is too large": { input: { order: "x".repeat(300_000) }, status: 413 },
  };

suite("a job over HTTP", () => {
  after(() => assertNothingRuns());

  for (const [
    what,
    { task = ship.name, input = order, options = {}, status = 422 },
  ] of Object.entries(wrong)) {
    test(`is refused in the words of the library: ${what}`, async () => {
      await using api = await TestServer.open("sqlite::memory:", { tasks: [ship] });
      const known = (task === ship.name ? ship : task) as string;
      const refused = await api.holdfast.enqueue(known, input, options).then(
        () => assert.fail("the library accepts it"),
        (error: unknown) => error,
      );
      assert.ok(refused instanceof HoldfastError);
      const job = { task, input, options };
      for (const [path, body] of [
        ["/api/v1/jobs", job],
        ["/api/v1/jobs/bulk", { jobs: [job] }],
      ] as const) {
        const { code, detail } = await api.post(path, body, status);
        assert.deepEqual([code, detail], [refused.code, refused.message], path);
      }
      assert.deepEqual(await api.holdfast.stats(), []);
    });
  }

  test("has the defaults of its task, as from the library", async () => {
    await using api = await TestServer.open("sqlite::memory:", { tasks: [ship] });
    const { id } = await api.post("/api/v1/jobs", { task: ship.name, input: order }, 201);
    const here = await (await api.holdfast.enqueue(ship, order)).get();
    const there = await api.holdfast.jobs.get(id);
    for (const field of ["queue", "priority", "maxAttempts", "task", "status", "input"] as const) {
      assert.deepEqual(there?.[field], here[field], field);
    }
  });

  test("may come without an input, if the schema of its task allows it", async () => {
    const usual = z.object({ days: z.int() }).default({ days: 7 });
    const report = defineTask({ name: "report", input: usual, run: ({ days }) => days });
    await using api = await TestServer.open("sqlite::memory:", { tasks: [report, ship] });
    const job = { task: "report" };
    const bodies = {
      "/api/v1/jobs": job,
      "/api/v1/jobs/bulk": { jobs: [job, { ...job, input: null }] },
      "/api/v1/flows": { name: "f", jobs: [{ ...job, name: "only" }] },
      "/api/v1/batches": { name: "b", jobs: [job], callback: job },
    };
    for (const [path, body] of Object.entries(bodies)) await api.post(path, body, 201);
    await api.post("/api/v1/jobs", { task: ship.name }, 422);
    const { totals, jobs } = await drain(api.holdfast, [report]);
    assert.equal(totals.done, 6);
    assert.equal(await api.holdfast.jobs.result(jobs[0]?.id ?? ""), 7);
  });

  test("records the build that enqueues it", async () => {
    await using holdfast = await openHoldfast("sqlite::memory:", { version: "abc1234" });
    await using server = await startServer({ holdfast, port: 0 });
    const builds = () => holdfast.store.workers.enqueuers(60_000);
    assert.deepEqual(await builds(), []);
    const { status } = await send(server, "/api/v1/jobs", {
      method: "POST",
      body: { task: "mail.send" },
    });
    assert.equal(status, 201);
    const [build] = await until("the build is recorded", async () => {
      const listed = await builds();
      return listed.length > 0 && listed;
    });
    assert.equal(build?.version, "abc1234");
  });
});
