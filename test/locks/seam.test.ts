/** What every place of locks promises, whether it is rows or Redis: the same tests on all of them, by their own clocks. */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import {
  type LockAnswer,
  type LockHold,
  type LockRequest,
  NEXT_MS,
  type LockBackend,
} from "../../src/locks/lock.ts";
import { systemRuntime } from "../../src/core/runtime.ts";
import { openLocks } from "../../src/locks/locks.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { nextId } from "../support/jobs.ts";
import { until } from "../worker/observe.ts";
import { places, leavePlaces, type LockSite } from "./places.ts";

const TTL_MS = 60_000;
/** Long enough for a few statements, short enough to be waited for. */
const SHORT_MS = 150;
const KEY = "order:42";

function request(facts: Partial<LockRequest> = {}): LockRequest {
  const holder = nextId();
  const owner = "host-a-4711";
  return { key: KEY, holder, owner, trace: null, ttlMs: TTL_MS, contender: nextId(), ...facts };
}

function mustBeTaken(answer: LockAnswer): number {
  assert.ok(answer.taken, "the lock was not free");
  return answer.token;
}

// Side by side: most of the time they wait.
describe("a place of locks", { concurrency: true }, () => {
  for (const { name, skip, site: openSite } of places) {
    describe(`in ${name}`, { skip, timeout: 60_000, concurrency: 1 }, () => {
      let site: LockSite;
      let place: LockBackend;
      const opened: LockBackend[] = [];
      const open = async (): Promise<LockBackend> => {
        const { store } = await site.open();
        const locks = await openLocks(site.options, { store, runtime: systemRuntime });
        opened.push(locks.backend);
        return locks.backend;
      };
      const take = async (facts: Partial<LockRequest> = {}): Promise<LockHold> => {
        const wanted = request(facts);
        return { key: wanted.key, token: mustBeTaken(await place.take(wanted, false)) };
      };
      beforeEach(async () => {
        site = await openSite();
        place = await open();
      });
      afterEach(async () => {
        await Promise.all(opened.splice(0).map((each) => each.close()));
        await site[Symbol.asyncDispose]();
      });

      test("when many owners request it at once, one gets it, and the others learn which", async () => {
        const asked = [place, await open(), await open()].flatMap((each) =>
          Array.from({ length: 8 }, () => each.take(request(), false)),
        );
        const answers = await Promise.all(asked);
        assert.equal(answers.filter(({ taken }) => taken).length, 1);
        for (const answer of answers) {
          if (!answer.taken) assert.ok([null, "host-a-4711"].includes(answer.owner));
        }
        const late = await place.take(request(), true);
        assert.equal(late.taken ? "taken" : late.owner, "host-a-4711");
      });

      test("an owner that requests it again has it again", async () => {
        const wanted = request();
        const first = mustBeTaken(await place.take(wanted, false));
        assert.ok(mustBeTaken(await place.take(wanted, false)) >= first);
        assert.equal((await place.take(request(), false)).taken, false);
      });

      test("tokens grow with every acquisition, whatever ended the one before", async () => {
        const released = await take();
        assert.equal(await place.release(released), true);
        const expired = await take({ ttlMs: SHORT_MS });
        assert.ok(expired.token > released.token);
        const next = request();
        const token = await until("it has run out", async () => {
          const answer = await place.take(next, true);
          return answer.taken && answer.token;
        });
        assert.ok(token > expired.token);
        assert.equal(await place.extend(expired, TTL_MS), false);
        assert.equal(await place.release(expired), false);
        assert.equal((await place.find(KEY))?.token, token);
      });

      test("it lasts as long as it is extended, and is never shortened", async () => {
        const hold = await take({ ttlMs: 5_000 });
        assert.equal(await place.extend(hold, TTL_MS), true);
        assert.equal(await place.extend(hold, SHORT_MS), true);
        assert.ok(((await place.find(KEY))?.expiresInMs ?? 0) > 5_000);
      });

      test("a released lock can no longer be extended", async () => {
        const hold = await take();
        await place.release(hold);
        assert.equal(await place.extend(hold, TTL_MS), false);
        assert.equal(await place.find(KEY), null);
      });

      test("a lock acquired by a call whose response was lost is released, and no other", async () => {
        const wanted = request();
        mustBeTaken(await place.take(wanted, false));
        await place.abandon(KEY, nextId());
        assert.notEqual(await place.find(KEY), null);
        await place.abandon(KEY, wanted.holder);
        assert.equal(await place.find(KEY), null);
      });

      test("a lock that becomes free is reserved for the owner that asked first", async () => {
        const hold = await take();
        const [next, other] = [request(), request()];
        const stands = (taken: boolean, isNext: boolean) => ({
          taken,
          owner: "host-a-4711",
          isNext,
        });
        assert.deepEqual(await place.take(next, false), stands(false, true));
        assert.deepEqual(await place.take(other, false), stands(false, false));
        const startedAt = performance.now();
        await place.release(hold);
        const refused = await place.take(other, true);
        const inTime = performance.now() - startedAt < NEXT_MS / 2;
        if (inTime) assert.equal(refused.taken, false);
        if (!refused.taken) mustBeTaken(await place.take(next, true));
      });

      test("a lock that is reserved for an owner that does not come is free again", async () => {
        const hold = await take();
        await place.take(request(), false);
        await place.release(hold);
        const late = request();
        await until("no caller has come for it", async () => (await place.take(late, true)).taken);
      });

      test("it is listed with all its details", async () => {
        const hold = await take({ owner: "host-b-1", trace: "refund 7" });
        const record = await place.find(KEY);
        assert.ok(record !== null && record.acquiredAt > 0);
        const { acquiredAt, expiresAt, expiresInMs, ...facts } = record;
        assert.deepEqual(facts, { ...hold, owner: "host-b-1", trace: "refund 7" });
        // Redis tells how long is left, and the time of day: a millisecond may pass between.
        assert.ok(Math.abs(expiresAt - acquiredAt - TTL_MS) <= 2, `${expiresAt - acquiredAt} ms`);
        assert.ok(expiresInMs > 0 && expiresInMs <= TTL_MS);
        assert.equal(await place.find("order:43"), null);
        await take({ key: "plain" });
        assert.equal((await place.find("plain"))?.trace, null);
      });

      test("held locks are listed, oldest first", async () => {
        const keys = ["order:2", "order", "invoice:1", "orders:1", "örder:1", "order:1"];
        const tokens: LockHold[] = [];
        for (const key of keys) {
          const before = systemRuntime.now();
          await until("the clock moved", () => systemRuntime.now() > before);
          tokens.push(await take({ key }));
        }
        await place.release(tokens[3] ?? { key: "", token: 0 });
        const listed = async (type?: string, limit = 9): Promise<string[]> => {
          const locks = await place.list({ limit, ...(type === undefined ? {} : { type }) });
          return locks.map(({ key }) => key);
        };
        assert.deepEqual(await listed(), keys.toSpliced(3, 1));
        assert.deepEqual(await listed("order"), ["order:2", "order", "order:1"]);
        assert.deepEqual(await listed("örder"), ["örder:1"]);
        assert.deepEqual(await listed(undefined, 2), ["order:2", "order"]);
      });

      test("databases of different names do not meet", async () => {
        await using elsewhere = await openSite();
        const { store } = await elsewhere.open();
        const { backend: other } = await openLocks(elsewhere.options, {
          store,
          runtime: systemRuntime,
        });
        opened.push(other);
        await take();
        mustBeTaken(await other.take(request(), false));
      });
    });
  }
});

after(async () => {
  await leavePlaces();
  await assertNothingRuns();
});
