/**
 * What SQLite itself refuses, typed by hand: a bare connection, no code of ours in between.
 *
 * And what people read there: the view of all jobs.
 */
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { after, afterEach, describe, test } from "node:test";
import { statuses, type Status } from "../../src/core/job.ts";
import { openStore } from "../../src/app/store.ts";
import { tempFolder } from "../support/folder.ts";
import { ERROR, EXPIRED, jobIn, LEASE_MS, nextId } from "../support/jobs.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { START_AT, testRuntime } from "../support/runtime.ts";

type Row = Record<string, SQLInputValue>;

interface Database {
  readonly db: DatabaseSync;
  /** One job in every state. */
  readonly ids: Record<Status, string>;
}

const folder = tempFolder();
const opened: DatabaseSync[] = [];

afterEach(() => {
  for (const db of opened.splice(0)) db.close();
});
after(async () => {
  folder[Symbol.dispose]();
  await assertNothingRuns();
});

/** What every test begins with. */
let prepared: { readonly path: string; readonly ids: Database["ids"] } | null = null;

async function prepare(): Promise<NonNullable<typeof prepared>> {
  const path = folder.file(".db");
  const store = await openStore(`sqlite:${path}`, { runtime: testRuntime() });
  await store.migrate();
  const ids = {} as Record<Status, string>;
  for (const status of statuses) {
    ids[status] = await jobIn(store, status, { queue: status, key: `key-${status}` });
  }
  await store.close();
  return { path, ids };
}

async function typedByHand(): Promise<Database> {
  prepared ??= await prepare();
  const path = folder.file(".db");
  copyFileSync(prepared.path, path);
  const db = new DatabaseSync(path);
  opened.push(db);
  return { db, ids: prepared.ids };
}

/** A row for each table that breaks no rule: about a new job, in the table's own columns. */
function validRow(table: keyof typeof ownColumns): Row {
  return { ...ownColumns[table](nextId()) };
}

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
  ready: (id: string): Row => ({ ...travels(id), ready_at: START_AT, place: START_AT }),
  waiting: (id: string): Row => ({ ...travels(id), status: "retry", due_at: START_AT }),
  lease: (id: string): Row => ({
    ...travels(id),
    locked_by: "worker-a",
    locked_until: START_AT,
    claimed_at: START_AT,
    heartbeat_at: START_AT,
    cancel_requested_at: null,
  }),
  finished: (id: string): Row => ({
    ...travels(id),
    status: "done",
    worker: "worker-a",
    started_at: START_AT,
    finished_at: START_AT,
    result: null,
    error: null,
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
  }),
  job_key: (id: string): Row => ({ task: "mail.send", job_key: "42", job_id: id }),
};

type Table = keyof typeof ownColumns;
const tables = Object.keys(ownColumns) as Table[];

function insert(db: DatabaseSync, table: Table, row: Row): void {
  const columns = Object.keys(row);
  const marks = columns.map(() => "?").join(", ");
  const text = `insert into holdfast_${table} (${columns.join(", ")}) values (${marks})`;
  db.prepare(text).run(...Object.values(row));
}

function rowsOf(db: DatabaseSync, table: Table): Row[] {
  return db.prepare(`select * from holdfast_${table}`).all();
}

function rowOf(db: DatabaseSync, table: Table, id: string): Row {
  const column = "job_id" in ownColumns[table](id) ? "job_id" : "id";
  const row = db.prepare(`select * from holdfast_${table} where ${column} = ?`).get(id);
  assert.ok(row !== undefined);
  return { ...row };
}

const everything = (db: DatabaseSync): Row[][] => tables.map((table) => rowsOf(db, table));

/** The deed is an error of this kind, and the database is afterwards as it was before. */
function assertRefused(db: DatabaseSync, deed: () => void, reason: RegExp): void {
  const before = everything(db);
  assert.throws(deed, { code: "ERR_SQLITE_ERROR", message: reason });
  assert.deepEqual(everything(db), before);
}

describe("the database itself", () => {
  test("accepts rows that break no rule", async () => {
    const { db } = await typedByHand();
    for (const table of tables) {
      const before = rowsOf(db, table).length;
      insert(db, table, validRow(table));
      assert.equal(rowsOf(db, table).length, before + 1);
    }
  });

  test("refuses a second owner of a job", async () => {
    const { db, ids } = await typedByHand();
    const row = rowOf(db, "lease", ids.processing);
    for (const stolen of [{}, { epoch: 2 }, { locked_by: "thief" }, { locked_by: "t", epoch: 9 }]) {
      assertRefused(
        db,
        () => insert(db, "lease", { ...row, ...stolen }),
        /UNIQUE constraint failed: holdfast_lease\.id/,
      );
    }
  });

  for (const status of ["done", "failed", "cancelled"] as const) {
    test(`refuses a second end of a ${status} job`, async () => {
      const { db, ids } = await typedByHand();
      const row = rowOf(db, "finished", ids[status]);
      for (const other of [{}, { status: "done", result: '"mine"' }, { epoch: 2 }]) {
        assertRefused(
          db,
          () => insert(db, "finished", { ...row, ...other }),
          /UNIQUE constraint failed: holdfast_finished\.id/,
        );
      }
    });
  }

  test("refuses a second place in line, and a second place to wait", async () => {
    const { db, ids } = await typedByHand();
    const ready = { ...rowOf(db, "ready", ids.pending), rank: -9, place: START_AT + 1 };
    const waiting = { ...rowOf(db, "waiting", ids.retry), due_at: START_AT + 1 };
    assertRefused(db, () => insert(db, "ready", ready), /UNIQUE .* holdfast_ready\.id/);
    assertRefused(db, () => insert(db, "waiting", waiting), /UNIQUE .* holdfast_waiting\.id/);
  });

  test("refuses a second job under an id", async () => {
    const { db, ids } = await typedByHand();
    const row = { ...rowOf(db, "job", ids.done), payload: '"other"' };
    assertRefused(db, () => insert(db, "job", row), /UNIQUE .* holdfast_job\.id/);
  });

  test("refuses a second account of one attempt", async () => {
    const { db, ids } = await typedByHand();
    const row = { ...rowOf(db, "attempt", ids.retry), outcome: "crashed" };
    assertRefused(db, () => insert(db, "attempt", row), /UNIQUE .* holdfast_attempt/);
  });

  test("refuses a second holder of a key, and a second key of a job", async () => {
    const { db, ids } = await typedByHand();
    const row = rowOf(db, "job_key", ids.pending);
    assertRefused(
      db,
      () => insert(db, "job_key", { ...row, job_id: nextId() }),
      /UNIQUE .* holdfast_job_key\.task, holdfast_job_key\.job_key/,
    );
    assertRefused(
      db,
      () => insert(db, "job_key", { ...row, job_key: "another" }),
      /UNIQUE .* holdfast_job_key\.job_id/,
    );
  });

  for (const table of ["job", "finished"] as const) {
    for (const column of Object.keys(validRow(table))) {
      test(`refuses to change the ${column} of a row of ${table}`, async () => {
        const { db, ids } = await typedByHand();
        const row: Row = { ...validRow(table), id: ids.done };
        const update = db.prepare(`update holdfast_${table} set ${column} = ? where id = ?`);
        assertRefused(
          db,
          () => void update.run(row[column] ?? "x", ids.done),
          /holdfast: a (finished )?job is written once and never updated/,
        );
      });
    }
  }

  const homes = { ready: "pending", waiting: "retry", lease: "processing" } as const;
  for (const [table, status] of Object.entries(homes)) {
    test(`refuses to move a row of ${table} to another job`, async () => {
      const { db, ids } = await typedByHand();
      const move = db.prepare(`update holdfast_${table} set id = ? where id = ?`);
      assertRefused(db, () => void move.run(nextId(), ids[status]), /a row stays with its job/);
    });

    test(`refuses an epoch that goes down in ${table}`, async () => {
      const { db, ids } = await typedByHand();
      db.prepare(`update holdfast_${table} set epoch = 7 where id = ?`).run(ids[status]);
      const down = db.prepare(`update holdfast_${table} set epoch = 6 where id = ?`);
      assertRefused(db, () => void down.run(ids[status]), /holdfast: an epoch never goes down/);
      db.prepare(`update holdfast_${table} set epoch = 8 where id = ?`).run(ids[status]);
    });
  }

  for (const table of ["ready", "waiting"] as const) {
    for (const status of ["done", "failed", "cancelled"] as const) {
      test(`refuses a row in ${table} for a job that is ${status}`, async () => {
        const { db, ids } = await typedByHand();
        const row = { ...validRow(table), id: ids[status] };
        assertRefused(db, () => insert(db, table, row), /holdfast: the job has finished/);
      });
    }
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
  const constraint = /(CHECK|NOT NULL) constraint failed/;
  for (const table of tables) {
    for (const [what, wrong] of Object.entries(refusals[table] ?? {})) {
      test(`refuses in ${table}: ${what}`, async () => {
        const { db } = await typedByHand();
        const row = validRow(table);
        assertRefused(db, () => insert(db, table, { ...row, ...wrong }), constraint);
        if (table === "job" || table === "finished") return;

        // Nor can a good row become a bad one.
        insert(db, table, row);
        const set = Object.keys(wrong).map((column) => `${column} = ?`);
        const key = table === "attempt" ? "job_id" : "id";
        const text = `update holdfast_${table} set ${set.join(", ")} where ${key} = ?`;
        const update = db.prepare(text);
        const deed = () => void update.run(...Object.values(wrong), row[key]!);
        assertRefused(
          db,
          deed,
          /constraint failed|an epoch never goes down|a row stays with its job/,
        );
      });
    }
  }

  for (const table of tables.filter((name) => name !== "job_key")) {
    test(`refuses in ${table}: words and fractions where a whole number belongs`, async () => {
      const { db } = await typedByHand();
      const row = validRow(table);
      const numbers = Object.keys(row).filter((column) => typeof row[column] === "number");
      const accepted: string[] = [];
      for (const column of numbers) {
        for (const wrong of ["many", 1.5]) {
          db.exec("begin");
          try {
            insert(db, table, { ...row, [column]: wrong });
            accepted.push(`${column} = ${wrong}`);
          } catch (error) {
            assert.match(String(error), /constraint failed|cannot store/);
          }
          db.exec("rollback");
        }
      }
      assert.deepEqual(accepted, []);
    });
  }
});

describe("the view holdfast_jobs", () => {
  const iso = (at: number): string => new Date(at).toISOString();

  test("shows every job once, with its status", async () => {
    const { db, ids } = await typedByHand();
    const rows = db.prepare("select id, status from holdfast_jobs order by id").all();
    const expected = statuses.map((status) => ({ id: ids[status], status }));
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      expected.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    );
  });

  const nothing = { locked_by: null, locked_until: null, due_at: null, finished_at: null };
  const begun = { ...nothing, attempts: 1, epoch: 1, last_error: null };
  const given = { ...nothing, attempts: 0, epoch: 0, last_error: null };
  const shown: Record<Status, Row> = {
    pending: given,
    scheduled: { ...given, due_at: iso(START_AT + 3_600_000) },
    processing: { ...begun, locked_by: "worker-a", locked_until: iso(START_AT + LEASE_MS) },
    waiting: { ...begun, attempts: 0, due_at: iso(START_AT + 3_600_000) },
    retry: { ...begun, due_at: iso(START_AT + 1_000), last_error: ERROR },
    done: { ...begun, finished_at: iso(START_AT) },
    failed: { ...begun, finished_at: iso(START_AT), last_error: ERROR },
    cancelled: { ...begun, finished_at: iso(START_AT) },
    expired: { ...given, finished_at: iso(START_AT), last_error: EXPIRED },
  };
  /** Of jobs that are, or were at their end, in the hands of a worker. */
  const claimOf = (status: Status, id: string): Row => {
    const isClaimed = ["processing", "done", "failed", "cancelled"].includes(status);
    return {
      claimed_at: isClaimed ? iso(START_AT) : null,
      heartbeat_at: status === "processing" ? iso(START_AT) : null,
      trace_id: isClaimed ? `worker-a-${id}-1` : null,
    };
  };
  for (const status of statuses) {
    test(`shows all details of a ${status} job, with readable timestamps`, async () => {
      const { db, ids } = await typedByHand();
      const row = db.prepare("select * from holdfast_jobs where id = ?").get(ids[status]);
      assert.deepEqual(
        { ...row },
        {
          id: ids[status],
          queue: status,
          task: "mail.send",
          status,
          priority: 0,
          job_key: `key-${status}`,
          max_attempts: 3,
          crashes: 0,
          enqueued_at: iso(START_AT),
          ...claimOf(status, ids[status]),
          ...shown[status],
        },
      );
    });
  }

  test("shows timestamps to the millisecond", async () => {
    const { db } = await typedByHand();
    const instants = [0, 1, 7, 59, 499, 500, 501, 998, 999].map((ms) => START_AT + ms);
    for (const at of instants) {
      const id = nextId();
      insert(db, "job", { ...validRow("job"), id, enqueued_at: at });
      insert(db, "ready", { ...validRow("ready"), id });
      const row = db.prepare("select enqueued_at from holdfast_jobs where id = ?").get(id);
      assert.equal(row?.["enqueued_at"], iso(at));
    }
  });
});
