/** Leases under lock: ended by settling, or moved on by extending. The fence is compared here, and only here. */
import type { Fence, Settlement } from "../../core/job.ts";
import { settled as describe } from "../jobs.ts";
import { asRow } from "../moving.ts";
import { land, type Landing, type LeaseRow } from "../rows.ts";
import type { Extended, Settled } from "../store.ts";
import type { Exchange } from "./sessions.ts";
import { statements } from "./statements.ts";
import { fill, inGroups, insertRows, jsonList, list } from "./text.ts";

/** A row of `lockLeases`, in the order of its columns. */
export type Locked = [
  id: string,
  queue: string,
  task: string,
  rank: number,
  jobKey: string | null,
  epoch: number,
  attempts: number,
  crashes: number,
  attemptsMax: number,
  lockedBy: string,
  lockedUntil: number,
  claimedAt: number,
  cancelRequestedAt: number | null,
];

/** Statements about the leases of these fences. Ids go out sorted: all who lock several rows lock them in one order. */
export function aboutLeases(text: string, fences: readonly Fence[]): string[] {
  const ids = [...new Set(fences.map(({ id }) => id))].toSorted();
  return [...inGroups(ids)].map((group) => fill(text, jsonList(group)));
}

/** Pairs every fence that is still current with its lease. Whoever says it twice is heard once. */
export function current<F extends Fence>(
  fences: readonly F[],
  rows: readonly Locked[],
): { fence: F; lease: LeaseRow }[] {
  const locked = new Map(rows.map((row) => [row[0], row]));
  return fences.flatMap((fence) => {
    const row = locked.get(fence.id);
    if (row === undefined) return [];
    const lease = leaseRow(row);
    if (lease.locked_by !== fence.worker || lease.epoch !== fence.epoch) return [];
    locked.delete(fence.id);
    return [{ fence, lease }];
  });
}

function leaseRow(row: Locked): LeaseRow {
  const [id, queue, task, rank, key, epoch, attempts, crashes, attemptsMax, ...own] = row;
  const [lockedBy, lockedUntil, claimedAt, cancelRequestedAt] = own;
  return {
    id,
    queue,
    task,
    rank,
    job_key: key,
    epoch,
    attempts,
    crashes,
    max_attempts: attemptsMax,
    locked_by: lockedBy,
    locked_until: lockedUntil,
    claimed_at: claimedAt,
    heartbeat_at: claimedAt,
    cancel_requested_at: cancelRequestedAt,
    claim_id: null,
  };
}

/** Adds what ends the attempts whose fences are still current, and tells which they are. */
export function settle(
  exchange: Exchange,
  settlements: readonly Settlement[],
  { rows, now }: { rows: readonly Locked[]; now: number },
): Settled[] {
  const ours = current(settlements, rows).map(({ fence, lease }) => ({
    lease,
    landing: land(lease, fence.outcome, now),
  }));
  move(
    exchange,
    ours.map(({ landing }) => landing),
    now,
  );
  return ours.map(({ lease, landing }) => describe(lease, landing));
}

/** A lease goes before its job enters another table: there, no row may stand for a job that a worker seems to hold. */
function move(exchange: Exchange, landings: readonly Landing[], now: number): void {
  for (const group of inGroups(idsOf(landings.filter(isPlain)))) {
    exchange.add(fill(statements.copyToFinished, now, jsonList(group)));
  }
  for (const group of inGroups(idsOf(landings))) {
    exchange.add(fill(statements.deleteLeases, jsonList(group)));
  }
  for (const table of ["ready", "waiting", "finished"] as const) {
    const rows = landings.filter((landing) => landing.table === table && !isPlain(landing));
    exchange.add(
      ...insertRows(
        table,
        rows.map(({ row }) => asRow(row)),
      ),
    );
  }
  const attempts = landings.flatMap((landing) =>
    landing.table === "finished" ? [] : [asRow(landing.attempt)],
  );
  exchange.add(...insertRows("attempt", attempts));
  const ended = landings.filter(({ table, row }) => table === "finished" && row.job_key !== null);
  for (const group of inGroups(idsOf(ended))) {
    exchange.add(fill(statements.deleteKeys, jsonList(group)));
  }
}

/** Done, and nothing to tell about it. */
function isPlain({ table, row }: Landing): boolean {
  return table === "finished" && row.status === "done" && row.result === null;
}

function idsOf(landings: readonly Landing[]): string[] {
  return landings.map(({ row }) => row.id);
}

/** Adds what moves the ends of the leases whose fences are still current, and tells which they are. */
export function extend(
  exchange: Exchange,
  fences: readonly Fence[],
  { rows, now, leaseMs }: { rows: readonly Locked[]; now: number; leaseMs: number },
): Extended[] {
  const until = now + leaseMs;
  const ours = current(fences, rows);
  for (const group of inGroups(ours.map(({ lease }) => lease.id))) {
    exchange.add(fill(statements.extendLeases, until, now, list(group)));
  }
  return ours.map(({ fence: { id, worker, epoch }, lease }) => ({
    id,
    worker,
    epoch,
    lockedUntil: Math.max(lease.locked_until, until),
    cancelRequested: lease.cancel_requested_at !== null,
  }));
}
