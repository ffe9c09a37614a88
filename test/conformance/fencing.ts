/**
 * The fence: whoever is not the owner of a job at this epoch changes nothing about it.
 *
 * Every way of not being the owner is tried with every deed. Where the job has an owner, that one
 * can still finish it afterwards.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fence } from "../../src/core/job.ts";
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
  "a worker that lost its lease, while nobody has the job": async (bundle) => {
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
  "a worker whose failed job was revived": async ({ store }) => {
    const before = await startOne(store);
    await settleOne(store, failed(before));
    await store.jobs.revive(before.id, 1);
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
};
