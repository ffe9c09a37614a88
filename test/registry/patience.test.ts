/** A worker that cannot be registered because somebody keeps the registry locked gives up, and says why. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { StoreBusy } from "../../src/core/errors.ts";
import { openStore } from "../../src/store/open.ts";
import { sql } from "../../src/store/sql.ts";
import type { SqlStore } from "../../src/store/sql-store.ts";
import { newWorker, start } from "../support/workers.ts";
import { sampledEngines } from "./places.ts";

const LOCK_MS = 1_000;
/** Until whoever waits for a lock has been told that it did not come. */
const TOLD_MS_MAX = 2_000;

describe("registering waits", { concurrency: true }, () => {
  for (const { name, skip, place: open } of sampledEngines) {
    describe(`on ${name}`, { skip, timeout: 30_000, concurrency: 1 }, () => {
      test("for others who register, but not for long", async () => {
        await using place = await open();
        const [store, other] = [
          (await openStore(place.url)) as SqlStore,
          (await openStore(place.url)) as SqlStore,
        ];
        await store.migrate();
        const { id } = await start(store);
        await store.moveWorker(id, { state: "stopped", reason: "asked" });
        const locked = Promise.withResolvers<void>();
        const release = Promise.withResolvers<void>();
        const holding = other.engine.transaction(async (tx) => {
          await tx.run(sql`update holdfast.worker_type set instance = instance + 1`);
          locked.resolve();
          await release.promise;
        });
        await locked.promise;
        const patience = { lockMs: LOCK_MS, allMs: 2 * LOCK_MS };
        const startedAt = performance.now();
        await assert.rejects(store.register(newWorker({ patience })), StoreBusy);
        const waitedMs = performance.now() - startedAt;
        assert.ok(waitedMs >= LOCK_MS - 1 && waitedMs < LOCK_MS + TOLD_MS_MAX, `${waitedMs} ms`);
        const waiting = store.register(newWorker());
        release.resolve();
        await holding;
        assert.equal((await waiting).slot, 1); // and nothing of the first try is left
        await Promise.all([store.close(), other.close()]);
      });

      test("and gives up what took too long in all", async () => {
        await using place = await open();
        const store = (await openStore(place.url)) as SqlStore;
        await store.migrate();
        await start(store, { slots: null });
        const hurried = newWorker({ slots: null, patience: { lockMs: LOCK_MS, allMs: 0 } });
        await assert.rejects(store.register(hurried), StoreBusy);
        assert.equal(await store.findWorker(hurried.id), null);
        await store.close();
      });
    });
  }
});
