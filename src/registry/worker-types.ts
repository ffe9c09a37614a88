/**
 * The types of workers, and how many workers of each may be active at once.
 *
 * The first worker of a type declares its limit; afterwards only an operator changes it, and the audit names the operator.
 */
import { subjects } from "../audit/entry.ts";
import { noteAction } from "../audit/store.ts";
import { HoldfastError } from "../core/errors.ts";
import { type Engine, insertIfMissing, type Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { ChangedLimit, LimitChange, NewWorker, WorkerType } from "./worker-record.ts";

/** A refused limit names at most this many of the workers in its way. */
const NAMED_MAX = 10;
const TYPES_MAX = 1_000;

/** The redundant condition is for the planner: some databases match the index by the first, others by the second. */
const ACTIVE = sql`status in ('starting', 'running') and status <> 'stopped'`;

/** Inserts the row that every worker of this type locks first when it registers. */
export async function declareType(
  engine: Engine,
  { type, slots }: Pick<NewWorker, "type" | "slots">,
): Promise<void> {
  const row = { name: type, slots, instance: 0 };
  await insertIfMissing(engine, (tx) => tx.insert("worker_type", [row]));
}

/**
 * Locks the type and counts a start. Returns the number of this start; null: the type is not declared. Throws
 * WorkerLimitMismatchError when the worker declares another limit than the type has.
 */
export async function countStart(
  tx: Transaction,
  { type, slots: declared }: Pick<NewWorker, "type" | "slots">,
): Promise<number | null> {
  const known = await tx.run(sql`
    update holdfast.worker_type set instance = instance + 1 where name = ${type}`);
  if (known === 0) return null;
  const [row] = await tx.all<{ slots: number | null; instance: number }>(
    sql`select slots, instance from holdfast.worker_type where name = ${type}`,
  );
  const { slots: stored, instance } = row as { slots: number | null; instance: number };
  if (stored !== declared) throw new WorkerLimitMismatchError({ type, stored, declared });
  return instance;
}

/** All declared types, ordered by name. */
export function workerTypes(engine: Engine): Promise<WorkerType[]> {
  return engine.all<WorkerType>(sql`
    select t.name as type, t.slots,
           (select count(*) from holdfast.worker w where w.type = t.name and ${ACTIVE}) as active
      from holdfast.worker_type t
     order by t.name
     limit ${TYPES_MAX}`);
}

/** Refuses a limit that an active worker does not fit into. The databases refuse it too. */
export function changeLimit(engine: Engine, change: LimitChange): Promise<ChangedLimit> {
  const { type, slots } = change;
  return engine.transaction(async (tx) => {
    const [row] = await tx.all<{ slots: number | null }>(
      sql`select slots from holdfast.worker_type where name = ${type} ${engine.lockRows()}`,
    );
    if (row === undefined) throw new WorkerTypeNotFoundError({ type });
    const changed = { type, from: row.slots, to: slots };
    if (row.slots === slots) return changed;
    const misfits = await tx.all<{ id: string }>(sql`
      select id
        from holdfast.worker
       where type = ${type}
         and ${ACTIVE}
         and ${slots === null || row.slots === null ? sql`id > ''` : sql`slot > ${slots}`}
       order by id
       limit ${NAMED_MAX}`);
    if (misfits.length > 0) {
      const workers = misfits.map(({ id }) => id);
      throw new WorkerLimitInUseError({ type, slots, workers });
    }
    await tx.run(sql`update holdfast.worker_type set slots = ${slots} where name = ${type}`);
    await noteAction(engine, tx, change, {
      action: "worker.limit",
      subject: subjects.type(type),
      detail: JSON.stringify({ from: row.slots, to: slots }),
    });
    return changed;
  });
}

// Errors about the limits of worker types.

/** A worker declares another limit than the database holds for its type. */
export class WorkerLimitMismatchError extends HoldfastError {
  /** The name that the workers share. */
  readonly workerType: string;
  /** Null: the type has no limit. */
  readonly stored: number | null;
  /** Null: the worker declares none. */
  readonly declared: number | null;

  constructor(facts: { type: string; stored: number | null; declared: number | null }) {
    const { type, stored, declared } = facts;
    super(
      "WORKER_LIMIT_MISMATCH",
      `Cannot register: the limit of type '${type}' is ${slotsText(stored)} in the database, and this worker declares ${slotsText(declared)}. ` +
        `${stored === null ? "Leave slots (--slots) out" : `Start it with slots: ${stored} (--slots ${stored})`}, ` +
        `or change the limit: holdfast workers limit ${type} ${declared ?? "none"}`,
    );
    this.workerType = type;
    this.stored = stored;
    this.declared = declared;
  }
}

/** Active workers do not fit into a new limit. */
export class WorkerLimitInUseError extends HoldfastError {
  /** The name that the workers share. */
  readonly workerType: string;
  /** The new limit; null: none. */
  readonly slots: number | null;
  /** The workers that have to stop first; if many, some of them. */
  readonly workers: readonly string[];

  constructor(facts: { type: string; slots: number | null; workers: readonly string[] }) {
    const { type, slots, workers } = facts;
    super(
      "WORKER_LIMIT_IN_USE",
      `Cannot set the limit of type '${type}' to ${slotsText(slots)}: these active workers do not fit: ${workers.join(", ")}. ` +
        "Stop them first (holdfast workers stop <id>). A worker that starts takes the lowest free slot.",
    );
    this.workerType = type;
    this.slots = slots;
    this.workers = workers;
  }
}

/** No worker of this type has ever registered. */
export class WorkerTypeNotFoundError extends HoldfastError {
  /** The name that was looked for. */
  readonly workerType: string;

  constructor(facts: { type: string }) {
    super(
      "WORKER_TYPE_NOT_FOUND",
      `Unknown worker type '${facts.type}'. The first worker of a type declares its limit. See: holdfast workers limit`,
    );
    this.workerType = facts.type;
  }
}

/** `2 slots`, `1 slot`, or `no limit`. */
export function slotsText(slots: number | null): string {
  if (slots === null) return "no limit";
  return slots === 1 ? "1 slot" : `${slots} slots`;
}
