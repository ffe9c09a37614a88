/**
 * A check is one query that returns the rows that violate a rule, with a remedy.
 *
 * Keys and triggers refuse most violations. Checks cover rules that the database cannot enforce, or only at a cost for every
 * job, and damage done while the constraints were removed.
 */
import type { Engine, Transaction } from "./engine.ts";
import type { Sql } from "./sql.ts";

export interface Look {
  /** Maximum number of violations returned. */
  readonly limit: number;
  /** Also read data that is rarely worth the time. */
  readonly deep: boolean;
  /** Checks of history skip older rows; null: none. */
  readonly sinceAt: number | null;
  /** Whether notifications reach this process. Null: there is no push. */
  readonly pushWorks: () => Promise<boolean | null>;
}

/**
 * `quick`: cheap however much is stored, so that it can run continuously. `full`: reads the stored rows, some tables from end
 * to end. `deep`: takes minutes on a large database, so it runs only on request.
 */
export type CheckCost = "quick" | "full" | "deep";

/** A check of the doctor. */
export interface CheckRecord {
  /** Identifies the check, such as `lease-of-stopped-worker`. */
  readonly name: string;
  /** The group, such as `leases`. */
  readonly about: string;
  /** How urgent its findings are. */
  readonly severity: Severity;
  /** One sentence: what is wrong with the rows that it finds. */
  readonly problem: string;
  /** One sentence: what to do about them. */
  readonly remedy: string;
  /** How much it reads, which decides when it runs. */
  readonly cost: CheckCost;
  /** Whether the remedy can be applied without a person's judgement. */
  readonly fixable: boolean;
}

export interface Check extends Omit<CheckRecord, "fixable" | "about"> {
  readonly find: (engine: Engine, look: Look) => Promise<Offender[]>;
  /** Fixes up to the limit, each row only if it still violates the rule. */
  readonly fix?: (engine: Engine, fixing: Fixing) => Promise<FixedRows>;
}

export interface Fixing {
  readonly limit: number;
  /** Writes the audit line, in the transaction of the fix. */
  readonly sign: (tx: Transaction, subjects: readonly string[]) => Promise<void>;
}

export interface FixedRows {
  readonly subjects: readonly string[];
  /** Queues in which jobs became pending. */
  readonly queues: readonly string[];
}

/** One query, and how each row is described. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the type of the rows
export function asking<Row>(
  query: (engine: Engine, look: Look) => Sql,
  tell: (row: Row) => Offender,
): Check["find"] {
  return async (engine, look) => (await engine.all<Row>(query(engine, look))).map(tell);
}

/** Deletes the rows found, in a transaction that checks each again. */
export function deleting<Row>(parts: {
  readonly find: (limit: number) => Sql;
  readonly remove: (row: Row) => Sql;
  readonly subject: (row: Row) => string;
}): NonNullable<Check["fix"]> {
  return (engine, { limit, sign }) =>
    engine.transaction(async (tx) => {
      const subjects: string[] = [];
      for (const row of await tx.all<Row>(parts.find(limit))) {
        if ((await tx.run(parts.remove(row))) > 0) subjects.push(parts.subject(row));
      }
      await sign(tx, subjects);
      return { subjects, queues: [] };
    });
}

/** A problem that a check of the database found, and the rows that have it. */
export const severities = ["info", "warning", "critical"] as const;
/** How bad a finding is. */
export type Severity = (typeof severities)[number];

/** What a check of the doctor found. */
export interface Finding {
  /** The check's name, such as `lease-of-stopped-worker`. */
  readonly check: string;
  /** How urgent it is. */
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

/** What a finding is about, such as a job or a worker. */
export interface Offender {
  /** The id or name of a job, worker, item or table. */
  readonly subject: string;
  /** What is wrong with it, in words. */
  readonly detail: string;
  /** Since when; null: unknown. */
  readonly sinceAt: number | null;
  /** It does not go away by itself, so an alert need not wait to see whether it lasts. */
  readonly happened?: true;
}
