/** Locks as an application has them, in one process and in two that share a place. */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import type { Holdfast } from "../../src/index.ts";
import {
  type Lock,
  LockLostError,
  LockNotAcquiredError,
  type LockStatistics,
} from "../../src/locks/index.ts";
import { sql } from "../../src/database/sql.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until, withCode } from "../worker/observe.ts";
import { places, leavePlaces, type LockSite } from "./places.ts";

const KEY = "order:42";

/** What the function comes to when it was told to end. */
function whenAborted({ signal }: Lock): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}

async function auditOf({ store }: Holdfast): Promise<unknown[]> {
  return store.db.engine.all(sql`select actor, action, subject from holdfast.audit`);
}

describe("locks", { concurrency: true }, () => {
  for (const { name, skip, site: openSite } of places) {
    describe(`in ${name}`, { skip, timeout: 60_000, concurrency: 1 }, () => {
      let site: LockSite;
      let here: Holdfast;
      let there: Holdfast;
      beforeEach(async () => {
        site = await openSite();
        here = await site.open();
        there = await site.open();
      });
      afterEach(() => site[Symbol.asyncDispose]());

      test("a function runs while the lock is its own, and its value comes back", async () => {
        const value = await here.locks.with(KEY, { trace: "refund 7" }, async (lock) => {
          const seen = await there.locks.inspect(KEY);
          assert.deepEqual(
            [seen?.token, seen?.owner, seen?.trace],
            [lock.token, lock.owner, "refund 7"],
          );
          assert.match(lock.owner, new RegExp(`-${process.pid}$`));
          assert.ok(lock.held && !lock.signal.aborted && lock.waitedMs >= 0);
          return 7;
        });
        assert.equal(value, 7);
        assert.equal(await there.locks.inspect(KEY), null);
      });

      test("an error of the function is thrown unchanged, and the lock is released", async () => {
        const mistake = new Error("no stock");
        const running = here.locks.with(KEY, {}, () => Promise.reject(mistake));
        await assert.rejects(running, (error) => error === mistake);
        await there.locks.with(KEY, { wait: 0 }, () => {});
      });

      test("callers in one process get it in the order in which they asked", async () => {
        const order: number[] = [];
        let inside = 0;
        const running = Array.from({ length: 8 }, (_, index) =>
          here.locks.with(KEY, {}, async () => {
            inside += 1;
            assert.equal(inside, 1);
            order.push(index);
            await here.locks.inspect(KEY);
            inside -= 1;
          }),
        );
        await Promise.all(running);
        assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7]);
      });

      test("a caller that times out learns who holds it", async () => {
        const lock = await there.locks.acquire(KEY);
        const startedAt = performance.now();
        const refusal = await here.locks
          .acquire(KEY, { wait: 200 })
          .catch((error: unknown) => error);
        const tookMs = performance.now() - startedAt;
        assert.ok(refusal instanceof LockNotAcquiredError);
        assert.deepEqual([refusal.key, refusal.owner], [KEY, lock.owner]);
        assert.ok(refusal.waitedMs >= 199 && tookMs < 5_000, `${refusal.waitedMs} of ${tookMs}`);
        await assert.rejects(here.locks.acquire(KEY, { wait: 0 }), withCode("LOCK_NOT_ACQUIRED"));
        // In the same process, too.
        await assert.rejects(there.locks.acquire(KEY, { wait: 20 }), withCode("LOCK_NOT_ACQUIRED"));
      });

      test("a wait ends when its signal says so", async () => {
        await there.locks.acquire(KEY);
        const stop = new AbortController();
        const reason = new Error("not needed any more");
        const waiting = here.locks.acquire(KEY, { signal: stop.signal });
        stop.abort(reason);
        await assert.rejects(waiting, (error) => error === reason);
        const never = here.locks.acquire("free", { signal: stop.signal });
        await assert.rejects(never, (error) => error === reason);
        assert.equal(await here.locks.inspect("free"), null);
      });

      test("a lock is handed over when it is released, from one process to the other", async () => {
        const first = await there.locks.acquire(KEY);
        const waiting = here.locks.acquire(KEY);
        await first.release();
        const second = await waiting;
        assert.ok(second.token > first.token);
        assert.equal(await second.release(), true);
      });

      test("it is kept while the function runs, however short its time to live", async () => {
        // Long enough for a machine with much else to do.
        await here.locks.with(KEY, { ttl: 3_000 }, async (lock) => {
          const first = (await there.locks.inspect(KEY))?.expiresAt ?? 0;
          await until("it was extended twice", async () => {
            const seen = await there.locks.inspect(KEY);
            return seen !== null && seen.expiresAt > first + 1_500;
          });
          assert.ok(lock.held);
        });
      });

      test("it is extended up to its longest time, and then it is lost", async () => {
        const reason = await here.locks.with(KEY, { ttl: 200, longest: 100 }, whenAborted);
        assert.ok(reason instanceof LockLostError);
      });

      test("acquire() does not extend the lock automatically", async () => {
        const lock = await here.locks.acquire(KEY, { ttl: 200 });
        assert.ok((await whenAborted(lock)) instanceof LockLostError);
        assert.equal(lock.held, false);
        await assert.rejects(lock.extend(), LockLostError);
        const next = await there.locks.acquire(KEY);
        assert.ok(next.token > lock.token);
        assert.equal(await lock.release(), false);
        assert.ok(next.held);
      });

      test("its holder can extend it, even from another process", async () => {
        const lock = await here.locks.acquire(KEY, { ttl: 1_000 });
        await lock.extend({ ttl: "5m" });
        await there.locks.extend({ key: KEY, token: lock.token }, { ttl: "10m" });
        assert.ok(((await here.locks.inspect(KEY))?.expiresInMs ?? 0) > 9 * 60_000);
        assert.equal(await there.locks.release({ key: KEY, token: lock.token }), true);
        await assert.rejects(here.locks.extend({ key: KEY, token: lock.token }), LockLostError);
      });

      test("a lock that an operator takes away is lost to its owner, and the audit says by whom", async () => {
        const reason = await here.locks.with(KEY, { ttl: 2_000 }, async (lock) => {
          const lost = whenAborted(lock);
          const taken = await there.locks.forceRelease(KEY, { actor: "ada" });
          assert.equal(taken?.token, lock.token);
          await there.locks.with(KEY, {}, (next) => assert.ok(next.token > lock.token));
          return lost;
        });
        assert.ok(reason instanceof LockLostError);
        assert.deepEqual(await auditOf(here), [
          { actor: "ada", action: "lock.release", subject: `lock ${KEY}` },
        ]);
        assert.equal(await there.locks.forceRelease(KEY), null);
        assert.equal((await auditOf(here)).length, 1);
      });

      test("it is known how often locks were acquired, and how long that took", async () => {
        await Promise.all(
          [here, there].map((one) => one.locks.with("order:1", {}, () => one.locks.inspect(KEY))),
        );
        await here.locks.with("invoice:1", {}, () => {});
        const held = await there.locks.acquire(KEY);
        await assert.rejects(here.locks.acquire(KEY, { wait: 0 }), LockNotAcquiredError);
        await held.release();
        await there.locks.stats(); // which writes what this one has counted
        const { types, minutes, partial } = await here.locks.stats({ last: "10m" });
        assert.deepEqual(counts(types), { order: [3, 1], invoice: [1, 0] });
        const [order] = types;
        assert.ok(order?.waitMs !== null && order !== undefined);
        const { average, p50, p95, p99 } = order.waitMs;
        assert.ok(average >= 0 && p50 <= p95 && p95 <= p99, JSON.stringify(order));
        assert.ok(minutes.every(({ minute }) => minute % 60_000 === 0));
        assert.equal(partial, false);
        const orders = await here.locks.stats({ type: "order" });
        assert.deepEqual(Object.keys(counts(orders.types)), ["order"]);
      });

      test("every process knows who waits for whose lock, and how many gave up lately", async () => {
        const held = await here.locks.acquire(KEY, { trace: "refund 7", ttl: "1m" });
        const free = await here.locks.acquire("order:43", { ttl: "1m" });
        await assert.rejects(there.locks.acquire("order:43", { wait: 20 }));
        await free.release();
        const stop = new AbortController();
        const waits = Array.from({ length: 2 }, () =>
          there.locks.acquire(KEY, { wait: "1m", signal: stop.signal }).catch(() => {}),
        );
        const told = () => here.locks.contended();
        await until("it is told", async () => (await told())[0]?.waiting === 2);
        const [worst, other, ...more] = await told();
        assert.deepEqual(
          [worst?.key, worst?.holder?.token, worst?.holder?.trace, worst?.timeouts],
          [KEY, held.token, "refund 7", 0],
        );
        const [waiter] = worst?.waiters ?? [];
        assert.deepEqual(
          [worst?.waiters.length, waiter?.waiting, waiter?.owner],
          [1, 2, held.owner],
        );
        const now = await here.store.db.clock();
        assert.ok(
          waiter !== undefined && now - waiter.since >= 1_000 && now - waiter.since < 30_000,
        );
        assert.deepEqual(
          [other?.key, other?.holder, other?.waiting, other?.timeouts, more.length],
          ["order:43", null, 0, 1, 0],
        );
        const { types } = await here.locks.stats();
        const longest = types.find(({ type }) => type === "order")?.heldMsMax ?? 0;
        assert.ok(longest >= 1_000, `${longest} ms, though it is held for longer`);
        stop.abort();
        await Promise.all(waits);
        await there.locks.contended(); // reports at once
        assert.deepEqual(
          (await told()).map(({ key }) => key),
          ["order:43"],
        );
      });

      test("after close() no call waits, and held locks are no longer trusted", async () => {
        const lock = await here.locks.acquire(KEY);
        const waiting = here.locks.acquire(KEY);
        const refused = assert.rejects(waiting, withCode("CLOSED"));
        await here.close();
        await refused;
        assert.ok(lock.signal.aborted);
        await assert.rejects(here.locks.acquire(KEY), withCode("CLOSED"));
        assert.equal((await there.locks.inspect(KEY))?.token, lock.token); // it runs out
      });
    });
  }
});

function counts(types: LockStatistics["types"]): Record<string, [number, number]> {
  return Object.fromEntries(
    types.map(({ type, acquisitions, timeouts }) => [type, [acquisitions, timeouts]]),
  );
}

after(async () => {
  await leavePlaces();
  await assertNothingRuns();
});
