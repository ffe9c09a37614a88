/**
 * What operators did: one chain of lines for all of it.
 *
 * Whoever adds a line locks the head first, so that the numbers have no gaps, and does so last of all, so that nobody waits
 * for them for long. The database moves the head itself, and refuses a line that does not follow the one before.
 */
import { subjects, type AuditEntry } from "../core/audit.ts";
import type {
  ActionFilter,
  AuditHead,
  NewAction,
  PruneLine,
  Pruning,
  Signature,
} from "./actions.ts";
import type { Engine, Transaction } from "./engine.ts";
import { nothing, sql } from "./sql.ts";
import { sha256 } from "./trail.ts";

const COLUMNS = sql`
       id, seq, at, actor, action, subject, old_status as "oldStatus", new_status as "newStatus", reason,
       trace_id as "traceId", detail, previous_hash as "previousHash", hash`;

/** Adds a line, in the transaction of what it tells of. Nothing should be locked after it. */
export async function noteAction(
  engine: Engine,
  tx: Transaction,
  signature: Signature,
  { action, subject, oldStatus = null, newStatus = null, detail = null }: NewAction,
): Promise<void> {
  const [head] = await tx.all<{ seq: number; hash: string; now: number }>(sql`
    select h.seq, h.hash, ${engine.now()} as now
      from (select seq, hash from holdfast.audit_head where id = 1 ${engine.lockRows()}) h`);
  const { seq, hash: previousHash, now: at } = head as { seq: number; hash: string; now: number };
  const { id, actor, reason = null, traceId = null } = signature;
  const facts = { action, subject, oldStatus, newStatus, reason, traceId, detail };
  const entry = { ...facts, id, seq: seq + 1, at, actor, previousHash };
  await tx.insert("audit", [
    {
      id,
      seq: entry.seq,
      at,
      actor,
      action,
      subject,
      old_status: oldStatus,
      new_status: newStatus,
      reason,
      trace_id: traceId,
      detail,
      previous_hash: previousHash,
      hash: hashOfAction(entry),
    },
  ]);
}

/** Everything that the line says, in a fixed order. */
export function hashOfAction(entry: Omit<AuditEntry, "hash">): string {
  return sha256(
    JSON.stringify([
      entry.previousHash,
      entry.id,
      entry.seq,
      entry.at,
      entry.actor,
      entry.action,
      entry.subject,
      entry.oldStatus,
      entry.newStatus,
      entry.reason,
      entry.traceId,
      entry.detail,
    ]),
  );
}

export async function listActions(engine: Engine, filter: ActionFilter): Promise<AuditEntry[]> {
  const { subject, actor, after, before, limit } = filter;
  const backwards = after === undefined;
  const rows = await engine.all<AuditEntry>(sql`
    select ${COLUMNS}
      from holdfast.audit
     where seq > ${after ?? 0}
           ${before === undefined ? nothing : sql`and seq < ${before}`}
           ${subject === undefined ? nothing : sql`and subject = ${subject}`}
           ${actor === undefined ? nothing : sql`and actor = ${actor}`}
     order by ${backwards ? sql`seq desc` : sql`seq`}
     limit ${limit}`);
  return backwards ? rows.toReversed() : rows;
}

/** The line of an action, if it was committed. */
export async function findAction(engine: Engine, id: string): Promise<AuditEntry | null> {
  const [row] = await engine.all<AuditEntry>(
    sql`select ${COLUMNS} from holdfast.audit where id = ${id}`,
  );
  return row ?? null;
}

/** The head, and the newest line about a pruning: in one statement, so that they are of one instant. */
export async function auditHead(engine: Engine): Promise<AuditHead | null> {
  const [row] = await engine.all<HeadRow>(sql`
    select h.seq, h.hash, h.pruned_seq as "prunedSeq", h.pruned_hash as "prunedHash", a.seq as "lineSeq", a.at,
           a.actor, a.detail
      from holdfast.audit_head h
      left join holdfast.audit a on a.seq = (select max(p.seq) from holdfast.audit p where p.action = ${PRUNE})
     where h.id = 1`);
  if (row === undefined) return null;
  const { lineSeq, at, actor, detail, ...head } = row;
  const pruning = lineSeq === null ? null : { seq: lineSeq, at, actor, detail };
  return { ...head, pruning };
}

interface HeadRow extends Omit<AuditHead, "pruning">, Omit<PruneLine, "seq"> {
  readonly lineSeq: number | null;
}

export const PRUNE = "audit.prune";
export const PRUNED_BY_LINE =
  "the audit is pruned by a line that names the range and its last hash";

interface PrunedRange {
  readonly first: number;
  readonly last: number;
  /** Of the last line that went. */
  readonly hash: string;
}

/** What the line about a pruning says. The database compares it with what the head is set to. */
function detailOf({ first, last, hash }: PrunedRange): string {
  return `${first} to ${last}, hash ${hash}`;
}

export function prunedRange(detail: string | null): PrunedRange | null {
  const [, first, last, hash] = /^(\d+) to (\d+), hash ([0-9a-f]{64})$/.exec(detail ?? "") ?? [];
  if (hash === undefined) return null;
  return { first: Number(first), last: Number(last), hash };
}

/** The chain goes on from where it was cut: the head remembers the hash that its first line carries. */
export function pruneActions(engine: Engine, pruning: Pruning): Promise<number> {
  return engine.transaction(async (tx) => {
    const [head] = await tx.all<{ prunedSeq: number; prunedHash: string }>(sql`
      select pruned_seq as "prunedSeq", pruned_hash as "prunedHash"
        from holdfast.audit_head where id = 1 ${engine.lockRows()}`);
    const { prunedSeq, prunedHash } = head as { prunedSeq: number; prunedHash: string };
    const old = await tx.all<{ seq: number; isOld: number; hash: string | null }>(sql`
      select seq, hash, case when at < ${engine.now()} - ${pruning.keepMs} then 1 else 0 end as "isOld"
        from holdfast.audit
       where seq > ${prunedSeq}
       order by seq
       limit ${pruning.limit}`);
    const kept = old.findIndex(({ isOld }) => isOld === 0);
    const gone = kept === -1 ? old : old.slice(0, kept);
    const last = gone.at(-1)?.seq;
    if (last === undefined) return 0;
    const hash = gone.findLast((line) => line.hash !== null)?.hash ?? prunedHash;
    const detail = detailOf({ first: prunedSeq + 1, last, hash });
    await noteAction(engine, tx, pruning, { action: PRUNE, subject: subjects.audit, detail });
    await tx.run(sql`
      update holdfast.audit_head set pruned_seq = ${last}, pruned_hash = ${hash} where id = 1`);
    await tx.run(sql`delete from holdfast.audit where seq <= ${last}`);
    return gone.length;
  });
}

/** How many lines went, as the line says that tells of it. */
export function countOf(pruned: string | null): number {
  const range = prunedRange(pruned);
  return range === null ? 0 : range.last - range.first + 1;
}
