/** The store contract on MySQL or MariaDB: in one process, and shared by several. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { statements } from "../../src/jobs/mysql-statements.ts";
import { openStore } from "../../src/app/store.ts";
import { INDEX_TABLES } from "../../src/copy/tables.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { StoreProcesses } from "../support/remote-store.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { listenToDrivers } from "../support/sql-texts.ts";
import { inMode, type Mode, type Place } from "./in-mode.ts";
import { startOne } from "../support/jobs.ts";
import {
  FORGET,
  FORGET_ACTIONS,
  GUARDED_TABLES,
  TABLES,
  WORKFLOW_TABLES,
} from "../support/tables.ts";

const PROCESSES = 3;
const limits = { timeout: 480_000, skip: missing("mysql") };

const EMPTY = [
  FORGET.replaceAll("holdfast.", "holdfast_"),
  ...[...TABLES, ...INDEX_TABLES].map((table) => `delete from holdfast_${table}`),
  "delete from holdfast_migration where name like 'pretended%'",
].join(";");

/** To truncate asks no trigger, and takes a while. */
const EMPTY_WORKFLOWS = [
  "set foreign_key_checks = 0",
  ...GUARDED_TABLES.map((table) => `truncate table holdfast_${table}`),
  ...WORKFLOW_TABLES.map((table) => `delete from holdfast_${table}`),
  "set foreign_key_checks = 1",
].join(";");

const drivers = listenToDrivers();
/** One database for all tests that do not mind its tables: making them takes longer than most tests. */
let used: ScratchDatabase;
let admin: Connection;
before(async () => {
  if (limits.skip !== false) return;
  used = await scratchDatabase("mysql");
  admin = await createConnection({ uri: used.url, multipleStatements: true });
});

async function empty(): Promise<void> {
  const [known] = await admin.query<RowDataPacket[]>("select name from holdfast_workflow limit 1");
  const [lines] = await admin.query<RowDataPacket[]>("select seq from holdfast_audit limit 1");
  if (lines.length > 0) await admin.query(FORGET_ACTIONS.mysql);
  await admin.query(known.length === 0 ? EMPTY : `${EMPTY};${EMPTY_WORKFLOWS}`);
}

async function place({ migrate }: { migrate: boolean }): Promise<Place> {
  if (migrate) return { url: used.url, free: empty };
  const fresh = await scratchDatabase("mysql");
  return { url: fresh.url, free: () => fresh.drop() };
}

const turn = notItsTurn("mysql");

describe("mysql", limits, () => {
  const open: Mode["open"] = (url, runtime) => openStore(url, { runtime });
  inMode({ alone: null, place, open, besideToo: turn === false });
});

const shared = { ...limits, skip: reasonOf(limits.skip, turn) };

describe("mysql shared by several processes", shared, () => {
  let processes: StoreProcesses;
  before(() => void (processes = new StoreProcesses(PROCESSES)));
  inMode({
    alone: null,
    place,
    open: (url, { clock }) => processes.open(url, clock),
    which: "between",
    apart: true,
  });

  after(() => processes.stop());

  test("each of the processes had its share in all this", () => {
    const calls = processes.calls();
    assert.equal(calls.size, PROCESSES);
    assert.ok(Math.min(...calls.values()) > 100);
  });
});

test("a session that is ended writes no more", { skip: limits.skip }, async () => {
  const store = await openStore(used.url);
  const held = await createConnection(used.url);
  const lost = once(held, "error");
  await store.db.engine.endSession(held.threadId);
  assert.match(String((await lost)[0]), /closed the connection|lost/i);
  await store.db.engine.endSession(held.threadId); // it is gone, and that is what was wanted
  held.destroy();
  await store.close();
});

test(
  "a step is not kept when its function has ended the transaction",
  { skip: limits.skip },
  async () => {
    const store = await openStore(used.url);
    const job = await startOne(store);
    const step = { name: "book", occurrence: 1, position: 1, kind: "commit" } as const;
    const committing = store.steps.commit(job, step, async (tx) => {
      await tx.query("create table if not exists ended (id int)"); // which commits
      return null;
    });
    await assert.rejects(committing, /savepoint/i);
    assert.deepEqual(await store.steps.list(job.id), []);
    await store.close();
  },
);

test("every SQL text of the store was sent", { skip: shared.skip }, (t) => {
  const texts = {
    folder: "mysql",
    prefix: "holdfast_",
    statements,
    except: /recursive ring|r\.lane|unnest\(|strpos/,
  } as const;
  assert.deepEqual(drivers.missing(texts), []);
  t.diagnostic(`${drivers.count(texts)} texts`);
});

after(async () => {
  await admin?.end();
  await used?.drop();
  await assertNothingRuns();
});
