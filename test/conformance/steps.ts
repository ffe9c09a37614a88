/** Steps: what a job has done so far is kept, and only its owner can say so. */
import type { UserTransaction } from "../../src/core/task.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { LeaseLostError, StoreRefusedError } from "../../src/core/errors.ts";
import type { StepWrite } from "../../src/steps/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crashAndClaim,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  mustFind,
  nextId,
  released,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";
import type { Store } from "../../src/app/store.ts";
import { isNear } from "../support/near.ts";

function step(facts: Partial<StepWrite> = {}): StepWrite {
  return {
    name: "quote",
    occurrence: 1,
    position: 1,
    kind: "step",
    status: "done",
    result: '{"cents":1999}',
    isNew: true,
    ...facts,
  };
}

const NOT_HERE = "a function does not travel to another process";

export const steps: Group = (open) => {
  test("a job begins without steps, and one that does not exist has none", async () => {
    const { store } = await open();
    const { id } = await startOne(store);
    assert.deepEqual(await store.steps.list(id), []);
    assert.deepEqual(await store.steps.list(nextId()), []);
    assert.deepEqual(await store.steps.list("no id at all"), []);
  });

  test("a step is kept with its result, in the order in which the steps were begun", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    assert.equal(await store.steps.put(job, step({ name: "b", position: 1 })), true);
    assert.equal(
      await store.steps.put(job, step({ name: "a", position: 2, status: "begun", result: null })),
      true,
    );
    const [first, second, ...others] = await store.steps.list(job.id);
    const { isNew: _isNew, ...facts } = step({ name: "b" });
    const now = clock.now();
    assert.deepEqual(first, { ...facts, epoch: 1, begunAt: now, endedAt: now, ageMs: 0 });
    assert.deepEqual([second?.name, second?.status, second?.endedAt], ["a", "begun", null]);
    assert.deepEqual(others, []);
  });

  test("a step that was begun is ended, also by a later attempt", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const first = await startOne(store);
    await store.steps.put(first, step({ status: "begun", result: null }));
    const second = await crashAndClaim(bundle, first, "other");
    const begunAt = (await store.steps.list(first.id))[0]?.begunAt;
    assert.equal(await store.steps.put(second, step({ isNew: false })), true);
    const [row] = await store.steps.list(first.id);
    assert.deepEqual(
      [row?.status, row?.epoch, row?.begunAt, row?.endedAt, row?.result],
      ["done", 2, begunAt, clock.now(), step().result],
    );
  });

  test("a step that is done stays unchanged", async () => {
    const { store, byHand } = await open();
    const job = await startOne(store);
    await store.steps.put(job, step());
    assert.equal(await store.steps.put(job, step({ result: "2", isNew: false })), false);
    await assert.rejects(store.steps.put(job, step({ result: "2" })), StoreRefusedError);
    await assert.rejects(
      byHand(sql`update holdfast.step set result = '3' where job_id = ${job.id}`),
      StoreRefusedError,
    );
    assert.equal((await store.steps.list(job.id))[0]?.result, step().result);
  });

  test("a worker that lost the job cannot begin, end or take back a step", async () => {
    const bundle = await open();
    const { store } = bundle;
    const zombie = await startOne(store);
    await store.steps.put(zombie, step({ name: "begun", status: "begun" }));
    const owner = await crashAndClaim(bundle, zombie, "other");
    assert.equal(await store.steps.put(zombie, step({ name: "new" })), false);
    assert.equal(await store.steps.put(zombie, step({ name: "begun", isNew: false })), false);
    assert.equal(await store.steps.drop(zombie, { name: "begun", occurrence: 1 }), false);
    assert.equal(
      await store.steps.put({ ...owner, worker: "somebody" }, step({ name: "new" })),
      false,
    );
    const kept = await store.steps.list(owner.id);
    assert.deepEqual(
      kept.map(({ name, status }) => [name, status]),
      [["begun", "begun"]],
    );
    await settleOne(store, done(owner));
    assert.equal(await store.steps.put(owner, step({ name: "late" })), false);
  });

  test("a step that was begun can be taken back, one that is done cannot", async () => {
    const { store } = await open();
    const job = await startOne(store);
    await store.steps.put(job, step({ name: "a", status: "begun" }));
    await store.steps.put(job, step({ name: "b", position: 2 }));
    assert.equal(await store.steps.drop(job, { name: "a", occurrence: 1 }), true);
    assert.equal(await store.steps.drop(job, { name: "b", occurrence: 1 }), true);
    assert.deepEqual(
      (await store.steps.list(job.id)).map(({ name }) => name),
      ["b"],
    );
  });

  test("rows of a user and the step are committed together, or not at all", async (t) => {
    const bundle = await open();
    const { store, byHand } = bundle;
    if (!isNear(store)) return t.skip(NOT_HERE);
    const job = await startOne(store);
    await byHand(sql`create table holdfast.shipment (number integer)`);
    const insert = (number: number) => async (tx: UserTransaction) => {
      await tx.query(spelt(store, `insert into holdfast.shipment (number) values (${number})`));
      return String(number);
    };
    const book = { name: "book", occurrence: 1, position: 1, kind: "commit" } as const;
    await store.steps.commit(job, book, insert(1));
    assert.equal((await store.steps.list(job.id))[0]?.result, "1");
    await assert.rejects(
      store.steps.commit(job, { ...book, occurrence: 2 }, async (tx) => {
        await insert(2)(tx);
        throw new RangeError("no");
      }),
      RangeError,
    );
    const owner = await crashAndClaim(bundle, job, "other");
    await assert.rejects(
      store.steps.commit(job, { ...book, occurrence: 2 }, insert(3)),
      LeaseLostError,
    );
    await store.steps.commit(owner, { ...book, occurrence: 2 }, insert(4));
    const { engine } = store.db;
    const rows = await engine.all<{ number: number }>(
      sql`select number from holdfast.shipment order by number`,
    );
    assert.deepEqual(
      rows.map(({ number }) => number),
      [1, 4],
    );
    assert.equal((await store.steps.list(job.id)).length, 2);
    await byHand(sql`drop table holdfast.shipment`); // the next test may have the same database
  });

  test("steps outlast retries and suspensions, and go with their job", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    await store.steps.put(job, step());
    await settleOne(store, suspended(job, 1_000));
    clock.advance(1_000);
    await store.jobs.promoteDue({ limit: 9 });
    const again = await claimOne(store);
    await settleOne(store, released(again));
    const last = await claimOne(store);
    assert.equal((await store.steps.list(job.id)).length, 1);
    await settleOne(store, done(last));
    assert.equal((await store.steps.list(job.id)).length, 1);
    clock.advance(HOUR_MS);
    await store.jobs.prune({
      retention: { done: 1, failed: 1, cancelled: 1, expired: 1 },
      limit: 9,
    });
    assert.deepEqual(await store.steps.list(job.id), []);
  });

  test("a step in doubt is listed until a person says whether it happened", async () => {
    const { store } = await open();
    const jobs = [await startOne(store), await startOne(store)];
    for (const job of jobs) {
      await store.steps.put(
        job,
        step({ name: "charge", kind: "effect", status: "doubt", result: null }),
      );
      await settleOne(store, suspended(job, null));
    }
    const [first, second] = jobs.map(({ id }) => id) as [string, string];
    const listed = await store.steps.effectsInDoubt({ limit: 9 });
    assert.deepEqual(
      new Set(listed.map(({ job, name, task }) => [job, name, task].join())),
      new Set([`${first},charge,mail.send`, `${second},charge,mail.send`]),
    );
    const say = (job: string, happened: { result: string | null } | null): Promise<boolean> =>
      store.steps.resolveEffect({
        id: nextId(),
        actor: "ada",
        job,
        name: "charge",
        occurrence: 1,
        happened,
      });
    assert.equal(await say(first, { result: '"paid"' }), true);
    assert.equal(await say(second, null), true);
    assert.equal(await say(first, null), false); // it goes on already
    assert.deepEqual(await store.steps.effectsInDoubt({ limit: 9 }), []);
    assert.equal((await mustFind(store, first)).status, "pending");
    assert.deepEqual(
      (await store.steps.list(first)).map(({ status, result }) => [status, result]),
      [["done", '"paid"']],
    );
    assert.deepEqual(await store.steps.list(second), []);
    const kept = await store.audit.list({ actor: "ada", limit: 9 });
    assert.deepEqual(
      kept.map(({ action, subject, detail }) => [action, subject, detail]),
      [
        ["step.done", `job ${first}`, "charge"],
        ["step.not-done", `job ${second}`, "charge"],
      ],
    );
  });

  test("a retried job waits again for the called job whose failure failed it", async () => {
    const { store } = await open();
    const job = await startOne(store);
    await store.steps.put(job, step({ name: "a" }));
    await store.steps.put(
      job,
      step({ name: "child", kind: "call", position: 2, status: "failed" }),
    );
    await settleOne(store, failed(job));
    await store.jobs.retry(job.id, 1);
    assert.deepEqual(
      (await store.steps.list(job.id)).map(({ name, status }) => [name, status]),
      [
        ["a", "done"],
        ["child", "begun"],
      ],
    );
  });

  test("a step that is not in doubt cannot be resolved", async () => {
    const { store } = await open();
    const job = await startOne(store);
    await store.steps.put(job, step({ name: "charge" }));
    await settleOne(store, suspended(job, null));
    const resolution = { id: nextId(), actor: "ada", job: job.id, name: "charge", occurrence: 1 };
    await assert.rejects(store.steps.resolveEffect({ ...resolution, happened: null }), {
      code: "EFFECT_NOT_FOUND",
      message: `Job ${job.id} has no effect 'charge' in doubt. In doubt: none.`,
    });
    assert.equal((await mustFind(store, job.id)).status, "waiting");
    assert.equal(
      await store.steps.resolveEffect({ ...resolution, job: nextId(), happened: null }),
      false,
    );
    await enqueueOne(store);
  });
};

/** As the engine spells its tables. */
function spelt({ db: { engine } }: Store, text: string): string {
  const { schema } = engine.address?.options ?? {};
  const prefix = typeof schema === "string" ? `"${schema}".` : "holdfast_";
  return text.replaceAll("holdfast.", prefix);
}
