/** The lines of an item's audit: each carries the hash of the one before, so that none can be changed, added or left out later. */
import { createHash } from "node:crypto";
import { begins, type ItemEntry } from "../core/item.ts";
import type { ItemWrite, StoredItem } from "./workflows.ts";

/** What the first line has before it. */
export const NO_HASH = "0".repeat(64);

/** The line that tells of a change; `after` is the item as it is then, but for what its audit says of it. */
export function lineOf(write: ItemWrite, after: StoredItem): ItemEntry {
  const { item, line, jobs } = write;
  const entry = {
    ...line,
    item: item.id,
    seq: item.auditSeq + 1,
    at: after.updatedAt,
    oldStatus: begins(line) ? null : item.status,
    newStatus: write.status,
    revision: after.revision,
    lockWaitMs: line.lockWaitMs === null ? null : Math.round(line.lockWaitMs * 1_000) / 1_000,
    jobs: jobs.map(({ id }) => id),
    dataHash: sha256(write.data),
    previousHash: item.auditHash,
  };
  return { ...entry, hash: hashOf(entry) };
}

/** Everything that the line says, in a fixed order. */
export function hashOf(entry: Omit<ItemEntry, "hash">): string {
  return sha256(
    JSON.stringify([
      entry.previousHash,
      entry.item,
      entry.seq,
      entry.at,
      entry.actor,
      entry.action,
      entry.move,
      entry.oldStatus,
      entry.newStatus,
      entry.revision,
      entry.reason,
      microseconds(entry.lockWaitMs),
      entry.traceId,
      entry.jobs,
      entry.dataHash,
    ]),
  );
}

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** As the item itself carries its last line. The database writes it to the audit from there. */
export interface LastChange {
  readonly change_id: string;
  readonly actor: string;
  readonly action: string;
  readonly move: string | null;
  readonly reason: string | null;
  readonly lock_wait_us: number | null;
  readonly trace_id: string | null;
  readonly jobs: string;
  readonly data_hash: string;
}

export function lastChange(entry: ItemEntry, change: string): LastChange {
  return {
    change_id: change,
    actor: entry.actor,
    action: entry.action,
    move: entry.move,
    reason: entry.reason,
    lock_wait_us: microseconds(entry.lockWaitMs),
    trace_id: entry.traceId,
    jobs: JSON.stringify(entry.jobs),
    data_hash: entry.dataHash,
  };
}

/** Whole numbers come back from every database as they were. */
function microseconds(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 1_000);
}
