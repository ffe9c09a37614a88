/**
 * A great many rows in a moment: the database makes them itself, out of a sequence. They are what the store would have
 * written, down to ids that carry a time.
 */
import { createConnection } from "mysql2/promise";
import { DatabaseSync } from "node:sqlite";
import { Client } from "pg";
import { PRIORITY_MAX } from "../src/jobs/after.ts";
import { fileOf, type Place, type EngineName } from "./places.ts";

export const SQL_ENGINES = ["sqlite", "postgres", "mariadb"] as const satisfies EngineName[];
export type SqlEngine = (typeof SQL_ENGINES)[number];

/** The state of the rows. */
export type State = "pending" | "scheduled" | "finished";

interface Rows {
  readonly state: State;
  /** Of pending rows. */
  readonly lane: string;
  /** The rows have the numbers from `first` to `last`. */
  readonly first: number;
  readonly last: number;
}

/** Rows in one transaction. */
const CHUNK = 100_000;
const DAY_MS = 24 * 3_600_000;
/** The highest priority there is: a claim that looked at scheduled jobs at all would meet these first. */
const RANK_FIRST = -PRIORITY_MAX;

/** How one engine spells a row's parts. `i` is the row's number, `ms` its time. */
interface Dialect {
  readonly prefix: string;
  readonly rank: string;
  readonly from: (first: number, last: number) => string;
  readonly id: (ms: string) => string;
  /** Integer division: so many rows a millisecond. */
  readonly div: (a: string, b: number) => string;
}

const ROWS_PER_MS = 100;

export const DIALECTS: Readonly<Record<SqlEngine, Dialect>> = {
  sqlite: {
    prefix: "holdfast_",
    rank: "rank",
    from: (first, last) =>
      `(with recursive n (i) as (select ${first} union all select i + 1 from n where i < ${last}) select i from n) n`,
    id: (ms) => `printf('%08x-%04x-7000-8000-%012x', ${ms} >> 16, ${ms} & 65535, i)`,
    div: (a, b) => `${a} / ${b}`,
  },
  postgres: {
    prefix: "holdfast.",
    rank: "rank",
    from: (first, last) => `generate_series(${first}, ${last}) n (i)`,
    id: (ms) => `(lpad(to_hex(${ms}), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid`,
    div: (a, b) => `${a} / ${b}`,
  },
  mariadb: {
    prefix: "holdfast_",
    rank: "`rank`",
    from: (first, last) => `(select seq as i from seq_${first}_to_${last}) n`,
    id: (ms) =>
      `lower(concat(insert(lpad(hex(${ms}), 12, '0'), 9, 0, '-'), '-7000-8000-', lpad(hex(i), 12, '0')))`,
    div: (a, b) => `${a} div ${b}`,
  },
};

/** The statements that make rows of jobs, and of where they stand. */
function statements(engine: SqlEngine, { state, lane, first, last }: Rows, now: number): string[] {
  const { prefix, rank, from, id, div } = DIALECTS[engine];
  const ms = `(${now} + ${div("i", ROWS_PER_MS)})`;
  const rows = from(first, last);
  const order = state === "scheduled" ? RANK_FIRST : 0;
  const travels = `id, queue, task, ${rank}, job_key, epoch, attempts, crashes, max_attempts`;
  const fresh = `${id(ms)}, 'default', 'noop', ${order}, null, 0, 0, 0, 3`;
  const ended = `${id(ms)}, 'default', 'noop', ${order}, null, 1, 1, 0, 3`;
  const standing: Readonly<Record<State, string>> = {
    pending: `ready (${travels}, lane, place, ready_at) select ${fresh}, '${lane}', ${ms}, ${ms}`,
    scheduled: `waiting (${travels}, status, due_at) select ${fresh}, 'scheduled', ${ms} + ${DAY_MS}`,
    finished: `finished (${travels}, status, worker, started_at, finished_at) select ${ended}, 'done', 'bench', ${ms}, ${ms}`,
  };
  return [
    `insert into ${prefix}job (id, queue, task, payload, ${rank}, max_attempts, job_key, enqueued_at)
     select ${id(ms)}, 'default', 'noop', '"xxxxxxxx"', ${order}, 3, null, ${ms} from ${rows}`,
    `insert into ${prefix}${standing[state]} from ${rows}`,
  ];
}

/** Adds rows to the tables of a store, and leaves them as a server does that has had time to tidy up. */
export async function fill(
  engine: SqlEngine,
  place: Place,
  { state, rows, lane = "" }: { state: State; rows: number; lane?: string },
): Promise<void> {
  const now = Date.now() - Math.ceil(rows / ROWS_PER_MS) - 1_000;
  await using line = await connect(engine, place);
  for (let first = 1; first <= rows; first += CHUNK) {
    const last = Math.min(rows, first + CHUNK - 1);
    await line.run(["begin", ...statements(engine, { state, lane, first, last }, now), "commit"]);
  }
  await line.run(TIDY[engine]);
}

export const TIDY: Readonly<Record<SqlEngine, readonly string[]>> = {
  sqlite: ["pragma wal_checkpoint(truncate)"],
  postgres: ["vacuum analyze", "checkpoint"],
  mariadb: ["analyze table holdfast_job, holdfast_ready, holdfast_waiting, holdfast_finished"],
};

interface Line extends AsyncDisposable {
  run(texts: readonly string[]): Promise<void>;
}

export async function connect(engine: SqlEngine, place: Place): Promise<Line> {
  switch (engine) {
    case "sqlite": {
      const db = new DatabaseSync(fileOf(place));
      const run = async (texts: readonly string[]): Promise<void> => db.exec(texts.join(";\n"));
      return { run, [Symbol.asyncDispose]: async () => db.close() };
    }
    case "postgres": {
      const client = new Client({ connectionString: place.url });
      await client.connect();
      return lineOf(
        (text) => client.query(text),
        () => client.end(),
      );
    }
    case "mariadb": {
      const connection = await createConnection(place.url);
      return lineOf(
        (text) => connection.query(text),
        () => connection.end(),
      );
    }
  }
}

function lineOf(send: (text: string) => Promise<unknown>, end: () => Promise<void>): Line {
  return {
    async run(texts) {
      for (const text of texts) await send(text);
    },
    [Symbol.asyncDispose]: end,
  };
}
