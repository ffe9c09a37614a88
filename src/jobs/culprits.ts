/**
 * Which job ended its worker.
 *
 * When a worker dies, every job that it held counts a crash, and the next worker runs each of them alone. A job that counts
 * one and loses another worker, with no other job beside it, is the culprit. The jobs that ran beside it at its earlier
 * crashes are then not charged for those. The record of a crash names them, so no index is needed to find them.
 */
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { uncountCrash } from "./outages.ts";
import { besideIn, type LeaseRow, neighbourError } from "./rows.ts";

/** How many leases of the dead workers are read. */
const LEASES_MAX = 1_000;

/** How many crashes of a culprit are looked at. */
const CRASHES_SEEN_MAX = 10;

/** For each lease the ids of the other jobs that its worker held. */
export async function besideEach(
  engine: Engine,
  tx: Transaction,
  taken: readonly LeaseRow[],
): Promise<string[][]> {
  if (taken.length === 0) return [];
  const workers = [...new Set(taken.map(({ locked_by }) => locked_by))];
  const left = await tx.all<Pick<LeaseRow, "id" | "locked_by">>(sql`
    select id, locked_by
      from holdfast.lease
     where ${engine.among(sql`locked_by`, workers)}
     order by id
     limit ${LEASES_MAX}`);
  const held = Map.groupBy([...taken, ...left], ({ locked_by }) => locked_by);
  return taken.map(({ id, locked_by }) => {
    const together = held.get(locked_by) ?? [];
    return together.filter((other) => other.id !== id).map((other) => other.id);
  });
}

/** The leases whose job was suspected before, and ran alone. */
export function culpritsOf(taken: readonly LeaseRow[], beside: readonly string[][]): string[] {
  const isShown = ({ crashes }: LeaseRow, index: number): boolean =>
    crashes > 0 && beside[index]?.length === 0;
  return taken.filter(isShown).map(({ id }) => id);
}

/**
 * Takes back what the jobs beside the culprit were charged for its crashes. Returns their ids. Each is a transaction of its
 * own, and repeating it changes nothing: what a crash of this process leaves is done after the culprit's next crash.
 */
export async function clearNeighbours(engine: Engine, culprit: string): Promise<string[]> {
  const crashes = await engine.all<{ worker: string; error: string | null }>(sql`
    select worker, error
      from holdfast.attempt
     where job_id = ${culprit} and outcome = 'crashed'
     order by epoch desc
     limit ${CRASHES_SEEN_MAX}`);
  const cleared: string[] = [];
  for (const { worker, error } of crashes) {
    for (const id of besideIn(error)) {
      if (engine.mayBeId(id) && (await clear(engine, { id, worker }, culprit))) cleared.push(id);
    }
  }
  return cleared.toSorted();
}

function clear(
  engine: Engine,
  { id, worker }: { id: string; worker: string },
  culprit: string,
): Promise<boolean> {
  return engine.transaction(async (tx) => {
    const [crash] = await tx.all<{ epoch: number }>(sql`
      select epoch
        from holdfast.attempt
       where job_id = ${id} and worker = ${worker} and outcome = 'crashed'`);
    if (crash === undefined) return false;
    const fence = { id, worker, epoch: crash.epoch };
    const { settled } = await uncountCrash(engine, tx, fence, neighbourError(culprit));
    return settled.length > 0;
  });
}
