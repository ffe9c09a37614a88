/** Flows: a job that waits for others starts when the last of them has ended, or ends as its policy says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/app/store.ts";
import { calledId } from "../../src/core/id.ts";
import { sql } from "../../src/database/sql.ts";
import type { Dependency, Member, NewJob } from "../../src/jobs/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  LEASE_MS,
  member,
  mustFind,
  newJob,
  nextId,
  settleOne,
  sweep,
  upTo,
} from "../support/jobs.ts";

const KEEP = { done: 1_000, failed: 1_000, cancelled: 1_000, expired: 1_000 } as never;

/** Jobs by name, each after those it names: `{ a: [], b: ["a"] }`. */
type Plan = Readonly<Record<string, readonly string[]>>;

interface Made<Names extends string> {
  readonly flow: string;
  readonly ids: Readonly<Record<Names, string>>;
}

/** Enqueues a flow in which each job is its own queue, so that a test claims the one it means. */
async function makeFlow<const P extends Plan>(
  store: Store,
  plan: P,
  policies: Partial<Pick<Dependency, "onFailed" | "onCancelled">> = {},
): Promise<Made<keyof P & string>> {
  const names = Object.keys(plan) as (keyof P & string)[];
  const ids = Object.fromEntries(names.map((name) => [name, calledId(nextId())])) as Record<
    keyof P & string,
    string
  >;
  const flow = nextId();
  const jobs = names.map((name) =>
    newJob({
      id: ids[name],
      queue: name,
      member: {
        flow,
        name,
        before: [],
        after: (plan[name] ?? []).map((on) => ({
          id: ids[on as keyof P & string],
          onFailed: "fail",
          onCancelled: "cancel",
          ...policies,
        })),
      },
    }),
  );
  await store.flows.enqueue({ id: flow, kind: "flow", name: "test", callback: null }, jobs);
  return { flow, ids };
}

async function end(
  store: Store,
  queue: string,
  how: "done" | "failed" | "cancelled" = "done",
): Promise<void> {
  const claimed = await claimOne(store, { queues: [queue] });
  const settling = {
    done: done(claimed, `"${queue}"`),
    failed: failed(claimed),
    cancelled: cancelled(claimed),
  };
  await settleOne(store, settling[how]);
}

async function statusesOf(
  store: Store,
  ids: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const [name, id] of Object.entries(ids)) all[name] = (await mustFind(store, id)).status;
  return all;
}

/** What holds at every commit. */
async function assertSound({ store, byHand }: Bundle): Promise<void> {
  for (const check of [
    "dependency-miscounted",
    "dependency-orphaned",
    "waiting-for-nothing",
    "job-in-two-tables",
    "job-nowhere",
  ]) {
    assert.equal(await store.checks.examine(check, { limit: 10 }), null, check);
  }
  assert.equal(
    await byHand(sql`update holdfast.waiting set missing = missing where missing < 0`),
    0,
  );
}

/** Maintenance, until it finds nothing more. */
async function maintain(store: Store, all = false): Promise<void> {
  for (let rounds = 0; rounds < 100; rounds += 1) {
    const { ended, next } = await store.flows.sweep({ after: null, limit: 500, all });
    if (ended === 0 && next === null) return;
  }
  assert.fail("maintenance found no end");
}

export const flows: Group = (open) => {
  test("a job starts when the last of those it waits for has ended", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids, flow } = await makeFlow(store, { a: [], b: [], c: ["a", "b"], d: ["c", "a"] });
    assert.deepEqual(await statusesOf(store, ids), {
      a: "pending",
      b: "pending",
      c: "waiting",
      d: "waiting",
    });
    assert.deepEqual(await store.flows.waitsFor(ids.c, { limit: 10 }), [ids.a, ids.b].toSorted());
    await end(store, "b");
    await assertSound(bundle);
    assert.deepEqual(await store.jobs.claim(upTo(9, { queues: ["c", "d"] })), []);
    await end(store, "a");
    assert.deepEqual(await statusesOf(store, ids), {
      a: "done",
      b: "done",
      c: "pending",
      d: "waiting",
    });
    await end(store, "c");
    await end(store, "d");
    await assertSound(bundle);
    const found = await store.flows.find(flow);
    assert.deepEqual([found?.size, found?.counts, found?.kind], [4, { done: 4 }, "flow"]);
    const deps = await store.flows.dependencies(ids.c, { after: 0, limit: 10 });
    assert.deepEqual(
      deps.map(({ name, status, result }) => [name, status, result]),
      [
        ["a", "done", '"a"'],
        ["b", "done", '"b"'],
      ],
    );
    assert.deepEqual(await store.flows.dependents(ids.a, { limit: 10 }), [ids.c, ids.d]);
  });

  test("many ends in one settlement count once each", async () => {
    const bundle = await open();
    const { store } = bundle;
    const parts = Array.from({ length: 70 }, () => newJob(member()));
    const last = newJob({ ...member(parts.map(({ id }) => id)), queue: "last" });
    await store.jobs.enqueue([...parts, last]);
    const claimed = await store.jobs.claim(upTo(70));
    assert.equal(claimed.length, 70);
    const some = claimed.slice(0, 69).map((job) => done(job));
    assert.equal(
      (await store.jobs.settle([...some, ...some])).filter(({ status }) => status === "done")
        .length >= 69,
      true,
    );
    // Told again, nothing is subtracted twice.
    await store.jobs.settle(some);
    await assertSound(bundle);
    assert.equal((await mustFind(store, last.id)).status, "waiting");
    await store.jobs.settle(claimed.map((job) => done(job)));
    assert.equal((await mustFind(store, last.id)).status, "pending");
    await assertSound(bundle);
  });

  const endings = [
    ["failed", "fail", "failed"],
    ["failed", "cancel", "cancelled"],
    ["failed", "ignore", "pending"],
    ["cancelled", "fail", "failed"],
    ["cancelled", "cancel", "cancelled"],
    ["cancelled", "ignore", "pending"],
  ] as const;
  for (const [how, policy, status] of endings) {
    test(`a job that is to ${policy} is ${status} when one that it waits for is ${how}`, async () => {
      const bundle = await open();
      const { store } = bundle;
      const policies = how === "failed" ? { onFailed: policy } : { onCancelled: policy };
      const { ids } = await makeFlow(store, { a: [], b: ["a"] }, policies);
      await end(store, "a", how);
      const job = await mustFind(store, ids.b);
      assert.equal(job.status, status);
      if (status !== "pending") {
        const error = JSON.parse(job.lastError ?? "{}") as { code: string; message: string };
        assert.equal(error.code, "DEPENDENCY_UNMET");
        assert.ok(error.message.includes(ids.a), error.message);
        assert.equal(job.attempts, 0);
      }
      await assertSound(bundle);
      // The same for a job that comes when all is over.
      const dependency = {
        id: ids.a,
        onFailed: "fail",
        onCancelled: "cancel",
        ...policies,
      } as const;
      const late = newJob({ ...member([dependency]), queue: "late" });
      await store.jobs.enqueue([late]);
      assert.equal((await mustFind(store, late.id)).status, status);
      await assertSound(bundle);
    });
  }

  test("a failure propagates to the jobs that follow, and leaves the others alone", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids, flow } = await makeFlow(store, {
      a: [],
      b: ["a"],
      c: ["b"],
      x: [],
      y: ["x"],
      z: ["y", "c"],
    });
    await end(store, "a", "failed");
    const after = {
      a: "failed",
      b: "failed",
      c: "failed",
      x: "pending",
      y: "waiting",
      z: "failed",
    };
    assert.deepEqual(await statusesOf(store, ids), after);
    await assertSound(bundle);
    await end(store, "x");
    await end(store, "y");
    assert.deepEqual((await store.flows.find(flow))?.counts, { done: 2, failed: 4 });
    const listed = (await store.flows.list({ limit: 1_000 })).find(({ id }) => id === flow);
    assert.deepEqual(listed, await store.flows.find(flow), "a list has the counts of each flow");
    await assertSound(bundle);
  });

  test("a long chain of failures is left to maintenance, and ends", async () => {
    const bundle = await open();
    const { store } = bundle;
    const ids = Array.from({ length: 120 }, () => calledId(nextId()));
    const jobs = ids.map((id, at) =>
      newJob({ ...member(at === 0 ? [] : [ids[at - 1] as string]), id, queue: "chain" }),
    );
    await store.jobs.enqueue(jobs);
    await end(store, "chain", "failed");
    await assertSound(bundle);
    assert.equal((await mustFind(store, ids[119] as string)).status, "waiting");
    await maintain(store);
    for (const id of ids) assert.equal((await mustFind(store, id)).status, "failed");
    await assertSound(bundle);
  });

  test("the death of a worker in the last attempt also ends the job for the jobs that wait for it", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const on = newJob({ ...member(), maxAttempts: 1 });
    const job = newJob(member([on.id]));
    await store.jobs.enqueue([on, job]);
    await claimOne(store);
    clock.advance(LEASE_MS + 10_000);
    await store.jobs.reclaimExpired(sweep);
    assert.equal((await mustFind(store, job.id)).status, "failed");
    await assertSound(bundle);
  });

  test("a job that does not exist cannot be waited for, and nothing is accepted", async () => {
    const { store } = await open();
    const alone = newJob();
    const job = newJob(member([nextId()]));
    await assert.rejects(store.jobs.enqueue([alone, job]), { code: "DEPENDENCY_NOT_FOUND" });
    assert.equal(await store.jobs.find(alone.id), null);
    assert.equal(await store.jobs.find(job.id), null);
  });

  test("a delay counts from the end of the last one, and an instant is kept", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const on = await enqueueOne(store, member());
    const soon = newJob({ ...member([on.id]), start: { delayMs: 5_000 } });
    const at = clock.now() + HOUR_MS;
    const later = newJob({ ...member([on.id]), start: { at } });
    const past = newJob({ ...member([on.id]), start: { at: 1_000 } });
    await store.jobs.enqueue([soon, later, past]);
    clock.advance(60_000);
    assert.equal(await store.jobs.promoteDue({ limit: 10 }), 0);
    await settleOne(store, done(await claimOne(store)));
    const found = await mustFind(store, soon.id);
    assert.deepEqual([found.status, found.dueAt], ["scheduled", clock.now() + 5_000]);
    assert.deepEqual(
      [(await mustFind(store, later.id)).dueAt, (await mustFind(store, past.id)).status],
      [at, "pending"],
    );
    await assertSound(bundle);
    clock.advance(5_000);
    assert.equal(await store.jobs.promoteDue({ limit: 10 }), 1);
    await assertSound(bundle);
  });

  test("a call that is repeated changes nothing", async () => {
    const bundle = await open();
    const { store } = bundle;
    const flow = { id: nextId(), kind: "flow", name: "twice", callback: null } as const;
    const on = newJob(member([], { flow: flow.id }));
    const job = newJob(member([on.id], { flow: flow.id }));
    await store.flows.enqueue(flow, [on, job]);
    const again = await store.flows.enqueue(flow, [on, job]);
    assert.deepEqual(again, [
      { id: on.id, added: false },
      { id: job.id, added: false },
    ]);
    assert.equal((await store.flows.find(flow.id))?.size, 2);
    await settleOne(store, done(await claimOne(store)));
    await store.flows.enqueue(flow, [on, job]);
    assert.equal((await mustFind(store, job.id)).status, "pending");
    await assertSound(bundle);
  });

  test("a cancelled job no longer waits, and its end counts for others", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids } = await makeFlow(store, { a: [], b: ["a"], c: ["b"] });
    assert.equal(await store.jobs.cancel(ids.b), "cancelled");
    assert.deepEqual(await statusesOf(store, ids), {
      a: "pending",
      b: "cancelled",
      c: "cancelled",
    });
    await assertSound(bundle);
    await end(store, "a");
    assert.deepEqual(await statusesOf(store, ids), { a: "done", b: "cancelled", c: "cancelled" });
    await assertSound(bundle);
  });

  test("when a failed job is retried, those that it ended wait for it again", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids } = await makeFlow(store, { a: [], x: [], b: ["a", "x"], c: ["b"] });
    await end(store, "a", "failed");
    assert.deepEqual(await statusesOf(store, ids), {
      a: "failed",
      x: "pending",
      b: "failed",
      c: "failed",
    });
    await assert.rejects(store.jobs.retry(ids.b, 1), { code: "DEPENDENCY_UNMET" });
    await assertSound(bundle);
    await store.jobs.retry(ids.a, 1);
    assert.deepEqual(await statusesOf(store, ids), {
      a: "pending",
      x: "pending",
      b: "waiting",
      c: "waiting",
    });
    await assertSound(bundle);
    for (const name of ["x", "a", "b", "c"]) await end(store, name);
    await assertSound(bundle);
    assert.deepEqual(await statusesOf(store, ids), { a: "done", x: "done", b: "done", c: "done" });
  });

  test("a job that failed for two reasons follows when both are retried", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids } = await makeFlow(store, { a: [], b: [], c: ["a", "b"] });
    await end(store, "a", "failed");
    await end(store, "b", "failed");
    await store.jobs.retry(ids.a, 1);
    assert.equal((await mustFind(store, ids.c)).status, "failed");
    await store.jobs.retry(ids.b, 1);
    assert.equal((await mustFind(store, ids.c)).status, "waiting");
    await assertSound(bundle);
    await end(store, "a");
    await end(store, "b");
    assert.equal((await mustFind(store, ids.c)).status, "pending");
  });

  test("a job that ignored a failure and has not started waits for the retry", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids } = await makeFlow(store, { a: [], b: [], c: ["a", "b"] }, { onFailed: "ignore" });
    await end(store, "a", "failed");
    await store.jobs.retry(ids.a, 1);
    assert.deepEqual(await store.flows.waitsFor(ids.c, { limit: 9 }), [ids.a, ids.b].toSorted());
    await end(store, "b");
    assert.equal((await mustFind(store, ids.c)).status, "waiting");
    await assertSound(bundle);
    await end(store, "a");
    assert.equal((await mustFind(store, ids.c)).status, "pending");
    await store.jobs.cancel(ids.c);
    await store.jobs.retry(ids.c, 1);
    assert.equal(
      (await mustFind(store, ids.c)).status,
      "pending",
      "all that it waits for has ended",
    );
    await assertSound(bundle);
  });

  test("a job outside of all flows can be waited for; maintenance notices its end", async () => {
    const bundle = await open();
    const { store } = bundle;
    const on = await enqueueOne(store);
    const job = newJob({ ...member([on.id]), queue: "next" });
    await store.jobs.enqueue([job]);
    assert.deepEqual(await store.flows.sweep({ after: null, limit: 10, all: false }), {
      looked: 1,
      ended: 0,
      next: null,
    });
    assert.equal((await store.jobs.upcoming()).flowsInMs, 0);
    await settleOne(store, failed(await claimOne(store)));
    assert.equal((await mustFind(store, job.id)).status, "waiting");
    await maintain(store);
    assert.equal((await store.jobs.upcoming()).flowsInMs, null);
    assert.equal((await mustFind(store, job.id)).status, "failed");
    await assertSound(bundle);
    assert.equal((await store.flows.sweep({ after: null, limit: 10, all: false })).looked, 0);
  });

  test("results are kept as long as a job that may read them has not ended", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const { ids, flow } = await makeFlow(store, { a: [], b: ["a"], c: ["b"] });
    const alone = await enqueueOne(store, { queue: "alone" });
    await end(store, "a");
    await end(store, "alone");
    clock.advance(10_000);
    await store.jobs.prune({ retention: KEEP, limit: 10 });
    assert.equal(await store.jobs.find(alone.id), null);
    assert.equal((await mustFind(store, ids.a)).result, '"a"');
    await end(store, "b");
    clock.advance(10_000);
    await store.jobs.prune({ retention: KEEP, limit: 10 });
    assert.deepEqual(
      [await store.jobs.find(ids.a), (await mustFind(store, ids.b)).status],
      [null, "done"],
    );
    assert.equal((await store.flows.find(flow))?.counts.live, 1);
    await end(store, "c");
    clock.advance(10_000);
    await store.jobs.prune({ retention: KEEP, limit: 10 });
    await store.jobs.prune({ retention: KEEP, limit: 10 });
    assert.equal(await store.flows.find(flow), null);
    assert.equal(await bundle.byHand(sql`update holdfast.flow_job set awaited = 1`), 0);
    assert.equal(await bundle.byHand(sql`update holdfast.job_after set position = position`), 0);
  });

  test("jobs are added to a running flow, after and before others", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids, flow } = await makeFlow(store, { a: [], b: ["a"], c: ["b"] });
    await end(store, "a");
    const before = [{ id: ids.c, onFailed: "fail", onCancelled: "cancel" }] as const;
    const added = newJob({ ...member([ids.a], { flow, name: "new", before }), queue: "new" });
    await store.flows.add(flow, [added]);
    await assertSound(bundle);
    assert.equal((await store.flows.find(flow))?.size, 4);
    assert.deepEqual(
      await store.flows.named(flow, ["new", "nobody"]),
      new Map([["new", added.id]]),
    );
    await end(store, "b");
    assert.equal((await mustFind(store, ids.c)).status, "waiting");
    await end(store, "new");
    assert.equal((await mustFind(store, ids.c)).status, "pending");
    const late = newJob(member([], { flow, before }));
    await assert.rejects(store.flows.add(flow, [late]), { code: "ALREADY_STARTED" });
    await assert.rejects(store.flows.add(nextId(), [newJob(member())]), { code: "FLOW_NOT_FOUND" });
    await assertSound(bundle);
  });

  test("jobs that would wait for each other are refused", async () => {
    const bundle = await open();
    const { store } = bundle;
    const { ids, flow } = await makeFlow(store, { a: [], b: ["a"], c: ["b"], d: ["c"] });
    const policies = { onFailed: "fail", onCancelled: "cancel" } as const;
    const add = (after: readonly string[], before: string, through?: NewJob): Promise<unknown> => {
      const facts: Partial<Member> = { flow, before: [{ id: before, ...policies }] };
      const job = newJob(member([...after, ...(through === undefined ? [] : [through.id])], facts));
      return store.flows.add(flow, through === undefined ? [job] : [through, job]);
    };
    await assert.rejects(add([ids.b], ids.b), { code: "CIRCLE" });
    await assert.rejects(add([ids.d], ids.b), { code: "CIRCLE" });
    await assert.rejects(add([], ids.b, newJob(member([ids.d], { flow }))), { code: "CIRCLE" });
    await add([ids.b], ids.d);
    await assertSound(bundle);
    assert.equal((await store.flows.find(flow))?.size, 5);
  });

  test("a job that is not added because of its key is waited for at its holder", async () => {
    const bundle = await open();
    const { store } = bundle;
    const holder = await enqueueOne(store, { ...member(), key: "k", queue: "held" });
    const on = newJob({ ...member(), key: "k" });
    const job = newJob({ ...member([on.id]), queue: "next" });
    const [first] = await store.jobs.enqueue([on, job]);
    assert.deepEqual(first, { id: holder.id, added: false });
    assert.deepEqual(await store.flows.waitsFor(job.id, { limit: 9 }), [holder.id]);
    await end(store, "held");
    assert.equal((await mustFind(store, job.id)).status, "pending");
    await assertSound(bundle);
  });

  test("a job that ends as it comes gives its key back", async () => {
    const { store } = await open();
    const on = await enqueueOne(store, member());
    await settleOne(store, failed(await claimOne(store)));
    const job = newJob({ ...member([on.id]), key: "k" });
    await store.jobs.enqueue([job]);
    assert.equal((await mustFind(store, job.id)).status, "failed");
    const [next] = await store.jobs.enqueue([newJob({ key: "k" })]);
    assert.equal(next?.added, true);
  });

  test("maintenance releases a job that waits for nothing, and finds ends that nothing announced", async () => {
    const bundle = await open();
    const { store, byHand } = bundle;
    const { ids } = await makeFlow(store, { a: [], b: ["a"], c: ["a"] });
    await byHand(sql`delete from holdfast.dep where job_id = ${ids.b}`);
    assert.deepEqual(await store.flows.repair({ after: null, limit: 100 }), {
      repaired: 1,
      next: null,
    });
    assert.equal((await mustFind(store, ids.b)).status, "pending");
    // An older version of the library does not know the rows of flows.
    await byHand(sql`delete from holdfast.flow_job where job_id = ${ids.a}`);
    await end(store, "a");
    assert.equal((await mustFind(store, ids.c)).status, "waiting");
    await maintain(store, true);
    assert.equal((await mustFind(store, ids.c)).status, "pending");
    await assertSound(bundle);
  });

  test("of a flow that failed, the jobs tell which one failed and which only followed, and its lines come together", async () => {
    const { store } = await open();
    const wants = { a: [], b: [], c: ["b"], d: ["c", "a"], e: [] };
    const { flow, ids } = await makeFlow(store, wants, {
      onFailed: "cancel",
      onCancelled: "cancel",
    });
    await end(store, "a");
    await end(store, "b", "failed");
    const inState = async (state: "failed" | "done" | "live"): Promise<string[]> =>
      (await store.flows.jobs(flow, { limit: 10, state })).map(({ id }) => id).toSorted();
    const sorted = (...names: (keyof typeof ids)[]): string[] =>
      names.map((name) => ids[name]).toSorted();
    assert.deepEqual(await inState("done"), sorted("a"));
    assert.deepEqual(await inState("live"), sorted("e"));
    assert.deepEqual(await inState("failed"), sorted("b", "c", "d"));
    const jobs = await store.flows.jobs(flow, { limit: 10 });
    const because = new Map(jobs.map(({ id, endedBy }) => [id, endedBy]));
    assert.deepEqual(
      [ids.a, ids.b, ids.c, ids.d, ids.e].map((id) => because.get(id)),
      [null, null, ids.b, ids.c, null],
    );
    assert.match(jobs.find(({ id }) => id === ids.b)?.error ?? "", /^\w+: /);
    const edges = await store.flows.edges(flow, { limit: 10 });
    assert.deepEqual(
      edges.map(({ job, on }) => `${on} ${job}`).toSorted(),
      [`${ids.a} ${ids.d}`, `${ids.b} ${ids.c}`, `${ids.c} ${ids.d}`].toSorted(),
    );
    assert.equal((await store.flows.edges(flow, { limit: 2 })).length, 2);
    await store.jobs.retry(ids.b, 1);
    assert.deepEqual(await inState("failed"), []);
  });

  test("flows are listed, newest first, and so are their jobs", async () => {
    const { store } = await open();
    const flow = async (kind: "flow" | "batch"): Promise<string> => {
      const id = nextId();
      const jobs = [1, 2, 3].map(() => newJob(member([], { flow: id })));
      await store.flows.enqueue({ id, kind, name: kind, callback: null }, jobs);
      return id;
    };
    const [one, two, three] = [await flow("flow"), await flow("batch"), await flow("flow")];
    const list = async (filter: object): Promise<string[]> =>
      (await store.flows.list({ limit: 2, ...filter })).map(({ id }) => id);
    assert.deepEqual(await list({}), [three, two]);
    assert.deepEqual(await list({ before: two }), [one]);
    assert.deepEqual(await list({ kind: "batch" }), [two]);
    const [some] = await store.flows.jobs(three, { limit: 1 });
    const after = newJob(member([some?.id ?? ""]));
    await store.jobs.enqueue([after]);
    const page = { after: calledId(nextId()), limit: 10, all: true };
    assert.deepEqual(await store.flows.sweep(page), { looked: 0, ended: 0, next: null });
    assert.deepEqual(await store.flows.repair({ after: after.id, limit: 10 }), {
      repaired: 0,
      next: null,
    });
    const [first, second] = await store.flows.jobs(one, { limit: 2 });
    const rest = await store.flows.jobs(one, { limit: 2, after: second?.id ?? "" });
    assert.deepEqual([first?.status, first?.missing, rest.length], ["pending", 0, 1]);
    assert.equal(await store.flows.flowOf(first?.id ?? ""), one);
    assert.equal(await store.flows.flowOf("no id at all"), null);
    assert.equal(await store.flows.find("no id at all"), null);
  });
};
