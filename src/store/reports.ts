/** What the store promises about what running jobs report; see sql-reports.ts. */
import type { Fence, Status } from "../core/job.ts";
import type { ReportKind, Said } from "../core/report.ts";

export interface Reports {
  /**
   * Writes reports of a claimed job under its fence, all or none. False: the job is not ours any more, and nothing was
   * written. Their numbers go on from the job's last one without a gap; whoever holds the fence is the only one to choose them, so a
   * call whose answer was lost can be repeated. Of very many, the oldest are deleted.
   */
  putReports(fence: Fence, reports: readonly NewReport[]): Promise<boolean>;

  /** What a job has reported, in order, a page at a time. */
  reports(filter: ReportFilter): Promise<ReportRecord[]>;

  /** The number of a job's last report; 0: it has reported nothing. */
  lastReport(job: string): Promise<number>;

  /** Where a job stands, and nothing else of it: for whoever asks often. Null: there is no such job. */
  standing(job: string): Promise<Standing | null>;
}

export interface NewReport extends Said {
  readonly seq: number;
  /** How long ago it was said. */
  readonly ageMs: number;
}

export interface ReportRecord extends Said {
  readonly seq: number;
  readonly epoch: number;
  readonly at: number;
}

export interface ReportFilter {
  readonly job: string;
  /** Only those behind this number. */
  readonly after: number;
  readonly kind?: ReportKind;
  /** The last ones instead of the first. */
  readonly newest?: boolean;
  readonly limit: number;
}

export interface Standing {
  readonly status: Status;
  readonly epoch: number;
  readonly attempts: number;
  readonly dueAt: number | null;
  /** When it ended; of a job that has not, now. */
  readonly at: number;
}
