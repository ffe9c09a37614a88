/**
 * What MySQL or MariaDB itself refuses, typed by hand: a bare connection, no code of ours in between.
 *
 * And what people read there: the view of all jobs. Every test is undone at its end.
 */
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, test } from "node:test";
import { createConnection, type Connection, type RowDataPacket } from "mysql2/promise";
import { statuses, type Status } from "../../src/core/job.ts";
import { openStore } from "../../src/app/store.ts";
import { ERROR, EXPIRED, jobIn, LEASE_MS, nextId } from "../support/jobs.ts";
import { START_AT, testRuntime } from "../support/runtime.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";

type Value = string | number | null;
type Row = Record<string, Value>;

const limits = { timeout: 60_000, skip: missing("mysql") };

let database: ScratchDatabase;
let db: Connection;
/** One job in every state. */
const ids = {} as Record<Status, string>;

before(async () => {
  if (limits.skip !== false) return;
  database = await scratchDatabase("mysql");
  const store = await openStore(database.url, { runtime: testRuntime() });
  await store.migrate();
  for (const status of statuses) {
    ids[status] = await jobIn(store, status, { queue: status, key: `key-${status}` });
  }
  await store.close();
  db = await createConnection({ uri: database.url, dateStrings: true });
  await db.query("set session time_zone = '+00:00', sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES'");
});
beforeEach(async () => void (await db?.query("start transaction")));
afterEach(async () => void (await db?.query("rollback")));
after(async () => {
  await db?.end();
  await database?.drop();
});

const travels = (id: string): Row => ({
  id,
  queue: "mail",
  task: "mail.send",
  rank: 0,
  job_key: null,
  epoch: 4,
  attempts: 2,
  crashes: 1,
  max_attempts: 3,
});

const ownColumns = {
  job: (id: string): Row => ({
    id,
    queue: "mail",
    task: "mail.send",
    payload: "{}",
    rank: 0,
    max_attempts: 3,
    job_key: null,
    enqueued_at: START_AT,
  }),
  ready: (id: string): Row => ({
    ...travels(id),
    ready_at: START_AT,
    lane: "",
    place: START_AT,
    start_by: null,
  }),
  waiting: (id: string): Row => ({
    ...travels(id),
    status: "retry",
    due_at: START_AT,
    lane: null,
    start_by: null,
    missing: 0,
  }),
  lease: (id: string): Row => ({
    ...travels(id),
    locked_by: "worker-a",
    locked_until: START_AT,
    claimed_at: START_AT,
    heartbeat_at: START_AT,
    cancel_requested_at: null,
    claim_id: null,
    lane: null,
  }),
  finished: (id: string): Row => ({
    ...travels(id),
    status: "done",
    worker: "worker-a",
    started_at: START_AT,
    finished_at: START_AT,
    result: null,
    error: null,
    error_kind: null,
    lane: null,
  }),
  attempt: (id: string): Row => ({
    job_id: id,
    epoch: 4,
    attempt: 2,
    worker: "worker-a",
    outcome: "retry",
    started_at: START_AT,
    ended_at: START_AT,
    error: null,
    error_kind: null,
  }),
  job_key: (id: string): Row => ({ task: "mail.send", job_key: "42", job_id: id }),
};

type Table = keyof typeof ownColumns;
const tables = Object.keys(ownColumns) as Table[];

/** A row that breaks no rule: about a new job, in the table's own columns. */
function validRow(table: Table): Row {
  return ownColumns[table](nextId());
}

async function insert(table: Table, row: Row): Promise<void> {
  const columns = Object.keys(row).map((column) => `"${column}"`);
  const marks = columns.map(() => "?").join(", ");
  const text = `insert into holdfast_${table} (${columns.join(", ")}) values (${marks})`;
  await db.query(text, Object.values(row));
}

async function update(table: Table, id: string, changed: Row): Promise<void> {
  const set = Object.keys(changed).map((column) => `"${column}" = ?`);
  const text = `update holdfast_${table} set ${set.join(", ")} where ${keyOf(table)} = ?`;
  await db.query(text, [...Object.values(changed), id]);
}

function keyOf(table: Table): string {
  return table === "attempt" || table === "job_key" ? "job_id" : "id";
}

async function select(text: string, values: readonly Value[] = []): Promise<Row[]> {
  const [rows] = await db.query<RowDataPacket[]>(text, [...values]);
  return rows.map((row) => ({ ...row }));
}

async function rowOf(table: Table, id: string): Promise<Row> {
  const text = `select * from holdfast_${table} where ${keyOf(table)} = ?`;
  const [row] = await select(text, [id]);
  assert.ok(row !== undefined);
  return row;
}

const everything = (): Promise<Row[][]> =>
  Promise.all(tables.map((table) => select(`select * from holdfast_${table} order by 1, 2`)));

/** The deed is an error of this kind, and the database is afterwards as it was before. */
async function assertRefused(deed: () => Promise<void>, reason: RegExp): Promise<void> {
  const picture = await everything();
  await assert.rejects(deed, reason);
  assert.deepEqual(await everything(), picture);
}

const duplicate = (key: string): RegExp =>
  new RegExp(`Duplicate entry '.*' for key '(\\w+\\.)?${key}'`);
const constraint =
  /constraint .* (failed|is violated)|cannot be null|too long|^Error: Incorrect integer/i;

describe("the database itself", limits, () => {
  test("accepts rows that break no rule", async () => {
    for (const table of tables) {
      const row = validRow(table);
      await insert(table, row);
      assert.deepEqual(await rowOf(table, String(row[keyOf(table)])), row);
    }
  });

  test("refuses a second owner of a job", async () => {
    const row = await rowOf("lease", ids.processing);
    for (const stolen of [{}, { epoch: 2 }, { locked_by: "thief" }, { locked_by: "t", epoch: 9 }]) {
      await assertRefused(() => insert("lease", { ...row, ...stolen }), duplicate("PRIMARY"));
    }
  });

  for (const status of ["done", "failed", "cancelled"] as const) {
    test(`refuses a second end of a ${status} job`, async () => {
      const row = await rowOf("finished", ids[status]);
      for (const other of [{}, { status: "done", result: '"mine"' }, { epoch: 2 }]) {
        await assertRefused(() => insert("finished", { ...row, ...other }), duplicate("PRIMARY"));
      }
    });
  }

  test("refuses a second place in line, and a second place to wait", async () => {
    const ready = { ...(await rowOf("ready", ids.pending)), rank: -9, place: START_AT + 1 };
    const waiting = { ...(await rowOf("waiting", ids.retry)), due_at: START_AT + 1 };
    await assertRefused(() => insert("ready", ready), duplicate("by_id"));
    await assertRefused(() => insert("waiting", waiting), duplicate("PRIMARY"));
  });

  test("refuses a second job under an id, and a second account of one attempt", async () => {
    const job = { ...(await rowOf("job", ids.done)), payload: '"other"' };
    const attempt = { ...(await rowOf("attempt", ids.retry)), outcome: "crashed" };
    await assertRefused(() => insert("job", job), duplicate("PRIMARY"));
    await assertRefused(() => insert("attempt", attempt), duplicate("PRIMARY"));
  });

  test("refuses a second holder of a key, and a second key of a job", async () => {
    const row = await rowOf("job_key", ids.pending);
    await assertRefused(
      () => insert("job_key", { ...row, job_id: nextId() }),
      duplicate("PRIMARY"),
    );
    await assertRefused(() => insert("job_key", { ...row, job_key: "b" }), duplicate("by_job"));
  });

  test("compares names and keys byte by byte", async () => {
    const { task } = validRow("job_key");
    for (const key of ["q", "Q", "q ", "e", "é", "ß", "ss"]) {
      await insert("job_key", { task: task ?? null, job_key: key, job_id: nextId() });
    }
    await insert("job_key", { task: `${task} `, job_key: "q", job_id: nextId() });
  });

  for (const table of ["job", "finished"] as const) {
    for (const column of Object.keys(ownColumns[table](""))) {
      test(`refuses to change the ${column} of a row of ${table}`, async () => {
        const value = { ...validRow(table), id: ids.done }[column] ?? "x";
        await assertRefused(
          () => update(table, ids.done, { [column]: value }),
          /holdfast: a (finished )?job is written once and never updated/,
        );
      });
    }
  }

  const homes = { ready: "pending", waiting: "retry", lease: "processing" } as const;
  for (const [name, status] of Object.entries(homes)) {
    const table = name as keyof typeof homes;
    test(`refuses to move a row of ${table} to another job`, () =>
      assertRefused(
        () => update(table, ids[status], { id: nextId() }),
        /holdfast: a row stays with its job/,
      ));

    test(`refuses an epoch that goes down in ${table}`, async () => {
      await update(table, ids[status], { epoch: 7 });
      await assertRefused(
        () => update(table, ids[status], { epoch: 6 }),
        /holdfast: an epoch never goes down/,
      );
      await update(table, ids[status], { epoch: 8 });
    });
  }

  for (const table of ["ready", "waiting"] as const) {
    for (const status of ["done", "failed", "cancelled"] as const) {
      test(`refuses a row in ${table} for a job that is ${status}`, () =>
        assertRefused(
          () => insert(table, { ...validRow(table), id: ids[status] }),
          /holdfast: the job has finished/,
        ));
    }

    test(`refuses a row in ${table} for a job that a worker holds`, () =>
      assertRefused(
        () => insert(table, { ...validRow(table), id: ids.processing }),
        /holdfast: a worker holds the job/,
      ));
  }

  const counters = {
    "more attempts than are allowed": { attempts: 4 },
    "attempts below zero": { attempts: -1 },
    "more attempts than claims": { epoch: 1 },
    "an epoch below zero": { epoch: -1, attempts: 0, crashes: 0 },
    "crashes below zero": { crashes: -1 },
    "more crashes than claims": { crashes: 5 },
    "no attempt at all allowed": { max_attempts: 0, attempts: 0 },
    "no epoch": { epoch: null },
    "no number of attempts": { attempts: null },
    "words for a number": { attempts: "many" },
    "no id": { id: null },
    "no queue": { queue: null },
  };
  const noAttemptLeft = { "no attempt left": { attempts: 3 } };
  const refusals: Record<string, Record<string, Row>> = {
    job: {
      "an id that is none": { id: "42" },
      "no queue": { queue: "" },
      "a queue with too long a name": { queue: "q".repeat(129) },
      "no task": { task: "" },
      "a task with too long a name": { task: "t".repeat(129) },
      "no payload": { payload: null },
      "no attempt allowed": { max_attempts: 0 },
      "no instant": { enqueued_at: 0 },
    },
    ready: { ...counters, ...noAttemptLeft, "no instant": { ready_at: 0 } },
    waiting: {
      ...counters,
      ...noAttemptLeft,
      "an unknown status": { status: "sleeping" },
      "the status of another table": { status: "done" },
      "a status in capitals": { status: "RETRY" },
      "a retry without a time": { due_at: null },
      "a schedule without a time": { status: "scheduled", due_at: null },
    },
    lease: {
      ...counters,
      "an owner without a name": { locked_by: "" },
      "no owner": { locked_by: null },
      "no end": { locked_until: null },
      "an end before all time": { locked_until: 0 },
      "no attempt charged": { attempts: 0 },
    },
    finished: {
      ...counters,
      "an unknown status": { status: "gone" },
      "the status of another table": { status: "retry" },
      "a status in capitals": { status: "DONE" },
      "no status": { status: null },
      "no end": { finished_at: null },
      "done without an attempt": { attempts: 0 },
    },
    attempt: {
      "an unknown outcome": { outcome: "lost" },
      "no claim": { epoch: 0, attempt: 0 },
      "an attempt above its epoch": { attempt: 5 },
      "an attempt below zero": { attempt: -1 },
      "no worker": { worker: null },
    },
  };
  for (const table of tables) {
    for (const [what, wrong] of Object.entries(refusals[table] ?? {})) {
      test(`refuses in ${table}: ${what}`, async () => {
        const row = validRow(table);
        await assertRefused(() => insert(table, { ...row, ...wrong }), constraint);
        if (table === "job" || table === "finished") return;

        // Nor can a good row become a bad one.
        await insert(table, row);
        const id = String(row[keyOf(table)]);
        await assertRefused(() => update(table, id, wrong), OR_BY_A_TRIGGER);
      });
    }
  }
  const OR_BY_A_TRIGGER = new RegExp(
    `${constraint.source}|an epoch never goes down|a row stays with its job`,
    "i",
  );
});

describe("the view holdfast_jobs", limits, () => {
  const shownAt = (at: number): string => new Date(at).toISOString().replace("T", " ").slice(0, -1);

  test("shows every job once, with its status", async () => {
    const rows = await select("select id, status from holdfast_jobs order by id");
    const expected = statuses.map((status) => ({ id: ids[status], status }));
    assert.deepEqual(
      rows,
      expected.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    );
  });

  const nothing = { locked_by: null, locked_until: null, due_at: null, finished_at: null };
  const begun = { ...nothing, attempts: 1, epoch: 1, last_error: null };
  const given = { ...nothing, attempts: 0, epoch: 0, last_error: null };
  const shown: Record<Status, Row> = {
    pending: given,
    scheduled: { ...given, due_at: shownAt(START_AT + 3_600_000) },
    processing: { ...begun, locked_by: "worker-a", locked_until: shownAt(START_AT + LEASE_MS) },
    waiting: { ...begun, attempts: 0, due_at: shownAt(START_AT + 3_600_000) },
    retry: { ...begun, due_at: shownAt(START_AT + 1_000), last_error: ERROR },
    done: { ...begun, finished_at: shownAt(START_AT) },
    failed: { ...begun, finished_at: shownAt(START_AT), last_error: ERROR },
    cancelled: { ...begun, finished_at: shownAt(START_AT) },
    expired: { ...given, finished_at: shownAt(START_AT), last_error: EXPIRED },
  };
  /** Of jobs that are, or were at their end, in the hands of a worker. */
  const claimOf = (status: Status, id: string): Row => {
    const isClaimed = ["processing", "done", "failed", "cancelled"].includes(status);
    return {
      claimed_at: isClaimed ? shownAt(START_AT) : null,
      heartbeat_at: status === "processing" ? shownAt(START_AT) : null,
      trace_id: isClaimed ? `worker-a-${id}-1` : null,
    };
  };
  for (const status of statuses) {
    test(`shows all details of a ${status} job, with readable timestamps`, async () => {
      const [row] = await select("select * from holdfast_jobs where id = ?", [ids[status]]);
      assert.deepEqual(row, {
        id: ids[status],
        queue: status,
        task: "mail.send",
        status,
        priority: 0,
        job_key: `key-${status}`,
        max_attempts: 3,
        crashes: 0,
        enqueued_at: shownAt(START_AT),
        ...claimOf(status, ids[status]),
        ...shown[status],
      });
    });
  }

  test("shows timestamps to the millisecond", async () => {
    const instants = [0, 1, 7, 59, 499, 500, 501, 998, 999].map((ms) => START_AT + ms);
    for (const at of instants) {
      const id = nextId();
      await insert("job", { ...validRow("job"), id, enqueued_at: at });
      await insert("ready", { ...validRow("ready"), id });
      const [row] = await select("select enqueued_at from holdfast_jobs where id = ?", [id]);
      assert.equal(row?.["enqueued_at"], shownAt(at));
    }
  });
});
