/** The verbs as SQL functions: what they do to a job is what the TypeScript verbs do to its twin. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Client } from "pg";
import { kindOf } from "../../src/core/error-kind.ts";
import { isId } from "../../src/core/id.ts";
import { openStore, type Store } from "../../src/app/store.ts";
import type { JobRecord } from "../../src/jobs/store.ts";
import {
  claimOne,
  CRASHES_MAX,
  done,
  enqueueOne,
  failed,
  mustFind,
  newJob,
  released,
  retry,
  settleOne,
  startOne,
  suspended,
} from "../support/jobs.ts";
import { until } from "../worker/observe.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";

const SCHEMA = "order"; // a word of SQL: names are quoted everywhere
const LEASE_MS_SHORT = 100;

describe("SQL functions", { skip: missing("postgres"), timeout: 60_000 }, () => {
  let database: ScratchDatabase;
  let store: Store;
  let client: Client;

  before(async () => {
    database = await scratchDatabase("postgres");
    store = await openStore(database.url, { schema: SCHEMA });
    await store.migrate();
    client = new Client({ connectionString: database.url });
    await client.connect();
  });
  after(async () => {
    await store.close();
    await client.end();
    await database.drop();
  });

  async function call<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    const { rows } = await client.query<Row>(`select * from "${SCHEMA}".${text}`, values);
    return rows;
  }

  async function enqueue(facts: string, values: unknown[] = []): Promise<string> {
    const [row] = await call<{ enqueue: string }>(`enqueue(${facts})`, values);
    return String(row?.enqueue);
  }

  test("SQL gives a job tags, within the limits of the code", async () => {
    const [row] = await call<{ tag: string }>(
      `tag("${SCHEMA}".enqueue('mail.send', queue => 'tags'), 'b', 'a', 'b')`,
    );
    const id = String(row?.tag);
    assert.deepEqual((await mustFind(store, id)).tags, ["a", "b"]);
    const many = Array.from({ length: 9 }, (_, n) => `'t${n}'`).join(", ");
    await assert.rejects(call(`tag('${id}', ${many})`), { code: "22023" });
    await assert.rejects(call(`tag('${id}', '${"x".repeat(65)}')`), { code: "22023" });
    assert.deepEqual((await mustFind(store, id)).tags, ["a", "b"]);
    assert.deepEqual(await call(`tag('${newJob().id}', 'a')`), [{ tag: null }]);
  });

  test("the fingerprint of an error is the one of the code", async () => {
    const messages = [
      "no answer from 'dhl' within 10 s",
      'bad `x` and "y" at 10.0.0.1:5432, ada+b@example.org/7',
      "plain",
      "",
      "first line\nsecond 7",
      "Grüße, 東京 ٣ 7️⃣ \u{1F600} naïve1 \\ back \t tab",
      "…1…, 'a', 2; 3/4.5:6",
      `${"é".repeat(299)}'${"x".repeat(400)}' 12`,
      "x".repeat(700),
    ];
    for (const name of ["Error", 'Carrier"Timeout', "N".repeat(300)]) {
      for (const code of [undefined, "ETIMEDOUT", "c".repeat(300)]) {
        for (const message of messages) {
          const error = { name, message, ...(code === undefined ? {} : { code }) };
          const [row] = await call<{ kind_of_error: string }>("kind_of_error($1, $2)", [
            "order.ship@2",
            JSON.stringify(error),
          ]);
          assert.equal(row?.kind_of_error, kindOf("order.ship@2", error).id, JSON.stringify(error));
        }
      }
    }
  });

  test("a job that SQL enqueued is one like any other", async () => {
    const id = await enqueue(`'mail.send', '{"to":"ada"}', queue => 'f1', priority => 7`);
    assert.ok(isId(id));
    const ours = await enqueueOne(store, { queue: "f1", priority: 7 });
    assert.deepEqual(
      comparable(await mustFind(store, id)),
      comparable(await mustFind(store, ours.id)),
    );
    const claimed = await claimOne(store, { queues: ["f1"] });
    assert.deepEqual([claimed.id, claimed.payload], [id, '{"to":"ada"}']);
  });

  test("a delay, a start and a key are kept", async () => {
    const later = await mustFind(store, await enqueue(`'t', queue => 'f2', delay => '1 hour'`));
    assert.equal(later.status, "scheduled");
    assert.ok(Number(later.dueAt) - later.enqueuedAt === 3_600_000);
    const past = await enqueue(`'t', queue => 'f2', start_at => now() - interval '1 day'`);
    assert.equal((await mustFind(store, past)).status, "pending");
    const first = await enqueue(`'t', queue => 'f2', key => 'k'`);
    assert.equal(await enqueue(`'t', queue => 'f2', key => 'k'`), first);
    const [ours] = await store.jobs.enqueue([newJob({ task: "t", queue: "f2", key: "k" })]);
    assert.deepEqual(ours, { id: first, added: false });
  });

  test("a key that a job keeps after its end gives that job", async () => {
    const kept = { queue: "f2k", key: "kept", keyForMs: 200 };
    const { id } = await enqueueOne(store, { ...kept, task: "t@2" });
    const again = () => enqueue(`'t', queue => 'f2k', key => 'kept'`);
    assert.equal(await again(), id);
    await settleOne(store, done(await claimOne(store, { queues: ["f2k"] })));
    assert.equal(await again(), id);
    const next = await until("its time is over", async () => {
      const given = await again();
      return given === id ? undefined : given;
    });
    assert.equal((await mustFind(store, next)).status, "pending");
    assert.equal(await again(), next);
  });

  test("a call that is repeated with its id changes nothing", async () => {
    const { id } = newJob();
    assert.equal(await enqueue(`'t', '1', queue => 'f3', id => $1`, [id]), id);
    assert.equal(await enqueue(`'t', '2', queue => 'f3', id => $1`, [id]), id);
    assert.equal((await mustFind(store, id)).payload, "1");
  });

  const refused: [what: string, facts: string, message: RegExp][] = [
    ["an empty task", `''`, /task must not be empty/],
    ["a task with a blank at its end", `'t '`, /task must have no blank/],
    ["a task with a mark that turns the direction", `'q\u202Egnp'`, /turns the direction/],
    ["a key with a blank without a width", `'t', key => 'a\u200Bb'`, /key must have no character/],
    ["a queue that is too long", `'t', queue => repeat('q', 129)`, /queue has 129 characters/],
    ["a priority out of range", `'t', priority => 2000000`, /priority must be from/],
    ["no attempts", `'t', max_attempts => 0`, /max_attempts must be from 1/],
    ["a payload that is too large", `'t', to_json(repeat('x', 262144))`, /bytes must be from/],
  ];
  for (const [what, facts, message] of refused) {
    test(`${what} is refused`, () => assert.rejects(enqueue(facts), message));
  }

  test("a rolled-back job was never enqueued", async () => {
    await client.query("begin");
    const id = await enqueue(`'t', queue => 'f4'`);
    await client.query("rollback");
    assert.equal(await store.jobs.find(id), null);
  });

  test("a lease that SQL acquired is one like any other", async () => {
    const job = await enqueueOne(store, { queue: "f5" });
    const [lease, ...more] = await call<Record<string, unknown>>(
      `acquire_lease('py-1', array['f5'], lease => '1 minute')`,
    );
    assert.equal(more.length, 0);
    assert.deepEqual(
      [lease?.["id"], lease?.["epoch"], lease?.["attempt"], lease?.["payload"]],
      [job.id, 1, 1, { to: "ada" }],
    );
    assert.deepEqual(await call(`acquire_lease('py-2', array['f5'])`), []);
    const [extended] = await store.jobs.extend([{ id: job.id, worker: "py-1", epoch: 1 }], 1_000);
    assert.equal(extended?.id, job.id);
  });

  test("only the holder of the lease can extend it", async () => {
    const { id } = await startOne(store, { queue: "f6" });
    const extend = (worker: string, epoch: number): Promise<object[]> =>
      call(`extend_lease($1, $2, $3, '1 hour')`, [id, worker, epoch]);
    assert.deepEqual(await extend("worker-b", 1), []);
    assert.deepEqual(await extend("worker-a", 2), []);
    const [extended] = (await extend("worker-a", 1)) as {
      locked_until: Date;
      cancel_requested: boolean;
    }[];
    assert.equal(extended?.cancel_requested, false);
    assert.equal(Number(extended?.locked_until), (await mustFind(store, id)).lockedUntil);
    await store.jobs.cancel(id);
    assert.deepEqual(
      (await extend("worker-a", 1)).map(
        (row) => (row as { cancel_requested: boolean }).cancel_requested,
      ),
      [true],
    );
  });

  const error = JSON.stringify({ name: "Error", message: "no" });
  const outcomes = [
    { facts: `'done', result => '{"ok":1}'`, settle: (f: JobFence) => done(f, '{"ok":1}') },
    {
      facts: `'failed', error => 'no'`,
      settle: (f: JobFence) => retry(f, { delayMs: 1_000, error }),
    },
    { facts: `'failed', error => 'no', final => true`, settle: (f: JobFence) => failed(f, error) },
    {
      facts: `'suspended', retry_in => '5 minutes'`,
      settle: (f: JobFence) => suspended(f, 300_000),
    },
    { facts: `'released'`, settle: released },
  ];
  for (const { facts, settle } of outcomes) {
    for (const last of [false, true]) {
      for (const cancel of [false, true]) {
        const when = `${last ? ", at its last attempt" : ""}${cancel ? ", while it is to be cancelled" : ""}`;
        test(`release_lease(${facts}) does what the verb does${when}`, async () => {
          const start = async (): Promise<JobFence> => {
            const claimed = await startOne(store, {
              queue: `f7 ${facts} ${last} ${cancel}`,
              maxAttempts: last ? 1 : 3,
              key: newJob().id,
            });
            if (cancel) await store.jobs.cancel(claimed.id);
            return claimed;
          };
          const ours = await start();
          const { status } = await settleOne(store, settle(ours));
          if (status === "pending")
            await claimOne(store, { queues: [`f7 ${facts} ${last} ${cancel}`] });
          const theirs = await start();
          const release = `release_lease($1, 'worker-a', $2, ${facts})`;
          const stale = await call<{ release_lease: string }>(release, [
            theirs.id,
            theirs.epoch + 1,
          ]);
          assert.equal(stale[0]?.release_lease, null);
          const [row] = await call<{ release_lease: string }>(release, [theirs.id, theirs.epoch]);
          assert.equal(row?.release_lease, status);
          if (status === "pending") return; // its twin runs again by now
          await assertTwins(store, ours.id, theirs.id);
        });
      }
    }
  }

  for (const crashes of Array.from({ length: CRASHES_MAX }, (_, index) => index)) {
    test(`reset_expired() reclaims the same jobs as the library, after ${crashes} crashes`, async () => {
      const queue = `f8 ${crashes}`;
      const ids: string[] = [];
      for (const reset of [viaVerb, viaFunction]) {
        const { id } = await startOne(
          store,
          { queue, maxAttempts: 9 },
          { leaseMs: LEASE_MS_SHORT },
        );
        ids.push(id);
        for (let crash = 0; crash < crashes; crash += 1) {
          await expire(id);
          await viaVerb(id);
          await promote(id);
          await claimOne(store, { queues: [queue], leaseMs: LEASE_MS_SHORT });
        }
        await expire(id);
        await reset(id);
      }
      const [ours, theirs] = ids as [string, string];
      await assertTwins(store, ours, theirs);
      await assertSpread(ours, theirs);
    });
  }

  test("stats() counts what the verb counts", async () => {
    const rows = await call<{ queue: string; status: string; jobs: string }>("stats()");
    const counted = (await store.jobs.stats()).flatMap(({ queue, counts }) =>
      Object.entries(counts).flatMap(([status, jobs]) =>
        jobs === 0 ? [] : [{ queue, status, jobs }],
      ),
    );
    const sorted = (some: { queue: string; status: string; jobs: number }[]): string[] =>
      some.map((row) => JSON.stringify([row.queue, row.status, row.jobs])).toSorted();
    assert.ok(counted.length > 10);
    assert.deepEqual(
      sorted(rows.map((row) => ({ ...row, jobs: Number(row.jobs) }))),
      sorted(counted),
    );
  });

  /** Makes the lease expire, without waiting for a clock. */
  async function expire(id: string): Promise<void> {
    await client.query(`update "${SCHEMA}".lease set locked_until = 1 where id = $1`, [id]);
  }

  async function promote(id: string): Promise<void> {
    await client.query(`update "${SCHEMA}".waiting set due_at = 1 where id = $1`, [id]);
    await store.jobs.promoteDue({ limit: 100 });
  }

  async function viaVerb(id: string): Promise<void> {
    const taken = await store.jobs.reclaimExpired({
      graceMs: 2_000,
      maxCrashes: CRASHES_MAX,
      limit: 100,
    });
    assert.deepEqual(
      taken.map((one) => one.id),
      [id],
    );
  }

  async function viaFunction(id: string): Promise<void> {
    const rows = await call<{ id: string }>("reset_expired()");
    assert.deepEqual(
      rows.map((one) => one.id),
      [id],
    );
  }

  /** The pause after a crash follows from the id: both are where the other's rule would have put them. */
  async function assertSpread(...ids: string[]): Promise<void> {
    for (const id of ids) {
      const job = await mustFind(store, id);
      if (job.dueAt === null) continue;
      const history = await store.jobs.attempts(id);
      const crashes = job.crashes - 1;
      const end = 36 - 3 * (crashes % 4);
      const spread = 0.5 + Number.parseInt(id.slice(end - 3, end), 16) / 0x1000;
      assert.equal(
        job.dueAt - Number(history.at(-1)?.endedAt),
        Math.floor(1_000 * 2 ** crashes * spread),
      );
    }
  }
});

type JobFence = Awaited<ReturnType<typeof startOne>>;

/** Two jobs that went the same way, but for their ids and times. */
async function assertTwins(store: Store, ours: string, theirs: string): Promise<void> {
  assert.deepEqual(
    comparable(await mustFind(store, theirs)),
    comparable(await mustFind(store, ours)),
  );
  const history = async (id: string): Promise<object[]> =>
    (await store.jobs.attempts(id)).map(
      ({ startedAt: _started, endedAt: _ended, error, ...rest }) => ({
        ...rest,
        error: parsed(error),
      }),
    );
  assert.deepEqual(await history(theirs), await history(ours));
}

function comparable(job: JobRecord): object {
  const {
    id: _id,
    key,
    enqueuedAt: _at,
    dueAt,
    finishedAt,
    lockedUntil,
    claimedAt,
    heartbeatAt: _heartbeat,
    traceId,
    cancelRequestedAt,
    lastError,
    ...rest
  } = job;
  return {
    ...rest,
    error: parsed(lastError),
    keyed: key !== null,
    due: dueAt !== null,
    finished: finishedAt !== null,
    locked: lockedUntil !== null,
    claimed: claimedAt !== null,
    traced: traceId !== null,
    cancelling: cancelRequestedAt !== null,
  };
}

/** SQL writes the same JSON with other blanks. */
/** The function does not look for the jobs that ran beside it. */
function parsed(error: string | null): unknown {
  if (error === null) return null;
  const { beside: _beside, ...record } = JSON.parse(error) as { beside?: unknown };
  return record;
}
