/**
 * The actions of operators: one chain of lines for all.
 *
 * A transaction that adds a line locks the head, so that the numbers have no gaps, and does so last, so that other
 * transactions wait only briefly. The database moves the head itself, and refuses a line that does not follow the last one.
 */
import {
  EffectNotFoundError,
  IllegalMoveError,
  JobNotFoundError,
  StoreRefusedError,
} from "../core/errors.ts";
import type { Database } from "../database/database.ts";
import type { Engine, Row, Transaction } from "../database/engine.ts";
import { nothing, sql } from "../database/sql.ts";
import { type AuditEntry, type OperatorEntry, sha256, subjects } from "./entry.ts";

const COLUMNS = sql`
       id, seq, at, actor, action, subject, old_status as "oldStatus", new_status as "newStatus", reason,
       trace_id as "traceId", detail, previous_hash as "previousHash", hash`;

/** Adds a line, in the transaction of the action. Nothing should be locked after it. */
export function noteAction(
  engine: Engine,
  tx: Transaction,
  operator: OperatorEntry,
  action: NewAction,
): Promise<void> {
  return noteActions(engine, tx, [{ operator, action }]);
}

export async function noteActions(
  engine: Engine,
  tx: Transaction,
  actions: readonly { readonly operator: OperatorEntry; readonly action: NewAction }[],
): Promise<void> {
  if (actions.length === 0) return;
  const [head] = await tx.all<{ seq: number; hash: string; now: number }>(sql`
    select h.seq, h.hash, ${engine.now()} as now
      from (select seq, hash from holdfast.audit_head where id = 1 ${engine.lockRows()}) h`);
  const { now: at, ...last } = head as { seq: number; hash: string; now: number };
  let { seq, hash } = last;
  const rows: Row[] = [];
  for (const { operator, action: noted } of actions) {
    const { action, subject, oldStatus = null, newStatus = null, detail = null } = noted;
    const { id, actor, reason = null, traceId = null } = operator;
    const previousHash = hash;
    seq += 1;
    const facts = { action, subject, oldStatus, newStatus, reason, traceId, detail };
    hash = hashOfAction({ ...facts, id, seq, at, actor, previousHash });
    rows.push({
      id,
      seq,
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
      hash,
    });
  }
  await tx.insert("audit", rows);
}

/** Of all fields of the line, in a fixed order. */
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

/** The line of an action, if it was committed. */
export async function findAction(
  from: Pick<Transaction, "all">,
  id: string,
): Promise<AuditEntry | null> {
  const [row] = await from.all<AuditEntry>(
    sql`select ${COLUMNS} from holdfast.audit where id = ${id}`,
  );
  return row ?? null;
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
  /** Of the last deleted line. */
  readonly hash: string;
}

export function prunedRange(detail: string | null): PrunedRange | null {
  const [, first, last, hash] = /^(\d+) to (\d+), hash ([0-9a-f]{64})$/.exec(detail ?? "") ?? [];
  if (hash === undefined) return null;
  return { first: Number(first), last: Number(last), hash };
}

/** The rest of the chain stays valid: the head keeps the previous hash of its first line. */
function pruneActions(engine: Engine, pruning: Pruning): Promise<number> {
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
    // The database compares this with the new head.
    const detail = `${prunedSeq + 1} to ${last}, hash ${hash}`;
    await noteAction(engine, tx, pruning, { action: PRUNE, subject: subjects.audit, detail });
    await tx.run(sql`
      update holdfast.audit_head set pruned_seq = ${last}, pruned_hash = ${hash} where id = 1`);
    await tx.run(sql`delete from holdfast.audit where seq <= ${last}`);
    return gone.length;
  });
}

/** The errors of an action that was done before. */
const REFUSALS = [StoreRefusedError, IllegalMoveError, EffectNotFoundError, JobNotFoundError];

/**
 * Runs an action of an operator. If the answer is lost, the action was done if its line exists. The same holds if the
 * action is refused: a repeated action cannot write a second line with its id, or finds the state already changed.
 */
export function actOrLookUp<T>(
  db: Database,
  { id }: OperatorEntry,
  act: () => Promise<T>,
  done: (line: AuditEntry) => Promise<T>,
): Promise<T> {
  const orDone = async (error: unknown): Promise<T> => {
    if (!REFUSALS.some((refusal) => error instanceof refusal)) throw error;
    const line = await findAction(db.engine, id);
    if (line === null) throw error;
    return done(line);
  };
  const actOnce = (): Promise<T> => act().catch(orDone);
  return db.write(actOnce, async () => {
    const line = await findAction(db.engine, id);
    return line === null ? actOnce() : done(line);
  });
}

export interface NewAction {
  /** Such as `job.cancel`. */
  readonly action: string;
  /** See `subjects`. */
  readonly subject: string;
  readonly oldStatus?: string | null;
  readonly newStatus?: string | null;
  readonly detail?: string | null;
}

interface ActionFilter {
  readonly subject?: string;
  readonly actor?: string;
  /** The first lines after this number. Default: the last lines, or the last before `before`. */
  readonly after?: number;
  readonly before?: number;
  readonly limit: number;
}

/** The start and the end of the chain. */
export interface AuditHead {
  readonly seq: number;
  readonly hash: string;
  /** The last pruned line, and the previous hash of the next one. */
  readonly prunedSeq: number;
  readonly prunedHash: string;
  /** The newest line about a pruning. If it differs, lines were deleted without one. */
  readonly pruning: PruneLine | null;
}

type PruneLine = Pick<AuditEntry, "seq" | "at" | "actor" | "detail">;

interface Pruning extends OperatorEntry {
  readonly keepMs: number;
  readonly limit: number;
}

export type AuditStore = Pick<SqlAudit, keyof SqlAudit>;

export class SqlAudit {
  readonly #db: Database;
  readonly #engine: Engine;

  constructor(db: Database) {
    this.#db = db;
    this.#engine = db.engine;
  }

  /** Adds a line by itself, about an action outside of this database. */
  note(operator: OperatorEntry, action: NewAction): Promise<void> {
    const engine = this.#engine;
    const note = (): Promise<void> =>
      engine.transaction((tx) => noteAction(engine, tx, operator, action));
    return actOrLookUp(this.#db, operator, note, async () => {});
  }

  /** A page of lines, oldest first. */
  async list(filter: ActionFilter): Promise<AuditEntry[]> {
    const { subject, actor, after, before, limit } = filter;
    const backwards = after === undefined;
    const rows = await this.#engine.all<AuditEntry>(sql`
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

  /**
   * The head, and the newest line about a pruning, in one statement, so that they are of one instant. Null: the row of the
   * head was deleted in the database.
   */
  async head(): Promise<AuditHead | null> {
    const [row] = await this.#engine.all<HeadRow>(sql`
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

  /** Deletes up to `limit` of the oldest lines that are older than `keepMs`, and adds a line about it. Returns how many. */
  prune(pruning: Pruning): Promise<number> {
    const prune = (): Promise<number> => pruneActions(this.#engine, pruning);
    return actOrLookUp(this.#db, pruning, prune, async ({ detail }) => {
      const range = prunedRange(detail);
      return range === null ? 0 : range.last - range.first + 1;
    });
  }
}
