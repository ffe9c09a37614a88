/** Holding on to a job, losing it, and what becomes of jobs whose workers died. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorRecord } from "../../src/core/error-record.ts";
import type { Group } from "../support/bundle.ts";
import {
  claimOne,
  crash,
  crashAndClaim,
  CRASHES_MAX,
  done,
  fenceOf,
  GRACE_MS,
  HOUR_MS,
  idsOf,
  LEASE_MS,
  mustFind,
  newJob,
  nextId,
  pictureOf,
  promoteOne,
  retry,
  settleOne,
  sortedIds,
  startOne,
  statusOf,
  sweep,
  upTo,
} from "../support/jobs.ts";

export const leases: Group = (open) => {
  test("extending moves the end of a lease to that span from now", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(10_000);

    const extended = await store.jobs.extend([claimed], LEASE_MS);
    const lockedUntil = clock.now() + LEASE_MS;
    assert.deepEqual(extended, [{ ...fenceOf(claimed), lockedUntil, cancelRequested: false }]);
    assert.equal((await mustFind(store, claimed.id)).lockedUntil, lockedUntil);
  });

  test("extending never makes a lease shorter", async () => {
    const { store } = await open();
    const claimed = await startOne(store);

    const [extended] = await store.jobs.extend([claimed], 1_000);
    assert.equal(extended?.lockedUntil, claimed.lockedUntil);
    assert.equal((await mustFind(store, claimed.id)).lockedUntil, claimed.lockedUntil);
  });

  test("extending never makes a lease shorter, even when the clock was set back", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.set(clock.now() - HOUR_MS);

    const [extended] = await store.jobs.extend([claimed], LEASE_MS);
    assert.equal(extended?.lockedUntil, claimed.lockedUntil);
  });

  test("extending leaves the attempt, the epoch and the owner as they are", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    const before = await pictureOf(store, claimed.id);
    clock.advance(1_000);
    await store.jobs.extend([claimed], LEASE_MS);

    const after = await pictureOf(store, claimed.id);
    const moved = { lockedUntil: claimed.lockedUntil, heartbeatAt: before.job?.heartbeatAt };
    assert.deepEqual({ ...after.job, ...moved }, before.job);
    assert.deepEqual(after.attempts, before.attempts);
  });

  test("extending an empty batch extends nothing", async () => {
    const { store } = await open();
    assert.deepEqual(await store.jobs.extend([], LEASE_MS), []);
  });

  test("a mixed batch extends exactly the leases that the worker still holds", async () => {
    const { store, clock } = await open();
    await store.jobs.enqueue([newJob(), newJob(), newJob(), newJob()]);
    const [kept, settled, stolen, alsoKept] = await store.jobs.claim(upTo(4));
    await settleOne(store, done(settled!));
    clock.advance(5);
    const fences = [kept!, settled!, { ...stolen!, epoch: 9 }, alsoKept!];

    const extended = await store.jobs.extend(fences, LEASE_MS);
    assert.deepEqual(sortedIds(extended), sortedIds([kept!, alsoKept!]));
    assert.equal((await mustFind(store, stolen!.id)).lockedUntil, stolen!.lockedUntil);
  });

  test("an expired lease belongs to its worker until it is reclaimed", async () => {
    const { store, clock } = await open();
    const extended = await startOne(store);
    const settled = await startOne(store);
    clock.advance(HOUR_MS);

    assert.deepEqual(idsOf(await store.jobs.extend([extended], LEASE_MS)), [extended.id]);
    assert.deepEqual(idsOf(await store.jobs.settle([done(settled)])), [settled.id]);
  });

  test("an active lease is not reclaimed", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.set(claimed.lockedUntil);

    assert.deepEqual(await store.jobs.reclaimExpired({ ...sweep, graceMs: 0 }), []);
    assert.equal(await statusOf(store, claimed.id), "processing");
  });

  test("an expired lease is left alone during the grace period", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.set(claimed.lockedUntil + GRACE_MS);
    assert.deepEqual(await store.jobs.reclaimExpired(sweep), []);
    assert.equal(await statusOf(store, claimed.id), "processing");

    clock.advance(1);
    assert.deepEqual(idsOf(await store.jobs.reclaimExpired(sweep)), [claimed.id]);
  });

  test("an extended lease is not reclaimed at its first expiry", async () => {
    const { store, clock } = await open();
    const claimed = await startOne(store);
    clock.advance(LEASE_MS / 2);
    const [extended] = await store.jobs.extend([claimed], LEASE_MS);
    clock.set(claimed.lockedUntil + GRACE_MS + 1);
    assert.deepEqual(await store.jobs.reclaimExpired(sweep), []);

    clock.set(extended!.lockedUntil + GRACE_MS + 1);
    assert.deepEqual(idsOf(await store.jobs.reclaimExpired(sweep)), [claimed.id]);
  });

  test("a reclaimed job is retried, and its crash and attempt count", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const claimed = await startOne(store);

    const { dueAt, ...taken } = await crash(bundle, claimed);
    assert.deepEqual(taken, {
      ...fenceOf(claimed),
      queue: "default",
      task: "mail.send",
      status: "retry",
      attempts: 1,
    });
    assert.ok(dueAt !== null && dueAt >= clock.now());
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "retry");
    assert.equal(job.dueAt, dueAt);
    assert.equal(job.attempts, 1);
    assert.equal(job.crashes, 1);
    assert.equal(job.epoch, 1);
    assert.equal(job.lockedBy, null);
    assert.equal(job.lockedUntil, null);
  });

  test("the next worker of a job learns how often it crashed", async () => {
    const bundle = await open();
    const first = await startOne(bundle.store, { maxAttempts: 9 });
    const second = await crashAndClaim(bundle, first, "worker-b");

    assert.equal(second.crashes, 1);
    assert.equal(second.attempt, 2);
    assert.equal(second.epoch, 2);
  });

  test("a crash leaves an attempt with its worker and the reason", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const startedAt = clock.now();
    const claimed = await startOne(store, {}, { worker: "worker-x" });
    await crash(bundle, claimed);

    const [attempt, ...more] = await store.jobs.attempts(claimed.id);
    assert.deepEqual(more, []);
    const { error, ...rest } = attempt!;
    assert.deepEqual(rest, {
      epoch: 1,
      attempt: 1,
      worker: "worker-x",
      outcome: "crashed",
      startedAt,
      endedAt: clock.now(),
    });
    const record = JSON.parse(error ?? "null") as ErrorRecord;
    assert.equal(record.code, "LEASE_EXPIRED");
    assert.match(record.message, /worker-x/);
    assert.equal((await mustFind(store, claimed.id)).lastError, error);
  });

  test("a job that crashed too many workers is kept from the next as poison", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    let claimed = await startOne(store, { maxAttempts: 50 });
    for (let crashes = 1; crashes < CRASHES_MAX; crashes += 1) {
      claimed = await crashAndClaim(bundle, claimed, `worker-${crashes}`);
    }

    const last = await crash(bundle, claimed);
    assert.equal(last.status, "failed");
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "failed");
    assert.equal(job.crashes, CRASHES_MAX);
    assert.equal(job.finishedAt, clock.now());
    assert.equal((JSON.parse(job.lastError ?? "null") as ErrorRecord).code, "POISON");
    assert.equal((await store.jobs.attempts(claimed.id)).length, CRASHES_MAX);
  });

  test("a job that ends another worker while it runs alone is the culprit: those beside it are not charged", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    // What a crash costs, with a waiting, a pending, a running and a finished neighbour.
    const ids = Array.from({ length: 5 }, nextId).toSorted();
    await store.jobs.enqueue(ids.map((id) => newJob({ id, maxAttempts: 5 })));
    const [culprit = "", waiting = "", pending = "", running = "", finished = ""] = ids;
    const [first] = await store.jobs.claim(upTo(5, { worker: "worker-dead" }));
    const reclaimed = await crash(bundle, first!);
    assert.equal(reclaimed.cleared, undefined, "it is not known yet which it was");
    for (const id of ids) assert.equal((await mustFind(store, id)).crashes, 1);
    clock.advance(10_000);
    await store.jobs.promoteDue({ limit: 100 });
    const claimed = await store.jobs.claim(upTo(5, { worker: "worker-b" }));
    const of = (id: string) => claimed.find((job) => job.id === id)!;
    await store.jobs.settle([done(of(finished)), retry(of(waiting))]);
    await store.jobs.release([of(pending)]);
    await store.jobs.release([of(culprit)]);
    await store.jobs.extend([of(running)], HOUR_MS);
    let suspect = await claimOne(store, { worker: "worker-c" });
    if (suspect.id !== culprit) {
      const other = suspect;
      suspect = await claimOne(store, { worker: "worker-c" });
      await store.jobs.release([other]);
    }
    assert.equal(suspect.id, culprit);
    const cleared = [waiting, pending, running].toSorted();
    assert.deepEqual((await crash(bundle, suspect)).cleared, cleared);

    // The waiting one has failed once since; the running one knows its number, so only its crash is taken back.
    const counts = async (id: string) => {
      const { attempts, crashes } = await mustFind(store, id);
      return [attempts, crashes];
    };
    assert.deepEqual(await counts(culprit), [2, 2]);
    assert.deepEqual(await counts(waiting), [1, 0]);
    assert.deepEqual(await counts(pending), [0, 0]);
    assert.deepEqual(await counts(running), [2, 0]);
    assert.deepEqual(await counts(finished), [2, 1], "its end was announced");
    const [attempt] = await store.jobs.attempts(pending);
    const record = JSON.parse(attempt?.error ?? "null") as ErrorRecord;
    assert.deepEqual([attempt?.outcome, record.code], ["released", "NEIGHBOUR_CRASHED"]);
    assert.ok(record.message.includes(culprit));

    // Once: its next crash finds nothing more to take back.
    await promoteOne(bundle, culprit);
    await store.jobs.settle([done(await claimOne(store, { worker: "worker-d" }))]);
    assert.deepEqual(await counts(waiting), [1, 0]);
  });

  test("a failure between two crashes does not make the crashes forgotten", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 50 });
    const second = await crashAndClaim(bundle, first, "worker-b");
    await settleOne(store, retry(second));
    await promoteOne(bundle, first.id);

    const third = await claimOne(store);
    assert.equal(third.crashes, 1);
    await crash(bundle, third);
    assert.equal((await mustFind(store, first.id)).crashes, 2);
  });

  test("a job without an attempt left is failed when its worker dies", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store, { maxAttempts: 1 });

    const { status, attempts, dueAt } = await crash(bundle, claimed);
    assert.deepEqual({ status, attempts, dueAt }, { status: "failed", attempts: 1, dueAt: null });
    const job = await mustFind(store, claimed.id);
    assert.equal(job.status, "failed");
    assert.equal(job.crashes, 1);
    const { code } = JSON.parse(job.lastError ?? "null") as ErrorRecord;
    assert.equal(code, "LEASE_EXPIRED");
  });

  test("a job with a cancel request is cancelled when its worker dies", async () => {
    const bundle = await open();
    const { store } = bundle;
    const claimed = await startOne(store);
    await store.jobs.cancel(claimed.id);

    assert.equal((await crash(bundle, claimed)).status, "cancelled");
    assert.equal(await statusOf(store, claimed.id), "cancelled");
    assert.equal(await store.jobs.promoteDue({ limit: 9 }), 0);
  });

  test("taking back takes at most its limit", async () => {
    const { store, clock } = await open();
    await store.jobs.enqueue([newJob(), newJob(), newJob()]);
    const claimed = await store.jobs.claim(upTo(3));
    clock.advance(LEASE_MS + GRACE_MS + 1);

    const first = await store.jobs.reclaimExpired({ ...sweep, limit: 2 });
    assert.equal(first.length, 2);
    const second = await store.jobs.reclaimExpired({ ...sweep, limit: 2 });
    assert.deepEqual(sortedIds([...first, ...second]), sortedIds(claimed));
  });

  test("taking back touches no lease that still runs", async () => {
    const { store, clock } = await open();
    const short = await startOne(store, {}, { leaseMs: 1_000 });
    const long = await startOne(store, {}, { leaseMs: HOUR_MS });
    const before = await pictureOf(store, long.id);
    clock.advance(1_000 + GRACE_MS + 1);

    assert.deepEqual(idsOf(await store.jobs.reclaimExpired(sweep)), [short.id]);
    assert.deepEqual(await pictureOf(store, long.id), before);
  });

  test("sweeps at the same moment take each lease back once", async () => {
    const { store, clock } = await open();
    await store.jobs.enqueue(Array.from({ length: 12 }, () => newJob()));
    const claimed = await store.jobs.claim(upTo(12));
    clock.advance(LEASE_MS + GRACE_MS + 1);

    const sweeps = await Promise.all(
      Array.from({ length: 6 }, () => store.jobs.reclaimExpired({ ...sweep, limit: 5 })),
    );
    assert.deepEqual(sortedIds(sweeps.flat()), sortedIds(claimed));
    for (const { id } of claimed) assert.equal((await mustFind(store, id)).crashes, 1);
  });

  test("of a settlement and a sweep at the same moment one wins, and its word stands", async () => {
    const { store, clock } = await open();
    for (let round = 0; round < 5; round += 1) {
      const queue = `round-${round}`;
      const claimed = await startOne(store, { queue });
      clock.advance(LEASE_MS + GRACE_MS + 1);

      const [settled, reclaimed] = await Promise.all([
        store.jobs.settle([done(claimed)]),
        store.jobs.reclaimExpired(sweep),
      ]);
      assert.equal(settled.length + reclaimed.length, 1);
      const expected = settled.length === 1 ? "done" : "retry";
      assert.equal(await statusOf(store, claimed.id), expected);
    }
  });

  test("active and expired leases are distinguished", async () => {
    const { store, clock } = await open();
    const short = await startOne(store, { queue: "mail" }, { worker: "worker-s", leaseMs: 1_000 });
    const long = await startOne(store, { queue: "mail" }, { worker: "worker-l", leaseMs: 5_000 });
    const claimedAt = clock.now();
    clock.set(short.lockedUntil);
    assert.equal((await store.jobs.leases({ state: "expired", limit: 9 })).length, 0);
    clock.advance(1);
    await store.jobs.extend([long], 9_000);
    await store.jobs.cancel(long.id);

    const record = { queue: "mail", task: "mail.send", attempt: 1, claimedAt };
    assert.deepEqual(await store.jobs.leases({ state: "expired", limit: 9 }), [
      {
        ...fenceOf(short),
        ...record,
        traceId: `worker-s-${short.id}-1`,
        heartbeatAt: claimedAt,
        lockedUntil: short.lockedUntil,
        cancelRequestedAt: null,
      },
    ]);
    assert.deepEqual(await store.jobs.leases({ state: "active", limit: 9 }), [
      {
        ...fenceOf(long),
        ...record,
        traceId: `worker-l-${long.id}-1`,
        heartbeatAt: clock.now(),
        lockedUntil: clock.now() + 9_000,
        cancelRequestedAt: clock.now(),
      },
    ]);
  });

  test("leases come by id, a page at a time, for one worker or for all", async () => {
    const { store } = await open();
    const jobs = Array.from({ length: 5 }, () => newJob());
    await store.jobs.enqueue(jobs.toReversed());
    const ofA = await store.jobs.claim(upTo(3, { worker: "worker-a" }));
    await store.jobs.claim(upTo(2, { worker: "worker-b" }));

    const first = await store.jobs.leases({ state: "active", limit: 2 });
    const rest = await store.jobs.leases({ state: "active", limit: 9, after: first.at(-1)!.id });
    assert.deepEqual(idsOf([...first, ...rest]), sortedIds(jobs));
    const own = await store.jobs.leases({ state: "active", worker: "worker-a", limit: 9 });
    assert.deepEqual(idsOf(own), sortedIds(ofA));
    assert.deepEqual(
      await store.jobs.leases({ state: "active", worker: "worker-c", limit: 9 }),
      [],
    );
    assert.deepEqual(await store.jobs.leases({ state: "active", after: nextId(), limit: 9 }), []);
  });

  test("a lease is gone once its job was settled, released or reclaimed", async () => {
    const bundle = await open();
    const { store } = bundle;
    const settled = await startOne(store);
    await settleOne(store, done(settled));
    const handedBack = await startOne(store, { queue: "other" });
    await store.jobs.release([handedBack]);
    const crashed = await startOne(store);
    await crash(bundle, crashed);

    assert.deepEqual(await store.jobs.leases({ state: "active", limit: 9 }), []);
    assert.deepEqual(await store.jobs.leases({ state: "expired", limit: 9 }), []);
  });

  test("a lease that is extended twice in one batch is returned once", async () => {
    const { store } = await open();
    const claimed = await startOne(store);
    const fences = [fenceOf(claimed), fenceOf(claimed), { ...fenceOf(claimed), epoch: 9 }];
    const extended = await store.jobs.extend(fences, 2 * LEASE_MS);
    assert.deepEqual(idsOf(extended), [claimed.id]);
  });
};
