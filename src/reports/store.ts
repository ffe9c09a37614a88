/**
 * The verbs about what running jobs report.
 *
 * A batch is one statement that locks and compares the lease itself, as with steps: whoever takes the job back waits for
 * it, or it finds the lease gone. The rows travel as one JSON text, so that the statement is the same for any number.
 */
import { OutcomeUnknownError, StoreRefusedError } from "../core/errors.ts";
import type { Fence, Status } from "../core/job.ts";
import { type ReportFilter, type ReportRecord, REPORTS_MAX, type Said } from "../core/report.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { JobHooks } from "../jobs/hooks.ts";

/** Old reports are deleted so many at a time. */
const TRIM_EVERY = 1_000;

export interface ReportsStore {
  /**
   * Writes reports of a claimed job under its fence, all or none. False: the job is not ours any more, and nothing was
   * written. Their numbers go on from the job's last one without a gap; whoever holds the fence is the only one to choose them, so a
   * call whose answer was lost can be repeated. Of very many, the oldest are deleted.
   */
  put(fence: Fence, reports: readonly NewReport[]): Promise<boolean>;

  /** What a job has reported, in order, a page at a time. */
  list(filter: ReportFilter): Promise<ReportRecord[]>;

  /** The number of a job's last report; 0: it has reported nothing. */
  last(job: string): Promise<number>;

  /** Where a job stands, and nothing else of it: for whoever asks often. Null: there is no such job. */
  standing(job: string): Promise<Standing | null>;

  in(joined: JoinedTransaction): ReportsInTransaction;
}

/** What it writes is there if, and when, the user commits. */
interface ReportsInTransaction {
  put(fence: Fence, reports: readonly NewReport[]): Promise<void>;
}

export class SqlReports implements ReportsStore {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  async put(fence: Fence, reports: readonly NewReport[]): Promise<boolean> {
    const [first] = reports;
    if (first === undefined || !this.#engine.mayBeId(fence.id)) return false;
    const written = await this.#putOnce(fence, reports, first.seq);
    if (!written) return false;
    // Who watches in other processes looks often enough: telling them would cost every job, also where nobody watches.
    this.#db.hint({ kind: "reports", job: fence.id });
    await trim(this.#engine, fence.id, { from: first.seq, count: reports.length });
    return true;
  }

  async list(filter: ReportFilter): Promise<ReportRecord[]> {
    return this.#engine.mayBeId(filter.job) ? reportsOf(this.#engine, filter) : [];
  }

  async last(job: string): Promise<number> {
    const [last] = await this.list({ job, after: 0, newest: true, limit: 1 });
    return last?.seq ?? 0;
  }

  async standing(job: string): Promise<Standing | null> {
    return this.#engine.mayBeId(job) ? standingOf(this.#engine, job) : null;
  }

  in({ tx }: JoinedTransaction): ReportsInTransaction {
    return {
      put: async (fence, reports) =>
        void (await tx.run(insertReports(this.#engine, fence, reports))),
    };
  }

  async #putOnce(fence: Fence, reports: readonly NewReport[], seq: number): Promise<boolean> {
    const engine = this.#engine;
    const put = async (): Promise<boolean> =>
      (await engine.run(insertReports(engine, fence, reports))) > 0;
    const lookUp = async (): Promise<boolean> => (await isOurs(engine, fence, seq)) || put();
    try {
      return await this.#db.write(put, lookUp);
    } catch (error) {
      // Repeated by somebody who never learned what became of it.
      if (error instanceof StoreRefusedError && (await isOurs(engine, fence, seq))) return true;
      throw error;
    }
  }
}

function insertReports(engine: Engine, fence: Fence, reports: readonly NewReport[]): Sql {
  const { id, worker, epoch } = fence;
  return sql`
    insert into holdfast.report (job_id, seq, epoch, kind, name, at, data)
    select l.id, r.seq, l.epoch, r.kind, r.name, ${engine.now()} - r.age, r.data
      from (select id, epoch
              from holdfast.lease
             where id = ${id} and locked_by = ${worker} and epoch = ${epoch}
                   ${engine.lockRows()}) l
     cross join ${engine.reportRows(rowsOf(reports))}`;
}

function rowsOf(reports: readonly NewReport[]): string {
  const rows = reports.map(({ seq, kind, name, data, ageMs }) => ({
    seq,
    kind,
    name,
    data,
    age: Math.round(ageMs),
  }));
  return JSON.stringify(rows);
}

/** A batch is there as a whole or not at all, so its first tells. */
async function isOurs(engine: Engine, fence: Fence, seq: number): Promise<boolean> {
  const rows = await engine.all(sql`
    select seq
      from holdfast.report
     where job_id = ${fence.id}
       and seq = ${seq}
       and epoch = ${fence.epoch}`);
  return rows.length > 0;
}

/** Needs no fence: what is too old stays so, whoever owns the job. */
async function trim(
  engine: Engine,
  job: string,
  { from, count }: { from: number; count: number },
): Promise<void> {
  const last = from + count - 1;
  const isTime = Math.floor(last / TRIM_EVERY) > Math.floor((from - 1) / TRIM_EVERY);
  if (last <= REPORTS_MAX || !isTime) return;
  try {
    await engine.run(sql`
      delete from holdfast.report
       where job_id = ${job}
         and seq <= ${last - REPORTS_MAX}`);
  } catch (error) {
    if (!(error instanceof OutcomeUnknownError)) throw error; // the next one deletes what this one did not
  }
}

async function reportsOf(engine: Engine, filter: ReportFilter): Promise<ReportRecord[]> {
  const { job, after, kind, newest = false, limit } = filter;
  const rows = await engine.all<ReportRecord>(sql`
    select seq, epoch, kind, name, at, data
      from holdfast.report
     where job_id = ${job}
       and seq > ${after}
           ${kind === undefined ? nothing : sql`and kind = ${kind}`}
     order by seq ${newest ? sql`desc` : nothing}
     limit ${limit}`);
  return newest ? rows.toReversed() : rows;
}

async function standingOf(engine: Engine, job: string): Promise<Standing | null> {
  const [row] = await engine.all<Standing>(sql`
    select s.status, s.epoch, s.attempts, s.due_at as "dueAt",
           coalesce(s.finished_at, ${engine.now()}) as at
      from holdfast.job_state s
     where s.id = ${job}`);
  return row ?? null;
}

// What the store promises about what running jobs report; see sql-reports.ts.

export interface NewReport extends Said {
  readonly seq: number;
  /** How long ago it was said. */
  readonly ageMs: number;
}

export interface Standing {
  readonly status: Status;
  readonly epoch: number;
  readonly attempts: number;
  readonly dueAt: number | null;
  /** When it ended; of a job that has not, now. */
  readonly at: number;
}

/** Reports are deleted with their job. */
export const reportHooks: JobHooks = {
  async pruned(engine, tx, ids) {
    await tx.run(sql`delete from holdfast.report where ${engine.among(sql`job_id`, ids)}`);
  },
};
