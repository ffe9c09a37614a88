/** Lanes, limits and pauses: what a claim may take from a queue that has rules. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { ClaimedJob, NewJob, Wanted } from "../../src/jobs/store.ts";
import type { QueueChange, RuleChange } from "../../src/queues/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  crash,
  done,
  enqueueOne,
  HOUR_MS,
  member,
  mustFind,
  newJob,
  nextId,
  one,
  promoteOne,
  released,
  retry,
  settleOne,
  upTo,
} from "../support/jobs.ts";

const ada = (): { id: string; actor: string; reason: string } => ({
  id: nextId(),
  actor: "ada",
  reason: "the provider is down",
});

const rule = (facts: Partial<RuleChange>): RuleChange => ({
  kind: "queue",
  name: "",
  concurrency: null,
  rate: null,
  weight: null,
  ...facts,
});

const limit = (store: Store, ...rules: Partial<RuleChange>[]): Promise<void> =>
  change(store, { rules: rules.map(rule) });

const change = (store: Store, facts: Partial<QueueChange>): Promise<void> =>
  store.queues.change({ queue: "default", rules: [], ...facts }, ada());

/** So many jobs of each lane, in this order. */
async function fill(store: Store, lanes: Record<string, number>, facts: Partial<NewJob> = {}) {
  for (const [lane, count] of Object.entries(lanes)) {
    const jobs = Array.from({ length: count }, () => newJob({ lane, ...facts }));
    await store.jobs.enqueue(jobs);
  }
}

async function laneCounts(store: Store, claimed: readonly ClaimedJob[]) {
  const counts: Record<string, number> = {};
  for (const { id } of claimed) {
    const lane = (await mustFind(store, id)).lane ?? "";
    counts[lane] = (counts[lane] ?? 0) + 1;
  }
  return counts;
}

const claim = (store: Store, count: number, facts: Partial<Wanted> = {}): Promise<ClaimedJob[]> =>
  store.jobs.claim(upTo(count, facts));

export const limits: Group = (open) => {
  suite("a pause", () => {
    test("keeps every worker from the queue until it ends, and records who paused it and why", async () => {
      const { store, clock } = await open();
      await enqueueOne(store);
      assert.equal(await store.queues.pause("default", ada()), true);
      assert.deepEqual(await claim(store, 5), []);
      assert.deepEqual(await claim(store, 5, { queues: ["default", "mail"] }), []);
      const { paused } = (await store.queues.find("default")) ?? {};
      const since = { at: clock.now(), by: "ada", reason: "the provider is down" };
      assert.deepEqual(paused, { ...since, isOfAll: false });
      assert.equal(await store.queues.resume("default", ada()), true);
      assert.equal((await claim(store, 5)).length, 1);
    });

    test("of one queue leaves the others alone", async () => {
      const { store } = await open();
      await enqueueOne(store);
      const mail = await enqueueOne(store, { queue: "mail" });
      await store.queues.pause("default", ada());
      const both = { queues: ["default", "mail"] };
      assert.deepEqual(
        (await claim(store, 5, both)).map(({ id }) => id),
        [mail.id],
      );
    });

    test("that exists, or does not, changes nothing and is recorded once", async () => {
      const { store } = await open();
      const first = ada();
      await store.queues.pause("default", first);
      assert.equal(await store.queues.pause("default", ada()), false);
      await store.queues.resume("default", ada());
      assert.equal(await store.queues.resume("default", ada()), false);
      const lines = await store.audit.list({ limit: 10 });
      assert.deepEqual(
        lines.map(({ action, subject, actor }) => [action, subject, actor]),
        [
          ["queue.pause", "queue default", "ada"],
          ["queue.resume", "queue default", "ada"],
        ],
      );
    });

    test("of one lane leaves the others alone, outlives a change of its limits, and is told as the reason", async () => {
      const { store, clock } = await open();
      await fill(store, { acme: 4, beta: 2 });
      const plain = await enqueueOne(store);
      assert.equal(await store.queues.pause("default", ada(), "acme"), true);
      assert.equal(await store.queues.pause("default", ada(), "acme"), false);
      const first = await claim(store, 9);
      assert.deepEqual(await laneCounts(store, first), { beta: 2, "": 1 });
      assert.ok(first.some(({ id }) => id === plain.id));
      await limit(store, { kind: "lane", name: "acme", concurrency: 3, weight: 2 });
      assert.deepEqual(await claim(store, 9), []);
      const since = { at: clock.now(), by: "ada", reason: "the provider is down" };
      const pauses = async () =>
        (await store.queues.find("default"))?.rules.map(({ name, paused }) => [name, paused]);
      assert.deepEqual(await pauses(), [["acme", since]]);
      await limit(store, { kind: "lane", name: "acme" });
      assert.deepEqual(await pauses(), [["acme", since]], "without limits, it is still paused");
      assert.equal(await store.queues.resume("default", ada(), "acme"), true);
      assert.equal(await store.queues.resume("default", ada(), "acme"), false);
      assert.deepEqual(await pauses(), []);
      assert.deepEqual(await laneCounts(store, await claim(store, 9)), { acme: 4 });
      const lines = await store.audit.list({ subject: "queue default", limit: 10 });
      assert.deepEqual(
        lines.flatMap(({ action, detail }) =>
          action === "queue.change" ? [] : [[action, detail]],
        ),
        [
          ["lane.pause", "acme"],
          ["lane.resume", "acme"],
        ],
      );
    });

    test("of a queue that is unknown is no typing error, but its end would be one", async () => {
      const { store } = await open();
      await enqueueOne(store, { queue: "mail" });
      await store.queues.pause("fax", ada());
      assert.equal(await store.queues.resume("mail", ada()), false);
      await assert.rejects(store.queues.resume("mial", ada()), {
        code: "QUEUE_NOT_FOUND",
        message:
          /^Queue 'mial' has neither jobs nor settings\. Known: fax, mail\. Did you mean mail\?/,
      });
      const queues = await store.queues.list();
      assert.deepEqual(
        queues.map(({ name }) => name),
        ["fax"],
        "no row was made",
      );
    });

    test("of all queues holds every job back, is recorded for each, and leaves earlier pauses alone", async () => {
      const { store } = await open();
      await enqueueOne(store);
      await enqueueOne(store, { queue: "mail" });
      await store.queues.pause("mail", ada());
      const all = ada();
      assert.deepEqual(await store.queues.pauseAll(all), ["default"]);
      assert.deepEqual(await store.queues.pauseAll(all), [], "nothing is left to pause");
      assert.deepEqual(await claim(store, 5, { queues: ["default", "mail"] }), []);
      assert.deepEqual(await store.queues.resumeAll(ada()), ["default"]);
      const claimed = await claim(store, 5, { queues: ["default", "mail"] });
      assert.deepEqual(
        claimed.map(({ queue }) => queue),
        ["default"],
      );
      assert.deepEqual(await store.queues.pauseAll(all), ["default"], "it is done once");
      assert.equal((await store.queues.find("default"))?.paused, null);
      const lines = await store.audit.list({ subject: "queue default", limit: 10 });
      assert.deepEqual(
        lines.map(({ action, reason }) => [action, reason]),
        [
          ["queue.pause", "the provider is down"],
          ["queue.resume", "the provider is down"],
        ],
      );
    });

    test("of all queues finds those whose jobs wait, are scheduled or run, though nothing has counted them, and those served over HTTP", async () => {
      const { store } = await open();
      await enqueueOne(store, { queue: "running" });
      const [job] = await claim(store, 1, { queues: ["running"] });
      await enqueueOne(store, { queue: "later", start: { delayMs: HOUR_MS } });
      const first = await enqueueOne(store, { ...member(), queue: "first" });
      await enqueueOne(store, { ...member([first.id]), queue: "after" });
      const unknown = { type: null, hostname: null, pid: null, version: null, tasks: null };
      const python = { id: "py-1", kind: "leases", queues: ["fax"], ...unknown } as const;
      await store.workers.noteUnregistered(python);
      const all = ["after", "fax", "first", "later", "running"];
      assert.deepEqual(await store.queues.pauseAll(ada()), all);
      await settleOne(store, done(job as ClaimedJob));
      assert.deepEqual(await claim(store, 5, { queues: all }), []);
      assert.deepEqual(await store.queues.resumeAll(ada()), all);
    });

    test("lets running jobs end, and takes jobs that are handed back", async () => {
      const { store } = await open();
      await enqueueOne(store);
      const [job] = await claim(store, 1);
      await store.queues.pause("default", ada());
      await settleOne(store, released(job as ClaimedJob));
      assert.deepEqual(await claim(store, 1), []);
    });
  });

  suite("lanes", () => {
    test("are counted: who waits, since when, what runs and started, whatever their tasks' limits are", async () => {
      const { store, clock } = await open();
      const begin = clock.now();
      await fill(store, { beta: 4 });
      clock.advance(5_000);
      await fill(store, { acme: 7 });
      await limit(store, { kind: "task", name: "mail.send", concurrency: 2 });
      await fill(store, { acme: 3 }); // beside the others of their lane, because of the limit
      for (let nth = 0; nth < 3; nth += 1) await enqueueOne(store);
      await enqueueOne(store, { queue: "mail", lane: "acme" });
      const [first] = await claim(store, 1);
      await settleOne(store, done(first as ClaimedJob));
      await claim(store, 1);
      clock.advance(1_000);
      const look = await store.queues.lanes("default", ["omega"]);
      const { waits, sinceBegin } = Object.groupBy(look.lanes, ({ lane }) =>
        lane === null ? "sinceBegin" : "waits",
      );
      assert.deepEqual(look.lanes.map(({ lane }) => lane).at(-1), "omega");
      assert.deepEqual([look.isComplete, look.countedAt], [true, clock.now()]);
      const sum = (of: (lane: (typeof look.lanes)[number]) => number | null): number =>
        look.lanes.reduce((all, lane) => all + (of(lane) ?? 0), 0);
      assert.deepEqual(look.total, { lanes: 3, pending: 15, isMore: false });
      assert.deepEqual([sum((lane) => lane.pending), sum((lane) => lane.running)], [15, 1]);
      assert.equal(
        sum((lane) => lane.startsPerMinute),
        2,
      );
      assert.equal(waits?.[0]?.lane, "acme");
      assert.ok((waits?.[0]?.pending ?? 0) >= 8);
      const beta = waits?.find(({ lane }) => lane === "beta");
      assert.ok(beta === undefined || beta.pending === 0 || beta.oldestPendingAt === begin);
      assert.equal(sinceBegin?.length, 1, "the jobs of no lane");
    });

    test("of more than 10,000 jobs are counted up to that, and do not hide those behind them", async () => {
      const { store } = await open();
      for (let at = 0; at < 11; at += 1) await fill(store, { big: 1_000 });
      await fill(store, { aaa: 2, zzz: 3 });
      const { lanes, total, isComplete } = await store.queues.lanes("default", []);
      assert.deepEqual(
        lanes.map(({ lane, pending, isMore }) => [lane, pending, isMore]),
        [
          ["big", 10_000, true],
          ["zzz", 3, false],
          ["aaa", 2, false],
        ],
      );
      assert.deepEqual([total, isComplete], [{ lanes: 3, pending: 10_005, isMore: true }, true]);
    });

    test("take turns: a backlog of one does not delay the others", async () => {
      const { store } = await open();
      await fill(store, { acme: 40, beta: 3, gamma: 3 });
      const claimed: ClaimedJob[] = [];
      for (let turn = 0; turn < 4; turn += 1) claimed.push(...(await claim(store, 4)));
      const counts = await laneCounts(store, claimed);
      assert.deepEqual([counts["beta"], counts["gamma"]], [3, 3]);
    });

    test("all get their share, whatever the backlogs of those before them", async () => {
      const { store } = await open();
      await fill(store, { a: 40, b: 40, c: 40, d: 40, e: 40 });
      const claimed: ClaimedJob[] = [];
      for (let turn = 0; turn < 10; turn += 1) claimed.push(...(await claim(store, 4)));
      const counts = Object.values(await laneCounts(store, claimed));
      assert.deepEqual(
        counts.map((count) => count >= 4),
        [true, true, true, true, true],
      );
    });

    test("leave no place empty: one lane alone gets all of them", async () => {
      const { store } = await open();
      await fill(store, { acme: 40 });
      assert.equal((await claim(store, 25)).length, 25);
      assert.equal((await claim(store, 25)).length, 15);
    });

    test("keep the order of priority, then of age, each for itself", async () => {
      const { store } = await open();
      const low = await enqueueOne(store, { lane: "acme" });
      const high = await enqueueOne(store, { lane: "acme", priority: 5 });
      const claimed = [...(await claim(store, 1)), ...(await claim(store, 1))];
      assert.deepEqual(
        claimed.map(({ id }) => id),
        [high.id, low.id],
      );
    });

    test("a weight gives a lane a larger share", async () => {
      const { store } = await open();
      await limit(store, { kind: "lane", name: "acme", weight: 3 });
      await fill(store, { acme: 40, beta: 40 });
      assert.deepEqual(await laneCounts(store, await claim(store, 8)), { acme: 6, beta: 2 });
    });

    test("are found beside jobs without one, whatever was first", async () => {
      const { store } = await open();
      await enqueueOne(store);
      await fill(store, { acme: 1 });
      await enqueueOne(store);
      assert.equal((await claim(store, 5)).length, 3);
    });

    test("stay with a job that is retried, released, reclaimed, cancelled or retried", async () => {
      const bundle = await open();
      const { store } = bundle;
      await limit(store, { kind: "lanes", concurrency: 1 });
      await fill(store, { acme: 1 });
      const [first] = await claim(store, 1);
      const { id } = first as ClaimedJob;
      await settleOne(store, retry(first as ClaimedJob, { delayMs: 10 }));
      await promoteOne(bundle, id);
      const [second] = await claim(store, 1);
      await settleOne(store, released(second as ClaimedJob));
      const [third] = await claim(store, 1);
      await crash(bundle, third as ClaimedJob);
      assert.equal((await mustFind(store, id)).lane, "acme");
    });
  });

  suite("a limit of concurrency", () => {
    test("of the queue counts the jobs of all workers", async () => {
      const { store } = await open();
      await limit(store, { concurrency: 3 });
      await fill(store, { acme: 5, beta: 5 });
      const first = await claim(store, 2, { worker: "worker-a" });
      const second = await claim(store, 5, { worker: "worker-b" });
      assert.deepEqual([first.length, second.length], [2, 1]);
      assert.deepEqual(await claim(store, 5, { worker: "worker-c" }), []);
      await settleOne(store, done(first[0] as ClaimedJob));
      assert.equal((await claim(store, 5, { worker: "worker-c" })).length, 1);
    });

    test("of each lane leaves room for the others", async () => {
      const { store } = await open();
      await limit(store, { kind: "lanes", concurrency: 2 });
      await fill(store, { acme: 9, beta: 1, gamma: 9 });
      const counts = await laneCounts(store, await claim(store, 20));
      assert.deepEqual(counts, { acme: 2, beta: 1, gamma: 2 });
      assert.deepEqual(await claim(store, 20), []);
    });

    test("of one lane goes before that of each, also where it is higher or zero", async () => {
      const { store } = await open();
      await limit(
        store,
        { kind: "lanes", concurrency: 1 },
        { kind: "lane", name: "acme", concurrency: 3 },
        { kind: "lane", name: "beta", concurrency: 0 },
      );
      await fill(store, { acme: 9, beta: 9, gamma: 9 });
      assert.deepEqual(await laneCounts(store, await claim(store, 20)), { acme: 3, gamma: 1 });
    });

    test("of one task holds in every lane, and hides no other task", async () => {
      const { store } = await open();
      await limit(store, { kind: "task", name: "mail.send", concurrency: 2 });
      await fill(store, { acme: 4, beta: 4 });
      await fill(store, { acme: 2 }, { task: "mail.read" });
      await store.jobs.enqueue([newJob({ task: "mail.send@2" })]);
      const claimed: ClaimedJob[] = [];
      for (let turn = 0; turn < 6; turn += 1) claimed.push(...(await claim(store, 10)));
      const tasks = claimed.map(({ task }) => task).toSorted();
      assert.deepEqual(tasks.filter((task) => task === "mail.read").length, 2);
      assert.equal(tasks.length, 4);
    });

    test("that is full hides no lane that is new", async () => {
      const { store } = await open();
      await limit(store, { kind: "lanes", concurrency: 1 });
      await fill(store, { b: 3, d: 3, f: 3 });
      // A turn that meets a lane without a gate behind full ones leaves it to the next turn, and each process has turns.
      const turns = async (places: number): Promise<ClaimedJob[]> => {
        const claimed: ClaimedJob[] = [];
        for (let turn = 0; turn < 24; turn += 1) claimed.push(...(await claim(store, places)));
        return claimed;
      };
      assert.equal((await turns(3)).length, 3);
      await fill(store, { a: 1, c: 1, e: 1, g: 1 });
      const claimed = await turns(1);
      assert.deepEqual(await laneCounts(store, claimed), { a: 1, c: 1, e: 1, g: 1 });
    });

    test("leaves no place empty that a job of any lane may take", async () => {
      const { store } = await open();
      await fill(store, { "": 0, a: 2 });
      await store.jobs.enqueue(Array.from({ length: 5 }, () => newJob()));
      assert.equal((await claim(store, 3)).length, 3);
      assert.equal((await claim(store, 9)).length, 4);
    });

    test("several limits hold together", async () => {
      const { store } = await open();
      await limit(store, { concurrency: 4 }, { kind: "lanes", concurrency: 3 });
      await fill(store, { acme: 9, beta: 9 });
      const counts = await laneCounts(store, await claim(store, 20));
      assert.equal(
        Object.values(counts).reduce((sum, count) => sum + count),
        4,
      );
      assert.ok(Object.values(counts).every((count) => count <= 3));
    });

    test("that comes later counts what runs already, and stops nothing", async () => {
      const { store } = await open();
      await fill(store, { "": 0 });
      await store.jobs.enqueue(Array.from({ length: 6 }, () => newJob()));
      const running = await claim(store, 3);
      await limit(store, { concurrency: 2 });
      assert.deepEqual(await claim(store, 3), []);
      await settleOne(store, done(running[0] as ClaimedJob));
      assert.deepEqual(await claim(store, 3), []);
      await settleOne(store, done(running[1] as ClaimedJob));
      assert.equal((await claim(store, 3)).length, 1);
    });

    test("that is removed leaves a plain queue", async () => {
      const { store, byHand } = await open();
      await limit(store, { concurrency: 1 });
      await store.jobs.enqueue(Array.from({ length: 4 }, () => newJob()));
      assert.equal((await claim(store, 4)).length, 1);
      await limit(store, { concurrency: null });
      assert.equal((await claim(store, 4)).length, 3);
      assert.equal(await byHand(sql`delete from holdfast.gate`), 0);
    });

    test("counts an expired lease until it is reclaimed, and never leaks", async () => {
      const bundle = await open();
      const { store, clock } = bundle;
      await limit(store, { concurrency: 1 });
      await fill(store, { acme: 2 });
      const [job] = await claim(store, 1);
      clock.advance(HOUR_MS);
      assert.deepEqual(await claim(store, 1), []);
      await crash(bundle, job as ClaimedJob);
      assert.equal((await claim(store, 1)).length, 1);
      await store.queues.pruneGates({ forMs: 1_000, limit: 10 });
      assert.deepEqual(await claim(store, 1), []);
    });

    test("counts a lease that a claim took while the limit was being set", async () => {
      const { store, byHand } = await open();
      await store.jobs.enqueue(Array.from({ length: 3 }, () => newJob()));
      await claim(store, 1);
      await limit(store, { concurrency: 1 });
      await byHand(sql`update holdfast.lease set lane = null`);
      assert.equal(await store.queues.countLeases(), 1);
      assert.deepEqual(await claim(store, 1), []);
    });

    test("deletes the gate of a lane that is no longer used", async () => {
      const { store, clock } = await open();
      await limit(store, { kind: "lanes", concurrency: 1 });
      await fill(store, { acme: 1, beta: 1 });
      const claimed = await claim(store, 5);
      await settleOne(store, done(claimed[0] as ClaimedJob));
      clock.advance(HOUR_MS);
      assert.equal(await store.queues.pruneGates({ forMs: 1_000, limit: 10 }), 1);
      await fill(store, { acme: 1, beta: 1 });
      assert.equal((await claim(store, 5)).length, 1);
    });

    test("finds lanes that are new since a turn visited all of them", async () => {
      const { store } = await open();
      await limit(store, { kind: "lanes", concurrency: 3 });
      await fill(store, { acme: 2 });
      assert.equal((await claim(store, 9)).length, 2);
      await fill(store, { acme: 2, beta: 2, delta: 2, gamma: 2 });
      const cycle = await store.jobs.settleAndClaim([], upTo(9));
      assert.ok(cycle.claimed.length === 7 || cycle.lookInMs === 0);
      const claimed = [...cycle.claimed, ...(await claim(store, 9))];
      assert.deepEqual(await laneCounts(store, claimed), { acme: 1, beta: 2, delta: 2, gamma: 2 });
    });

    test("holds though settling and claiming are one cycle", async () => {
      const { store } = await open();
      await limit(store, { concurrency: 2 });
      await fill(store, { acme: 9 });
      let running = await claim(store, 5);
      for (let turn = 0; turn < 3; turn += 1) {
        assert.equal(running.length, 2);
        const settlements = running.map((job) => done(job));
        running = (await store.jobs.settleAndClaim(settlements, upTo(5))).claimed;
      }
    });
  });

  suite("a rate", () => {
    test("with a small burst lets no job be claimed ahead of a free slot, in its lane and in any other", async () => {
      const { store } = await open();
      const rate = { count: 20, periodMs: 1_000, burst: 20 };
      await limit(store, { kind: "lane", name: "slow", rate });
      await fill(store, { fast: 9 });
      assert.equal((await claim(store, 6, { ahead: 4 })).length, 6);
      await fill(store, { fast: 9, slow: 9 });
      const both = await claim(store, 6, { ahead: 2 });
      assert.deepEqual(await laneCounts(store, both), { fast: 2, slow: 2 });
    });

    test("allows so many starts in a period, and says when the next may be", async () => {
      const { store, clock } = await open();
      await limit(store, { rate: { count: 2, periodMs: 1_000, burst: 1 } });
      await fill(store, { acme: 9 });
      assert.equal((await claim(store, 5)).length, 1);
      const cycle = await store.jobs.settleAndClaim([], upTo(5));
      assert.deepEqual([cycle.claimed, cycle.lookInMs], [[], 500]);
      clock.advance(499);
      assert.deepEqual(await claim(store, 5), []);
      clock.advance(1);
      assert.equal((await claim(store, 5)).length, 1);
    });

    test("lets a burst start after a pause, and no more", async () => {
      const { store, clock } = await open();
      await limit(store, { rate: { count: 10, periodMs: 1_000, burst: 4 } });
      await fill(store, { acme: 20 });
      assert.equal((await claim(store, 20)).length, 4);
      clock.advance(200);
      assert.equal((await claim(store, 20)).length, 2);
      clock.advance(HOUR_MS);
      assert.equal((await claim(store, 20)).length, 4);
    });

    test("of each lane, or of a task, leaves the others alone", async () => {
      const { store, clock } = await open();
      const rate = { count: 1, periodMs: 1_000, burst: 1 };
      await limit(store, { kind: "lanes", rate }, { kind: "task", name: "mail.read", rate });
      await fill(store, { acme: 3, beta: 3 });
      await fill(store, { gamma: 3 }, { task: "mail.read" });
      const first = [...(await claim(store, 9)), ...(await claim(store, 9))];
      assert.deepEqual(await laneCounts(store, first), { acme: 1, beta: 1, gamma: 1 });
      clock.advance(1_000);
      assert.equal((await claim(store, 9)).length, 3);
    });

    test("is not stopped for as long as the clock was set back", async () => {
      const { store, clock } = await open();
      await limit(store, { rate: { count: 1, periodMs: 1_000, burst: 1 } });
      await fill(store, { acme: 9 });
      clock.advance(HOUR_MS);
      assert.equal((await claim(store, 9)).length, 1);
      clock.advance(-HOUR_MS);
      clock.advance(1_000);
      assert.equal((await claim(store, 9)).length, 1);
    });
  });

  suite("a time by which a job must start", () => {
    test("ends the job as expired if no worker has started it, and says so", async () => {
      const { store, clock } = await open();
      const { id } = await enqueueOne(store, { startBy: { withinMs: 1_000 }, key: "ada" });
      clock.advance(999);
      assert.deepEqual(await store.jobs.expireLate({ limit: 10 }), []);
      assert.equal((await store.jobs.upcoming()).pendingUntilMs, 1);
      clock.advance(1);
      assert.deepEqual(await claim(store, 5), [], "a claim takes no job that is late");
      const [expired] = await store.jobs.expireLate({ limit: 10 });
      assert.deepEqual([expired?.id, expired?.status], [id, "expired"]);
      const job = await mustFind(store, id);
      assert.deepEqual([job.status, job.attempts, job.finishedAt], ["expired", 0, clock.now()]);
      assert.match(job.lastError ?? "", /had to start by/);
      await enqueueOne(store, { key: "ada" }); // the key is free
    });

    test("holds for a scheduled job, in every lane, and no longer once it has started", async () => {
      const { store, clock } = await open();
      const late = { startBy: { at: clock.now() + 1_000 } };
      await enqueueOne(store, { ...late, start: { delayMs: 500 } });
      await enqueueOne(store, { ...late, lane: "acme" });
      const [job] = await claim(store, 1);
      clock.advance(2_000);
      assert.equal((await store.jobs.upcoming()).waitingUntilMs, -1_000);
      assert.equal((await store.jobs.expireLate({ limit: 10 })).length, 1);
      await settleOne(store, released(job as ClaimedJob));
      assert.deepEqual(await store.jobs.expireLate({ limit: 10 }), []);
      assert.equal((await claim(store, 5)).length, 1);
    });

    test("takes at most its limit, and a retried job has none", async () => {
      const { store } = await open();
      const ids = [];
      for (let n = 0; n < 3; n += 1) ids.push((await enqueueOne(store, { startBy: { at: 1 } })).id);
      assert.equal((await store.jobs.expireLate({ limit: 2 })).length, 2);
      assert.equal((await store.jobs.expireLate({ limit: 2 })).length, 1);
      await store.jobs.retry(ids[0] as string, 1);
      assert.equal((await claim(store, 5)).length, 1);
    });
  });

  suite("ageing", () => {
    test("lets a job of low priority go first once it has waited long enough", async () => {
      const { store, clock } = await open();
      await change(store, { ageingMs: 1_000 });
      const low = await enqueueOne(store, { priority: 0 });
      clock.advance(1_500);
      const high = await enqueueOne(store, { priority: 1 });
      clock.advance(100);
      const higher = await enqueueOne(store, { priority: 2 });
      const claimed = await claim(store, 3);
      assert.deepEqual(
        claimed.map(({ id }) => id).toSorted(),
        [low.id, high.id, higher.id].toSorted(),
      );
      await store.jobs.release(claimed.slice(0, 1));
      const [next] = await store.jobs.claim(one());
      assert.equal(next?.id, claimed[0]?.id);
    });
  });
};
