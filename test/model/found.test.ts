/** What the runs against the model have found, each as the shortest calls that show it. */
import { deepEqual, equal, rejects } from "node:assert/strict";
import { test } from "node:test";
import { systemRuntime } from "../../src/core/runtime.ts";
import type { NewJob, Wanted } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import { openSqlite } from "./open.ts";

const wanted: Wanted = { worker: "w1", queues: ["mail"], tasks: null, limit: 10, leaseMs: 60_000 };

const keyed: NewJob = {
  id: "10000000-0000-7000-8000-000000000000",
  queue: "mail",
  task: "send",
  payload: "{}",
  priority: 0,
  maxAttempts: 3,
  key: "order-42",
  start: null,
};
const first = keyed;
const second = { ...keyed, id: "20000000-0000-7000-8000-000000000000" };

async function finishAll(store: Store): Promise<void> {
  const claimed = await store.jobs.claim(wanted);
  const outcome = { kind: "done", result: null } as const;
  await store.jobs.settle(claimed.map((fence) => ({ ...fence, outcome })));
}

test("an enqueue that is repeated after its job has finished leaves the key free", async () => {
  const store = await openSqlite(systemRuntime);
  await store.jobs.enqueue([first]);
  await finishAll(store);
  deepEqual(await store.jobs.enqueue([first]), [{ id: first.id, added: false }]);
  deepEqual(await store.jobs.enqueue([second]), [{ id: second.id, added: true }]);
  await store.close();
});

test("a repeated enqueue returns its own job, even if another job holds the key now", async () => {
  const store = await openSqlite(systemRuntime);
  await store.jobs.enqueue([first]);
  await finishAll(store);
  await store.jobs.enqueue([second]);
  deepEqual(await store.jobs.enqueue([first]), [{ id: first.id, added: false }]);
  await store.close();
});

test("a job with an existing id stays unchanged, whatever key comes with it", async () => {
  const store = await openSqlite(systemRuntime);
  await store.jobs.enqueue([first]);
  deepEqual(await store.jobs.enqueue([{ ...first, key: "another" }]), [
    { id: first.id, added: false },
  ]);
  deepEqual(await store.jobs.enqueue([{ ...second, key: "another" }]), [
    { id: second.id, added: true },
  ]);
  await store.close();
});

test("a queue that is named twice is claimed from once", async () => {
  const store = await openSqlite(systemRuntime);
  await store.jobs.enqueue([first]);
  equal((await store.jobs.claim({ ...wanted, queues: ["mail", "mail"] })).length, 1);
  await store.close();
});

test("a store that is closed before its first claim says that it is closed", async () => {
  const store = await openSqlite(systemRuntime);
  await store.close();
  await rejects(store.jobs.claim(wanted), { code: "CLOSED" });
});
