/** MySQL has no push of its own. With Redis, processes wake each other; without it, they poll and nothing is lost. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { openStore, type Store } from "../../src/app/store.ts";
import type { Hint } from "../../src/database/engine.ts";
import { enqueueOne, startOne } from "../support/jobs.ts";
import {
  missing,
  missingPrograms,
  scratchDatabase,
  startRedis,
  type GuardedServer,
  type ScratchDatabase,
} from "../support/servers.ts";
import { until } from "../worker/observe.ts";

const skip = missing("mysql") === false ? missingPrograms("redis") : missing("mysql");

describe("mysql with Redis", { skip, timeout: 60_000 }, () => {
  let database: ScratchDatabase;
  let redis: GuardedServer;
  let here: Store;
  let there: Store;
  let heard: Hint[];

  before(async () => {
    database = await scratchDatabase("mysql");
    redis = await startRedis();
    [here, there] = await Promise.all([open(), open()]);
    await here.migrate();
    heard = [];
    here.db.watch((hint) => heard.push(hint));
    await redisIsUsed();
  });
  after(async () => {
    await Promise.all([here.close(), there.close()]);
    await redis.stop();
    await database.drop();
  });

  const open = (): Promise<Store> => openStore(database.url, { redis: redis.url });

  /** A poll says only that something may have happened; what it was, only Redis tells. */
  async function redisIsUsed(): Promise<void> {
    await until("Redis tells what another process did", async () => {
      await enqueueOne(there, { queue: "elsewhere" });
      return heard.some((hint) => hint.kind === "pending" && hint.queue === "elsewhere");
    });
    heard.length = 0;
  }

  test("a job that another process enqueued is announced with its queue", async () => {
    await enqueueOne(there, { queue: "mail:fast" });
    await until("the hint", () =>
      heard.some((hint) => hint.kind === "pending" && hint.queue === "mail:fast"),
    );
  });

  test("a cancel request of another process is announced", async () => {
    const claimed = await startOne(here, { queue: "cancels" });
    await there.jobs.cancel(claimed.id);
    await until("the hint", () => heard.some(({ kind }) => kind === "cancel"));
  });

  test("changes of this process are announced once", async () => {
    heard.length = 0;
    await enqueueOne(here, { queue: "own" });
    await enqueueOne(there, { queue: "theirs" }); // by the time this is heard, an echo would have been
    await until("the hint", () =>
      heard.some((hint) => hint.kind === "pending" && hint.queue === "theirs"),
    );
    const own = heard.filter((hint) => hint.kind === "pending" && hint.queue === "own");
    assert.equal(own.length, 1);
  });

  test("while Redis is away a poll takes over, and when it is back it is used again", async () => {
    await redis.kill();
    heard.length = 0;
    await enqueueOne(there, { queue: "dark" });
    await until("a poll", () => heard.some(({ kind }) => kind === "unknown"));
    assert.ok(!heard.some((hint) => hint.kind === "pending" && hint.queue === "dark"));
    await redis.restart();
    await redisIsUsed();
  });

  test("a Redis that was never there delays nothing", async () => {
    await using lonely = await openAlone("redis://127.0.0.1:1");
    await enqueueOne(lonely.store, { queue: "lonely" });
    assert.equal((await lonely.store.jobs.claim(one("lonely"))).length, 1);
  });

  test("an invalid URL is refused without being repeated in the message", async () => {
    await assert.rejects(
      openStore(database.url, { redis: "http://secret@cache" }),
      (error: Error) => {
        assert.match(error.message, /redis: a Redis URL has the form/);
        assert.ok(!error.message.includes("secret"));
        return true;
      },
    );
  });

  async function openAlone(url: string): Promise<{ store: Store } & AsyncDisposable> {
    const store = await openStore(database.url, { redis: url });
    return { store, [Symbol.asyncDispose]: () => store.close() };
  }
});

function one(queue: string) {
  return { worker: "w", queues: [queue], tasks: null, limit: 1, leaseMs: 1_000 };
}
