/** Workers are in the database: who is active there is active, and the database itself sees to the limits. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError, WorkerRefusedError } from "../../src/core/errors.ts";
import {
  workerMoves,
  workerStates,
  type HeartbeatWrite,
  type ChangedLimit,
  type WorkerVitals,
} from "../../src/registry/worker-record.ts";
import type { ErrorRecord } from "../../src/core/error-record.ts";
import {
  WorkerLimitInUseError,
  WorkerLimitMismatchError,
  WorkerTypeNotFoundError,
} from "../../src/registry/worker-types.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { Group } from "../support/bundle.ts";
import { HUNG_MS, newWorker, silence, STALE_MS, start, vitals } from "../support/workers.ts";
import { CRASHES_MAX, done, enqueueOne, mustFind, nextId, one, startOne } from "../support/jobs.ts";

function heartbeat(store: Store, id: string): Promise<HeartbeatWrite | null> {
  return store.workers.heartbeat(id, vitals, ["default", "mails"]);
}

async function statusOf(store: Store, id: string): Promise<string | null> {
  const row = await store.workers.find(id);
  return row === null ? null : [row.status, row.reason].filter(Boolean).join(", ");
}

export const registry: Group = (open) => {
  test("a worker is entered with all that is known about it", async () => {
    const { store, clock } = await open();
    const { silence: _silence, waitLimits: _waitLimits, slots: _slots, ...facts } = newWorker();
    assert.deepEqual(await store.workers.register(newWorker(facts)), {
      slot: 1,
      instance: 1,
      closed: [],
    });
    assert.deepEqual(await store.workers.find(facts.id), {
      ...facts,
      slot: 1,
      instance: 1,
      status: "starting",
      reason: null,
      desiredState: "run",
      startedAt: clock.now(),
      heartbeatAt: clock.now(),
      silentMs: 0,
      staleMs: STALE_MS,
      hungMs: HUNG_MS,
      liveness: "alive",
      leases: 0,
      stoppedAt: null,
      heartbeats: 0,
      gapMsMax: 0,
      blockedMs: 0,
      blockedStack: null,
      ...Object.fromEntries(Object.keys(vitals).map((name) => [name, 0])),
    });
  });

  test("of a type without slots there are any number", async () => {
    const { store } = await open();
    for (const instance of [1, 2, 3]) {
      const registered = await store.workers.register(newWorker({ slots: null }));
      assert.deepEqual(registered, { slot: null, instance, closed: [] });
    }
    assert.equal((await store.workers.list({ type: "mailer", alive: true, limit: 9 })).length, 3);
  });

  test("a second worker of a singleton is refused, and the error names the active one", async () => {
    const { store } = await open();
    const first = await start(store);
    const refused = store.workers.register(newWorker());
    await assert.rejects(refused, (error) => {
      assert.ok(error instanceof WorkerRefusedError);
      assert.equal(error.active, first.id);
      assert.match(error.message, /^Cannot register: another worker already active/);
      assert.match(error.message, /process 4711 on host-a/);
      return true;
    });
    assert.equal((await store.workers.list({ limit: 9 })).length, 1);
  });

  test("of N slots each is given once, and the first that is free again", async () => {
    const { store } = await open();
    const ids: string[] = [];
    for (const slot of [1, 2, 3]) {
      const worker = newWorker({ slots: 3 });
      assert.equal((await store.workers.register(worker)).slot, slot);
      ids.push(worker.id);
    }
    await assert.rejects(store.workers.register(newWorker({ slots: 3 })), WorkerRefusedError);
    await store.workers.move(ids[1] ?? "", { state: "stopped", reason: "asked" });
    const next = await store.workers.register(newWorker({ slots: 3 }));
    assert.deepEqual(next, { slot: 2, instance: 4, closed: [] });
  });

  test("types do not affect each other", async () => {
    const { store } = await open();
    await start(store);
    assert.deepEqual(await store.workers.register(newWorker({ type: "printer" })), {
      slot: 1,
      instance: 1,
      closed: [],
    });
  });

  test("every start of a type has a higher number than the one before", async () => {
    const { store } = await open();
    const first = await start(store);
    await assert.rejects(store.workers.register(newWorker()), WorkerRefusedError); // which is no start
    await store.workers.move(first.id, { state: "stopping", reason: "asked" });
    assert.equal((await store.workers.register(newWorker())).instance, 2);
  });

  test("a worker that is stopping has freed its slot", async () => {
    const { store } = await open();
    const first = await start(store);
    assert.equal(await store.workers.move(first.id, { state: "stopping", reason: "asked" }), true);
    await start(store);
    assert.equal(await statusOf(store, first.id), "stopping, asked");
    assert.notEqual(await heartbeat(store, first.id), null); // and still gives signs of life
  });

  test("a worker that declares a different limit than its type has is refused, with both numbers", async () => {
    const { store } = await open();
    const { id } = await start(store, { slots: 1 });
    for (const slots of [2, null]) {
      await assert.rejects(store.workers.register(newWorker({ slots })), (error) => {
        assert.ok(error instanceof WorkerLimitMismatchError);
        const { workerType, stored, declared } = error;
        assert.deepEqual(
          { workerType, stored, declared },
          { workerType: "mailer", stored: 1, declared: slots },
        );
        return true;
      });
    }
    // The limit outlives the workers.
    await store.workers.move(id, { state: "stopped", reason: "asked" });
    await assert.rejects(store.workers.register(newWorker({ slots: 2 })), WorkerLimitMismatchError);
    assert.equal((await store.workers.register(newWorker({ slots: 1 }))).instance, 2);
    await start(store, { type: "printer", slots: null });
    const limited = newWorker({ type: "printer", slots: 1 });
    await assert.rejects(store.workers.register(limited), WorkerLimitMismatchError);
  });

  test("an operator changes the limit of a type, and the audit says who", async () => {
    const { store } = await open();
    const limit = (slots: number | null, type = "mailer"): Promise<ChangedLimit> =>
      store.workers.changeLimit({ id: nextId(), actor: "ada", reason: "more mail", type, slots });
    await assert.rejects(limit(2), WorkerTypeNotFoundError);
    const first = await start(store, { slots: 1 });
    assert.deepEqual(await limit(2), { type: "mailer", from: 1, to: 2 });
    assert.deepEqual(await limit(2), { type: "mailer", from: 2, to: 2 }); // nothing to do
    const second = await start(store, { slots: 2 });
    assert.deepEqual(await store.workers.types(), [{ type: "mailer", slots: 2, active: 2 }]);
    await assert.rejects(limit(1), (error) => {
      assert.ok(error instanceof WorkerLimitInUseError);
      assert.deepEqual(error.workers, [second.id]);
      return true;
    });
    await assert.rejects(limit(null), WorkerLimitInUseError);
    await store.workers.move(second.id, { state: "stopping", reason: "asked" });
    assert.deepEqual(await limit(1), { type: "mailer", from: 2, to: 1 });
    await store.workers.move(first.id, { state: "stopped", reason: "asked" });
    assert.deepEqual(await limit(null), { type: "mailer", from: 1, to: null });
    const lines = await store.audit.list({ actor: "ada", limit: 9 });
    assert.deepEqual(
      lines.map(({ action, subject, reason, detail }) => [action, subject, reason, detail]),
      [
        { from: 1, to: 2 },
        { from: 2, to: 1 },
        { from: 1, to: null },
      ].map((change) => ["worker.limit", "type mailer", "more mail", JSON.stringify(change)]),
    );
  });

  test("a worker without a heartbeat is stale after the timeout, and not a millisecond before", async () => {
    const { store, clock } = await open();
    const first = await start(store);
    clock.advance(STALE_MS);
    await assert.rejects(store.workers.register(newWorker()), WorkerRefusedError);
    clock.advance(1);
    assert.equal((await store.workers.register(newWorker())).instance, 2);
    assert.equal(await statusOf(store, first.id), "stopped, stale");
    assert.equal(await heartbeat(store, first.id), null);
  });

  test("one whose process was seen to be gone is closed at once", async () => {
    const { store } = await open();
    const first = await start(store);
    const next = await store.workers.register(
      newWorker({ silence: { ...silence, gone: [first.id] } }),
    );
    assert.equal(await statusOf(store, first.id), "stopped, gone");
    assert.deepEqual(next.closed, [{ id: first.id, type: "mailer", ending: "gone" }]);
  });

  test("a stopping worker may take longer, as long as it sends heartbeats", async () => {
    const { store, clock } = await open();
    const { id } = await start(store);
    await store.workers.move(id, { state: "stopping", reason: "asked" });
    clock.advance(HUNG_MS);
    assert.deepEqual(await store.workers.closeDead(silence), []);
    await heartbeat(store, id);
    clock.advance(HUNG_MS);
    assert.deepEqual(await store.workers.closeDead(silence), []);
    clock.advance(1);
    assert.deepEqual(await store.workers.closeDead(silence), [
      { id, type: "mailer", ending: "hung" },
    ]);
    assert.deepEqual(await store.workers.closeDead(silence), []);
  });

  test("any worker closes dead workers, of any type", async () => {
    const { store, clock } = await open();
    const [mute, gone] = [await start(store), await start(store, { type: "printer" })];
    const alive = await start(store, { type: "drummer" });
    clock.advance(STALE_MS + 1);
    await heartbeat(store, alive.id);
    const closed = await store.workers.closeDead({ ...silence, gone: [gone.id] });
    assert.deepEqual(
      new Map(closed.map(({ id, ending }) => [id, ending])),
      new Map([
        [mute.id, "stale"],
        [gone.id, "gone"],
      ]),
    );
    assert.equal(await statusOf(store, alive.id), "running");
  });

  test("a heartbeat records the worker's state, and returns its desired state", async () => {
    const { store, clock } = await open();
    const { id } = await start(store);
    clock.advance(10_000);
    assert.equal((await heartbeat(store, id))?.desiredState, "run");
    clock.advance(4_000);
    await heartbeat(store, id);
    const row = await store.workers.find(id);
    assert.deepEqual(
      Object.fromEntries(
        Object.keys(vitals).map((name) => [name, row?.[name as keyof WorkerVitals]]),
      ),
      vitals,
    );
    assert.equal(row?.heartbeatAt, clock.now());
    assert.deepEqual([row?.heartbeats, row?.gapMsMax], [2, 10_000]);
  });

  test("where its event loop is blocked is in the row of a worker until it goes on", async () => {
    const { store } = await open();
    const { id } = await start(store);
    const blocked = async () => {
      const { blockedMs, blockedStack } = (await store.workers.find(id)) ?? {};
      return [blockedMs, blockedStack];
    };
    const stack = "at sum (/app/report.ts:12:5)";
    assert.equal(await store.workers.noteBlocked(id, { ms: 2_000, stack }), 1);
    assert.deepEqual(await blocked(), [2_000, stack]);
    await store.workers.noteBlocked(id, null);
    assert.deepEqual(await blocked(), [0, null]);
    await store.workers.move(id, { state: "stopped", reason: null });
    assert.equal(await store.workers.noteBlocked(id, { ms: 2_000, stack }), 0);
  });

  test("a heartbeat returns news of the other workers", async () => {
    const { store, clock } = await open();
    const { id } = await start(store);
    assert.deepEqual(await heartbeat(store, id), {
      desiredState: "run",
      others: 0,
      newestAt: 0,
      silentMsMax: 0,
      pending: false,
    });
    clock.advance(1_000);
    const other = await start(store, { type: "printer" });
    const newestAt = clock.now();
    clock.advance(5_000);
    const told = await heartbeat(store, id);
    assert.deepEqual([told?.others, told?.newestAt, told?.silentMsMax], [1, newestAt, 5_000]);
    await store.workers.move(other.id, { state: "stopped", reason: "asked" });
    assert.equal((await heartbeat(store, id))?.others, 0);
  });

  test("a heartbeat returns whether there are jobs in the worker's queues", async () => {
    const { store } = await open();
    const { id } = await start(store);
    await enqueueOne(store, { queue: "letters" });
    await enqueueOne(store, { queue: "mails", start: { delayMs: 1_000 } });
    assert.equal((await heartbeat(store, id))?.pending, false);
    await enqueueOne(store, { queue: "mails" });
    assert.equal((await heartbeat(store, id))?.pending, true);
  });

  test("a worker whose row is gone learns that it is not registered", async () => {
    const { store, byHand } = await open();
    const { id } = await start(store);
    await byHand(sql`delete from holdfast.worker where id = ${id}`);
    assert.equal(await heartbeat(store, id), null);
    assert.equal(await store.workers.move(id, { state: "stopped", reason: "asked" }), false);
    assert.equal(await store.workers.find(id), null);
  });

  test("a desired state reaches one worker, a type, or all, and the audit names its actor", async () => {
    const { store } = await open();
    const [first, second] = [
      await start(store, { slots: null }),
      await start(store, { slots: null }),
    ];
    const other = await start(store, { type: "printer" });
    const ended = await start(store, { slots: null });
    await store.workers.move(ended.id, { state: "stopped", reason: "asked" });
    const pause = (
      target: Parameters<Store["workers"]["command"]>[0]["target"],
    ): Promise<string[]> =>
      store.workers.command({ id: nextId(), desiredState: "pause", actor: "ada", target });
    assert.deepEqual(await pause({ worker: first.id }), [first.id]);
    assert.equal((await heartbeat(store, first.id))?.desiredState, "pause");
    assert.equal(await store.workers.desiredStateOf(first.id), "pause");
    assert.equal((await heartbeat(store, second.id))?.desiredState, "run");
    assert.deepEqual(new Set(await pause({ type: "mailer" })), new Set([first.id, second.id]));
    assert.equal((await pause({ all: true })).length, 3);
    assert.deepEqual(await pause({ worker: ended.id }), []);
    assert.equal((await heartbeat(store, other.id))?.desiredState, "pause");
    // One line for every command that reached a worker.
    const kept = await store.audit.list({ actor: "ada", limit: 9 });
    assert.deepEqual(
      kept.map(({ action, subject }) => [action, subject]),
      [`worker ${first.id}`, "type mailer", "all workers"].map((to) => ["worker.pause", to]),
    );
  });

  test("a worker that ends leaves its last statistics, if it reports them", async () => {
    const { store } = await open();
    const { id } = await start(store);
    await heartbeat(store, id);
    const last = { ...vitals, claimed: 77, done: 70, failed: 4, retried: 3, running: 0 };
    await store.workers.move(id, { state: "stopping", reason: "asked" });
    await store.workers.move(id, { state: "stopped", reason: "asked", vitals: last });
    const found = await store.workers.find(id);
    for (const [name, value] of Object.entries(last)) {
      assert.equal(found?.[name as keyof WorkerVitals], value, name);
    }
    assert.equal(found?.heartbeats, 1);
  });

  test("a worker that is silent is listed as stale or hung, with the jobs that it still holds", async () => {
    const { store, clock } = await open();
    const { id } = await start(store, { slots: null });
    const slow = await start(store, {
      slots: null,
      silence: { ...silence, staleMs: 2 * STALE_MS, hungMs: 2 * HUNG_MS },
    });
    await startOne(store, {}, { worker: id });
    await startOne(store, {}, { worker: id });
    const seen = async (): Promise<string[]> => {
      const rows = await store.workers.list({ alive: true, limit: 9 });
      const found = await Promise.all(rows.map((row) => store.workers.find(row.id)));
      assert.deepEqual(found, rows);
      return [id, slow.id]
        .map((worker) => rows.find((row) => row.id === worker))
        .map((row) => `${row?.liveness} ${row?.leases}`);
    };
    clock.advance(STALE_MS);
    assert.deepEqual(await seen(), ["alive 2", "alive 0"]);
    clock.advance(1);
    assert.deepEqual(await seen(), ["stale 2", "alive 0"]);
    await store.workers.move(id, { state: "stopping", reason: "asked" });
    assert.deepEqual(await seen(), ["alive 2", "alive 0"]);
    clock.advance(HUNG_MS - STALE_MS);
    assert.deepEqual(await seen(), ["hung 2", "stale 0"]);
    await store.workers.move(id, { state: "stopped", reason: "hung" });
    const ended = await store.workers.find(id);
    assert.deepEqual([ended?.liveness, ended?.leases], ["stopped", 2]);
  });

  test("workers are listed, most recently started first", async () => {
    const { store, clock } = await open();
    const ids: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      ids.unshift((await start(store, { slots: null })).id);
      clock.advance(1_000);
    }
    await store.workers.move(ids[1] ?? "", { state: "stopped", reason: "asked" });
    const list = async (filter: object): Promise<string[]> =>
      (await store.workers.list({ limit: 9, ...filter })).map(({ id }) => id);
    assert.deepEqual(await list({}), ids);
    assert.deepEqual(await list({ limit: 2 }), ids.slice(0, 2));
    assert.deepEqual(await list({ alive: true }), [ids[0], ids[2]]);
    assert.deepEqual(await list({ type: "printer" }), []);
    await store.workers.move(ids[0] ?? "", { state: "stopped", reason: "gone" });
    assert.deepEqual(await list({ lost: true }), [ids[0]]);
  });

  test("the row of a stopped worker is deleted after a while", async () => {
    const { store, clock } = await open();
    const { id } = await start(store);
    await store.workers.move(id, { state: "stopped", reason: "asked" });
    clock.advance(1_000);
    assert.equal(await store.workers.prune(1_000), 0);
    clock.advance(1);
    assert.equal(await store.workers.prune(1_000), 1);
    assert.equal(await store.workers.find(id), null);
  });

  test("the jobs of a worker whose process is gone are reclaimed at once", async () => {
    const { store } = await open();
    const lost = await startOne(store, {}, { worker: "worker-gone" });
    const kept = await startOne(store, {}, { worker: "worker-here" });
    const chore = { workers: ["worker-gone", "worker-else"], maxCrashes: CRASHES_MAX, limit: 9 };
    const reclaimed = await store.jobs.reclaimFrom(chore);
    assert.deepEqual(
      reclaimed.map(({ id, worker }) => [id, worker]),
      [[lost.id, "worker-gone"]],
    );
    const { status, crashes } = await mustFind(store, lost.id);
    assert.deepEqual({ status, crashes }, { status: "retry", crashes: 1 });
    // Its lease has not run out, and no process says so.
    const [attempt] = await store.jobs.attempts(lost.id);
    const { name, code, message } = JSON.parse(attempt?.error ?? "null") as ErrorRecord;
    assert.deepEqual([name, code], ["WorkerGone", "WORKER_GONE"]);
    assert.match(message, /^The process of worker worker-gone /);
    assert.equal((await store.jobs.settle([done(kept)])).length, 1);
    assert.deepEqual(await store.jobs.reclaimFrom({ ...chore, workers: [] }), []);
  });

  test("a guarded claim takes nothing for a worker that is not registered", async () => {
    const { store, clock } = await open();
    const { id: worker } = await start(store);
    const running = await startOne(store, {}, { worker });
    await enqueueOne(store);
    clock.advance(STALE_MS + 1);
    await store.workers.closeDead(silence);
    const claim = one({ worker, guarded: true });
    assert.deepEqual(await store.jobs.claim(claim), []);
    // What it holds is decided by the lease alone: it may finish its last job.
    const turn = await store.jobs.settleAndClaim([done(running)], claim);
    assert.deepEqual([turn.settled.length, turn.claimed.length], [1, 0]);
    assert.equal((await store.jobs.claim(one({ worker: "worker-x" }))).length, 1);
  });

  test("a guarded claim takes jobs for a registered worker", async () => {
    const { store } = await open();
    const { id: worker } = await start(store);
    const { id } = await enqueueOne(store);
    assert.equal((await store.jobs.claim(one({ worker, guarded: true })))[0]?.id, id);
  });

  test("a status changes as a worker's life does, also by hand", async () => {
    const { store, byHand } = await open();
    for (const from of workerStates) {
      for (const to of workerStates.filter((state) => state !== from)) {
        const { id } = await start(store, { slots: null });
        const set = (state: string): Promise<number> =>
          byHand(sql`
            update holdfast.worker
               set status = ${state}, stopped_at = ${state === "stopped" ? 1 : null}
             where id = ${id}`);
        if (from === "starting") continue; // start() has left it already
        if (from !== "running") await set(from);
        if (workerMoves[from].includes(to)) assert.equal(await set(to), 1, `${from} → ${to}`);
        else await assert.rejects(set(to), StoreRefusedError, `${from} → ${to}`);
      }
    }
  });

  test("hand-typed SQL gets no second active row into a slot, and none beside the slots", async () => {
    const { store, byHand } = await open();
    const { id } = await start(store, { slots: 2 });
    const copy = (slot: number | null, status = "running"): Promise<number> =>
      byHand(sql`
        insert into holdfast.worker
               (id, type, slot, instance, status, stopped_at, hostname, pid, version, node_version, platform, arch,
                queues, tasks, concurrency, started_at, heartbeat_at)
        select ${`copy-${nextId()}`}, type, ${slot}, instance, ${status},
               ${status === "stopped" ? 1 : null}, hostname, pid, version, node_version, platform, arch,
               queues, tasks, concurrency, started_at, heartbeat_at
          from holdfast.worker
         where id = ${id}`);
    for (const slot of [1, null, 0, -1, 3])
      await assert.rejects(copy(slot), StoreRefusedError, `slot ${slot}`);
    assert.equal(await copy(1, "stopped"), 1);
    assert.equal(await copy(2), 1);
    await assert.rejects(
      byHand(sql`update holdfast.worker set slot = 2 where id = ${id}`),
      StoreRefusedError,
    );
    await assert.rejects(
      byHand(sql`update holdfast.worker set type = 'x' where id = ${id}`),
      StoreRefusedError,
    );
  });

  test("hand-typed SQL gets no active row of an undeclared type, or into a slot that its type does not have", async () => {
    const { store, byHand } = await open();
    const { id } = await start(store, { slots: null });
    const copy = (type: string, slot: number | null): Promise<number> =>
      byHand(sql`
        insert into holdfast.worker
               (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                queues, tasks, concurrency, started_at, heartbeat_at)
        select ${`copy-${nextId()}`}, ${type}, ${slot}, instance, status, hostname, pid, version, node_version,
               platform, arch, queues, tasks, concurrency, started_at, heartbeat_at
          from holdfast.worker
         where id = ${id}`);
    await assert.rejects(copy("printer", null), StoreRefusedError);
    await assert.rejects(copy("mailer", 1), StoreRefusedError);
    assert.equal(await copy("mailer", null), 1);
  });

  test("hand-typed SQL does not take a limit away from under an active worker", async () => {
    const { store, byHand } = await open();
    await start(store, { slots: 2 });
    const { id } = await start(store, { slots: 2 });
    const limit = (slots: number | null): Promise<number> =>
      byHand(sql`update holdfast.worker_type set slots = ${slots} where name = 'mailer'`);
    await assert.rejects(limit(1), StoreRefusedError);
    await assert.rejects(limit(null), StoreRefusedError);
    await assert.rejects(
      byHand(sql`delete from holdfast.worker_type where name = 'mailer'`),
      StoreRefusedError,
    );
    await assert.rejects(
      byHand(sql`update holdfast.worker_type set instance = 0 where name = 'mailer'`),
      StoreRefusedError,
    );
    assert.equal(await limit(3), 1);
    await store.workers.move(id, { state: "stopped", reason: "asked" });
    assert.equal(await limit(1), 1);
  });

  test("workers are found by the beginning of their ids", async () => {
    const { store } = await open();
    const { id } = await start(store);
    const found = await store.workers.list({ prefix: id.slice(0, -4), limit: 5 });
    assert.deepEqual(
      found.map((worker) => worker.id),
      [id],
    );
    assert.deepEqual(await store.workers.list({ prefix: `${id}0`, limit: 5 }), []);
  });
};
