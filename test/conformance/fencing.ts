/**
 * The fence: only the owner of a job at this epoch changes anything about it.
 *
 * Every way of not being the owner is tried with every deed. Where the job has an owner, that one
 * can still finish it afterwards.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fence } from "../../src/core/job.ts";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { type Sql, sql } from "../../src/database/sql.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  crash,
  crashAndClaim,
  done,
  enqueueOne,
  failed,
  fenceOf,
  HOUR_MS,
  mustFind,
  nextId,
  pictureOf,
  released,
  retry,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";

interface Impostor {
  readonly fence: Fence;
  readonly owner: ClaimedJob | null;
}

const impostors: Record<string, (bundle: Bundle) => Promise<Impostor>> = {
  "another worker": async ({ store }) => {
    const owner = await startOne(store);
    return { owner, fence: { ...fenceOf(owner), worker: "worker-b" } };
  },
  "a worker whose name differs in case": async ({ store }) => {
    const owner = await startOne(store);
    return { owner, fence: { ...fenceOf(owner), worker: owner.worker.toUpperCase() } };
  },
  "the owner with an epoch of the past": async ({ store }) => {
    const first = await startOne(store, {}, { worker: "worker-b" });
    await store.jobs.release([first]);
    const owner = await claimOne(store);
    return { owner, fence: { ...fenceOf(owner), epoch: first.epoch } };
  },
  "the owner with an epoch to come": async ({ store }) => {
    const owner = await startOne(store);
    return { owner, fence: { ...fenceOf(owner), epoch: owner.epoch + 1 } };
  },
  "a worker that lost its lease to another": async (bundle) => {
    const lost = await startOne(bundle.store);
    return { fence: lost, owner: await crashAndClaim(bundle, lost, "worker-b") };
  },
  "a worker that lost its lease and claimed the job again itself": async (bundle) => {
    const lost = await startOne(bundle.store);
    return { fence: lost, owner: await crashAndClaim(bundle, lost, lost.worker) };
  },
  "a worker that lost its lease, while no worker has the job": async (bundle) => {
    const lost = await startOne(bundle.store);
    await crash(bundle, lost);
    return { fence: lost, owner: null };
  },
  "a worker that released the job and claimed it again": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, released(before));
    return { fence: before, owner: await claimOne(store, { worker: before.worker }) };
  },
  "a worker that released the job": async ({ store }) => {
    const before = await startOne(store);
    await store.jobs.release([before]);
    return { fence: before, owner: null };
  },
  "a worker that suspended the job": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, suspended(before, HOUR_MS));
    return { fence: before, owner: null };
  },
  "a worker that completed the job": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, done(before, '"first"'));
    return { fence: before, owner: null };
  },
  "a worker that failed the job": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, failed(before));
    return { fence: before, owner: null };
  },
  "a worker whose failed job was retried": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, failed(before));
    await store.jobs.retry(before.id, 1);
    return { fence: before, owner: await claimOne(store, { worker: before.worker }) };
  },
  "a worker that never claimed the job": async ({ store }) => {
    const { id } = await enqueueOne(store);
    return { fence: { id, worker: "worker-a", epoch: 0 }, owner: null };
  },
  "a worker of a job that does not exist": async () => {
    return { fence: { id: nextId(), worker: "worker-a", epoch: 1 }, owner: null };
  },
};

const deeds: Record<string, (store: Store, fence: Fence) => Promise<unknown[]>> = {
  "extend the lease": (store, fence) => store.jobs.extend([fence], HOUR_MS),
  "complete the job": (store, fence) => store.jobs.settle([done(fence, '"late"')]),
  "have the job retried": (store, fence) => store.jobs.settle([retry(fence)]),
  "fail the job": (store, fence) => store.jobs.settle([failed(fence)]),
  "suspend the job": (store, fence) => store.jobs.settle([suspended(fence, 1_000)]),
  "settle the job as cancelled": (store, fence) => store.jobs.settle([cancelled(fence)]),
  "settle the job as released": (store, fence) => store.jobs.settle([released(fence)]),
  "release the job": (store, fence) => store.jobs.release([fenceOf(fence)]),
};

export const fencing: Group = (open) => {
  for (const [who, prepare] of Object.entries(impostors)) {
    for (const [what, act] of Object.entries(deeds)) {
      test(`${who} cannot ${what}`, async () => {
        const bundle = await open();
        const { fence, owner } = await prepare(bundle);
        const before = await pictureOf(bundle.store, fence.id);

        assert.deepEqual(await act(bundle.store, fence), []);
        assert.deepEqual(await pictureOf(bundle.store, fence.id), before);

        if (owner === null) return;
        const settled = await settleOne(bundle.store, done(owner));
        assert.deepEqual(fenceOf(settled), fenceOf(owner));
      });
    }
  }

  // What docs/design/promises.md lists: no trigger refuses it. If one does, the list is to be shortened.
  const withEpoch = (epoch: number): Sql => sql`
      select id, queue, task, "rank", job_key, ${epoch}, ${epoch}, 0, max_attempts`;
  const columns = sql`id, queue, task, "rank", job_key, epoch, attempts, crashes, max_attempts`;
  const elsewhere: Record<string, (id: string) => Sql> = {
    "a lease": (id) => sql`
      insert into holdfast.lease (${columns}, locked_by, locked_until, claimed_at, heartbeat_at)
      ${withEpoch(1)}, 'by hand', 1, 1, 1 from holdfast.job where id = ${id}`,
    "an end": (id) => sql`
      insert into holdfast.finished (${columns}, status, finished_at)
      ${withEpoch(0)}, 'cancelled', 1 from holdfast.job where id = ${id}`,
    "a row in waiting": (id) => sql`
      insert into holdfast.waiting (${columns}, status, due_at)
      ${withEpoch(0)}, 'scheduled', 1 from holdfast.job where id = ${id}`,
  };
  for (const [what, statement] of Object.entries(elsewhere)) {
    test(`${what} beside a pending job, typed by hand, is accepted and found by the doctor`, async () => {
      const { store, byHand } = await open();
      const { id } = await enqueueOne(store);
      assert.equal(await byHand(statement(id)), 1);
      const check = what === "a lease" ? "lease-and-elsewhere" : "job-in-two-tables";
      const found = await store.checks.examine(check, { limit: 9 });
      assert.deepEqual(
        found?.offenders.map(({ subject }) => subject),
        [`job ${id}`],
      );
    });
  }

  test("another owner of a lease, typed by hand, is accepted, and the former one is refused", async () => {
    const { store, byHand } = await open();
    const owner = await startOne(store);
    await byHand(sql`update holdfast.lease set locked_by = 'worker-x' where id = ${owner.id}`);
    assert.deepEqual(await store.jobs.settle([done(owner)]), []);
    await settleOne(store, done({ ...owner, worker: "worker-x" }));
  });

  const pendingAgain = (id: string): Sql => sql`
      insert into holdfast.ready (${columns}, ready_at, place)
      ${withEpoch(0)}, 1, 1 from holdfast.job where id = ${id}`;
  const rewriting: Record<string, (id: string) => Sql> = {
    "an end": (id) => sql`
      replace into holdfast.finished (${columns}, status, worker, started_at, finished_at, result)
      ${withEpoch(1)}, 'done', 'by hand', 1, 1, '"rewritten"' from holdfast.job where id = ${id}`,
    "a request": (id) => sql`
      replace into holdfast.job (id, queue, task, payload, "rank", max_attempts, enqueued_at)
      values (${id}, 'default', 'mail.send', '"rewritten"', 0, 3, 1)`,
  };

  test("on SQLite, MySQL and MariaDB, a replace typed by hand rewrites an end and a request; PostgreSQL has none", async () => {
    const { store, byHand } = await open();
    const ended = await startOne(store);
    await settleOne(store, done(ended, '"sent"'));
    const isStandard = store.db.engine.kind === "postgres";
    for (const rewrite of Object.values(rewriting)) {
      if (isStandard) await assert.rejects(byHand(rewrite(ended.id)), /syntax error/);
      else await byHand(rewrite(ended.id));
    }
    const { result, payload } = await mustFind(store, ended.id);
    assert.equal(result === '"rewritten"' && payload === '"rewritten"', !isStandard);
  });

  test("only on MySQL and MariaDB, an INSERT typed by hand makes an ended job pending", async () => {
    const { store, byHand } = await open();
    const ended = await startOne(store);
    await settleOne(store, done(ended, '"sent"'));
    if (store.db.engine.kind !== "mysql") {
      return assert.rejects(byHand(pendingAgain(ended.id)), StoreRefusedError);
    }
    await byHand(pendingAgain(ended.id));
    const again = await claimOne(store);
    assert.equal(again.id, ended.id); // it runs once more, but cannot end once more
    await assert.rejects(store.jobs.settle([done(again, '"again"')]), StoreRefusedError);
    assert.equal((await mustFind(store, ended.id)).result, '"sent"');
  });
};
