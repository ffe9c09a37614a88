/** Search: by anything that a job has, newest first, in slices, saying how far it looked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstIdAt } from "../../src/core/id.ts";
import type { SearchFilter } from "../../src/jobs/search.ts";
import { sql } from "../../src/database/sql.ts";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { claimOne, enqueueOne, failed, newJob, nextId, retry, settleOne } from "../support/jobs.ts";

const PAGE = { limit: 50, look: 100_000 };

async function idsOf({ store }: Bundle, filter: Partial<SearchFilter>): Promise<string[]> {
  const { jobs } = await store.dashboard.search({ ...PAGE, ...filter });
  return jobs.map(({ id }) => id);
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
    const find = (filter: Partial<SearchFilter>): Promise<string[]> => idsOf(bundle, filter);
    assert.deepEqual(await find({}), [d, c, b, a]);
    assert.deepEqual(await find({ status: "pending" }), [c, b, a]);
    assert.deepEqual(await find({ status: "scheduled" }), [d]);
    assert.deepEqual(await find({ status: "retry" }), []);
    assert.deepEqual(await find({ queue: "bulk" }), [d, c]);
    assert.deepEqual(await find({ task: "mail.send" }), [b, a]);
    assert.deepEqual(await find({ task: "mail.send@2" }), [b]);
    assert.deepEqual(await find({ key: "k-1" }), [b]);
    assert.deepEqual(await find({ key: "k-1", queue: "bulk" }), []);
    assert.deepEqual(await find({ tags: ["acme"] }), [c, a]);
    assert.deepEqual(await find({ tags: ["acme", "x"], status: "pending" }), [c]);
    assert.deepEqual(await find({ tags: ["acme"], payload: "bob" }), [c]);
    assert.deepEqual(await find({ payload: '"to":"ada"' }), [d, a]);
    assert.deepEqual(await find({ payload: '"to":"ada"', status: "pending" }), [a]);
    // Neither a pattern nor another case.
    assert.deepEqual(await find({ payload: "%_" }), [b]);
    assert.deepEqual(await find({ payload: "ADA" }), []);
    assert.deepEqual(await find({ since: clock.now() - 1 }), [d, c]);
    assert.deepEqual(await find({ until: clock.now() - 1 }), [b, a]);
    assert.deepEqual(await find({ prefix: c.slice(0, 30) }), [c]);
    assert.deepEqual(await find({ prefix: "zz" }), []);
    assert.deepEqual(await find({ before: c }), [b, a]);
    assert.deepEqual(
      (await store.dashboard.jobs([a, d, nextId()])).map(({ id }) => id),
      [d, a],
    );
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
    const find = (filter: Partial<SearchFilter>): Promise<string[]> => idsOf(bundle, filter);
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

  test("a search looks at so many and no more, says so, and continues where it ended", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const jobs = Array.from({ length: 60 }, (_, at) =>
      newJob({
        id: firstIdAt(clock.now() + at).slice(0, 24) + nextId().slice(24),
        payload: at % 20 === 0 ? '"needle"' : '"hay"',
      }),
    );
    await store.jobs.enqueue(jobs);
    const found: string[] = [];
    let looked = 0;
    let before: string | undefined;
    let calls = 0;
    do {
      const page = await store.dashboard.search({ payload: "needle", limit: 10, look: 25, before });
      assert.ok(page.looked <= 25);
      found.push(...page.jobs.map(({ id }) => id));
      looked += page.looked;
      before = page.next ?? undefined;
      calls += 1;
    } while (before !== undefined);
    assert.deepEqual(
      found,
      [40, 20, 0].map((at) => jobs[at]?.id),
    );
    assert.equal(looked, 60);
    assert.equal(calls, 3);
    const one = await store.dashboard.search({ payload: "needle", limit: 1, look: 100 });
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
    await store.jobs.cancel(id);
    assert.equal((await claimNone(bundle)).length, 0);
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
    const { dashboard } = bundle.store;
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
    for (const terms of [{}, { status: "pending" }, { tags: ["all"] }] as Partial<SearchFilter>[]) {
      assert.deepEqual(await idsOf(bundle, { ...terms, shows, limit: 200 }), having);
      const even = having.filter((id) => ids.indexOf(id) % 2 === 0);
      assert.deepEqual(await idsOf(bundle, { ...terms, shows, queue: "even", limit: 200 }), even);
      const one = await dashboard.search({ ...terms, shows, ...PAGE, limit: 1 });
      assert.deepEqual([one.jobs[0]?.id, one.next], [having[0], having[0]]);
      const before = one.next ?? "";
      const two = await dashboard.search({ ...terms, shows, ...PAGE, limit: 1, before });
      assert.equal(two.jobs[0]?.id, having[1]);
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

async function claimNone({ store }: Bundle): Promise<readonly object[]> {
  const { jobs } = await store.dashboard.search({ ...PAGE, status: "pending" });
  return jobs;
}
