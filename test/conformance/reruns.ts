/** Inputs that an operator changes, and jobs that run again from a step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/app/store.ts";
import { StoreRefusedError } from "../../src/core/errors.ts";
import type { Settlement } from "../../src/core/job.ts";
import type { StepKind, StepName } from "../../src/core/task.ts";
import { sql } from "../../src/database/sql.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  failed,
  fenceOf,
  jobIn,
  mustFind,
  nextId,
  settleOne,
  startOne,
  statusOf,
} from "../support/jobs.ts";

const operator = () => ({ id: nextId(), actor: "ada", reason: "again" });

async function stepsDone(
  store: Store,
  job: ClaimedJob,
  steps: readonly (readonly [name: string, kind: StepKind, position: number])[],
): Promise<void> {
  for (const [name, kind, position] of steps) {
    const step = { name, occurrence: 1, position, kind, result: `"${name}"`, isNew: true };
    assert.ok(await store.steps.put(fenceOf(job), { ...step, status: "done" }));
  }
}

const STEPS = [
  ["quote", "step", 1],
  ["charge", "effect", 2],
  ["book", "commit", 3],
  ["nap", "sleep", 4],
] as const;

async function ended(
  store: Store,
  outcome: (job: ClaimedJob) => Settlement = done,
): Promise<ClaimedJob> {
  const job = await startOne(store, { key: "order-1" });
  await stepsDone(store, job, STEPS);
  await settleOne(store, outcome(job));
  return job;
}

function request(job: string, from: StepName | null, confirm: readonly string[] = []) {
  return { job, from, confirm, attempts: 2, payload: null, operator: operator() };
}

const step = (name: string): StepName => ({ name, occurrence: 1 });

async function names(store: Store, job: string): Promise<string[]> {
  return (await store.steps.list(job)).map(({ name }) => name);
}

export const reruns: Group = (open) => {
  test("a failed job is retried with another input, and the old one is kept", async () => {
    const { store, clock } = await open();
    const id = await jobIn(store, "failed");
    await store.jobs.retry(id, 1, operator(), '{"to":"bob"}');
    assert.equal((await claimOne(store)).payload, '{"to":"bob"}');
    assert.equal((await mustFind(store, id)).payload, '{"to":"bob"}');
    assert.deepEqual(await store.jobs.revisions(id), [
      { revision: 1, payload: '{"to":"ada"}', changedAt: clock.now() },
    ]);
    const [line] = await store.audit.list({ subject: `job ${id}`, limit: 9 });
    assert.deepEqual(
      [line?.action, line?.oldStatus, line?.newStatus],
      ["job.edit", "failed", "pending"],
    );
    assert.match(line?.detail ?? "", /^input 1 to 2, sha256 [0-9a-f]{64} to [0-9a-f]{64}$/);
  });

  test("each change of an input is another revision; the same input is none", async () => {
    const { store } = await open();
    const id = await jobIn(store, "failed");
    for (const payload of ["1", "1", "2"]) {
      await store.jobs.retry(id, 1, operator(), payload);
      await settleOne(store, failed(await claimOne(store)));
    }
    const found = await store.jobs.revisions(id);
    assert.deepEqual(
      found.map(({ revision, payload }) => [revision, payload]),
      [
        [1, '{"to":"ada"}'],
        [2, "1"],
      ],
    );
    assert.deepEqual(await store.jobs.revisions(nextId()), []);
  });

  test("the database itself refuses another input without a revision, or of a job that was never changed", async () => {
    const { store, byHand } = await open();
    for (const status of ["pending", "scheduled", "failed", "done"] as const) {
      const id = await jobIn(store, status, { queue: status });
      const change = sql`update holdfast.job set payload = ${"7"} where id = ${id}`;
      await assert.rejects(byHand(change), StoreRefusedError);
      const rename = sql`update holdfast.job set task = ${"other"} where id = ${id}`;
      await assert.rejects(byHand(rename), StoreRefusedError);
    }
    const id = await jobIn(store, "done", { queue: "x" });
    const move = sql`update holdfast.job set queue = ${"y"} where id = ${id}`;
    await assert.rejects(byHand(move), StoreRefusedError);
  });

  for (const [status, outcome] of [
    ["done", (job: ClaimedJob) => done(job, '"result"')],
    ["failed", (job: ClaimedJob) => failed(job)],
  ] as const) {
    test(`a ${status} job runs again from a step, and keeps those before it`, async () => {
      const { store, clock, byHand } = await open();
      const { id } = await ended(store, outcome);
      const plan = await store.steps.planRerun(id, step("book"));
      assert.deepEqual(
        [plan?.keeps.map(({ name }) => name), plan?.repeats.map(({ name }) => name), plan?.confirm],
        [["quote", "charge"], ["book", "nap"], ["book"]],
      );
      await store.steps.rerun(request(id, step("book"), ["book"]));
      assert.equal(await statusOf(store, id), "pending");
      assert.deepEqual(await names(store, id), ["quote", "charge"]);
      const job = await mustFind(store, id);
      assert.deepEqual([job.attempts, job.maxAttempts, job.epoch, job.result], [1, 3, 1, null]);
      const attempts = await store.jobs.attempts(id);
      assert.deepEqual(
        attempts.map(({ epoch, outcome: how }) => [epoch, how]),
        [[1, status]],
      );
      const [line] = await store.audit.list({ subject: `job ${id}`, limit: 9 });
      assert.deepEqual([line?.action, line?.oldStatus], ["job.rerun", status]);
      assert.equal(line?.detail, "from book, again: book");
      const claimed = await claimOne(store);
      assert.equal(claimed.epoch, 2);
      await stepsDone(store, claimed, [["book", "commit", 3]]);
      await settleOne(store, done(claimed));
      assert.equal((await store.jobs.attempts(id)).length, 2);
      assert.deepEqual(await store.steps.takenBack(id), [
        { name: "book", occurrence: 1, times: 1 },
        { name: "nap", occurrence: 1, times: 1 },
      ]);
      clock.advance(1);
      await store.jobs.prune({
        retention: { done: 0, failed: 0, cancelled: 0, expired: 0 },
        limit: 9,
      });
      assert.equal(await byHand(sql`delete from holdfast.rerun`), 0);
      assert.equal(await byHand(sql`delete from holdfast.rerun_step`), 0);
    });
  }

  test("every effect that would be repeated must be confirmed, or nothing changes", async () => {
    const { store } = await open();
    const { id } = await ended(store);
    for (const confirm of [[], ["charge"], ["quote", "book"]]) {
      await assert.rejects(store.steps.rerun(request(id, step("charge"), confirm)), {
        code: "RERUN_UNCONFIRMED",
      });
    }
    assert.equal(await statusOf(store, id), "done");
    assert.equal((await names(store, id)).length, 4);
    assert.deepEqual(await store.audit.list({ limit: 9 }), []);
    await store.steps.rerun(request(id, step("nap")));
    assert.deepEqual(await names(store, id), ["quote", "charge", "book"]);
  });

  test("it can start from the beginning, with another input, again and again", async () => {
    const { store } = await open();
    const { id } = await ended(store);
    const all = ["charge", "book"];
    await store.steps.rerun({ ...request(id, null, all), payload: "7" });
    const again = await claimOne(store);
    assert.equal(again.payload, "7");
    assert.deepEqual(await names(store, id), []);
    await stepsDone(store, again, STEPS);
    await settleOne(store, done(again));
    await store.steps.rerun(request(id, step("charge"), all));
    const taken = await store.steps.takenBack(id);
    const times = new Map(taken.map(({ name, times: n }) => [name, n]));
    assert.deepEqual([times.get("quote"), times.get("charge")], [1, 2]);
    assert.equal((await store.jobs.revisions(id)).length, 1);
  });

  test("concurrent steps are repeated by their time", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    await stepsDone(store, job, [["first", "step", 1]]);
    for (const name of ["a", "b", "c"]) {
      clock.advance(1);
      await stepsDone(store, job, [[name, "effect", 0]]);
    }
    await settleOne(store, done(job));
    const plan = await store.steps.planRerun(job.id, step("b"));
    assert.deepEqual(plan?.confirm, ["b", "c"]);
    const all = await store.steps.planRerun(job.id, step("first"));
    assert.deepEqual(all?.confirm.toSorted(), ["a", "b", "c"]);
  });

  test("a job that has not ended, does not exist or lacks the step is refused", async () => {
    const { store } = await open();
    const { id } = await ended(store);
    const running = await startOne(store, { queue: "r" });
    const refused: [object, string][] = [
      [request(running.id, null), "ILLEGAL_MOVE"],
      [request(nextId(), null), "JOB_NOT_FOUND"],
      [request(id, step("none")), "STEP_NOT_FOUND"],
      [request(id, { name: "charge", occurrence: 2 }), "STEP_NOT_FOUND"],
    ];
    for (const [what, code] of refused) {
      await assert.rejects(store.steps.rerun(what as ReturnType<typeof request>), { code });
    }
    assert.equal(await statusOf(store, id), "done");
    assert.equal(await store.steps.planRerun(nextId(), null), null);
  });

  test("it needs its key again, and is refused if another job has it", async () => {
    const { store } = await open();
    const { id } = await ended(store);
    const { id: other } = await enqueueOne(store, { key: "order-1" });
    const again = request(id, step("nap"));
    await assert.rejects(store.steps.rerun(again), { code: "KEY_TAKEN" });
    await store.jobs.cancel(other);
    await store.steps.rerun(again);
    await store.steps.rerun(again); // its answer was lost
    assert.equal(await statusOf(store, id), "pending");
    assert.equal((await store.audit.list({ limit: 9 })).length, 1);
  });

  test("of many reruns at once, one is made", async () => {
    const { store } = await open();
    const { id } = await ended(store);
    const all = await Promise.allSettled(
      Array.from({ length: 5 }, () => store.steps.rerun(request(id, step("nap")))),
    );
    assert.equal(all.filter(({ status }) => status === "fulfilled").length, 1);
    assert.equal((await store.audit.list({ limit: 9 })).length, 1);
  });
};
