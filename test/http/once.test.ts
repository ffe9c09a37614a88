/** A request with a key is made once, although the server is killed with -9 in the middle of it. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { openHoldfast } from "../../src/app/holdfast.ts";
import { tempFolder } from "../support/folder.ts";
import { jobIn } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { ServerProcess } from "./child.ts";
import { TestServer, send, type Reply } from "./client.ts";
import type { Order } from "./server-process.ts";

const folder = tempFolder();

/** Sends a request to a server that dies of it, then to one that lives; then once more. */
async function throughDeath(
  order: Order,
  path: string,
  body: object,
): Promise<{ second: Reply; third: Reply }> {
  const headers = { "idempotency-key": "the-one" };
  const asked = { method: "POST", body, headers };
  await using mortal = await ServerProcess.start(order);
  await assert.rejects(send(mortal, path, asked), { code: "ECONNRESET" });
  await mortal.ended;
  assert.equal(mortal.signal, "SIGKILL");
  const { dies: _dies, ...rest } = order;
  await using server = await ServerProcess.start(rest);
  return { second: await send(server, path, asked), third: await send(server, path, asked) };
}

const deaths = [
  { in: "jobs.enqueue", when: "before" },
  { in: "jobs.enqueue", when: "after" },
  { in: "requests.answer", when: "before" },
  { in: "requests.answer", when: "after" },
] as const;

for (const dies of deaths) {
  test(`one job, when the server dies ${dies.when} ${dies.in}`, async () => {
    const url = `sqlite:${folder.file(".db")}`;
    const order = { url, dies };
    const { second, third } = await throughDeath(order, "/api/v1/jobs", { task: "a.b", input: 1 });
    assert.deepEqual([second.status, third.status, third.text], [201, 201, second.text]);
    await using holdfast = await openHoldfast(url);
    const jobs = await holdfast.jobs.list();
    assert.deepEqual(
      jobs.map(({ id }) => id),
      [second.json.id],
    );
  });
}

test("many jobs at once are the same many, when the server dies after they were written", async () => {
  const url = `sqlite:${folder.file(".db")}`;
  const jobs = Array.from({ length: 20 }, (_, index) => ({ task: "a.b", input: index }));
  const dies = { in: "jobs.enqueue", when: "after" } as const;
  const { second, third } = await throughDeath({ url, dies }, "/api/v1/jobs/bulk", { jobs });
  assert.deepEqual([second.status, third.text], [201, second.text]);
  await using holdfast = await openHoldfast(url);
  const ids = (await holdfast.jobs.list({ limit: 100 })).map(({ id }) => id);
  assert.deepEqual(
    ids.toSorted(),
    second.json.jobs.map((one: { id: string }) => one.id).toSorted(),
  );
});

test("a retry whose server died afterwards is reported as done", async () => {
  const url = `sqlite:${folder.file(".db")}`;
  let id: string;
  {
    await using holdfast = await openHoldfast(url);
    id = await jobIn(holdfast.store, "failed");
  }
  // Whether the first server still works on it is unknown; the test decides it at once.
  const order = {
    url,
    dies: { in: "jobs.retry", when: "after" },
    limits: { underWayMs: 0 },
  } as const;
  const { second, third } = await throughDeath(order, `/api/v1/jobs/${id}/retry`, {});
  assert.deepEqual([second.status, third.text], [200, second.text]);
  await using holdfast = await openHoldfast(url);
  assert.equal((await holdfast.audit.list()).length, 1);
});

test("an operation that cannot run twice does not begin while another server may be processing it", async () => {
  await using api = await TestServer.open();
  const { locks, store } = api.holdfast;
  await using lock = await locks.acquire("order:42");
  const isHeld = async (): Promise<boolean> => (await locks.list()).length > 0;
  const path = "/api/v1/locks/release";
  const body = { key: lock.key };
  const headers = { "idempotency-key": "k" };
  // As another process would leave it that is at it, or was killed a moment ago.
  const begin = store.requests.begin.bind(store.requests);
  let others = 0;
  store.requests.begin = async (request) => {
    if (others === 0) await begin({ ...request, seed: '["018f2c5e-9b3a-700c-91f2-4c7d9be03a58"]' });
    others += 1;
    return begin(request);
  };
  const problem = await api.post(path, body, 409, { headers });
  assert.equal(problem.code, "UNDER_WAY");
  assert.ok(await isHeld());
  // The other process came to nothing: the next request releases the lock.
  await store.requests.abandon({ principal: "local", key: "k" });
  await api.post(path, body, 200, { headers });
  assert.ok(!(await isHeld()));
});

test("a request that failed inside is made when it is sent again", async () => {
  await using api = await TestServer.open();
  const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201);
  await api.post(`/api/v1/jobs/${id}/cancel`);
  const { store } = api.holdfast;
  const retry = store.jobs.retry.bind(store.jobs);
  store.jobs.retry = async () => {
    throw new Error("the disk is on fire");
  };
  const headers = { "idempotency-key": "k" };
  await api.post(`/api/v1/jobs/${id}/retry`, {}, 500, { headers });
  store.jobs.retry = retry;
  await api.post(`/api/v1/jobs/${id}/retry`, {}, 200, { headers });
});

test("a completed request is answered even if its response cannot be saved", async () => {
  await using api = await TestServer.open();
  const { store } = api.holdfast;
  const answer = store.requests.answer.bind(store.requests);
  store.requests.answer = async () => {
    throw new Error("the database went away");
  };
  const headers = { "idempotency-key": "k" };
  const { id } = await api.post("/api/v1/jobs", { task: "a.b" }, 201, { headers });
  assert.ok(api.log.some((line) => line.includes("could not save the response")));
  store.requests.answer = answer;
  assert.equal((await api.post("/api/v1/jobs", { task: "a.b" }, 201, { headers })).id, id);
});

test("an invalid key is refused", async () => {
  await using api = await TestServer.open();
  for (const key of ["", "x".repeat(256), "a b", "ü"]) {
    const headers = { "idempotency-key": Buffer.from(key).toString("latin1") };
    const problem = await api.post("/api/v1/jobs", { task: "a.b" }, 400, { headers });
    assert.equal(problem.field, "Idempotency-Key");
  }
});

test("old keys are forgotten", async () => {
  await using api = await TestServer.open(undefined, { limits: { keepRequestsMs: -1 } });
  const { store } = api.holdfast;
  await store.requests.begin({ principal: "a", key: "k", fingerprint: "0".repeat(64), seed: "[]" });
  const prune = { forMs: -1, limit: 10 };
  assert.ok((await store.requests.prune(prune)) <= 1);
  assert.equal(await store.requests.prune(prune), 0);
});

after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});
