/** What a Holdfast and a worker refuse to start with, and what a closed one says. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Store } from "../../src/app/store.ts";
import { defineTask, type Holdfast, openHoldfast, type WorkerOptions } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { tempFolder } from "../support/folder.ts";
import { keepLog, withCode } from "./observe.ts";

after(assertNothingRuns);

const echo = defineTask({ name: "echo", run: (value: unknown) => value });

suite("opening", () => {
  test("takes a URL or a store and refuses the rest, without repeating a password", async () => {
    for (const odd of [undefined, null, 7, {}, "", "shop.db", "sqlite:"]) {
      await assert.rejects(openHoldfast(odd as string), withCode("INVALID_ARGUMENT", "url"));
    }
    await assert.rejects(openHoldfast("oracle://scott:tiger@host/db"), (error) => {
      assert.ok(withCode("INVALID_ARGUMENT", "url")(error));
      return !String(error).includes("tiger");
    });
  });

  test("does not create tables or files with migrate: false or create: false", async () => {
    using folder = tempFolder();
    const url = `sqlite:${folder.file(".db")}`;
    await assert.rejects(openHoldfast(url, { create: false }), withCode("STORE_UNAVAILABLE"));
    await assert.rejects(openHoldfast(url, { migrate: false }), withCode("SCHEMA_TOO_OLD"));
    await (await openHoldfast(url)).close();
    await using holdfast = await openHoldfast(url, { migrate: false, create: false });
    assert.deepEqual(await holdfast.jobs.list(), []);
  });
});

suite("a worker", () => {
  const refused: readonly (readonly [field: string, options: Record<string, unknown>])[] = [
    ["tasks", {}],
    ["tasks", { tasks: [] }],
    ["tasks", { tasks: "echo" }],
    ["tasks", { tasks: [echo, { ...echo }] }],
    ["concurency", { tasks: [echo], concurency: 2 }],
    ["concurrency", { tasks: [echo], concurrency: 0 }],
    ["concurrency", { tasks: [echo], concurrency: 1_001 }],
    ["name", { tasks: [echo], name: "" }],
    ["queues", { tasks: [echo], queues: [] }],
    ["lease", { tasks: [echo], lease: 10 }],
    ["extendAt", { tasks: [echo], extendAt: 1 }],
    ["maxBlock", { tasks: [echo], lease: "1m", maxBlock: "1s" }],
    ["shutdown", { tasks: [echo], shutdown: "never" }],
    ["retention.done", { tasks: [echo], retention: { done: "always" } }],
  ];
  for (const [field, options] of refused) {
    const shown = Object.entries(options)
      .filter(([name]) => name !== "tasks" || field === "tasks")
      .map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
    test(`with { ${shown.join(", ")} } is refused by the name '${field}'`, async () => {
      await using holdfast = await openHoldfast("sqlite::memory:");
      const starting = holdfast.startWorker(options as unknown as WorkerOptions);
      await assert.rejects(starting, withCode("INVALID_ARGUMENT", field));
    });
  }

  test("logs once that it renews leases on the main thread, where a thread cannot", async () => {
    const log = keepLog();
    await using holdfast = await openHoldfast("sqlite::memory:", { logger: log.logger });
    await holdfast.startWorker({ tasks: [echo] });
    const said = log.lines.filter(({ message }) => message.includes("on the main thread"));
    assert.equal(said.length, 1);
  });
});

suite("a Holdfast that was closed", () => {
  async function closed(): Promise<{ holdfast: Holdfast; id: string; store: Store }> {
    const holdfast = await openHoldfast("sqlite::memory:");
    const { id } = await holdfast.enqueue(echo, 1);
    await holdfast.close();
    return { holdfast, id, store: holdfast.store };
  }

  const fence = { id: "job", worker: "w", epoch: 1 };
  const calls: Record<string, (holdfast: Holdfast, id: string) => Promise<unknown>> = {
    enqueue: (holdfast) => holdfast.enqueue(echo, 1),
    enqueueMany: (holdfast) => holdfast.enqueueMany(echo, [1]),
    "jobs.get": (holdfast, id) => holdfast.jobs.get(id),
    "jobs.list": (holdfast) => holdfast.jobs.list(),
    "jobs.attempts": (holdfast, id) => holdfast.jobs.attempts(id),
    "jobs.retry": (holdfast, id) => holdfast.jobs.retry(id),
    "jobs.cancel": (holdfast, id) => holdfast.jobs.cancel(id),
    "leases.acquire": (holdfast) => holdfast.leases.acquire({ worker: "w" }),
    "leases.extend": (holdfast) => holdfast.leases.extend(fence),
    "leases.release": (holdfast) => holdfast.leases.release(fence, { as: "released" }),
    "leases.resetExpired": (holdfast) => holdfast.leases.resetExpired(),
    "leases.list": (holdfast) => holdfast.leases.list(),
    stats: (holdfast) => holdfast.stats(),
    startWorker: (holdfast) => holdfast.startWorker({ tasks: [echo] }),
    subscribe: async (holdfast) => holdfast.subscribe("default", () => {}),
  };
  for (const [name, call] of Object.entries(calls)) {
    test(`refuses ${name} with CLOSED`, async () => {
      const { holdfast, id } = await closed();
      try {
        await assert.rejects(call(holdfast, id), withCode("CLOSED"));
      } finally {
        await holdfast.close(); // Whatever was started all the same.
      }
    });
  }

  test("refuses a job's own verbs too, and can be closed again", async () => {
    const holdfast = await openHoldfast("sqlite::memory:");
    const job = await holdfast.enqueue(echo, 1);
    await holdfast.close();
    await assert.rejects(job.result(), withCode("CLOSED"));
    await assert.rejects(job.get(), withCode("CLOSED"));
    await assert.rejects(job.cancel(), withCode("CLOSED"));
    await holdfast.close();
  });
});
