/** What a look at the database found wrong: one check, and those that offend against it. */

export const severities = ["info", "warning", "critical"] as const;
export type Severity = (typeof severities)[number];

export interface Finding {
  /** The check's name, such as `lease-of-stopped-worker`. */
  readonly check: string;
  readonly severity: Severity;
  /** One sentence: what is wrong. */
  readonly problem: string;
  /** What to do about it. */
  readonly remedy: string;
  /** Whether `doctor --fix` does it. */
  readonly fixable: boolean;
  /** Those found, as many as were asked for. */
  readonly offenders: readonly Offender[];
  /** There are more than these. */
  readonly more: boolean;
}

export interface Offender {
  /** A job, a worker, an item, a table: by the name it has everywhere. */
  readonly subject: string;
  /** What is wrong with this one. */
  readonly detail: string;
  /** Since when, where that is known. */
  readonly sinceAt: number | null;
  /** It has happened, and does not pass by itself: an alert need not wait whether it lasts. */
  readonly happened?: true;
}
