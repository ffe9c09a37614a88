/** A worker that cannot be registered because another session keeps the registry locked gives up, and says why. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { StoreBusyError } from "../../src/core/errors.ts";
import { openStore } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import { newWorker, start } from "../support/workers.ts";
import { drawnEngines } from "./places.ts";

const LOCK_MS = 1_000;
/** Until a wait for a lock has timed out. */
const TOLD_MS_MAX = 2_000;

describe("registering waits", { concurrency: true }, () => {
  for (const { name, skip, place: open } of drawnEngines("waiting")) {
    describe(`on ${name}`, { skip, timeout: 30_000, concurrency: 1 }, () => {
      test("for other workers that register, but not for long", async () => {
        await using place = await open();
        const [store, other] = [await openStore(place.url), await openStore(place.url)];
        await store.migrate();
        const { id } = await start(store);
        await store.workers.move(id, { state: "stopped", reason: "asked" });
        const locked = Promise.withResolvers<void>();
        const release = Promise.withResolvers<void>();
        const holding = other.db.engine.transaction(async (tx) => {
          await tx.run(sql`update holdfast.worker_type set instance = instance + 1`);
          locked.resolve();
          await release.promise;
        });
        await locked.promise;
        const waitLimits = { lockMs: LOCK_MS, allMs: 2 * LOCK_MS };
        const startedAt = performance.now();
        await assert.rejects(store.workers.register(newWorker({ waitLimits })), StoreBusyError);
        const waitedMs = performance.now() - startedAt;
        assert.ok(waitedMs >= LOCK_MS - 1 && waitedMs < LOCK_MS + TOLD_MS_MAX, `${waitedMs} ms`);
        const waiting = store.workers.register(newWorker());
        release.resolve();
        await holding;
        assert.equal((await waiting).slot, 1); // and nothing of the first try is left
        await Promise.all([store.close(), other.close()]);
      });

      test("and gives up if the registration takes too long in total", async () => {
        await using place = await open();
        const store = await openStore(place.url);
        await store.migrate();
        await start(store, { slots: null });
        const hurried = newWorker({ slots: null, waitLimits: { lockMs: LOCK_MS, allMs: 0 } });
        await assert.rejects(store.workers.register(hurried), StoreBusyError);
        assert.equal(await store.workers.find(hurried.id), null);
        await store.close();
      });
    });
  }
});
