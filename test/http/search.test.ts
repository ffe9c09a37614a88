/** Jobs by filter over HTTP: rows on a screen, counts, and texts as people type them. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { defineTask } from "../../src/index.ts";
import { isLong } from "../support/scale.ts";
import { TestServer } from "./client.ts";

test("inputs are found by what people see, also quotes and line breaks", async () => {
  await using api = await TestServer.open();
  const input = { note: 'she said "no"\nand left', cents: 1999, path: "a\\b" };
  const { id } = await api.post("/api/v1/jobs", { task: "t", input }, 201);
  await api.post("/api/v1/jobs", { task: "t", input: { note: "other" } }, 201);
  const found = async (payload: string): Promise<string[]> => {
    const { jobs } = await api.get(`/api/v1/jobs?input=${encodeURIComponent(payload)}`);
    return jobs.map((job: { id: string }) => job.id);
  };
  assert.deepEqual(await found("and left"), [id]);
  assert.deepEqual(await found('no\\"'), [id]);
  assert.deepEqual(await found('"cents":1999'), [id]);
  assert.deepEqual(await found("a\\b"), [id]);
  assert.equal((await found("note")).length, 2);
});

test("a list says how far it looked, and reads the rows on a screen by their ids", async () => {
  await using api = await TestServer.open();
  const { id } = await api.post("/api/v1/jobs", { task: "t" }, 201);
  const { jobs, ...looked } = await api.get("/api/v1/jobs?queue=default");
  assert.deepEqual(looked, { examined: 1, isComplete: true, next: null });
  const same = await api.get(`/api/v1/jobs?id=${id}&id=018f2c5e-9b3a-700c-91f2-4c7d9be03a58`);
  assert.deepEqual(same.jobs, jobs);
  const counted = await api.get("/api/v1/jobs/count?status=pending&status=failed");
  assert.deepEqual(counted, { count: 1, examined: 1, isComplete: true, next: null });
  await api.get("/api/v1/jobs?id=nonsense", 400);
  assert.equal((await api.get(`/api/v1/jobs?id=${id}&id=0199`, 400)).field, "id[1]");
  assert.equal((await api.get("/api/v1/jobs?status=done&status=lost", 400)).field, "status");
  assert.equal((await api.get("/api/v1/jobs?endedSince=soon", 400)).field, "endedSince");
  assert.equal((await api.get("/api/v1/jobs/count?endedUntil=soon", 400)).field, "endedUntil");
  await api.get("/api/v1/jobs?input=", 400);
  await api.get("/api/v1/jobs/count?examine=1000000", 400);
  await api.get("/api/v1/jobs?worker=w&colour=red", 400);
  await api.get("/api/v1/jobs?queue=a&queue=b", 400);
});

const MANY = 200_000;
const TOGETHER = 1_000;
const TRIES = 21;

test(
  "a filter that nothing matches costs at most twice as much as a plain page, among 200,000 jobs",
  { skip: isLong ? false : "in the long run" },
  async () => {
    await using api = await TestServer.open();
    const task = defineTask({ name: "t", queue: "some", run: () => {} });
    for (let made = 0; made < MANY; made += TOGETHER) {
      const inputs = Array.from({ length: TOGETHER }, (_, n) => ({ n: made + n }));
      await api.holdfast.enqueueMany(task, inputs, { tags: ["all"] });
    }
    const cost = async (query: string): Promise<number> => {
      const took: number[] = [];
      for (let tries = 0; tries < TRIES; tries += 1) {
        const begunAt = performance.now();
        await api.get(`/api/v1/jobs?${query}`);
        took.push(performance.now() - begunAt);
      }
      return took.toSorted((a, b) => a - b)[(TRIES - 1) / 2] ?? 0;
    };
    const plain = await cost("limit=50");
    for (const none of [
      "queue=none",
      "error=none",
      "input=none",
      "tag=all&queue=none",
      "lane=no",
    ]) {
      const took = await cost(none);
      assert.ok(took <= 2 * plain, `${none}: ${took} ms; a plain page: ${plain} ms`);
    }
  },
);

test("a pasted text leads to what it is", async () => {
  await using api = await TestServer.open();
  const options = { key: "order-42", tags: ["acme"], queue: "mail" };
  const { id } = await api.post("/api/v1/jobs", { task: "t", options }, 201);
  const hits = async (text: string, kind = ""): Promise<string[]> => {
    const found = await api.get(`/api/v1/find?text=${encodeURIComponent(text)}${kind}`);
    return found.hits.map((hit: { kind: string; id: string }) => `${hit.kind} ${hit.id}`);
  };
  assert.deepEqual(await hits(`  ${id} `), [`job ${id}`]);
  assert.deepEqual(await hits("order-42"), ["key order-42"]);
  for (const key of ["order-420", "order-43", "order-42"]) {
    await api.post("/api/v1/jobs", { task: "u", options: { key } }, 201);
  }
  assert.deepEqual(await hits("order-42"), ["key order-42", "key order-420"]);
  assert.deepEqual(await hits("order-4"), ["key order-42", "key order-420", "key order-43"]);
  const begun = await api.get("/api/v1/jobs?keyPrefix=order-42&limit=9");
  assert.deepEqual([begun.jobs.length, begun.examined], [3, 3]);
  assert.deepEqual(await hits("acme"), ["tag acme"]);
  assert.deepEqual(await hits("acme", "&kind=key"), []);
  assert.deepEqual(await hits(""), []);
  const names = await api.get("/api/v1/names");
  assert.deepEqual(names.tags, ["acme"]);
});

after(assertNothingRuns);
