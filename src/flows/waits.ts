/**
 * Jobs that wait for the ends of other jobs.
 *
 * A row of `dep` is one end that a job still waits for, and `missing` in its waiting row is their number. The end of a job
 * deletes its rows and subtracts as many as it deleted, under the lock of the waiting row. So of two ends at the same moment
 * the second sees what the first left, and an end that is repeated finds no row.
 *
 * A transaction that makes a job wait changes the row in `flow_job` of the job that it waits for, then looks whether that one
 * has ended. The transaction in which that one ends locks the same row, then looks in a later statement for jobs that wait.
 * So one of the two sees the other.
 *
 * The order of locks: the gate, rows of `flow_job` by id, waiting rows by id, rows of `dep`.
 */
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { FinishedRow, WaitingRow } from "../jobs/rows.ts";
import type { Dependency, DependencyPolicy } from "../jobs/store.ts";

/** Ids in one statement: longer lists make optimizers scan. */
const IDS_PER_STATEMENT = 500;

/** A row of `dep`. */
export interface Wait {
  readonly job_id: string;
  readonly on_id: string;
  readonly on_failed: DependencyPolicy;
  readonly on_cancelled: DependencyPolicy;
}

export type MissingRow = WaitingRow & { readonly missing: number };

/** How a job ended that others wait for. `deleted`: nothing is known about it any more. */
export type EndStatus = FinishedRow["status"] | "deleted";

/** One list after the other, because a statement takes only so many ids. */
export async function inGroups<T>(
  ids: readonly string[],
  ask: (some: readonly string[]) => Promise<readonly T[]>,
): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < ids.length; at += IDS_PER_STATEMENT) {
    all.push(...(await ask(ids.slice(at, at + IDS_PER_STATEMENT))));
  }
  return all;
}

export async function runInGroups(
  ids: readonly string[],
  run: (some: readonly string[]) => Promise<number>,
): Promise<number> {
  const changed = await inGroups(ids, async (some) => [await run(some)]);
  return changed.reduce((sum, one) => sum + one, 0);
}

export function sorted(ids: Iterable<string>): string[] {
  return [...new Set(ids)].toSorted();
}

/** Locks the rows of these jobs in `flow_job`, in the order of their ids. Returns those that have one. */
export function lockMembers(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<string[]> {
  return inGroups(ids, async (some) => {
    const rows = await tx.all<{ id: string }>(sql`
      select job_id as id
        from holdfast.flow_job
       where ${engine.among(sql`job_id`, some)}
       order by job_id ${engine.lockRows()}`);
    return rows.map(({ id }) => id);
  });
}

export function lockWaiting(
  engine: Engine,
  tx: Transaction,
  ids: readonly string[],
): Promise<MissingRow[]> {
  return inGroups(ids, (some) =>
    tx.all<MissingRow>(sql`
      select *
        from holdfast.waiting
       where ${engine.among(sql`id`, some)}
         and missing > 0
       order by id ${engine.lockRows()}`),
  );
}

/** The end that ends a job in turn. */
export interface Because {
  readonly on: string;
  readonly was: EndStatus;
  readonly status: "failed" | "cancelled";
}

/** Null: these ends do not keep the job from running. */
export function reasonToEnd(
  waits: readonly Wait[],
  ended: ReadonlyMap<string, EndStatus>,
): Because | null {
  for (const wait of waits) {
    const was = ended.get(wait.on_id) ?? "deleted";
    const status = policyFor(was, { onFailed: wait.on_failed, onCancelled: wait.on_cancelled });
    if (status !== null) return { on: wait.on_id, was, status };
  }
  return null;
}

/** How a job ends when a job that it waits for ended like this. Null: it does not. */
export function policyFor(
  was: EndStatus,
  { onFailed, onCancelled }: Pick<Dependency, "onFailed" | "onCancelled">,
): "failed" | "cancelled" | null {
  if (was === "done") return null;
  const policy = was === "cancelled" ? onCancelled : onFailed;
  if (policy === "ignore") return null;
  return policy === "fail" ? "failed" : "cancelled";
}

export function errorOf({ on, was }: Pick<Because, "on" | "was">): string {
  const what =
    was === "deleted" ? "has ended, and its record was deleted" : (ENDINGS[was] ?? "failed");
  const message = `Job ${on}, which it waited for, ${what}. Retry that job, and this one waits for it again.`;
  return JSON.stringify({ name: "DependencyUnmetError", code: "DEPENDENCY_UNMET", message });
}

const ENDINGS: Readonly<Record<string, string>> = {
  failed: "failed",
  cancelled: "was cancelled",
  expired: "expired",
};
