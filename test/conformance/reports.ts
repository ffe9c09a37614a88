/** Reports: what a running job tells about itself is kept in order, and only its owner can say it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreRefusedError } from "../../src/core/errors.ts";
import { REPORTS_MAX } from "../../src/core/report.ts";
import type { NewReport } from "../../src/reports/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";
import type { Bundle, Group } from "../support/bundle.ts";
import {
  claimOne,
  crashAndClaim,
  done,
  enqueueOne,
  failed,
  HOUR_MS,
  jobIn,
  nextId,
  promoteOne,
  released,
  retry,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";

function line(seq: number, facts: Partial<NewReport> = {}): NewReport {
  return { seq, kind: "log", name: null, data: `{"text":"line ${seq}"}`, ageMs: 0, ...facts };
}

function lines(from: number, to: number): NewReport[] {
  return Array.from({ length: to - from + 1 }, (_, index) => line(from + index));
}

async function seqs(store: Store, job: string): Promise<number[]> {
  const rows = await store.reports.list({ job, after: 0, limit: 1_000 });
  return rows.map(({ seq }) => seq);
}

/** Every way in which a worker comes to hold a fence that is not current any more. */
const zombies: Record<string, (bundle: Bundle) => Promise<Parameters<Store["reports"]["put"]>[0]>> =
  {
    "whose lease was taken back": async (bundle) => {
      const zombie = await startOne(bundle.store);
      await crashAndClaim(bundle, zombie, "other");
      return zombie;
    },
    "whose job it got again, at a later epoch": async (bundle) => {
      const zombie = await startOne(bundle.store);
      await crashAndClaim(bundle, zombie, zombie.worker);
      return zombie;
    },
    "that has settled": async ({ store }) => {
      const settled = await startOne(store);
      await settleOne(store, done(settled));
      return settled;
    },
    "that gave its place back": async ({ store }) => {
      const paused = await startOne(store);
      await settleOne(store, suspended(paused, 1_000));
      return paused;
    },
    "that never had the job": async ({ store }) => ({
      ...(await startOne(store)),
      worker: "somebody",
    }),
    "of a job that is not there": async () => ({ id: nextId(), worker: "worker-a", epoch: 1 }),
    "of what is no id": async () => ({ id: "no id at all", worker: "worker-a", epoch: 1 }),
  };

export const reports: Group = (open) => {
  test("a job begins without reports, and one that does not exist has none", async () => {
    const { store } = await open();
    const { id } = await startOne(store);
    for (const job of [id, nextId(), "no id at all"]) {
      assert.deepEqual(await store.reports.list({ job, after: 0, limit: 9 }), []);
      assert.equal(await store.reports.last(job), 0);
    }
  });

  test("reports are stored unchanged, with their time and attempt", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    const odd = '{"text":"it\'s \\"odd\\" \\\\ \\u0000 \\n 100 % ? $1 ü 🎉","data":{"big":1e21}}';
    const said = [
      line(1, { data: odd }),
      line(2, { kind: "progress", data: '{"share":0.5}', ageMs: 250.4 }),
      line(3, { kind: "report", name: "tokens ü 🎉", data: null }),
      line(4, { kind: "report", name: "list", data: "[1,2]" }),
      line(5, { kind: "dropped", data: '{"count":7}' }),
    ];
    assert.equal(await store.reports.put(job, said), true);
    const kept = await store.reports.list({ job: job.id, after: 0, limit: 9 });
    assert.deepEqual(
      kept,
      said.map(({ ageMs, seq, kind, name, data }) => ({
        seq,
        epoch: 1,
        kind,
        name,
        at: clock.now() - Math.round(ageMs),
        data,
      })),
    );
  });

  test("a large report comes back whole, and so does a large batch", async () => {
    const { store } = await open();
    const job = await startOne(store);
    const large = JSON.stringify({ text: "ü\\'\"".repeat(8_000) });
    assert.equal(await store.reports.put(job, [line(1, { data: large }), ...lines(2, 400)]), true);
    const [first] = await store.reports.list({ job: job.id, after: 0, limit: 1 });
    assert.equal(first?.data, large);
    assert.equal(await store.reports.last(job.id), 400);
    assert.deepEqual(
      await seqs(store, job.id),
      lines(1, 400).map(({ seq }) => seq),
    );
  });

  test("reports are read in order, a page at a time, the newest of them, or those of a kind", async () => {
    const { store } = await open();
    const job = await startOne(store);
    await store.reports.put(job, lines(1, 3));
    await store.reports.put(job, [line(4, { kind: "progress" }), line(5), line(6)]);
    const read = async (filter: object): Promise<number[]> => {
      const rows = await store.reports.list({ job: job.id, after: 0, limit: 2, ...filter });
      return rows.map(({ seq }) => seq);
    };
    assert.deepEqual(await read({}), [1, 2]);
    assert.deepEqual(await read({ after: 2 }), [3, 4]);
    assert.deepEqual(await read({ after: 5 }), [6]);
    assert.deepEqual(await read({ after: 6 }), []);
    assert.deepEqual(await read({ newest: true }), [5, 6]);
    assert.deepEqual(await read({ newest: true, after: 5 }), [6]);
    assert.deepEqual(await read({ kind: "progress" }), [4]);
    assert.deepEqual(await read({ kind: "log", newest: true }), [5, 6]);
  });

  for (const [who, become] of Object.entries(zombies)) {
    test(`a worker ${who} writes no report`, async () => {
      const bundle = await open();
      const fence = await become(bundle);
      assert.equal(await bundle.store.reports.put(fence, lines(1, 2)), false);
      assert.deepEqual(await seqs(bundle.store, fence.id), []);
    });
  }

  test("reports continue after those of the previous attempt, however it ended", async () => {
    const bundle = await open();
    const { store, clock } = bundle;
    const first = await startOne(store);
    await store.reports.put(first, lines(1, 2));
    await settleOne(store, suspended(first, 1_000));
    clock.advance(1_000);
    await store.jobs.promoteDue({ limit: 9 });
    const second = await claimOne(store);
    assert.equal(await store.reports.last(first.id), 2);
    await store.reports.put(second, lines(3, 3));
    await settleOne(store, retry(second));
    await promoteOne(bundle, first.id);
    const third = await claimOne(store);
    await store.reports.put(third, lines(4, 4));
    await settleOne(store, released(third));
    await settleOne(store, failed(await claimOne(store)));
    await store.jobs.retry(first.id, 1);
    await store.reports.put(await claimOne(store), lines(5, 5));
    const kept = await store.reports.list({ job: first.id, after: 0, limit: 9 });
    assert.deepEqual(
      kept.map(({ seq, epoch }) => [seq, epoch]),
      [
        [1, 1],
        [2, 1],
        [3, 2],
        [4, 3],
        [5, 5],
      ],
    );
  });

  test("a batch that its writer writes again changes nothing", async () => {
    const bundle = await open();
    const { store } = bundle;
    const job = await startOne(store);
    assert.equal(await store.reports.put(job, lines(1, 2)), true);
    assert.equal(await store.reports.put(job, lines(1, 2)), true);
    assert.deepEqual(await seqs(store, job.id), [1, 2]);
    // Numbers that an earlier attempt has used are refused, and nothing of the batch is written.
    const owner = await crashAndClaim(bundle, job, "other");
    await assert.rejects(store.reports.put(owner, lines(2, 3)), StoreRefusedError);
    assert.deepEqual(await seqs(store, job.id), [1, 2]);
  });

  test("a report is written once, and an invalid report is not written", async () => {
    const { store, byHand } = await open();
    const job = await startOne(store);
    await store.reports.put(job, lines(1, 1));
    await assert.rejects(
      byHand(sql`update holdfast.report set data = '{}' where job_id = ${job.id}`),
      StoreRefusedError,
    );
    for (const flaw of [{ seq: 0 }, { kind: "shout" }, { kind: "report" }, { name: "x" }]) {
      await assert.rejects(store.reports.put(job, [line(2, flaw as object)]), StoreRefusedError);
    }
    assert.deepEqual(await seqs(store, job.id), [1]);
  });

  test("the oldest reports of a job that has very many are deleted, and its numbers go on", async () => {
    const { store, byHand } = await open();
    const job = await startOne(store);
    const other = await startOne(store);
    await store.reports.put(other, lines(1, 2));
    // Deleting by hand stands for what was written before: ten thousand rows are not needed to see it.
    await store.reports.put(job, lines(1, 3));
    await byHand(sql`
      insert into holdfast.report (job_id, seq, epoch, kind, at, data)
      select ${job.id}, seq + ${REPORTS_MAX}, epoch, kind, at, data
        from holdfast.report
       where job_id = ${other.id}`);
    await store.reports.put(job, [line(REPORTS_MAX + 3)]);
    assert.deepEqual((await seqs(store, job.id)).slice(0, 3), [1, 2, 3]);
    const step = Array.from({ length: 997 }, (_, index) => line(REPORTS_MAX + 4 + index));
    await store.reports.put(job, step);
    assert.equal((await seqs(store, job.id))[0], REPORTS_MAX + 1);
    assert.equal(await store.reports.last(job.id), REPORTS_MAX + 1_000);
    assert.deepEqual(await seqs(store, other.id), [1, 2]);
  });

  test("reports go with their job", async () => {
    const { store, clock } = await open();
    const job = await startOne(store);
    await store.reports.put(job, lines(1, 3));
    const other = await startOne(store);
    await store.reports.put(other, lines(1, 1));
    await settleOne(store, done(job));
    assert.deepEqual(await seqs(store, job.id), [1, 2, 3]);
    clock.advance(HOUR_MS);
    await store.jobs.prune({
      retention: { done: 1, failed: 1, cancelled: 1, expired: 1 },
      limit: 9,
    });
    assert.deepEqual(await seqs(store, job.id), []);
    assert.deepEqual(await seqs(store, other.id), [1]);
  });

  test("the state of a job is returned without its input and result", async () => {
    const { store, clock } = await open();
    assert.equal(await store.reports.standing(nextId()), null);
    assert.equal(await store.reports.standing("no id at all"), null);
    const pending = await enqueueOne(store);
    const facts = { status: "pending", epoch: 0, attempts: 0, dueAt: null, at: clock.now() };
    assert.deepEqual(await store.reports.standing(pending.id), facts);
    const claimed = await claimOne(store);
    clock.advance(10);
    const running = { ...facts, status: "processing", epoch: 1, attempts: 1, at: clock.now() };
    assert.deepEqual(await store.reports.standing(claimed.id), running);
    await settleOne(store, retry(claimed, { delayMs: 1_000 }));
    const later = { ...running, status: "retry", dueAt: clock.now() + 1_000 };
    assert.deepEqual(await store.reports.standing(claimed.id), later);
    const id = await jobIn(store, "failed");
    const endedAt = clock.now();
    clock.advance(500);
    assert.deepEqual(await store.reports.standing(id), {
      ...running,
      status: "failed",
      at: endedAt,
    });
  });
};
