/**
 * Healthy jobs in a database that another process locks for longer than their leases, three times. No renewal gets through,
 * every lease ends, and when the lock is gone owners and reclaimers come at once. No worker has crashed.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, suite, test } from "node:test";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { defineTask, type JobView, openHoldfast } from "../../src/index.ts";
import { drawnEngines } from "../registry/places.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { until } from "../worker/observe.ts";

after(assertNothingRuns);

const JOBS = 8;
const LOCKS = 3;
const GRACE_MS = 100;
/** A renewal is sent at half of it, also on a machine that has much else to do. */
const LEASE_MS = 4_000;
const worker = {
  lease: LEASE_MS,
  grace: GRACE_MS,
  maintenanceInterval: 50,
  poll: 200,
  concurrency: 4,
  heartbeat: LEASE_MS / 4, // so that one of them is sent before a renewal is
};

/** Another program that has the database locked. */
interface Locker {
  lock(): Promise<void>;
  /** When the last lease ended, by the database's clock, as only it can see; negative: it has not. */
  overdueMs(): Promise<number>;
  unlock(): Promise<void>;
  close(): Promise<void>;
}

const ENDS = "max(locked_until) as ends";

const lockers: Readonly<Record<string, (url: string) => Promise<Locker>>> = {
  async SQLite(url) {
    const db = new DatabaseSync(url.replace("sqlite:", ""), { timeout: 0 });
    const query = `select unixepoch('subsec') * 1000 - ends as ms from (select ${ENDS} from holdfast_lease)`;
    return {
      lock: async () => void (await until("it is locked", () => isLocked(db))),
      overdueMs: async () => Number(db.prepare(query).get()?.["ms"]),
      unlock: async () => db.exec("rollback"),
      close: async () => db.close(),
    };
  },
  async PostgreSQL(url) {
    const client = new Client(url);
    await client.connect();
    const query = `select extract(epoch from clock_timestamp()) * 1000 - ends as ms from (select ${ENDS} from holdfast.lease) l`;
    return {
      lock: async () => {
        await client.query("begin");
        await client.query("lock table holdfast.lease in access exclusive mode");
      },
      overdueMs: async () => Number((await client.query<{ ms: string }>(query)).rows[0]?.ms),
      unlock: async () => void (await client.query("rollback")),
      close: () => client.end(),
    };
  },
  async MariaDB(url) {
    const connection = await createConnection(url);
    const query = `select unix_timestamp(now(3)) * 1000 - ${ENDS.replace(" as ends", " as ms")} from holdfast_lease`;
    return {
      lock: async () => void (await connection.query("lock tables holdfast_lease write")),
      overdueMs: async () => {
        const [rows] = await connection.query(query);
        return Number((rows as { ms: string }[])[0]?.ms);
      },
      unlock: async () => void (await connection.query("unlock tables")),
      close: () => connection.end(),
    };
  },
};

function isLocked(db: DatabaseSync): boolean {
  try {
    db.exec("begin immediate");
    return true;
  } catch {
    return false;
  }
}

suite(
  `jobs whose database is locked past their leases ${LOCKS} times`,
  { concurrency: true },
  () => {
    for (const { name, skip, place: open } of drawnEngines("outage")) {
      test(`on ${name} are done, and no crash is counted`, { skip }, async () => {
        await using place = await open();
        const { url } = place;
        await using holdfast = await openHoldfast(url);
        await using other = await openHoldfast(url);
        const finish = Promise.withResolvers<void>();
        const long = defineTask({
          name: "long",
          retry: { maxAttempts: 2 },
          run(_input: null, { signal }) {
            const aborted = new Promise<never>((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason as Error));
            });
            return Promise.race([finish.promise, aborted]);
          },
        });
        const jobs = await holdfast.enqueueMany(
          long,
          Array.from({ length: JOBS }, () => null),
        );
        const views = (): Promise<JobView[]> => Promise.all(jobs.map((job) => job.get()));
        for (const one of [holdfast, other]) await one.startWorker({ ...worker, tasks: [long] });
        const locker = await (lockers[name] as (at: string) => Promise<Locker>)(url);
        try {
          for (let locked = 1; locked <= LOCKS; locked += 1) {
            await until("all jobs run", async () =>
              (await views()).every(
                (job) => job.status === "processing" || job.finishedAt !== null,
              ),
            );
            await locker.lock();
            await until(
              "all leases are over",
              async () => (await locker.overdueMs()) > 3 * GRACE_MS,
            );
            await locker.unlock();
            // Those that have ended are told of below.
            await until("every lease of before has ended", async () =>
              (await views()).every((job) => job.epoch > locked || job.finishedAt !== null),
            );
            if ((await views()).some(({ finishedAt }) => finishedAt !== null)) break;
          }
        } finally {
          await locker.close();
        }
        // Of a job that has ended nothing is corrected, so they wait for their former owners.
        await until("the former owners have reported", async () => {
          const histories = await Promise.all(jobs.map(({ id }) => holdfast.jobs.attempts(id)));
          return histories.flat().every(({ outcome }) => outcome !== "crashed");
        });
        finish.resolve();
        const ended = await until("all jobs have ended", async () => {
          const seen = await views();
          return seen.every(({ finishedAt }) => finishedAt !== null) ? seen : null;
        });
        for (const { id, status, crashes } of ended) {
          const history = await holdfast.jobs.attempts(id);
          const told = JSON.stringify(
            history.map(({ epoch, outcome, error }) => [epoch, outcome, error?.code]),
          );
          assert.deepEqual([status, crashes], ["done", 0], told);
        }
      });
    }
  },
);
