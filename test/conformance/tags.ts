/** Tags: written with the job or not at all, whichever way it came; listed through their index, and gone with the job. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { sql } from "../../src/database/sql.ts";
import type { JobListFilter } from "../../src/jobs/filter.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  idsOf,
  mustFind,
  newJob,
  settleOne,
} from "../support/jobs.ts";

const tagged = ["Ünïcode 🏷", "a'b\\c", "invoices"].toSorted();

const ways: [what: string, facts: Partial<NewJob>][] = [
  ["alone", {}],
  ["with a trace", { trace: { traceparent: "00-1-2-01", tracestate: null } }],
  ["with a key", { key: "k" }],
  ["for later", { start: { delayMs: HOUR_MS } }],
  ["with a say about who holds its key", { key: "k", onConflict: "replace" }],
];

export const tags: Group = (open) => {
  for (const [what, facts] of ways) {
    test(`a job that comes ${what} keeps its tags`, async () => {
      const { store } = await open();
      const { id } = await enqueueOne(store, { ...facts, tags: tagged });
      assert.deepEqual((await mustFind(store, id)).tags, tagged);
      const [listed] = await store.jobs.list({ tag: ["invoices"], limit: 9 });
      assert.deepEqual([listed?.id, listed?.tags], [id, tagged]);
    });
  }

  test("of many jobs those have tags that came with some", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 900 }, (_, index) =>
      index % 3 === 0 ? newJob() : newJob({ tags: [`t${index % 3}`] }),
    );
    await store.jobs.enqueue(jobs);
    const wanted = jobs.filter((_, index) => index % 3 === 1).map(({ id }) => id);
    const listed = await store.jobs.list({ tag: ["t1"], limit: 999 });
    assert.deepEqual(idsOf(listed), wanted.toReversed());
    assert.deepEqual((await mustFind(store, jobs[0]!.id)).tags, []);
  });

  test("a job that is not added leaves the tags of the job that is there alone", async () => {
    const { store } = await open();
    const first = await enqueueOne(store, { key: "k", tags: ["a"] });
    const second = newJob({ key: "k", tags: ["b"] });
    assert.deepEqual(await store.jobs.enqueue([second]), [{ id: first.id, added: false }]);
    const again = { ...first, tags: ["c"] };
    assert.deepEqual(await store.jobs.enqueue([again]), [{ id: first.id, added: false }]);
    const plain = await enqueueOne(store, { tags: ["a"] });
    await store.jobs.enqueue([{ ...plain, tags: ["c"] }]);
    for (const { id } of [first, plain]) assert.deepEqual((await mustFind(store, id)).tags, ["a"]);
    assert.deepEqual(await store.jobs.list({ tag: ["b"], limit: 9 }), []);
    assert.deepEqual(await store.jobs.list({ tag: ["c"], limit: 9 }), []);
  });

  test("jobs that are refused leave no tag behind", async () => {
    const { store, byHand } = await open();
    await enqueueOne(store, { key: "k" });
    const refused = [newJob({ tags: ["a"] }), newJob({ key: "k", onConflict: "reject" })];
    await assert.rejects(store.jobs.enqueue(refused), { code: "KEY_TAKEN" });
    assert.equal(await byHand(sql`delete from holdfast.job_tag`), 0);
  });

  test("tags are listed newest first, page by page, with every other filter", async () => {
    const { store } = await open();
    const a = await enqueueOne(store, { tags: ["x", "y"], queue: "a" });
    const b = await enqueueOne(store, { tags: ["x"], queue: "b", task: "b@2" });
    const c = await enqueueOne(store, { tags: ["x", "y"], queue: "c", key: "k" });
    await enqueueOne(store, { tags: ["z"] });
    await enqueueOne(store);
    await settleOne(store, failed(await claimOne(store, { queues: ["a"] })));
    const ids = async (filter: JobListFilter): Promise<string[]> =>
      idsOf(await store.jobs.list({ tag: ["x"], limit: 9, ...filter }));
    assert.deepEqual(await ids({}), [c.id, b.id, a.id]);
    assert.deepEqual(await ids({ limit: 2 }), [c.id, b.id]);
    assert.deepEqual(await ids({ before: b.id }), [a.id]);
    assert.deepEqual(await ids({ tag: ["y", "x"] }), [c.id, a.id]);
    assert.deepEqual(await ids({ tag: ["x", "none"] }), []);
    assert.deepEqual(await ids({ status: "failed" }), [a.id]);
    assert.deepEqual(await ids({ status: "pending", limit: 1 }), [c.id]);
    assert.deepEqual(await ids({ queue: "b" }), [b.id]);
    assert.deepEqual(await ids({ task: "b" }), [b.id]);
    assert.deepEqual(await ids({ key: "k" }), [c.id]);
    assert.deepEqual(await ids({ key: "k", status: "failed" }), []);
    assert.deepEqual(await ids({ id: b.id }), [b.id]);
  });

  test("tags stay through every attempt, and go with their job", async () => {
    const { store, clock, byHand } = await open();
    const { id } = await enqueueOne(store, { tags: ["a"] });
    const kept = await enqueueOne(store, { tags: ["a"], queue: "other" });
    await settleOne(store, done(await claimOne(store)));
    clock.advance(1);
    assert.deepEqual((await mustFind(store, id)).tags, ["a"]);
    const retention = { done: 0, failed: 0, cancelled: 0, expired: 0 };
    assert.equal(await store.jobs.prune({ retention, limit: 9 }), 1);
    assert.deepEqual(idsOf(await store.jobs.list({ tag: ["a"], limit: 9 })), [kept.id]);
    assert.equal(await byHand(sql`delete from holdfast.job_tag`), 1);
  });

  test("the database itself refuses an invalid tag, and the same tag twice", async () => {
    const { store, byHand } = await open();
    const { id } = await enqueueOne(store, { tags: ["a"] });
    for (const tag of ["", "a"]) {
      const insert = sql`insert into holdfast.job_tag (tag, job_id) values (${tag}, ${id})`;
      await assert.rejects(byHand(insert), StoreRefusedError);
    }
  });
};
