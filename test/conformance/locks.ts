/** Locks as rows: one has a key at a time, tokens only grow, and no caller waits for ever. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import type { LockRequest } from "../../src/locks/lock.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import { HOUR_MS, nextId } from "../support/jobs.ts";

const TTL_MS = 15_000;
const NEXT_MS = 100;
const KEY = "order:42";
const MINUTE_MS = 60_000;
const figures = { acquisitions: 3, timeouts: 1, waitMsSum: 12, heldMsMax: 40, waits: '{"7":3}' };

function request(facts: Partial<LockRequest> = {}): LockRequest {
  const holder = nextId();
  const owner = "host-a-4711";
  return { key: KEY, holder, owner, trace: null, ttlMs: TTL_MS, contender: holder, ...facts };
}

/** Its token. */
async function take(store: Store, wanted: LockRequest = request()): Promise<number> {
  const token = await store.locks.take(wanted);
  assert.ok(token !== null, "the lock was not free");
  return token;
}

export const locks: Group = (open) => {
  test("a free lock is acquired, and is listed with all its details", async () => {
    const { store, clock } = await open();
    const token = await take(store, request({ trace: "refund 7", owner: "host-b-1" }));
    assert.deepEqual(await store.locks.find(KEY), {
      key: KEY,
      token,
      owner: "host-b-1",
      trace: "refund 7",
      acquiredAt: clock.now(),
      expiresAt: clock.now() + TTL_MS,
      expiresInMs: TTL_MS,
    });
    assert.equal(await store.locks.find("order:43"), null);
  });

  test("when many owners request it at once, one gets it", async () => {
    const { store, alone, another } = await open();
    const stores = alone === null ? [store, await another(), await another()] : [store];
    const asked = stores.flatMap((each) =>
      Array.from({ length: 10 }, () => each.locks.take(request())),
    );
    const tokens = (await Promise.all(asked)).filter((token) => token !== null);
    assert.equal(tokens.length, 1);
    assert.equal((await store.locks.find(KEY))?.token, tokens[0]);
  });

  test("no other owner gets it before it expires", async () => {
    const { store, clock } = await open();
    const first = await take(store);
    clock.advance(TTL_MS - 1);
    assert.equal(await store.locks.take(request()), null);
    clock.advance(1);
    assert.equal(await store.locks.find(KEY), null);
    assert.ok((await take(store)) > first);
  });

  test("an owner that lost it cannot extend it, and releases nothing", async () => {
    const { store, clock } = await open();
    const lost = { key: KEY, token: await take(store) };
    clock.advance(TTL_MS);
    const token = await take(store);
    assert.equal(await store.locks.extend(lost, TTL_MS), false);
    assert.equal(await store.locks.release(lost), false);
    assert.equal((await store.locks.find(KEY))?.token, token);
  });

  test("it is extended from now on, and never made shorter", async () => {
    const { store, clock } = await open();
    const hold = { key: KEY, token: await take(store) };
    clock.advance(5_000);
    assert.equal(await store.locks.extend(hold, TTL_MS), true);
    assert.equal((await store.locks.find(KEY))?.expiresInMs, TTL_MS);
    assert.equal(await store.locks.extend(hold, 100), true);
    assert.equal((await store.locks.find(KEY))?.expiresInMs, TTL_MS);
  });

  test("an expired lock that no other owner acquired can be extended", async () => {
    const { store, clock } = await open();
    const hold = { key: KEY, token: await take(store) };
    clock.advance(TTL_MS + 1);
    assert.equal(await store.locks.extend(hold, TTL_MS), true);
    assert.equal(await store.locks.take(request()), null);
  });

  test("a released lock is free at once, and can no longer be extended", async () => {
    const { store } = await open();
    const hold = { key: KEY, token: await take(store) };
    assert.equal(await store.locks.release(hold), true);
    assert.equal(await store.locks.release(hold), true); // its answer may have been lost
    assert.equal(await store.locks.extend(hold, TTL_MS), false);
    assert.equal(await store.locks.find(KEY), null);
    assert.ok((await take(store)) > hold.token);
  });

  test("an owner that requests it again has it again, with a token that is not smaller", async () => {
    const { store, clock } = await open();
    const wanted = request();
    const first = await take(store, wanted);
    clock.advance(5_000);
    assert.ok((await take(store, wanted)) >= first);
    assert.equal((await store.locks.find(KEY))?.expiresInMs, TTL_MS);
    assert.equal(await store.locks.take(request()), null);
  });

  test("a lock acquired by a call whose response was lost is released, and no other", async () => {
    const { store } = await open();
    const wanted = request();
    await take(store, wanted);
    await store.locks.abandon(KEY, nextId());
    assert.equal(await store.locks.take(request()), null);
    await store.locks.abandon(KEY, wanted.holder);
    await take(store);
  });

  test("a lock is reserved for the recorded next owner, for a while", async () => {
    const { store } = await open();
    const hold = { key: KEY, token: await take(store) };
    const [next, other] = [request(), request()];
    assert.deepEqual(await store.locks.noteNext(next, NEXT_MS), {
      owner: next.owner,
      endsInMs: TTL_MS,
      next: next.contender,
      nextInMs: NEXT_MS,
    });
    assert.equal(await store.locks.noteNext(other, NEXT_MS), null);
    await store.locks.release(hold);
    assert.equal(await store.locks.take(other), null);
    assert.equal((await store.locks.standing(KEY))?.endsInMs, 0);
    await take(store, next);
    assert.equal((await store.locks.standing(KEY))?.next, null);
  });

  test("a lock that is reserved for an owner that does not come is free again", async () => {
    const { store, clock } = await open();
    const hold = { key: KEY, token: await take(store) };
    await store.locks.noteNext(request(), NEXT_MS);
    await store.locks.release(hold);
    clock.advance(NEXT_MS - 1);
    assert.equal(await store.locks.take(request()), null);
    clock.advance(1);
    await take(store);
  });

  test("another owner is recorded as next when the previous one has not come, and the same one repeatedly", async () => {
    const { store, clock } = await open();
    await take(store);
    const [next, other] = [request(), request()];
    await store.locks.noteNext(next, NEXT_MS);
    clock.advance(NEXT_MS / 2);
    assert.equal((await store.locks.noteNext(next, NEXT_MS))?.nextInMs, NEXT_MS);
    clock.advance(NEXT_MS);
    assert.equal((await store.locks.noteNext(other, NEXT_MS))?.next, other.contender);
  });

  test("no owner is recorded as next for a lock that was never held", async () => {
    const { store } = await open();
    assert.equal(await store.locks.noteNext(request(), NEXT_MS), null);
    assert.equal(await store.locks.standing(KEY), null);
  });

  test("tokens grow with every acquisition, also when the clock goes back", async () => {
    const { store, clock } = await open();
    const startAt = clock.now();
    const tokens: number[] = [];
    for (const at of [startAt, startAt, startAt + 5, startAt - HOUR_MS]) {
      clock.set(at);
      tokens.push(await take(store));
      await store.locks.release({ key: KEY, token: tokens.at(-1) ?? 0 });
    }
    assert.deepEqual(new Set(tokens).size, 4);
    assert.deepEqual(
      tokens,
      tokens.toSorted((a, b) => a - b),
    );
    // Not below the clock, so that a lock without a row goes on from there.
    assert.ok((tokens[0] ?? 0) >= startAt && (tokens[2] ?? 0) >= startAt + 5);
  });

  test("tokens keep growing after the lock's row was deleted", async () => {
    const { store, clock } = await open();
    const first = await take(store);
    clock.advance(TTL_MS + HOUR_MS + 1);
    assert.equal(await store.locks.prune({ forMs: HOUR_MS, limit: 10 }), 1);
    assert.equal(await store.locks.standing(KEY), null);
    assert.ok((await take(store)) > first);
  });

  test("locks that are held, or were held a moment ago, keep their rows", async () => {
    const { store, clock } = await open();
    const hold = { key: KEY, token: await take(store) };
    await take(store, request({ key: "released" }));
    clock.advance(HOUR_MS);
    await store.locks.extend(hold, TTL_MS);
    await take(store, request({ key: "new" }));
    assert.equal(await store.locks.prune({ forMs: HOUR_MS, limit: 10 }), 0);
    clock.advance(TTL_MS + 1);
    assert.equal(await store.locks.prune({ forMs: HOUR_MS, limit: 10 }), 1);
    assert.equal(await store.locks.standing("released"), null);
    assert.notEqual(await store.locks.standing(KEY), null);
  });

  test("the database itself refuses a token that goes down, and a row that changes its lock", async () => {
    const { store, byHand } = await open();
    const token = await take(store);
    await assert.rejects(
      byHand(sql`update holdfast.lock set token = ${token - 1} where name = ${KEY}`),
      StoreRefusedError,
    );
    await assert.rejects(
      byHand(sql`update holdfast.lock set name = 'other' where name = ${KEY}`),
      StoreRefusedError,
    );
    assert.equal((await store.locks.find(KEY))?.token, token);
  });

  test("keys that differ in a byte are two locks", async () => {
    const { store } = await open();
    for (const key of ["cafe", "Cafe", "café", "cafe:", "c".repeat(255)]) {
      await take(store, request({ key }));
    }
    assert.equal((await store.locks.list({ limit: 10 })).length, 5);
  });

  test("the counts of a process for a minute replace its earlier counts", async () => {
    const { store, clock } = await open();
    const minute = Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS;
    const [here, there] = [nextId(), nextId()];
    const row = { ...figures, minute, type: "order", source: here };
    await store.locks.putStats([row, { ...row, type: "invoice" }]);
    await store.locks.putStats([{ ...row, acquisitions: 9, waits: '{"3":9}' }]);
    await store.locks.putStats([{ ...row, source: there }]);
    const rows = await store.locks.stats({ forMs: HOUR_MS, type: "order", limit: 10 });
    assert.deepEqual(
      rows.toSorted((a, b) => b.acquisitions - a.acquisitions),
      [
        { ...row, acquisitions: 9, waits: '{"3":9}' },
        { ...row, source: there },
      ],
    );
    assert.equal((await store.locks.stats({ forMs: HOUR_MS, limit: 10 })).length, 3);
    assert.equal((await store.locks.stats({ forMs: HOUR_MS, limit: 2 })).length, 2);
  });

  test("figures are those of a span, and are forgotten when they are old", async () => {
    const { store, clock } = await open();
    const first = Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS;
    const row = { ...figures, type: "order", source: nextId() };
    const minutes = [0, 1, 2, 3].map((past) => first + past * MINUTE_MS);
    await store.locks.putStats(minutes.map((minute) => ({ ...row, minute })));
    clock.advance(4 * MINUTE_MS);
    const told = await store.locks.stats({ forMs: 3 * MINUTE_MS, limit: 10 });
    assert.deepEqual(
      told.map(({ minute }) => minute),
      minutes.slice(2).toReversed(),
    );
    assert.equal(await store.locks.pruneStats({ forMs: 2 * MINUTE_MS, limit: 1 }), 1);
    assert.equal(await store.locks.pruneStats({ forMs: 2 * MINUTE_MS, limit: 9 }), 1);
    assert.equal(await store.locks.pruneStats({ forMs: 2 * MINUTE_MS, limit: 9 }), 0);
  });

  test("what a process tells of its waits is replaced, and taken back, for itself alone", async () => {
    const { store, clock } = await open();
    const row = { key: KEY, source: nextId(), owner: "host-a-1", waiting: 2, timeouts: 1 };
    const other = { ...row, source: nextId(), owner: "host-b-1", waiting: 5 };
    await store.locks.putWaits([{ ...row, longestMs: 40 }]);
    clock.advance(100);
    await store.locks.putWaits([
      { ...row, waiting: 3, longestMs: 140 },
      { ...other, longestMs: 0 },
    ]);
    clock.advance(10);
    const [since, silentMs] = [clock.now() - 10, 10];
    assert.deepEqual(await store.locks.waits(), [
      { ...other, since, silentMs },
      { ...row, waiting: 3, since: since - 140, silentMs },
    ]);
    await store.locks.dropWaits(row.source, [KEY, "order:43"]);
    assert.deepEqual(await store.locks.waits(), [{ ...other, since, silentMs }]);
    clock.advance(2 * HOUR_MS);
    assert.deepEqual(await store.locks.waits(), []);
  });

  test("held locks are listed, oldest first", async () => {
    const { store, clock } = await open();
    await take(store, request({ key: "gone", ttlMs: 1_000 }));
    const released = { key: "order:0", token: await take(store, request({ key: "order:0" })) };
    await store.locks.release(released);
    for (const key of ["order:2", "order", "invoice:1", "orders:1", "order:1"]) {
      await take(store, request({ key }));
      clock.advance(500);
    }
    await assertListed(store, {}, ["order:2", "order", "invoice:1", "orders:1", "order:1"]);
    await assertListed(store, { type: "order" }, ["order:2", "order", "order:1"]);
    await assertListed(store, { limit: 2 }, ["order:2", "order"]);
    await assertListed(store, { type: "ord" }, []);
  });
};

async function assertListed(
  store: Bundle["store"],
  filter: { type?: string; limit?: number },
  keys: readonly string[],
): Promise<void> {
  const listed = await store.locks.list({ limit: 10, ...filter });
  assert.deepEqual(
    listed.map(({ key }) => key),
    keys,
  );
}
