/**
 * A report that is written at the very moment at which its job is taken back: the one waits for the other.
 *
 * On SQLite there is one writer at a time, so there is nothing to see there.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { openStore, type Store } from "../../src/app/store.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { startOne } from "../support/jobs.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { until } from "../worker/observe.ts";

after(assertNothingRuns);

/** A session that takes the lease away, and whether another session waits for it. */
interface Taker {
  run(text: string): Promise<unknown>;
  isWaitedFor(): Promise<boolean>;
  end(): Promise<void>;
}

const takers = {
  async postgres(url: string): Promise<Taker> {
    const [client, watcher] = [new Client(url), new Client(url)];
    await Promise.all([client.connect(), watcher.connect()]);
    return {
      run: (text) => client.query(text.replace("holdfast_", "holdfast.")),
      async isWaitedFor() {
        const { rowCount } = await watcher.query(
          "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        );
        return (rowCount ?? 0) > 0;
      },
      end: async () => void (await Promise.all([client.end(), watcher.end()])),
    };
  },
  async mysql(url: string): Promise<Taker> {
    const [client, watcher] = [await createConnection(url), await createConnection(url)];
    return {
      run: (text) => client.query(text),
      async isWaitedFor() {
        await pause(CACHED_MS);
        const [rows] = await watcher.query(
          "select trx_id from information_schema.innodb_trx where trx_state = 'LOCK WAIT'",
        );
        return (rows as unknown[]).length > 0;
      },
      end: async () => void (await Promise.all([client.end(), watcher.end()])),
    };
  },
};

/** The server shows an old picture of its transactions to a client that asks more often. */
const CACHED_MS = 150;

const LINE = { seq: 1, kind: "log", name: null, data: '{"text":"a"}', ageMs: 0 } as const;

for (const kind of ["postgres", "mysql"] as const) {
  describe(`a report on ${kind}`, { skip: missing(kind), timeout: 60_000 }, () => {
    let database: ScratchDatabase;
    let store: Store;
    let taker: Taker;
    before(async () => {
      database = await scratchDatabase(kind);
      store = await openStore(database.url);
      await store.migrate();
      taker = await takers[kind](database.url);
    });
    after(async () => {
      await taker.end();
      await store.close();
      await database.drop();
    });

    const ends = [
      ["is refused once the job is taken back", "commit", false, 0],
      ["is written when the job is not taken back after all", "rollback", true, 1],
    ] as const;
    for (const [what, end, isWritten, last] of ends) {
      test(`waits for the session that is taking the lease, and ${what}`, async () => {
        const job = await startOne(store);
        await taker.run("begin");
        await taker.run(`delete from holdfast_lease where id = '${job.id}'`);
        const writing = store.reports.put(job, [LINE]);
        await until("the report waits", () => taker.isWaitedFor());
        await taker.run(end);
        assert.equal(await writing, isWritten);
        assert.equal(await store.reports.last(job.id), last);
      });
    }
  });
}
