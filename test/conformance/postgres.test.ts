/** The store contract on PostgreSQL: directly, and shared by several processes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { Client } from "pg";
import { openStore } from "../../src/app/store.ts";
import { dropWeek, isOver, LIST } from "../../src/database/postgres/dialect.ts";
import { statements } from "../../src/jobs/postgres-statements.ts";
import { listenToDrivers } from "../support/sql-texts.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { StoreProcesses } from "../support/remote-store.ts";
import { fenceOf, newJob, startOne } from "../support/jobs.ts";
import { until } from "../worker/observe.ts";
import { Schemas } from "../support/schemas.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { inMode, type Mode } from "./in-mode.ts";
import { inWeeks } from "./postgres-weeks.ts";

const PROCESSES = 3;
const limits = { timeout: 480_000, skip: missing("postgres") };

const drivers = listenToDrivers();
let database: ScratchDatabase;
let schemas: Schemas;
before(async () => {
  if (limits.skip !== false) return;
  database = await scratchDatabase("postgres");
  schemas = await Schemas.open(database.url);
});

const place = (options: { migrate: boolean }) => schemas.place(database.url, options);

const turn = notItsTurn("postgres");

describe("postgres", limits, () => {
  const open: Mode["open"] = (url, runtime) => openStore(url, { runtime });
  inMode({ alone: null, place, open, besideToo: turn === false });
});

const shared = { ...limits, skip: reasonOf(limits.skip, turn) };

describe("postgres shared by several processes", shared, () => {
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

describe("postgres stores jobs in weeks", limits, () => inWeeks(() => database.url));

test("a session that is ended writes no more", { skip: limits.skip }, async () => {
  const store = await openStore(database.url, { schema: "test_0" });
  const held = new Client({ connectionString: database.url, application_name: "holdfast" });
  const lost = once(held, "error");
  held.on("error", () => {}); // its socket ends with a second one
  await held.connect();
  const { rows } = await held.query<{ pid: number }>("select pg_backend_pid() as pid");
  await store.db.engine.endSession(Number(rows[0]?.pid));
  assert.match(String((await lost)[0]), /terminating connection/);
  await store.db.engine.endSession(Number(rows[0]?.pid)); // it is gone, and that is what was wanted
  await held.end();
  await store.close();
});

test(
  "a lease that another session is writing to is extended when that session is done",
  { skip: limits.skip },
  async () => {
    const where = await schemas.place(database.url, { migrate: true });
    const { searchParams } = new URL(where.url);
    const store = await openStore(where.url);
    const [first, second] = [await startOne(store), await startOne(store)];
    const writer = new Client({ connectionString: database.url });
    await writer.connect();
    const lease = `"${searchParams.get("schema")}".lease`;
    await writer.query(
      `begin; update ${lease} set cancel_requested_at = 1 where id = '${first.id}'`,
    );
    const extending = store.jobs.extend([fenceOf(first), fenceOf(second)], 60_000);
    // Within a transaction, what was seen first would be seen for ever.
    const watcher = new Client({ connectionString: database.url });
    await watcher.connect();
    await until("the extension waits", async () => {
      const waiting =
        "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
      const { rowCount } = await watcher.query(waiting);
      return (rowCount ?? 0) > 0;
    });
    await watcher.end();
    await writer.query("commit");
    const extended = await extending;
    assert.deepEqual(
      extended.map(({ id, cancelRequested }) => [id, cancelRequested]),
      [
        [second.id, false],
        [first.id, true],
      ],
    );
    await writer.end();
    await store.close();
    await where.free();
  },
);

test(
  "a job in a user's transaction is announced in that transaction",
  { skip: limits.skip },
  async () => {
    const where = await schemas.place(database.url, { migrate: true });
    const store = await openStore(where.url);
    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query("begin");
    const job = newJob();
    await store.db.inUserTransaction(client, (joined) => store.jobs.in(joined).enqueue([job]));
    assert.equal(await store.jobs.find(job.id), null);
    await client.query("commit");
    assert.equal((await store.jobs.find(job.id))?.status, "pending");
    await client.end();
    await store.close();
    await where.free();
  },
);

test("every SQL text of the store was executed", { skip: shared.skip }, (context) => {
  const hole = ["$", "{}"].join("");
  const weeks = { LIST, over: isOver(hole), drop: dropWeek(hole).split(";")[0] };
  const texts = {
    folder: "postgres",
    prefix: '"holdfast".',
    statements: { ...statements, ...weeks },
    except: /force index|instr\(/,
  } as const;
  context.diagnostic(`${drivers.count(texts)} texts`);
  assert.deepEqual(drivers.missing(texts), []);
});

after(async () => {
  await schemas?.close();
  await database?.drop();
  await assertNothingRuns();
});
