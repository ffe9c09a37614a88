/** Reads what a run left in the database, by plain SQL. */
import type { Columns, Rows, Table, Witnessed } from "./check/history.ts";
import { type Database, type Row, WITNESS } from "./database.ts";
import { LEDGER } from "./tasks.ts";

const PAGE = 20_000;

export async function readRows(database: Database): Promise<Rows> {
  const { prefix } = database;
  const ask = (text: string): Promise<Row[]> => database.query(text);
  const jobs = await ask(`select id, task, payload from ${prefix}job`);
  const finished = await ask(
    `select id, status, epoch, attempts, crashes, max_attempts, worker, result from ${prefix}finished`,
  );
  const attempts = await ask(`select job_id, epoch, worker, outcome, error from ${prefix}attempt`);
  const ledger = await ask(`select job_id, epoch from ${LEDGER}`);
  const ticks = await ask(`select tick, job_id from ${prefix}schedule_run where is_manual = 0`);
  const unfinished = await ask(unfinishedRows(prefix));
  return {
    jobs: jobs.map((row) => ({
      id: String(row["id"]),
      task: String(row["task"]),
      payload: String(row["payload"]),
    })),
    finished: finished.map((row) => ({
      id: String(row["id"]),
      status: String(row["status"]),
      epoch: Number(row["epoch"]),
      attempts: Number(row["attempts"]),
      crashes: Number(row["crashes"]),
      maxAttempts: Number(row["max_attempts"]),
      worker: optional(row["worker"]),
      result: optional(row["result"]),
    })),
    attempts: attempts.map((row) => ({
      job: String(row["job_id"]),
      epoch: Number(row["epoch"]),
      worker: String(row["worker"]),
      outcome: String(row["outcome"]),
      isOutage: row["outcome"] === "released" && row["error"] !== null,
    })),
    ledger: ledger.map((row) => ({ job: String(row["job_id"]), epoch: Number(row["epoch"]) })),
    ticks: ticks.map((row) => ({ tick: Number(row["tick"]), job: optional(row["job_id"]) })),
    unfinished: unfinished.map((row) => ({ id: String(row["id"]), table: String(row["tbl"]) })),
  };
}

export function unfinishedRows(prefix: string): string {
  return ["ready", "waiting", "lease"]
    .map((table) => `select id, '${table}' as tbl from ${prefix}${table}`)
    .join(" union all ");
}

/** In the order of the changes. */
export async function* readWitness(database: Database): AsyncIterable<Witnessed> {
  for (let after = 0; ;) {
    const page = await database.query(
      `select seq, at_ms, tx, tbl, was, became from ${WITNESS}
        where seq > ${after} order by seq limit ${PAGE}`,
    );
    for (const row of page) {
      after = Number(row["seq"]);
      yield {
        seq: after,
        at: Number(row["at_ms"]),
        tx: String(row["tx"]),
        table: String(row["tbl"]) as Table,
        before: columns(row["was"]),
        after: columns(row["became"]),
      };
    }
    if (page.length < PAGE) return;
  }
}

function columns(json: unknown): Columns | null {
  return typeof json === "string" ? (JSON.parse(json) as Columns) : null;
}

function optional(value: Row[string] | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}
