/** The trace that a job belongs to: written with the job or not at all, whichever way it came, and gone with it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Group } from "../support/bundle.ts";
import { claimOne, done, enqueueOne, HOUR_MS, newJob, settleOne } from "../support/jobs.ts";

const trace = {
  traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  tracestate: "vendor=a'b\\c",
};
const stateless = { ...trace, tracestate: null };
const keepNothing = { done: 0, failed: 0, cancelled: 0, expired: 0 };

const ways: [what: string, facts: Partial<NewJob>][] = [
  ["alone", {}],
  ["with a key", { key: "k" }],
  ["with a key that is kept", { key: "k", keyForMs: HOUR_MS }],
  ["for later", { start: { delayMs: HOUR_MS } }],
  ["with a say about who holds its key", { key: "k", onConflict: "replace" }],
];

export const traces: Group = (open) => {
  for (const [what, facts] of ways) {
    test(`a job that comes ${what} keeps its trace`, async () => {
      const { store } = await open();
      const { id } = await enqueueOne(store, { ...facts, trace });
      assert.deepEqual(await store.traces.list([id]), [{ id, ...trace }]);
    });
  }

  test("of many jobs those have a trace that came with one", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 1_200 }, (_, index) =>
      index % 3 === 0 ? newJob() : newJob({ trace: stateless }),
    );
    await store.jobs.enqueue(jobs);
    const told = await store.traces.list(jobs.map(({ id }) => id));
    const wanted = jobs.filter((job) => job.trace !== undefined).map(({ id }) => id);
    assert.deepEqual(told.map(({ id }) => id).toSorted(), wanted.toSorted());
    assert.deepEqual({ ...told[0], id: "" }, { ...stateless, id: "" });
  });

  test("a job without a trace has none, and one that does not exist neither", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store);
    assert.deepEqual(await store.traces.list([id, newJob().id, "no id at all"]), []);
    assert.deepEqual(await store.traces.list([]), []);
  });

  test("a job that is not added leaves the trace of the existing job alone", async () => {
    const { store } = await open();
    const first = await enqueueOne(store, { key: "k", trace });
    const second = newJob({ key: "k", trace: stateless });
    assert.deepEqual(await store.jobs.enqueue([second]), [{ id: first.id, added: false }]);
    // Sent again, because its answer was lost.
    assert.deepEqual(await store.jobs.enqueue([first]), [{ id: first.id, added: false }]);
    const plain = await enqueueOne(store, { trace });
    assert.deepEqual(await store.jobs.enqueue([{ ...plain, trace: stateless }]), [
      { id: plain.id, added: false },
    ]);
    const told = await store.traces.list([first.id, second.id, plain.id]);
    assert.deepEqual(
      told.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      [
        { id: first.id, ...trace },
        { id: plain.id, ...trace },
      ],
    );
  });

  test("jobs that are refused leave no trace behind", async () => {
    const { store, byHand } = await open();
    await enqueueOne(store, { key: "k" });
    const refused = [newJob({ trace }), newJob({ key: "k", onConflict: "reject", trace })];
    await assert.rejects(store.jobs.enqueue(refused), { code: "KEY_TAKEN" });
    assert.deepEqual(await store.traces.list(refused.map(({ id }) => id)), []);
    assert.equal(await byHand(sql`delete from holdfast.job_trace`), 0);
  });

  test("a trace stays through every attempt, and goes with its job", async () => {
    const { store, clock } = await open();
    const { id } = await enqueueOne(store, { trace });
    const kept = await enqueueOne(store, { trace, queue: "other" });
    const claimed = await claimOne(store);
    assert.equal((await store.traces.list([id])).length, 1);
    await settleOne(store, done(claimed));
    clock.advance(1);
    assert.equal((await store.traces.list([id])).length, 1);
    assert.equal(await store.jobs.prune({ retention: keepNothing, limit: 9 }), 1);
    assert.deepEqual(await store.traces.list([id, kept.id]), [{ id: kept.id, ...trace }]);
  });

  test("the database itself refuses an invalid trace", async () => {
    const { store, byHand } = await open();
    const { id } = await enqueueOne(store);
    const empty = sql`insert into holdfast.job_trace (job_id, traceparent) values (${id}, ${""})`;
    await assert.rejects(byHand(empty), StoreRefusedError);
  });
};
