/** Jobs by anything that they have, newest first, in slices, saying how far the walk looked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstIdAt } from "../../src/core/id.ts";
import type { JobFilter, JobListFilter } from "../../src/jobs/filter.ts";
import { sql } from "../../src/database/sql.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  enqueueOne,
  failed,
  idsOf,
  newJob,
  nextId,
  retry,
  settleOne,
} from "../support/jobs.ts";

async function found({ store }: Bundle, filter: JobListFilter): Promise<string[]> {
  return idsOf(await store.jobs.list(filter));
}

/** Enqueues these, oldest first. Each has an id that is greater than the one before. */
async function enqueue(bundle: Bundle, facts: Partial<NewJob>[]): Promise<string[]> {
  const ids: string[] = [];
  for (const fact of facts) {
    bundle.clock.advance(1);
    const id = firstIdAt(bundle.clock.now()).slice(0, 24) + nextId().slice(24);
    await enqueueOne(bundle.store, { ...fact, id });
    ids.push(id);
  }
  return ids;
}

export const searching: Group = (open) => {
  test("jobs are found by status, queue, task, key, tag, time, input and the start of their id", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const [a = "", b = "", c = "", d = ""] = await enqueue(bundle, [
      { queue: "mail", task: "mail.send", payload: '{"to":"ada","n":1}', tags: ["acme"] },
      { queue: "mail", task: "mail.send@2", payload: '{"to":"eve 100%_"}', key: "k-1" },
      { queue: "bulk", task: "image.resize", payload: '{"to":"bob"}', tags: ["acme", "x"] },
      { queue: "bulk", task: "image.resize", payload: '{"to":"ada"}', start: { delayMs: 1_000 } },
    ]);
    const find = (filter: JobListFilter): Promise<string[]> => found(bundle, filter);
    assert.deepEqual(await find({}), [d, c, b, a]);
    assert.deepEqual(await find({ status: "pending" }), [c, b, a]);
    assert.deepEqual(await find({ status: "scheduled" }), [d]);
    assert.deepEqual(await find({ status: "retry" }), []);
    assert.deepEqual(await find({ queue: "bulk" }), [d, c]);
    assert.deepEqual(await find({ task: "mail.send" }), [b, a]);
    assert.deepEqual(await find({ task: "mail.send@2" }), [b]);
    assert.deepEqual(await find({ key: "k-1" }), [b]);
    assert.deepEqual(await find({ key: "k-1", queue: "bulk" }), []);
    assert.deepEqual(await find({ tag: "acme" }), [c, a]);
    assert.deepEqual(await find({ tag: ["acme", "x"], status: "pending" }), [c]);
    assert.deepEqual(await find({ tag: "acme", input: "bob" }), [c]);
    assert.deepEqual(await find({ input: '"to":"ada"' }), [d, a]);
    assert.deepEqual(await find({ input: '"to":"ada"', status: "pending" }), [a]);
    // No pattern, and any case.
    assert.deepEqual(await find({ input: "%_" }), [b]);
    assert.deepEqual(await find({ input: "ADA" }), [d, a]);
    assert.deepEqual(await find({ enqueuedSince: clock.now() - 1 }), [d, c]);
    assert.deepEqual(await find({ enqueuedUntil: clock.now() - 1 }), [b, a]);
    assert.deepEqual(await find({ id: c.slice(0, 30) }), [c]);
    assert.deepEqual(await find({ keyPrefix: "k-" }), [b]);
    assert.deepEqual(await find({ status: ["scheduled", "pending"], queue: "bulk" }), [d, c]);
    assert.deepEqual(await find({ before: c }), [b, a]);
    assert.deepEqual(await find({ id: [a, d, nextId()] }), [d, a]);
    assert.deepEqual(await store.jobs.count({ queue: "bulk" }, { examine: 100 }), {
      count: 2,
      examined: 4,
      next: null,
    });
  });

  test("jobs are found by the text of their errors, and by the worker and the build that ran them", async () => {
    const bundle = await open();
    const { store, byHand, clock } = bundle;
    const [a = "", b = "", c = ""] = await enqueue(bundle, [{}, {}, {}]);
    const error = (message: string): { error: string } => ({
      error: JSON.stringify({ name: "CarrierTimeout", message }),
    });
    const claims = [];
    for (const worker of ["w-1", "w-2", "w-2"]) claims.push(await claimOne(store, { worker }));
    for (const job of claims) {
      if (job.id === a) await settleOne(store, failed(job, error("no answer from dhl").error));
      if (job.id === b)
        await settleOne(store, retry(job, { delayMs: 60_000, ...error("no answer from ups") }));
    }
    const find = (filter: JobListFilter): Promise<string[]> => found(bundle, filter);
    assert.deepEqual(await find({ error: "no answer" }), [b, a]);
    assert.deepEqual(await find({ error: "no answer", status: "failed" }), [a]);
    assert.deepEqual(await find({ error: "ups", status: "retry" }), [b]);
    assert.deepEqual(await find({ error: "dhl", status: "retry" }), []);
    assert.deepEqual(await find({ worker: "w-1" }), [a]);
    assert.deepEqual(await find({ worker: "w-2" }), [c, b]);
    assert.deepEqual(await find({ worker: "w-2", status: "processing" }), [c]);
    assert.deepEqual(await find({ worker: "w-1", status: "failed" }), [a]);
    assert.deepEqual(await find({ build: "9c41d07" }), []);
    await byHand(sql`insert into holdfast.worker_type (name) values ('mailer')`);
    await byHand(sql`
      insert into holdfast.worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                                   queues, tasks, concurrency, started_at, heartbeat_at)
      values ('w-2', 'mailer', null, 1, 'running', 'h', 1, '9c41d07', 'v', 'l', 'a', '[]', '[]', 1, ${clock.now()}, ${clock.now()})`);
    assert.deepEqual(await find({ build: "9c41d07" }), [c, b]);
  });

  test("a walk looks at so many and no more, says so, and continues where it ended", async () => {
    const { store, clock } = await open();
    const jobs = Array.from({ length: 60 }, (_, at) =>
      newJob({
        id: firstIdAt(clock.now() + at).slice(0, 24) + nextId().slice(24),
        payload: at % 20 === 0 ? '"needle"' : '"hay"',
      }),
    );
    await store.jobs.enqueue(jobs);
    const counts: unknown[] = [];
    let before: string | null = null;
    do {
      const counted = await store.jobs.count({ input: "needle" }, { examine: 25, before });
      counts.push([counted.count, counted.examined]);
      before = counted.next;
    } while (before !== null);
    assert.deepEqual(counts, [
      [1, 25],
      [1, 25],
      [1, 10],
    ]);
    const one = await store.jobs.page({ input: "needle" }, { limit: 1 });
    assert.deepEqual([one.jobs[0]?.id, one.next], [jobs[40]?.id, jobs[40]?.id]);
  });

  test("what a pasted text is", async () => {
    const bundle = await open();
    const { store } = bundle;
    const [id = ""] = await enqueue(bundle, [
      { task: "mail.send", key: "order-42", tags: ["acme"], queue: "mail" },
    ]);
    await store.stats.takeCounts({ everyMs: 0 });
    const known = await store.dashboard.names();
    assert.deepEqual([known.queues, known.tags], [["mail"], ["acme"]]);
    const find = async (text: string): Promise<string[]> =>
      (await store.dashboard.find(text, known)).map((hit) => `${hit.kind} ${hit.id}`);
    assert.deepEqual(await find(id), [`job ${id}`]);
    assert.deepEqual(await find(id.toUpperCase()), [`job ${id}`]);
    assert.deepEqual(await find(`worker-1-${id}-3`), [`job ${id}`]);
    assert.deepEqual(await find(id.slice(0, 20)), [`job ${id}`]);
    assert.deepEqual(await find("order-42"), ["key order-42"]);
    assert.deepEqual(await find("acme"), ["tag acme"]);
    assert.deepEqual(await find("mai"), ["queue mail"]);
    assert.deepEqual(await find("' or 1=1 --"), []);
  });

  test("what a job belongs to, its short form and its input", async () => {
    const bundle = await open();
    const { dashboard } = bundle.store;
    const [id = ""] = await enqueue(bundle, [{ task: "mail.send", payload: '{"to":"ada"}' }]);
    assert.deepEqual(await dashboard.relations(id), {
      startBy: null,
      schedule: null,
      item: null,
      called: [],
      callers: [],
    });
    assert.deepEqual(await dashboard.brief([id]), [{ id, task: "mail.send", status: "pending" }]);
  });

  test("inputs that only the caller can compare are read in small pages, with all other conditions", async () => {
    const bundle = await open();
    const { store } = bundle;
    const ids = await enqueue(
      bundle,
      Array.from({ length: 120 }, (_, at) => ({
        payload: `{"n":${at}}`,
        queue: at % 2 === 0 ? "even" : "odd",
        tags: ["all"],
      })),
    );
    const newest = ids.toReversed();
    const seen: string[] = [];
    const shows = (payload: string): boolean => {
      seen.push(payload);
      return payload.includes("1");
    };
    const having = newest.filter((id) => String(ids.indexOf(id)).includes("1"));
    const filters: JobFilter[] = [{}, { status: "pending" }, { tag: "all" }];
    for (const terms of filters) {
      const page = async (more: JobFilter, limit = 200, before?: string) =>
        store.jobs.page({ ...terms, ...more, input: "hidden" }, { shows, limit, before });
      assert.deepEqual(idsOf((await page({})).jobs), having);
      const even = having.filter((id) => ids.indexOf(id) % 2 === 0);
      assert.deepEqual(idsOf((await page({ queue: "even" })).jobs), even);
      const one = await page({}, 1);
      assert.deepEqual([one.jobs[0]?.id, one.next], [having[0], having[0]]);
      assert.equal((await page({}, 1, one.next ?? "")).jobs[0]?.id, having[1]);
      const how = { examine: 1_000, shows };
      const { count } = await store.jobs.count({ ...terms, input: "hidden" }, how);
      assert.equal(count, having.length);
    }
    assert.ok(seen.length > ids.length);
  });

  test("thousands of jobs of one tag are one tag", async () => {
    const { store } = await open();
    await store.jobs.enqueue(
      Array.from({ length: 300 }, (_, at) => newJob({ tags: ["all", `t-${at % 3}`] })),
    );
    assert.deepEqual((await store.dashboard.names()).tags, ["all", "t-0", "t-1", "t-2"]);
  });
};
