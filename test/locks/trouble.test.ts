/** A lock backend that is down, frozen or busy: acquire fails in time, then recovers by itself. */
import assert from "node:assert/strict";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type Holdfast, openHoldfast } from "../../src/index.ts";
import { type Lock, LockLostError, LockNotAcquiredError } from "../../src/locks/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { Proxy } from "../support/proxy.ts";
import {
  missing,
  missingPrograms,
  scratchDatabase,
  startRedis,
  type GuardedServer,
  type ScratchDatabase,
} from "../support/servers.ts";
import { until, withCode } from "../worker/observe.ts";
import { onFile, type LockSite } from "./places.ts";

const KEY = "order:42";
const WAIT_MS = 1_200;
/** How much later than its limit a refusal may come, on a busy machine. */
const LATE_MS = 700;

async function assertRefusedInTime(holdfast: Holdfast): Promise<LockNotAcquiredError> {
  const startedAt = performance.now();
  const error = await holdfast.locks
    .acquire(KEY, { wait: WAIT_MS })
    .catch((cause: unknown) => cause);
  const tookMs = performance.now() - startedAt;
  assert.ok(error instanceof LockNotAcquiredError, String(error));
  assert.ok(tookMs < WAIT_MS + LATE_MS, `it took ${tookMs} ms`);
  return error;
}

function lossOf({ signal }: Lock): Promise<unknown> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}

// Side by side: most of the time they wait.
describe("where locks are kept,", { concurrency: true, timeout: 60_000 }, () => {
  describe("a Redis", { skip: missingPrograms("redis"), concurrency: 1 }, () => {
    let redis: GuardedServer;
    let site: LockSite;
    let here: Holdfast;
    beforeEach(async () => {
      redis = await startRedis();
      site = await onFile({ locks: "redis", redis: redis.url });
      here = await site.open();
    });
    afterEach(async () => {
      await site[Symbol.asyncDispose]();
      await redis[Symbol.asyncDispose]();
    });

    /** Every caller only tries. */
    const worksAgain = (): Promise<unknown> =>
      until("locks are given again", () =>
        here.locks.with(KEY, { wait: 500 }, () => true).catch(() => false),
      );

    test("that is killed is noticed in time; when it is back, tokens keep growing", async () => {
      const lock = await here.locks.acquire(KEY, { ttl: 500 });
      const lost = lossOf(lock);
      await redis.kill();
      const error = await assertRefusedInTime(here);
      // Refused, or, where the kernel is slow to tell, not answered.
      assert.match(error.message, /is unavailable for locks|Redis does not answer/);
      assert.ok((await lost) instanceof LockLostError);
      await redis.restart(); // without anything that it knew
      await worksAgain();
      await here.locks.with(KEY, {}, ({ token }) => assert.ok(token > lock.token));
    });

    test("that stalls for longer than a lock lasts is noticed in time, and leaves nothing behind", async () => {
      const lost = await here.locks.with(KEY, { ttl: 500 }, async (lock) => {
        const loss = lossOf(lock);
        process.kill(redis.pid, "SIGSTOP");
        return loss;
      });
      assert.ok(lost instanceof LockLostError);
      try {
        await assertRefusedInTime(here);
        await assert.rejects(here.locks.inspect(KEY), withCode("STORE_UNAVAILABLE"));
      } finally {
        process.kill(redis.pid, "SIGCONT");
      }
      // What was asked for in vain is granted now, and released: no caller waits until it expires.
      const startedAt = performance.now();
      await worksAgain();
      assert.ok(performance.now() - startedAt < 10_000);
    });

    test("that restarts and has lost a lock reports it to the owner at the next extension", async () => {
      const lost = await here.locks.with(KEY, { ttl: 3_000 }, async (lock) => {
        const loss = lossOf(lock);
        await redis.restart();
        return loss;
      });
      assert.ok(lost instanceof LockLostError);
      await worksAgain();
    });

    test("that was never there is missed in time", async () => {
      const alone = await site.open({ redis: "redis://127.0.0.1:1" });
      await assertRefusedInTime(alone);
      await assert.rejects(alone.locks.list(), withCode("STORE_UNAVAILABLE"));
    });
  });

  describe("a database", () => {
    test("that others keep locked is noticed in time, and works again when they release it", async () => {
      await using site = await onFile({ locks: "sql" });
      const here = await site.open();
      await here.locks.with(KEY, {}, () => {});
      const other = new DatabaseSync(site.url.slice("sqlite:".length));
      other.exec("begin immediate");
      const error = await assertRefusedInTime(here);
      assert.match(error.message, /The database does not answer/);
      const waiting = here.locks.with(KEY, {}, () => "done");
      other.exec("commit");
      other.close();
      assert.equal(await waiting, "done");
      assert.equal(await here.locks.inspect(KEY), null); // what was given up is not left behind
    });
  });

  describe("the network to a database", { concurrency: true }, () => {
    for (const kind of ["postgres", "mysql"] as const) {
      describe(`of ${kind}`, { skip: missing(kind), concurrency: 1 }, () => {
        let database: ScratchDatabase;
        let proxy: Proxy;
        let here: Holdfast;
        beforeEach(async () => {
          database = await scratchDatabase(kind);
          proxy = await Proxy.before(database.url);
          here = await openHoldfast(proxy.url, { locks: "sql" });
        });
        afterEach(async () => {
          await here.close();
          await proxy[Symbol.asyncDispose]();
          await database.drop();
        });

        test("that is silent for longer than a lock lasts is noticed in time, and leaves nothing behind", async () => {
          const lost = await here.locks.with(KEY, { ttl: 500 }, async (lock) => {
            const loss = lossOf(lock);
            proxy.hang();
            return loss;
          });
          assert.ok(lost instanceof LockLostError);
          await assertRefusedInTime(here);
          proxy.flow();
          await here.locks.with(KEY, {}, ({ token }) => assert.ok(token > lost.token));
          await until("it is free", async () => (await here.locks.inspect(KEY)) === null);
        });

        test("that loses the response leaves the lock with the caller, and not with others", async () => {
          const fault = proxy.loseAnswer(/into "?holdfast"?[._]lock/);
          const acquiring = here.locks.acquire(KEY);
          await fault.answered;
          fault.reset();
          const lock = await acquiring;
          assert.ok(lock.held && fault.swallowed > 0);
          assert.equal((await here.locks.inspect(KEY))?.token, lock.token);
          await using other = await openHoldfast(database.url, { locks: "sql" });
          await assert.rejects(other.locks.acquire(KEY, { wait: 0 }), LockNotAcquiredError);
          assert.equal(await lock.release(), true);
        });
      });
    }
  });
});

describe("the choice of where locks are kept", () => {
  test("is made by an option, else by the environment, else by whether there is a Redis", async () => {
    await using site = await onFile({});
    const modeOf = async (options: object, env: Record<string, string> = {}): Promise<string> => {
      const before = { ...process.env };
      Object.assign(process.env, { HOLDFAST_LOCKS: "", HOLDFAST_REDIS_URL: "", ...env });
      try {
        return (await site.open(options)).locks.mode;
      } finally {
        process.env = before;
      }
    };
    const redis = "redis://127.0.0.1:1";
    assert.equal(await modeOf({}), "sql");
    assert.equal(await modeOf({ redis }), "redis");
    assert.equal(await modeOf({}, { HOLDFAST_REDIS_URL: redis }), "redis");
    assert.equal(await modeOf({ redis }, { HOLDFAST_LOCKS: "sql" }), "sql");
    assert.equal(await modeOf({ redis, locks: "off" }, { HOLDFAST_LOCKS: "sql" }), "off");
    await assert.rejects(modeOf({ locks: "redis" }), withCode("INVALID_ARGUMENT", "redis"));
    await assert.rejects(modeOf({ locks: "on" }), withCode("INVALID_ARGUMENT", "locks"));
    const wrong = modeOf({}, { HOLDFAST_LOCKS: "on" });
    await assert.rejects(wrong, withCode("INVALID_ARGUMENT", "HOLDFAST_LOCKS"));
  });

  test("with 'off', a caller that requests a lock still gets one", async () => {
    await using site = await onFile({ locks: "off" });
    const [here, there] = [await site.open(), await site.open()];
    await here.locks.with(KEY, {}, async () => {
      await assert.rejects(there.locks.acquire(KEY, { wait: 0 }), LockNotAcquiredError);
    });
  });
});

describe("an invalid lock", () => {
  test("is refused with the name of the invalid field", async () => {
    await using site = await onFile({ locks: "sql" });
    const { locks } = await site.open();
    const run = (): void => {};
    for (const [field, call] of Object.entries({
      key: () => locks.acquire(""),
      ttl: () => locks.acquire(KEY, { ttl: 5 }),
      wait: () => locks.with(KEY, { wait: -1 }, run),
      trace: () => locks.with(KEY, { trace: " " }, run),
      longest: () => locks.with(KEY, { longest: "soon" }, run),
      run: () => locks.with(KEY, {}, null as unknown as () => void),
      lock: () => locks.release({ key: KEY } as Lock),
      limit: async () => locks.list({ limit: 0 }),
      last: () => locks.stats({ last: "8d" }),
      owner: () => locks.acquire(KEY, { owner: "me" } as object),
    })) {
      await assert.rejects(call, withCode("INVALID_ARGUMENT", field));
    }
    await assert.rejects(locks.acquire("k".repeat(256)), withCode("INVALID_ARGUMENT", "key"));
    await locks.with("k".repeat(255), {}, run);
  });
});

after(assertNothingRuns);
