/** Many jobs at once: actions that any process carries out, a page at a time, each job once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { composeStore, jobHooks, type Store } from "../../src/app/store.ts";
import type { BulkRow } from "../../src/bulk/store.ts";
import { type BulkFilter, statusesOf } from "../../src/bulk/request.ts";
import { CARRIER_MS } from "../../src/bulk/store.ts";
import { type Status, statuses } from "../../src/core/job.ts";
import type { Engine, Taking, Transaction } from "../../src/database/engine.ts";
import { settleIn } from "../../src/jobs/settle.ts";
import type { ClaimedJob, JobStatements, NewJob } from "../../src/jobs/store.ts";
import type { Group } from "../support/bundle.ts";
import { carrierOf, countsOf, rowOf, runBulk, startBulk, WALKED } from "../support/bulk.ts";
import {
  claimOne,
  enqueueOne,
  failed,
  idsOf,
  jobIn,
  mustFind,
  newJob,
  nextId,
  released,
  retry,
  settleOne,
  startOne,
  statusOf,
  suspended,
  upTo,
} from "../support/jobs.ts";
import { notDrawn } from "../support/scale.ts";
import { start } from "../support/workers.ts";

async function lines(store: Store): Promise<unknown[]> {
  const actions = await store.audit.list({ limit: 99 });
  return actions.map(({ action, subject, oldStatus, newStatus }) => [
    action,
    subject,
    oldStatus,
    newStatus,
  ]);
}

async function many(store: Store, count: number, queue = "default"): Promise<string[]> {
  const jobs = Array.from({ length: count }, () => newJob({ queue }));
  await store.jobs.enqueue(jobs);
  return jobs.map(({ id }) => id);
}

export const bulk: Group = (open) => {
  test("an action meets the jobs that it can change, newest first and a page at a time, with their errors", async () => {
    const { store } = await open();
    const made: { readonly id: string; readonly status: Status }[] = [];
    for (const status of statuses) {
      const first = await jobIn(store, status, { queue: `${status}-1`, task: "a" });
      const second = await jobIn(store, status, { queue: `${status}-2`, task: "b" });
      made.unshift({ id: second, status }, { id: first, status });
    }
    for (const { action, ...status } of WALKED) {
      const look = async (before: string | null, limit: number) =>
        (await store.bulk.look(rowOf({ action, before, filter: status }), limit)).matches;
      const wanted = statusesOf(action, status);
      const ids = idsOf(made.filter((one) => wanted.includes(one.status)));
      const all = await look(null, 99);
      assert.deepEqual(idsOf(all), ids);
      for (const { id, status: is, error } of all) {
        const job = await mustFind(store, id);
        assert.equal(is, job.status);
        if (action === "retry") assert.equal(error?.message ?? null, messageOf(job.lastError));
      }
      // The newest of a table may have another status.
      const [first = ids[0], ...others] = idsOf(await look(null, 1));
      assert.deepEqual([first, others], [ids[0], []]);
      assert.deepEqual(idsOf(await look(ids[0]!, 99)), ids.slice(1));
    }
  });

  test("an action is stored with who, what and why, and is listed newest first", async () => {
    const { store, clock } = await open();
    const filter = { task: "mail.send", endedUntil: clock.now() };
    const row = await startBulk(store, { action: "retry", filter, attempts: 2 });
    const { action, terms, dryRun, actor, reason, status, createdAt, endedAt } = row;
    assert.deepEqual([action, terms, dryRun, status], ["retry", { attempts: 2 }, false, "running"]);
    assert.deepEqual(
      [actor, reason, createdAt, endedAt],
      ["ada", "all of them", clock.now(), null],
    );
    assert.deepEqual(row.filter, filter);
    assert.deepEqual(await store.bulk.find(row.id), row);
    const other = await startBulk(store, { action: "cancel", filter: { all: true } });
    assert.deepEqual(idsOf(await store.bulk.list({ limit: 9 })), [other.id, row.id]);
    assert.deepEqual(idsOf(await store.bulk.list({ limit: 9, before: other.id })), [row.id]);
    assert.deepEqual(await store.bulk.list({ limit: 9, status: "done" }), []);
    assert.equal(await store.bulk.find(nextId()), null);
    const [line] = await store.audit.list({ limit: 1 });
    assert.deepEqual([line?.action, line?.subject], ["bulk.start", `bulk ${other.id}`]);
  });

  test("jobs are retried, each with a line, and those that no longer match are skipped", async () => {
    const { store } = await open();
    const a = await jobIn(store, "failed", { queue: "a" });
    const b = await jobIn(store, "failed", { queue: "b" });
    const c = await jobIn(store, "cancelled", { queue: "c" });
    await jobIn(store, "done", { queue: "d" });
    const row = await runBulk(store, { action: "retry", filter: { all: true }, attempts: 2 });
    assert.deepEqual(countsOf(row), ["done", 2, 2, 2, 0]);
    assert.deepEqual(row.sample, [b, a]);
    assert.deepEqual(
      [await statusOf(store, a), await statusOf(store, c)],
      ["pending", "cancelled"],
    );
    assert.equal((await mustFind(store, a)).maxAttempts, 3);
    assert.equal((await store.jobs.attempts(a)).at(-1)?.outcome, "failed");
    assert.deepEqual(await lines(store), [
      ["bulk.start", `bulk ${row.id}`, null, null],
      ["job.retry", `job ${b}`, "failed", "pending"],
      ["job.retry", `job ${a}`, "failed", "pending"],
    ]);
    const again = await runBulk(store, { action: "retry", filter: { status: "cancelled" } });
    assert.deepEqual(countsOf(again), ["done", 1, 1, 1, 0]);
  });

  test("jobs are chosen by their key, by the worker that ran them and by its build", async () => {
    const { store } = await open();
    const { id: worker } = await start(store, { version: "9c41d07" });
    const wanted = { queues: ["mail"], worker };
    const failedHere = async (facts: Partial<NewJob> = {}): Promise<string> => {
      const job = await startOne(store, { queue: "mail", ...facts }, wanted);
      await settleOne(store, failed(job));
      return job.id;
    };
    const a = await failedHere({ key: "order-1" });
    const b = await failedHere({ key: "order-2", tags: ["acme"] });
    const other = await jobIn(store, "failed", { queue: "other", key: "order-3" });
    const running = await startOne(store, { queue: "mail" }, wanted);
    const found = async (filter: BulkFilter, action: "retry" | "cancel" = "retry") => {
      const row = await runBulk(store, { action, filter, dryRun: true });
      return row.sample;
    };
    assert.deepEqual(await found({ key: "order-1" }), [a]);
    assert.deepEqual(await found({ key: "order-2", tag: ["acme"] }), [b]);
    assert.deepEqual(await found({ key: "order-1", id: [a, b] }), [a]);
    assert.deepEqual(await found({ key: "order-1", tag: ["acme"] }), []);
    assert.deepEqual(await found({ worker }), [b, a]);
    assert.deepEqual(await found({ build: "9c41d07" }), [b, a]);
    assert.deepEqual(await found({ build: "unknown" }), []);
    assert.deepEqual(await found({ worker: "worker-a" }), [other]);
    assert.deepEqual(await found({ worker, status: "processing" }, "cancel"), [running.id]);
    const row = await runBulk(store, { action: "retry", filter: { key: "order-1" } });
    assert.deepEqual(countsOf(row), ["done", 1, 1, 1, 0]);
  });

  test("one job that cannot be changed is named, and the others of its chunk are changed", async () => {
    const { store } = await open();
    const a = await jobIn(store, "failed", { queue: "a" });
    const b = await jobIn(store, "failed", { queue: "b", key: "k" });
    const c = await jobIn(store, "failed", { queue: "c" });
    await enqueueOne(store, { key: "k" });
    const row = await runBulk(store, { action: "retry", filter: { all: true } });
    assert.deepEqual(countsOf(row), ["done", 3, 3, 2, 1]);
    assert.deepEqual([row.refusals[0]?.id, row.refusals[0]?.code], [b, "KEY_TAKEN"]);
    const now = await Promise.all([a, b, c].map((id) => statusOf(store, id)));
    assert.deepEqual(now, ["pending", "failed", "pending"]);
  });

  test("jobs are cancelled in every state, and those that have ended are skipped", async () => {
    const { store } = await open();
    const ended = await jobIn(store, "done", { queue: "e" });
    const waiting = await jobIn(store, "scheduled", { queue: "w" });
    const running = await startOne(store, { queue: "r" });
    const pending = await enqueueOne(store, { queue: "p", key: "k" });
    const row = await runBulk(store, { action: "cancel", filter: { all: true } });
    assert.deepEqual(countsOf(row), ["done", 3, 3, 3, 0]);
    assert.equal(await statusOf(store, waiting), "cancelled");
    assert.equal(await statusOf(store, pending.id), "cancelled");
    assert.equal(await statusOf(store, ended), "done");
    assert.notEqual((await mustFind(store, running.id)).cancelRequestedAt, null);
    assert.deepEqual((await lines(store)).slice(1), [
      ["job.cancel", `job ${pending.id}`, "pending", "cancelled"],
      ["job.cancel", `job ${running.id}`, "processing", "processing"],
      ["job.cancel", `job ${waiting}`, "scheduled", "cancelled"],
    ]);
    assert.equal((await enqueueOne(store, { key: "k" })).key, "k"); // its key is free again
  });

  for (const status of ["done", "failed", "cancelled"] as const) {
    test(`${status} jobs are deleted with all that belongs to them, and no others`, async () => {
      const { store } = await open();
      const facts = { queue: "a", tags: ["x"], key: "k", keyForMs: 1_000 };
      const gone = await jobIn(store, status, facts);
      const other = await jobIn(store, status === "done" ? "failed" : "done", { queue: "b" });
      const live = await enqueueOne(store, { queue: "c" });
      const row = await runBulk(store, { action: "delete", filter: { status } });
      // Of jobs that are done, there is no index.
      assert.deepEqual(countsOf(row), ["done", status === "done" ? 2 : 1, 1, 1, 0]);
      assert.equal(await store.jobs.find(gone), null);
      assert.deepEqual(await store.jobs.attempts(gone), []);
      assert.deepEqual(await store.jobs.list({ tag: ["x"], limit: 9 }), []);
      assert.equal((await enqueueOne(store, { ...facts, tags: [] })).key, "k");
      for (const id of [other, live.id]) assert.notEqual(await store.jobs.find(id), null);
      assert.deepEqual((await lines(store)).slice(1), [
        ["job.delete", `job ${gone}`, status, null],
      ]);
    });
  }

  test("unclaimed jobs move to another queue, and are claimed there in their order", async () => {
    const { store, clock } = await open();
    const first = await enqueueOne(store, { queue: "a" });
    clock.advance(1);
    const there = await enqueueOne(store, { queue: "b" });
    clock.advance(1);
    const later = await enqueueOne(store, { queue: "a", start: { delayMs: 10 } });
    const running = await startOne(store, { queue: "c" });
    const row = await runBulk(store, { action: "move", filter: { all: true }, queue: "b" });
    assert.deepEqual(countsOf(row), ["done", 3, 3, 2, 0]);
    const queues = await Promise.all(
      [first.id, later.id, running.id].map(async (id) => (await mustFind(store, id)).queue),
    );
    assert.deepEqual(queues, ["b", "b", "c"]);
    assert.deepEqual(await store.jobs.claim(upTo(9, { queues: ["a"] })), []);
    const listed = await store.jobs.list({ queue: "b", limit: 9 });
    assert.deepEqual(idsOf(listed), [later.id, there.id, first.id]);
    clock.advance(10);
    await store.jobs.promoteDue({ limit: 9 });
    const claimed = await store.jobs.claim(upTo(9, { queues: ["b"] }));
    assert.deepEqual(idsOf(claimed), [first.id, there.id, later.id]);
    const told = await store.audit.list({ subject: `job ${first.id}`, limit: 9 });
    assert.deepEqual(
      told.map(({ action, detail }) => [action, detail]),
      [["job.move", `a to b, bulk ${row.id}`]],
    );
  });

  test("unclaimed jobs get another priority, and keep it until they end", async () => {
    const { store, clock } = await open();
    const low = await enqueueOne(store);
    const high = await enqueueOne(store, { task: "b" });
    const later = await enqueueOne(store, { task: "b", start: { delayMs: 10 } });
    const request = { action: "priority", filter: { task: "b" }, priority: 7 } as const;
    assert.deepEqual(countsOf(await runBulk(store, request)), ["done", 3, 2, 2, 0]);
    assert.deepEqual(countsOf(await runBulk(store, request)), ["done", 3, 2, 0, 0]);
    assert.equal((await mustFind(store, high.id)).priority, 7);
    clock.advance(10);
    await store.jobs.promoteDue({ limit: 9 });
    const claimed = await store.jobs.claim(upTo(9));
    assert.deepEqual(idsOf(claimed), [high.id, later.id, low.id]);
    assert.deepEqual(
      claimed.map(({ priority }) => priority),
      [7, 7, 0],
    );
  });

  test("tags and ids limit which jobs are examined, alone, together and with other fields", async () => {
    const { store } = await open();
    const a = await enqueueOne(store, { tags: ["x"] });
    const b = await enqueueOne(store, { tags: ["x", "y"], task: "b" });
    const c = await enqueueOne(store, { tags: ["y"] });
    const sample = async (filter: object): Promise<readonly string[]> => {
      const row = await runBulk(store, { action: "cancel", filter, dryRun: true });
      assert.equal(row.matched, row.sample.length);
      return row.sample;
    };
    assert.deepEqual(await sample({ tag: ["x"] }), [b.id, a.id]);
    assert.deepEqual(await sample({ tag: ["x", "y"] }), [b.id]);
    assert.deepEqual(await sample({ tag: ["x"], task: "mail.send" }), [a.id]);
    assert.deepEqual(await sample({ tag: ["none"] }), []);
    assert.deepEqual(await sample({ id: [a.id, nextId(), c.id] }), [c.id, a.id]);
    assert.deepEqual(await sample({ id: [a.id, b.id, c.id], tag: ["x"] }), [b.id, a.id]);
    assert.deepEqual(await sample({ id: [a.id, b.id], task: "b" }), [b.id]);
  });

  for (const filter of [{ all: true }, { tag: ["x"] }]) {
    const name = Object.keys(filter)[0];
    const cancelled = `jobs that run, and return to their queue while it goes on, are cancelled too (${name})`;
    test(cancelled, { skip: notDrawn(2, `cancelled ${name}`) }, async () => {
      const { store } = await open();
      const { running, giveBack } = await runningAround(store);
      const row = await startBulk(store, { action: "cancel", filter });
      assert.equal((await carrierOf(store).page(row.id)).status, "running");
      await giveBack();
      const ended = await endOf(store, row.id);
      assert.deepEqual(countsOf(ended).slice(2), [JOBS, JOBS, 0]);
      for (const id of running) assert.equal(await statusOf(store, id), "cancelled");
    });

    const moved = `jobs that run, and return to their queue while it goes on, are moved too (${name})`;
    test(moved, { skip: notDrawn(2, `moved ${name}`) }, async () => {
      const { store } = await open();
      const { running, giveBack } = await runningAround(store);
      const row = await startBulk(store, { action: "move", filter, queue: "slow" });
      assert.equal((await carrierOf(store).page(row.id)).status, "running");
      await giveBack();
      const later = await enqueueOne(store, { tags: ["x"] });
      const ended = await endOf(store, row.id);
      assert.deepEqual(countsOf(ended).slice(2), [JOBS, JOBS, 0]);
      for (const id of running) assert.equal((await mustFind(store, id)).queue, "slow");
      assert.equal((await mustFind(store, later.id)).queue, "default");
    });
  }

  test("a job that returns while the action waits for it is given its priority", async () => {
    const { store } = await open();
    const { running, giveBack } = await runningAround(store);
    const filter = { status: "retry" } as const;
    const row = await startBulk(store, { action: "priority", filter, priority: 7 });
    await carrierOf(store).page(row.id);
    await giveBack();
    assert.deepEqual(countsOf(await endOf(store, row.id)).slice(2), [2, 2, 0]);
    const priorities = await Promise.all(
      running.map(async (id) => (await mustFind(store, id)).priority),
    );
    assert.deepEqual(priorities, [7, 0, 0, 7, 0, 0]);
  });

  test("a job that slips from table to table while it is looked for is cancelled", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    const bulkId = (await startBulk(store, { action: "cancel", filter: { all: true } })).id;
    const { engine } = store.db;
    // No other process writes to SQLite in the middle of a transaction: there, the job moves within it.
    const slip = async (tx: Transaction): Promise<void> => {
      const back = released(claimed);
      if (engine.kind === "sqlite") await settleIn({ engine, hooks: jobHooks }, tx, back);
      else await settleOne(store, back);
    };
    const slippery = composeStore(afterLookingAt(engine, "waiting", slip), {} as JobStatements);
    assert.deepEqual(countsOf(await endOf(slippery, bulkId)), ["done", 1, 1, 1, 0]);
    assert.equal(await statusOf(store, claimed.id), "cancelled");
  });

  test("a dry run counts, and changes nothing", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed");
    const row = await runBulk(store, { action: "retry", filter: { all: true }, dryRun: true });
    assert.deepEqual([...countsOf(row), row.sample], ["done", 1, 1, 0, 0, [id]]);
    assert.equal(await statusOf(store, id), "failed");
  });

  test("it goes page by page, stops between two, and continues where it stood", async () => {
    const { store } = await open();
    const ids = await many(store, 650);
    const row = await startBulk(store, { action: "cancel", filter: { status: "pending" } });
    const page = await carrierOf(store).page(row.id);
    assert.deepEqual(countsOf(page), ["running", 500, 500, 500, 0]);
    assert.equal(page.carrier, "carrier");
    const operator = () => ({ id: nextId(), actor: "bob" });
    const stopped = await store.bulk.stop(row.id, operator());
    assert.equal(stopped.status, "stopped");
    assert.deepEqual(countsOf(await carrierOf(store).page(row.id)), countsOf(stopped));
    assert.equal(await store.bulk.next("x"), null);
    assert.equal((await store.bulk.stop(row.id, operator())).status, "stopped");
    await enqueueOne(store); // newer than where it stands
    assert.equal((await store.bulk.resume(row.id, operator())).status, "running");
    const ended = await carrierOf(store, "other").page(row.id);
    assert.deepEqual(countsOf(ended), ["done", 650, 650, 650, 0]);
    assert.equal(await statusOf(store, ids[0]!), "cancelled");
    assert.equal((await store.jobs.claim(upTo(9))).length, 1);
    await assert.rejects(store.bulk.resume(row.id, operator()), { code: "BULK_ENDED" });
    await assert.rejects(store.bulk.stop(nextId(), operator()), { code: "BULK_NOT_FOUND" });
    const turns = await store.audit.list({ subject: `bulk ${row.id}`, limit: 9 });
    assert.deepEqual(
      turns.map(({ action, actor }) => [action, actor]),
      [
        ["bulk.start", "ada"],
        ["bulk.stop", "bob"],
        ["bulk.resume", "bob"],
      ],
    );
  });

  test("a chunk that another process has carried out is not carried out again", async () => {
    const { store } = await open();
    const [id] = await many(store, 1);
    const { id: bulkId, position: at } = await startBulk(store, {
      action: "cancel",
      filter: { status: "pending" },
    });
    const chunk = { id: bulkId, carrier: "a", at, looked: 1, matched: [id!], refusals: [] };
    const next = { walk: "first", before: id! } as const;
    const line = (): string => nextId();
    assert.ok(await store.bulk.carry({ ...chunk, next, change: [{ id: id!, line: line() }] }));
    assert.ok(!(await store.bulk.carry({ ...chunk, next, change: [{ id: id!, line: line() }] })));
    assert.deepEqual(countsOf((await store.bulk.find(bulkId))!), ["running", 1, 1, 1, 0]);
  });

  test("several processes that carry it out at once change each job once", async () => {
    const { store, another, alone } = await open();
    const ids = await many(store, 300);
    const row = await startBulk(store, { action: "cancel", filter: { all: true } });
    const stores = [store, ...(alone === null ? [await another(), await another()] : [])];
    const carry = async (at: Store, index: number): Promise<void> => {
      const carrier = carrierOf(at, `carrier ${index}`);
      for (let n = 0; n < 50; n += 1) {
        if ((await carrier.page(row.id)).status !== "running") break;
      }
    };
    await Promise.all(stores.map(carry));
    assert.deepEqual(countsOf((await store.bulk.find(row.id))!), ["done", 300, 300, 300, 0]);
    const told = await store.audit.list({ after: 0, limit: 999 });
    const jobs = told.filter(({ action }) => action === "job.cancel").map(({ subject }) => subject);
    assert.deepEqual(jobs.toSorted(), ids.map((id) => `job ${id}`).toSorted());
  });

  test("an action belongs to the process that carries it out, until that process is silent for a while", async () => {
    const { store, clock } = await open();
    await many(store, 501);
    const row = await startBulk(store, { action: "cancel", filter: { status: "pending" } });
    const inMs = async (): Promise<number | null> => (await store.jobs.upcoming()).bulkInMs;
    assert.deepEqual([await store.bulk.next("a"), await inMs()], [row.id, 0]);
    assert.ok(await carrierOf(store, "a").once());
    assert.equal(await store.bulk.next("a"), row.id);
    assert.deepEqual([await store.bulk.next("b"), await inMs()], [null, null]);
    clock.advance(CARRIER_MS + 1);
    assert.deepEqual([await store.bulk.next("b"), await inMs()], [row.id, 0]);
    clock.advance(-3 * CARRIER_MS); // a clock that was set back must not keep it from others
    assert.deepEqual([await store.bulk.next("b"), await inMs()], [row.id, 0]);
    assert.ok(await carrierOf(store, "b").once());
    assert.ok(!(await carrierOf(store, "b").once()));
    assert.equal(await inMs(), null);
  });

  test("ended actions are deleted when no job is kept as long", async () => {
    const { store, clock } = await open();
    const ended = await runBulk(store, { action: "cancel", filter: { all: true } });
    const left = await startBulk(store, { action: "cancel", filter: { all: true } });
    clock.advance(1_001);
    await store.jobs.prune({
      retention: { done: 1, failed: 1_000, cancelled: 1, expired: 1 },
      limit: 9,
    });
    assert.equal(await store.bulk.find(ended.id), null);
    assert.notEqual(await store.bulk.find(left.id), null);
  });

  test("an action that cannot be carried on fails, and says why", async () => {
    const { store } = await open();
    const row = await startBulk(store, { action: "cancel", filter: { all: true } });
    await store.bulk.fail(row.id, "the reason");
    const stopped = await store.bulk.find(row.id);
    assert.deepEqual([stopped?.status, stopped?.error], ["failed", "the reason"]);
    const resumed = await store.bulk.resume(row.id, { id: nextId(), actor: "ada" });
    assert.deepEqual([resumed.status, resumed.error], ["running", null]);
  });

  test("jobs that move to a queue whose worker waits are claimed at once", async () => {
    const { store } = await open();
    const [id] = await many(store, 1, "slow");
    await runBulk(store, { action: "move", filter: { queue: "slow" }, queue: "fast" });
    assert.equal((await claimOne(store, { queues: ["fast"] })).id, id);
  });
};

/** Jobs of which a page does not have all: 501 are pending, and six run, three older and three newer. */
const JOBS = 507;

async function runningAround(
  store: Store,
): Promise<{ running: readonly string[]; giveBack: () => Promise<void> }> {
  const three = async () => {
    const claimed: ClaimedJob[] = [];
    for (let n = 0; n < 3; n += 1) {
      claimed.push(await startOne(store, { tags: ["x"], queue: "running" }));
    }
    return claimed;
  };
  const older = await three();
  const jobs = Array.from({ length: JOBS - 6 }, () => newJob({ tags: ["x"] }));
  await store.jobs.enqueue(jobs);
  const newer = await three();
  const ways = [retry, suspended, released];
  const giveBack = async (): Promise<void> => {
    for (const claimed of [older, newer]) {
      for (const [index, job] of claimed.entries()) await settleOne(store, ways[index]!(job));
    }
  };
  return { running: idsOf([...older, ...newer]), giveBack };
}

async function endOf(store: Store, id: string): Promise<BulkRow> {
  const carrier = carrierOf(store);
  for (let pages = 0; pages < 9; pages += 1) {
    const row = await carrier.page(id);
    if (row.status !== "running") return row;
  }
  return assert.fail("it does not end");
}

/** The engine, with something that happens once in a transaction, after it has looked for a row of this table in vain. */
function afterLookingAt(
  engine: Engine,
  table: string,
  happens: (tx: Transaction) => Promise<void>,
): Engine {
  let isOver = false;
  const watched = (tx: Transaction): Transaction =>
    withMember(tx, "take", async (from: Taking) => {
      const rows = await tx.take(from);
      if (from.table === table && rows.length === 0 && !isOver) {
        isOver = true;
        await happens(tx);
      }
      return rows;
    });
  return withMember(engine, "transaction", (body: (tx: Transaction) => Promise<unknown>) =>
    engine.transaction((tx) => body(watched(tx))),
  );
}

function withMember<T extends object>(of: T, name: keyof T, member: unknown): T {
  return new Proxy(of, {
    get(target, key) {
      if (key === name) return member;
      const own: unknown = Reflect.get(target, key, target);
      return typeof own === "function" ? (own.bind(target) as unknown) : own;
    },
  });
}

function messageOf(error: string | null): string | null {
  return error === null ? null : (JSON.parse(error) as { message: string }).message;
}
