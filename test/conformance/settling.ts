/** Reporting what became of attempts. What the fence refuses stands in `fencing.ts`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../src/core/errors.ts";
import type { Settlement } from "../../src/core/job.ts";
import type { ClaimedJob } from "../../src/jobs/store.ts";
import type { Group } from "../support/bundle.ts";
import {
  cancelled,
  claimOne,
  done,
  enqueueOne,
  ERROR,
  failed,
  idsOf,
  fenceOf,
  mustFind,
  newJob,
  one,
  outcomes,
  pictureOf,
  released,
  retry,
  settleOne,
  sortedIds,
  startOne,
  statusOf,
  suspended,
  upTo,
} from "../support/jobs.ts";

export const settling: Group = (open) => {
  test("a job that is handed back in a poll cycle can be claimed in the same cycle", async () => {
    const { store } = await open();
    const [mine, theirs] = [
      await startOne(store, {}, { worker: "w1" }),
      await startOne(store, {}, { worker: "w2" }),
    ];
    const { settled, claimed } = await store.jobs.settleAndClaim(
      [done(mine), released(theirs)],
      upTo(5, { worker: "w1" }),
    );
    assert.equal(settled.length, 2);
    assert.deepEqual(idsOf(claimed), [theirs.id]);
  });

  test("of jobs that are known from their claim, each ends as it has to", async () => {
    const { store } = await open();
    const knownDone = (job: ClaimedJob): Settlement => ({ ...done(job), claimed: job });
    /** Settles it with another one, so that only its own peculiarity tells the two apart. */
    const withPlain = async (job: ClaimedJob): Promise<string | undefined> => {
      const plain = await startOne(store);
      const settled = await store.jobs.settle([plain, job].map(knownDone));
      assert.equal(settled.find(({ id }) => id === plain.id)?.status, "done");
      return settled.find(({ id }) => id === job.id)?.status;
    };
    const keyed = await startOne(store, { key: "order-1" });
    assert.equal(await withPlain(keyed), "done");
    const next = newJob({ key: "order-1" });
    assert.deepEqual(await store.jobs.enqueue([next]), [{ id: next.id, added: true }]);
    await settleOne(store, done(await claimOne(store)));
    const stopped = await startOne(store);
    await store.jobs.cancel(stopped.id);
    assert.equal(await withPlain(stopped), "cancelled");
    const stale = await startOne(store);
    await store.jobs.release([stale]);
    await claimOne(store);
    assert.equal(await withPlain(stale), undefined);
    assert.equal(await statusOf(store, stale.id), "processing");

    const alike = [await startOne(store), await startOne(store)];
    const { settled: ended, claimed } = await store.jobs.settleAndClaim(
      alike.map(knownDone),
      upTo(1),
    );
    assert.deepEqual([ended.length, claimed], [2, []]);
    for (const { id, queue, task, attempt } of alike) {
      const row = ended.find((each) => each.id === id);
      assert.deepEqual(
        [row?.status, row?.queue, row?.task, row?.attempts, await statusOf(store, id)],
        ["done", queue, task, attempt, "done"],
      );
    }
  });

  test("a completed job keeps its result", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(250);

    assert.deepEqual(await store.jobs.settle([done(claimed, '{"sent":true}')]), [
      {
        ...fenceOf(claimed),
        queue: "default",
        task: "mail.send",
        status: "done",
        attempts: 1,
        dueAt: null,
      },
    ]);
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "done");
    assert.equal(job.result, '{"sent":true}');
    assert.equal(job.finishedAt, clock.now());
    assert.equal(job.lastError, null);
    assert.equal(job.lockedBy, null);
    assert.equal(job.lockedUntil, null);
  });

  test("a job is done where its result could not be stored, and says why", async () => {
    const { store } = await open();
    const without = (job: ClaimedJob, isKnown: boolean): Settlement => ({
      ...fenceOf(job),
      outcome: { kind: "done", result: null, error: ERROR },
      ...(isKnown ? { claimed: job } : {}),
    });
    for (const isKnown of [true, false]) {
      const [lost, plain] = [await startOne(store), await startOne(store)];
      const next = await enqueueOne(store);
      const { settled, claimed } = await store.jobs.settleAndClaim(
        [without(lost, isKnown), done(plain, "1")],
        upTo(1),
      );
      const statuses = new Map(settled.map(({ id, status }) => [id, status]));
      assert.deepEqual([statuses.get(lost.id), statuses.get(plain.id)], ["done", "done"]);
      assert.deepEqual(idsOf(claimed), [next.id]);
      const [found, other] = [await mustFind(store, lost.id), await mustFind(store, plain.id)];
      assert.deepEqual([found.status, found.result, found.lastError], ["done", null, ERROR]);
      assert.deepEqual([other.status, other.result, other.lastError], ["done", "1", null]);
      await settleOne(store, done(claimed[0] as ClaimedJob));
      const alone = await startOne(store);
      await settleOne(store, without(alone, isKnown));
      assert.equal((await mustFind(store, alone.id)).lastError, ERROR);
    }
  });

  test("a completed job may have no result", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    await settleOne(store, done(claimed));
    assert.equal((await mustFind(store, claimed.id)).result, null);
  });

  test("a failed job keeps its error", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);

    assert.equal((await settleOne(store, failed(claimed, ERROR))).status, "failed");
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "failed");
    assert.equal(job.lastError, ERROR);
    assert.equal(job.result, null);
    assert.equal(job.finishedAt, clock.now());
  });

  test("a job that is to be retried waits for that span from now and keeps the error", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(40);

    const settled = await settleOne(store, retry(claimed, { delayMs: 7_000, error: ERROR }));
    const { status, attempts, dueAt } = settled;
    const expected = { status: "retry", attempts: 1, dueAt: clock.now() + 7_000 };
    assert.deepEqual({ status, attempts, dueAt }, expected);
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "retry");
    assert.equal(job.dueAt, clock.now() + 7_000);
    assert.equal(job.lastError, ERROR);
    assert.equal(job.finishedAt, null);
  });

  test("a suspended job waits, with a time or without one, and its attempt is given back", async () => {
    const { store, clock } = await open();
    const timed = await startOne(store);
    const endless = await startOne(store);

    const first = await settleOne(store, suspended(timed, 60_000));
    const second = await settleOne(store, suspended(endless, null));
    assert.equal(first.status, "waiting");
    assert.equal(first.attempts, 0);
    assert.equal(first.dueAt, clock.now() + 60_000);
    assert.equal(second.status, "waiting");
    assert.equal(second.attempts, 0);
    assert.equal(second.dueAt, null);
    assert.equal((await mustFind(store, timed.id)).dueAt, clock.now() + 60_000);
    assert.equal((await mustFind(store, endless.id)).dueAt, null);
  });

  test("a released job is pending again at once, and its attempt is given back", async () => {
    const { store } = await open();
    const claimed = await startOne(store);

    const [handedBack] = await store.jobs.release([claimed]);
    assert.deepEqual(handedBack, {
      ...fenceOf(claimed),
      queue: "default",
      task: "mail.send",
      status: "pending",
      attempts: 0,
      dueAt: null,
    });
    const again = await claimOne(store, { worker: "worker-b" });
    assert.equal(again.id, claimed.id);
    assert.equal(again.attempt, 1);
    assert.equal(again.epoch, 2);
  });

  test("a job that its worker settles as cancelled is cancelled", async () => {
    const { store } = await open();
    const claimed = await startOne(store);

    assert.equal((await settleOne(store, cancelled(claimed, ERROR))).status, "cancelled");
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "cancelled");
    assert.equal(job.lastError, ERROR);
  });

  for (const { name, settle, status } of outcomes) {
    test(`an attempt that ended as ${name} cannot end again`, async () => {
      const { store } = await open();
      const claimed = await startOne(store);
      await settleOne(store, settle(claimed));
      const before = await pictureOf(store, claimed.id);

      for (const again of outcomes) {
        assert.deepEqual(await store.jobs.settle([again.settle(claimed)]), []);
      }
      assert.deepEqual(await pictureOf(store, claimed.id), before);
      assert.equal(before.job?.status, status);
    });
  }

  test("an attempt that is settled twice in one batch ends once, by the first", async () => {
    const { store } = await open();
    const claimed = await startOne(store);

    const settled = await store.jobs.settle([done(claimed, '"first"'), failed(claimed)]);
    assert.equal(settled.length, 1);
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "done");
    assert.equal(job.result, '"first"');
  });

  test("of two attempts of a job in one batch, the former is refused and the present one ends", async () => {
    const { store } = await open();
    for (const outcome of [done, retry, failed]) {
      for (const isFirst of [true, false]) {
        const former = await startOne(store);
        await settleOne(store, released(former));
        const present = await claimOne(store);
        const batch = [outcome(fenceOf(former)), done(present, '"present"')];
        const settled = await store.jobs.settle(isFirst ? batch : batch.toReversed());
        assert.deepEqual(
          settled.map(({ id, epoch, status }) => [id, epoch, status]),
          [[present.id, present.epoch, "done"]],
        );
        assert.equal((await mustFind(store, present.id)).result, '"present"');
      }
    }
  });

  test("an attempt that is settled by many at the same moment ends once", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    const words = Array.from({ length: 6 }, (_, index) => `"${index}"`);

    const answers = await Promise.all(
      words.map((word) => store.jobs.settle([done(claimed, word)])),
    );
    const winners = words.filter((_, index) => answers[index]!.length === 1);
    assert.equal(winners.length, 1);
    assert.equal((await mustFind(store, claimed.id)).result, winners[0]);
  });

  test("an empty batch settles nothing", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.settle([]), []);
    assert.deepEqual(await store.jobs.release([]), []);
  });

  test("a mixed batch settles exactly the jobs that the worker still owns", async () => {
    const { store } = await open();
    await store.jobs.enqueue(Array.from({ length: 8 }, () => newJob()));
    const mine = await store.jobs.claim(upTo(6, { worker: "worker-a" }));
    const [theirs, alsoTheirs] = await store.jobs.claim(upTo(2, { worker: "worker-b" }));
    const [gone, ...rest] = mine;
    await store.jobs.release([gone!]);

    const settled = await store.jobs.settle([
      done(gone!),
      ...rest.map((claimed, index) => outcomes[index]!.settle(claimed)),
      done({ ...theirs!, worker: "worker-a" }),
      done({ ...alsoTheirs!, epoch: 2 }),
    ]);
    assert.deepEqual(sortedIds(settled), sortedIds(rest));
    for (const [index, { id }] of rest.entries()) {
      assert.equal(await statusOf(store, id), outcomes[index]!.status);
    }
    assert.equal(await statusOf(store, theirs!.id), "processing");
    assert.equal(await statusOf(store, alsoTheirs!.id), "processing");
  });

  test("a mixed batch hands back exactly the jobs that the worker still owns", async () => {
    const { store } = await open();
    await store.jobs.enqueue([newJob(), newJob(), newJob()]);
    const [kept, gone, stolen] = await store.jobs.claim(upTo(3));
    await settleOne(store, done(gone!));

    const handedBack = await store.jobs.release([gone!, { ...stolen!, worker: "worker-b" }, kept!]);
    assert.deepEqual(sortedIds(handedBack), [kept!.id]);
    assert.equal(await statusOf(store, stolen!.id), "processing");
  });

  test("a batch with one outcome that cannot be stored changes nothing at all", async () => {
    const { store } = await open();
    await store.jobs.enqueue([newJob({ key: "ada" }), newJob(), newJob()]);
    const claimed = await store.jobs.claim(upTo(3));
    const before = await Promise.all(claimed.map(({ id }) => pictureOf(store, id)));
    const batch = [
      done(claimed[0]!),
      retry(claimed[1]!, { delayMs: Number.NaN }),
      released(claimed[2]!),
    ];

    await assert.rejects(store.jobs.settle(batch), HoldfastError);
    assert.deepEqual(await Promise.all(claimed.map(({ id }) => pictureOf(store, id))), before);
    const [again] = await store.jobs.enqueue([newJob({ key: "ada" })]);
    assert.deepEqual(again, { id: claimed[0]!.id, added: false });
  });

  test("one turn settles and claims, in that order", async () => {
    const { store } = await open();
    const first = await startOne(store);
    const second = await enqueueOne(store);

    const turn = await store.jobs.settleAndClaim([done(first)], one());
    assert.deepEqual(sortedIds(turn.settled), [first.id]);
    assert.deepEqual(sortedIds(turn.claimed), [second.id]);

    // What the settling half makes pending, the claiming half may take.
    const next = await store.jobs.settleAndClaim([released(turn.claimed[0]!)], one());
    assert.deepEqual(sortedIds(next.claimed), [second.id]);
    assert.equal(next.claimed[0]!.epoch, 2);
  });

  test("a turn whose settlements are refused by the fence still claims", async () => {
    const { store } = await open();
    const lost = await startOne(store);
    await store.jobs.release([lost]);

    const { settled, claimed } = await store.jobs.settleAndClaim([done(lost)], one());
    assert.deepEqual(settled, []);
    assert.deepEqual(sortedIds(claimed), [lost.id]);
  });

  test("a turn without settlements is a claim", async () => {
    const { store } = await open();
    const { id } = await enqueueOne(store);
    const { settled, claimed } = await store.jobs.settleAndClaim([], one());
    assert.deepEqual(settled, []);
    assert.deepEqual(sortedIds(claimed), [id]);
  });

  test("a turn whose settlements cannot be stored claims nothing", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    const { id } = await enqueueOne(store);
    const before = await pictureOf(store, id);

    const bad = [retry(claimed, { delayMs: Number.NaN })];
    await assert.rejects(store.jobs.settleAndClaim(bad, upTo(9)), HoldfastError);
    assert.deepEqual(await pictureOf(store, id), before);
    assert.equal(await statusOf(store, claimed.id), "processing");
  });

  for (const order of ["first", "last"]) {
    test(`a stale settlement that comes ${order} in a batch does not replace the current one`, async () => {
      const { store } = await open();
      const claimed = await startOne(store);
      const stale = failed({ ...claimed, epoch: claimed.epoch + 1 });
      const batch = order === "first" ? [stale, suspended(claimed)] : [suspended(claimed), stale];
      assert.deepEqual(
        (await store.jobs.settle(batch)).map(({ status }) => status),
        ["waiting"],
      );
      const again = order === "first" ? [stale, done(claimed)] : [done(claimed), stale];
      assert.deepEqual(await store.jobs.settle(again), []);
    });

    test(`a job that is done is done once, with a stale settlement ${order} in the batch`, async () => {
      const { store } = await open();
      const claimed = await startOne(store);
      const stale = done({ ...claimed, epoch: claimed.epoch + 1 }, '"stale"');
      const current = done(claimed, '"current"');
      await store.jobs.settle(order === "first" ? [stale, current] : [current, stale]);
      const job = await mustFind(store, claimed.id);
      assert.deepEqual([job.status, job.result], ["done", '"current"']);
    });
  }
};
