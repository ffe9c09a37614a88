/** A problem that a check of the database found, and the rows that have it. */
export const severities = ["info", "warning", "critical"] as const;
export type Severity = (typeof severities)[number];

export interface Finding {
  /** The check's name, such as `lease-of-stopped-worker`. */
  readonly check: string;
  readonly severity: Severity;
  /** One sentence. */
  readonly problem: string;
  /** What to do about it, in one sentence. */
  readonly remedy: string;
  /** Whether `doctor --fix` repairs it. */
  readonly fixable: boolean;
  /** Up to the limit of the request. */
  readonly offenders: readonly Offender[];
  /** Whether there are more than these. */
  readonly more: boolean;
}

export interface Offender {
  /** The id or name of a job, worker, item or table. */
  readonly subject: string;
  readonly detail: string;
  /** Since when; null: unknown. */
  readonly sinceAt: number | null;
  /** It does not go away by itself, so an alert need not wait to see whether it lasts. */
  readonly happened?: true;
}
