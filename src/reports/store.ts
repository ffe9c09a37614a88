/**
 * The reports of running jobs.
 *
 * A batch is one statement that locks and compares the lease itself, as with steps: a worker that reclaims the job waits
 * for it, or it finds no lease. The rows are sent as one JSON text, so that the statement is the same for any number.
 */
import { OutcomeUnknownError, StoreRefusedError } from "../core/errors.ts";
import type { Fence, Status } from "../core/job.ts";
import { type ReportFilter, type ReportRecord, REPORTS_MAX, type Said } from "../core/report.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import { nothing, sql, type Sql } from "../database/sql.ts";
import type { JobHooks } from "../jobs/hooks.ts";

/** Old reports are deleted in batches of this size. */
const TRIM_EVERY = 1_000;

export type ReportsStore = Pick<SqlReports, keyof SqlReports>;

/** Its writes take effect if, and when, the user commits. */
interface ReportsInTransaction {
  put(fence: Fence, reports: readonly NewReport[]): Promise<void>;
}

export class SqlReports {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /**
   * Writes reports of a claimed job under its fence, all or none. False: the job is no longer ours, and nothing was
   * written. Their numbers follow the job's last one without a gap. Only the holder of the fence chooses them, so a call
   * whose answer was lost can be repeated. Beyond a limit, the oldest reports are deleted.
   */
  async put(fence: Fence, reports: readonly NewReport[]): Promise<boolean> {
    const [first] = reports;
    if (first === undefined || !this.#engine.mayBeId(fence.id)) return false;
    const written = await this.#putOnce(fence, reports, first.seq);
    if (!written) return false;
    // Only within this process: watchers in others poll, because a notification would cost every job, watched or not.
    this.#db.hint({ kind: "reports", job: fence.id });
    await trim(this.#engine, fence.id, { from: first.seq, count: reports.length });
    return true;
  }

  /** A page of a job's reports, in order. */
  async list(filter: ReportFilter): Promise<ReportRecord[]> {
    const { job, after, kind, newest = false, limit } = filter;
    if (!this.#engine.mayBeId(job)) return [];
    const rows = await this.#engine.all<ReportRecord>(sql`
      select seq, epoch, kind, name, at, data
        from holdfast.report
       where job_id = ${job}
         and seq > ${after}
             ${kind === undefined ? nothing : sql`and kind = ${kind}`}
       order by seq ${newest ? sql`desc` : nothing}
       limit ${limit}`);
    return newest ? rows.toReversed() : rows;
  }

  /** The number of a job's last report; 0: it has reported nothing. */
  async last(job: string): Promise<number> {
    const [last] = await this.list({ job, after: 0, newest: true, limit: 1 });
    return last?.seq ?? 0;
  }

  /** The status of a job and nothing else, for frequent polling. Null: there is no such job. */
  async standing(job: string): Promise<Standing | null> {
    if (!this.#engine.mayBeId(job)) return null;
    const [row] = await this.#engine.all<Standing>(sql`
      select s.status, s.epoch, s.attempts, s.due_at as "dueAt",
             coalesce(s.finished_at, ${this.#engine.now()}) as at
        from holdfast.job_state s
       where s.id = ${job}`);
    return row ?? null;
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
      // This is the repetition of a call whose answer was lost.
      if (error instanceof StoreRefusedError && (await isOurs(engine, fence, seq))) return true;
      throw error;
    }
  }
}

function insertReports(engine: Engine, fence: Fence, reports: readonly NewReport[]): Sql {
  const { id, worker, epoch } = fence;
  const rows = reports.map(({ ageMs, ...report }) => ({ ...report, age: Math.round(ageMs) }));
  return sql`
    insert into holdfast.report (job_id, seq, epoch, kind, name, at, data)
    select l.id, r.seq, l.epoch, r.kind, r.name, ${engine.now()} - r.age, r.data
      from (select id, epoch
              from holdfast.lease
             where id = ${id} and locked_by = ${worker} and epoch = ${epoch}
                   ${engine.lockRows()}) l
     cross join ${engine.reportRows(JSON.stringify(rows))}`;
}

/** A batch is written as a whole or not at all, so its first report decides. */
async function isOurs(engine: Engine, fence: Fence, seq: number): Promise<boolean> {
  const rows = await engine.all(sql`
    select seq
      from holdfast.report
     where job_id = ${fence.id}
       and seq = ${seq}
       and epoch = ${fence.epoch}`);
  return rows.length > 0;
}

/** Needs no fence: old reports stay old, whichever worker owns the job. */
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
    if (!(error instanceof OutcomeUnknownError)) throw error; // The next call deletes the rest.
  }
}

export interface NewReport extends Said {
  readonly seq: number;
  /** How long ago the task reported it. */
  readonly ageMs: number;
}

export interface Standing {
  readonly status: Status;
  readonly epoch: number;
  readonly attempts: number;
  readonly dueAt: number | null;
  /** When it ended; now, if it has not. */
  readonly at: number;
}

/** Reports are deleted with their job. */
export const reportHooks: JobHooks = {
  async pruned(engine, tx, ids) {
    await tx.run(sql`delete from holdfast.report where ${engine.among(sql`job_id`, ids)}`);
  },
};
