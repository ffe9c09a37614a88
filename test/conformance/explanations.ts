/** The facts that explain a job or a queue, as the store reads them; the sentences have unit tests of their own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/app/store.ts";
import type { Explanation, QueueExplanation } from "../../src/core/explanation.ts";
import type { Fence, Outcome } from "../../src/core/job.ts";
import { JOB_ENDED } from "../../src/core/task.ts";
import { explainJob, explainQueue } from "../../src/explain/explain.ts";
import type { RuleChange } from "../../src/queues/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  ERROR,
  HOUR_MS,
  jobIn,
  LEASE_MS,
  member,
  newJob,
  nextId,
  retry,
  settleOne,
  settlement,
  startOne,
  suspended,
  upTo,
} from "../support/jobs.ts";
import { STALE_MS, start } from "../support/workers.ts";

const ada = () => ({ id: nextId(), actor: "ada", reason: "the provider is down" });

async function why(store: Store, id: string): Promise<Explanation> {
  const facts = await store.explain.job(id);
  assert.ok(facts !== null, `there is no job ${id}`);
  return explainJob(facts);
}

async function whyQueue(store: Store, queue: string): Promise<QueueExplanation> {
  return explainQueue(await store.explain.queue(queue));
}

async function assertWhy(store: Store, id: string, reason: string, facts: object): Promise<void> {
  const explanation = await why(store, id);
  assert.deepEqual([explanation.reason, explanation.facts], [reason, facts]);
}

const waitingFor = (job: Fence, waits: readonly { event: string; key: string }[]) =>
  settlement(job, { kind: "suspended", delayMs: null, waits } satisfies Outcome);

const served = { slots: null, tasks: ["mail.send"], queues: ["default"] };

const rule = (facts: Partial<RuleChange>): RuleChange => ({
  kind: "queue",
  name: "",
  concurrency: null,
  rate: null,
  weight: null,
  ...facts,
});

export const explanations: Group = (open) => {
  test("a job that does not exist has none", async () => {
    const { store } = await open();
    assert.equal(await store.explain.job(nextId()), null);
    assert.equal(await store.explain.job("no id at all"), null);
    assert.equal((await whyQueue(store, "nowhere")).reason, "empty");
  });

  test("a claim: by whom, until when, whether it is to be cancelled or has expired", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    const claim = {
      worker: "worker-a",
      claimedAt: clock.now(),
      lockedUntil: clock.now() + LEASE_MS,
      attempt: 1,
      maxAttempts: 3,
    };
    await assertWhy(store, job.id, "running", claim);
    await store.jobs.cancel(job.id, null);
    await assertWhy(store, job.id, "cancelling", { ...claim, requestedAt: clock.now() });
    clock.advance(LEASE_MS + 1);
    await assertWhy(store, job.id, "lease-expired", claim);
  });

  test("an end, and how", async () => {
    const { store, clock } = await open();
    const ends = { finishedAt: clock.now(), maxAttempts: 3 };
    for (const [status, error] of [
      ["done", null],
      ["failed", "the mail server said no"],
      ["cancelled", null],
    ] as const) {
      const id = await jobIn(store, status);
      await assertWhy(store, id, "ended", { ...ends, status, attempts: 1, error });
    }
    const late = await jobIn(store, "expired");
    await assertWhy(store, late, "expired", { startBy: null, finishedAt: clock.now() });
    const { id } = await enqueueOne(store, { startBy: { at: 1 } });
    await assertWhy(store, id, "expired", { startBy: 1, finishedAt: null });
  });

  test("a time to wait for", async () => {
    const { store, clock } = await open();
    await start(store, served);
    const scheduled = await jobIn(store, "scheduled");
    const dueAt = clock.now() + HOUR_MS;
    await assertWhy(store, scheduled, "scheduled", { dueAt });
    const again = await startOne(store);
    await settleOne(store, retry(again, { delayMs: HOUR_MS }));
    await assertWhy(store, again.id, "backing-off", {
      until: dueAt,
      attempt: 1,
      maxAttempts: 3,
      error: "the mail server said no",
    });
    const asleep = await jobIn(store, "waiting");
    await assertWhy(store, asleep, "sleeping", { until: dueAt, why: null });
    const putOff = await startOne(store);
    await settleOne(
      store,
      settlement(putOff, { kind: "suspended", delayMs: HOUR_MS, error: ERROR }),
    );
    await assertWhy(store, putOff.id, "sleeping", { until: dueAt, why: "the mail server said no" });
    clock.advance(HOUR_MS);
    assert.equal((await why(store, scheduled)).reason, "no-worker"); // its worker is silent by now
    await start(store, served);
    await assertWhy(store, scheduled, "due", { dueAt });
  });

  test("jobs, events and effects to wait for", async () => {
    const { store, clock } = await open();
    const first = await enqueueOne(store, { ...member(), queue: "first" });
    const second = await enqueueOne(store, { ...member([first.id]), queue: "second" });
    const pending = { id: first.id, task: "mail.send", status: "pending" };
    await assertWhy(store, second.id, "waits-for-jobs", { count: 1, jobs: [pending], until: null });
    const caller = await startOne(store, { queue: "callers" });
    await store.steps.expect({ event: JOB_ENDED, key: first.id });
    await settleOne(store, waitingFor(caller, [{ event: JOB_ENDED, key: first.id }]));
    await assertWhy(store, caller.id, "waits-for-jobs", { count: 1, jobs: [pending], until: null });
    const listener = await startOne(store);
    await settleOne(store, waitingFor(listener, [{ event: "packed", key: "order-42" }]));
    const events = [{ name: "packed", key: "order-42" }];
    await assertWhy(store, listener.id, "waits-for-event", { events, until: null });
    const charged = await startOne(store);
    const charge = { name: "charge", occurrence: 1, position: 1, isNew: true } as const;
    await store.steps.put(charged, { ...charge, kind: "effect", status: "doubt", result: null });
    await settleOne(store, suspended(charged, null));
    const effects = [{ name: "charge", occurrence: 1, begunAt: clock.now() }];
    await assertWhy(store, charged.id, "effect-in-doubt", { effects });
    const stuck = await startOne(store);
    await settleOne(store, suspended(stuck, null));
    await assertWhy(store, stuck.id, "stuck", {});
  });

  test("workers: none, none that knows it, paused ones, busy ones", async () => {
    const { store, clock } = await open();
    const job = await enqueueOne(store, { task: "mail.send@2" });
    const missing = { queue: "default", task: job.task, silent: null, known: [] };
    await assertWhy(store, job.id, "no-worker", { ...missing, missing: "worker" });
    assert.equal((await whyQueue(store, "default")).reason, "no-worker");
    await start(store, { ...served, queues: ["other"] });
    await assertWhy(store, job.id, "no-worker", { ...missing, missing: "queue" });
    await start(store, { ...served, tasks: ["pack"] });
    await assertWhy(store, job.id, "no-worker", { ...missing, missing: "task" });
    assert.equal((await whyQueue(store, "default")).reason, "held");
    await start(store, served);
    const known = ["mail.send"];
    await assertWhy(store, job.id, "no-worker", { ...missing, missing: "version", known });
    const able = await start(store, { ...served, tasks: [job.task], concurrency: 1 });
    await assertWhy(store, job.id, "next", { queue: "default" });
    const running = { count: 0, isMore: false };
    const pending = { count: 1, isMore: false };
    assert.deepEqual((await whyQueue(store, "default")).facts, { running, pending });
    await enqueueOne(store, { queue: "other" });
    await claimOne(store, { worker: able.id, queues: ["other"] });
    const busy = { workers: [able.id], places: 1 };
    await assertWhy(store, job.id, "workers-busy", busy);
    const next = await enqueueOne(store, { task: job.task });
    const behind = { queue: "default", lane: null, before: 1, isMore: false, busy };
    await assertWhy(store, next.id, "behind", behind);
    const pause = { id: nextId(), actor: "ada", target: { worker: able.id } };
    await store.workers.command({ ...pause, desiredState: "pause" });
    await assertWhy(store, job.id, "workers-paused", { workers: [able.id] });
    const silent = { worker: able.id, heartbeatAt: clock.now() };
    clock.advance(STALE_MS + 1);
    await assertWhy(store, job.id, "no-worker", { ...missing, missing: "worker", silent });
  });

  test("a pause, and other jobs that come first", async () => {
    const { store, clock } = await open();
    await start(store, served);
    const jobs = Array.from({ length: 4 }, () => newJob());
    await store.jobs.enqueue(jobs);
    const urgent = await enqueueOne(store, { priority: 9 });
    const last = jobs.at(-1)?.id ?? "";
    await assertWhy(store, urgent.id, "next", { queue: "default" });
    const place = { queue: "default", lane: null, isMore: false, busy: null };
    await assertWhy(store, last, "behind", { ...place, before: 4 });
    const inLane = await enqueueOne(store, { lane: "acme" });
    await assertWhy(store, inLane.id, "next", { queue: "default" });
    await store.jobs.enqueue(Array.from({ length: 500 }, () => newJob({ lane: "acme" })));
    await store.jobs.enqueue(Array.from({ length: 501 }, () => newJob({ lane: "acme" })));
    const late = await enqueueOne(store, { lane: "acme", priority: -1 });
    const behind = { queue: "default", lane: "acme", before: 1_000, isMore: true, busy: null };
    await assertWhy(store, late.id, "behind", behind);
    const since = { by: "ada", at: clock.now(), why: "the provider is down" };
    await store.queues.pause("default", ada(), "acme");
    await assertWhy(store, late.id, "paused", { queue: "default", lane: "acme", ...since });
    await assertWhy(store, urgent.id, "next", { queue: "default" });
    await store.queues.pause("default", ada());
    const facts = { queue: "default", lane: null, ...since };
    await assertWhy(store, last, "paused", facts);
    assert.deepEqual((await whyQueue(store, "default")).facts, facts);
  });

  test("limits: of the queue, a lane or a task, and who holds them", async () => {
    const { store, clock } = await open();
    await start(store, served);
    const set = (...rules: Partial<RuleChange>[]): Promise<void> =>
      store.queues.change({ queue: "default", rules: rules.map(rule) }, ada());
    const held = await startOne(store, { lane: "acme" });
    const longest = {
      job: held.id,
      task: "mail.send",
      worker: "worker-a",
      claimedAt: clock.now(),
    };
    const acme = await enqueueOne(store, { lane: "acme" });
    const beta = await enqueueOne(store, { lane: "beta" });
    await assertWhy(store, acme.id, "next", { queue: "default" });
    await set({ kind: "lanes", concurrency: 1 });
    const used = { queue: "default", limit: 1, running: 1, longest };
    await assertWhy(store, acme.id, "concurrency-limit", { of: "lane", name: "acme", ...used });
    await assertWhy(store, beta.id, "next", { queue: "default" });
    assert.equal((await whyQueue(store, "default")).reason, "held");
    await set({ kind: "task", name: "mail.send", concurrency: 1 });
    await assertWhy(store, beta.id, "concurrency-limit", {
      of: "task",
      name: "mail.send",
      ...used,
    });
    await set({ kind: "queue", concurrency: 1 });
    const facts = { of: "queue", name: null, ...used };
    await assertWhy(store, beta.id, "concurrency-limit", facts);
    assert.deepEqual((await whyQueue(store, "default")).facts, facts);
    const rate = { count: 1, periodMs: HOUR_MS, burst: 1 };
    await settleOne(store, done(held));
    await set({ kind: "queue", concurrency: null, rate }, { kind: "lanes" });
    await set({ kind: "task", name: "mail.send" });
    const [next] = [await store.jobs.claim(upTo(1)), await store.jobs.claim(upTo(1))].flat();
    assert.ok(next !== undefined);
    const other = next.id === acme.id ? beta.id : acme.id;
    await assertWhy(store, other, "rate-limit", {
      queue: "default",
      of: "queue",
      name: null,
      count: 1,
      periodMs: HOUR_MS,
      freeAt: clock.now() + HOUR_MS,
    });
    clock.advance(HOUR_MS);
    await start(store, served);
    await assertWhy(store, other, "next", { queue: "default" });
  });
};
