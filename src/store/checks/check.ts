/**
 * What a check is: one question to the database that returns those that offend against a rule, with what to do about them.
 *
 * The databases refuse what they can by keys and triggers. What they cannot, or could only at a price that every job would
 * pay, is looked for here; and what somebody broke who took the guards away.
 */
import type { Offender } from "../../core/finding.ts";
import type { Signature } from "../actions.ts";
import { noteAction } from "../audit.ts";
import type { Engine, Transaction } from "../engine.ts";
import type { CheckRecord } from "../findings.ts";
import type { Sql } from "../sql.ts";

export interface Look {
  /** How many offenders at most. */
  readonly limit: number;
  /** Also what is seldom worth its time. */
  readonly deep: boolean;
  /** Checks of what is written into history leave alone what is older; null: nothing is too old. */
  readonly sinceAt: number | null;
  /** Whether others' changes are pushed to this process. Null: there is no push. */
  readonly pushWorks: () => Promise<boolean | null>;
}

export interface Check extends Omit<CheckRecord, "fixable" | "about"> {
  readonly find: (engine: Engine, look: Look) => Promise<Offender[]>;
  /** Mends as many as it may, each only if it still offends. */
  readonly fix?: (engine: Engine, fixing: Fixing) => Promise<Mended>;
}

export interface Fixing {
  readonly limit: number;
  /** Leaves the line in the audit, in the transaction of what it tells of. */
  readonly sign: (tx: Transaction, subjects: readonly string[]) => Promise<void>;
}

export interface Mended {
  readonly subjects: readonly string[];
  /** In which jobs became pending. */
  readonly queues: readonly string[];
}

/** Of more than these the audit does not say who they were. */
const NOTED_MAX = 100;

/** How a fix leaves its line; without any that was mended there is none. */
export function signing(engine: Engine, check: string, signature: Signature): Fixing["sign"] {
  return async (tx, subjects) => {
    if (subjects.length === 0) return;
    const detail = JSON.stringify({
      mended: subjects.length,
      subjects: subjects.slice(0, NOTED_MAX),
    });
    await noteAction(engine, tx, signature, {
      action: "doctor.fix",
      subject: `check ${check}`,
      detail,
    });
  };
}

/** One query, and how each of its rows is told. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- whoever asks knows what the rows are
export function asking<Row>(
  query: (engine: Engine, look: Look) => Sql,
  tell: (row: Row) => Offender,
): Check["find"] {
  return async (engine, look) => (await engine.all<Row>(query(engine, look))).map(tell);
}

/** Deletes what was found, in a transaction that asks for each once more whether it still offends. */
export function deleting<Row>(parts: {
  readonly find: (engine: Engine, limit: number) => Sql;
  readonly remove: (engine: Engine, row: Row) => Sql;
  readonly subject: (row: Row) => string;
}): NonNullable<Check["fix"]> {
  return (engine, { limit, sign }) =>
    engine.transaction(async (tx) => {
      const subjects: string[] = [];
      for (const row of await tx.all<Row>(parts.find(engine, limit))) {
        if ((await tx.run(parts.remove(engine, row))) > 0) subjects.push(parts.subject(row));
      }
      await sign(tx, subjects);
      return { subjects, queues: [] };
    });
}
