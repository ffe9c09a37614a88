/** What people and tools read with SQL: the views say what the library says, on every engine in the same words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { traceId } from "../../src/core/job.ts";
import { sql, type Sql } from "../../src/database/sql.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  done,
  enqueueOne,
  ERROR,
  failed,
  mustFind,
  promoteOne,
  released,
  retry,
  settleOne,
  startOne,
} from "../support/jobs.ts";
import { start } from "../support/workers.ts";
import { isNear } from "../support/near.ts";

type Row = Record<string, unknown>;

async function rowsOf({ store, another }: Bundle, query: Sql): Promise<Row[]> {
  const plain = isNear(store) ? store : await another();
  return plain.db.engine.all<Row>(query);
}

export const views: Group = (open) => {
  test("a running attempt has its trace, its worker and its times in the views of jobs and of leases", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const claimed = await startOne(store, {}, { worker: "mailer-1" });
    const claimedAt = clock.now();
    clock.advance(2_000);
    await store.jobs.extend([claimed], 30_000);
    const trace = `mailer-1-${claimed.id}-1`;
    for (const view of [sql`holdfast.jobs`, sql`holdfast.leases`]) {
      const [row] = await rowsOf(
        bundle,
        sql`select trace_id, locked_by, claimed_at, heartbeat_at, locked_until from ${view} where id = ${claimed.id}`,
      );
      assert.deepEqual([row?.["trace_id"], row?.["locked_by"]], [trace, "mailer-1"]);
      assert.deepEqual(
        [row?.["claimed_at"], row?.["heartbeat_at"], row?.["locked_until"]].map(millis),
        [claimedAt, claimedAt + 2_000, claimedAt + 32_000],
      );
    }
    const job = await mustFind(store, claimed.id);
    assert.deepEqual(
      [job.traceId, job.claimedAt, job.heartbeatAt],
      [trace, claimedAt, claimedAt + 2_000],
    );
  });

  test("a trace ends in the number of the attempt: what was handed back is tried again under the same", async () => {
    const bundle = await open();
    const { store } = bundle;
    const first = await startOne(store, { maxAttempts: 9 }, { worker: "w1" });
    await settleOne(store, released(first));
    const second = await claimOne(store, { worker: "w1" });
    await settleOne(store, retry(second, { error: ERROR }));
    await promoteOne(bundle, first.id);
    const third = await claimOne(store, { worker: "w2" });
    assert.deepEqual([second.epoch, third.epoch], [2, 3]);
    const traces = [`w1-${first.id}-1`, `w1-${first.id}-1`, `w2-${first.id}-2`];
    assert.deepEqual([first, second, third].map(traceId), traces);
    const told = async (): Promise<unknown[]> =>
      (
        await rowsOf(
          bundle,
          sql`select trace_id from holdfast.attempts where job_id = ${first.id} order by epoch`,
        )
      ).map((row) => row["trace_id"]);
    assert.deepEqual(await told(), traces);
    await settleOne(store, failed(third));
    assert.deepEqual(await told(), traces);
    const [ended] = await rowsOf(
      bundle,
      sql`select trace_id, last_error, locked_by from holdfast.jobs where id = ${first.id}`,
    );
    assert.deepEqual({ ...ended }, { trace_id: traces[2], last_error: ERROR, locked_by: null });
    const [listed] = await store.jobs.list({ status: "failed", limit: 1 });
    assert.deepEqual([listed?.traceId, listed?.lastError], [traces[2], ERROR]);
  });

  test("a job that no worker has, or had at its end, has no trace of its own", async () => {
    const bundle = await open();
    const { store } = bundle;
    const pending = await enqueueOne(store);
    const retried = await startOne(store, { queue: "mail" });
    await settleOne(store, retry(retried, { error: ERROR }));
    await store.jobs.cancel(retried.id);
    const finished = await startOne(store, { queue: "post" });
    await settleOne(store, done(finished));
    const rows = await rowsOf(bundle, sql`select id, trace_id, claimed_at from holdfast.jobs`);
    const traced = new Map(
      rows.map((row) => [row["id"], row["trace_id"] !== null && row["claimed_at"] !== null]),
    );
    assert.deepEqual(
      [pending, retried, finished].map(({ id }) => traced.get(id)),
      [false, false, true],
    );
  });

  test("leases are active or expired by the clock of the database, and say for how long", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    clock.set(Date.now());
    const active = await startOne(store, { queue: "a" }, { leaseMs: 600_000 });
    clock.advance(-60_000);
    const expired = await startOne(store, { queue: "b" }, { leaseMs: 1_000 });
    const rows = await rowsOf(
      bundle,
      sql`select id, state, held_ms, heartbeat_age_ms, remaining_ms from holdfast.leases`,
    );
    const byId = new Map(rows.map((row) => [row["id"], row]));
    const [late, running] = [byId.get(expired.id), byId.get(active.id)];
    assert.deepEqual([late?.["state"], running?.["state"]], ["expired", "active"]);
    for (const column of ["held_ms", "heartbeat_age_ms"]) {
      const age = Number(late?.[column]);
      assert.ok(age >= 59_000 && age < 120_000, `${column} is ${age}`);
    }
    assert.ok(Number(late?.["remaining_ms"]) < 0 && Number(running?.["remaining_ms"]) > 0);
  });

  test("the view of workers has the leases of each and the age of its heartbeat", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    clock.set(Date.now() - 60_000);
    const { id } = await start(store);
    await startOne(store, { queue: "a" }, { worker: id });
    await startOne(store, { queue: "b" }, { worker: id });
    const [row] = await rowsOf(
      bundle,
      sql`select type, status, desired_state, leases, heartbeat_at, heartbeat_age_ms
            from holdfast.workers where id = ${id}`,
    );
    assert.equal(Number(row?.["leases"]), 2);
    assert.equal(row?.["desired_state"], "run");
    assert.equal(millis(row?.["heartbeat_at"]), clock.now());
    const age = Number(row?.["heartbeat_age_ms"]);
    assert.ok(age >= 59_000 && age < 120_000, `it is ${age}`);
  });
};

/** Each engine has times of its own; those without a zone are in UTC, as the library's connections are. */
function millis(time: unknown): number {
  if (time instanceof Date) return time.getTime();
  const text = String(time).replace(" ", "T").replace(/\+00$/, "Z");
  return Date.parse(text.endsWith("Z") ? text : `${text}Z`);
}
