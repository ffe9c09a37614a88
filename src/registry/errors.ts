/** Errors about the limits of worker types. */
import { HoldfastError } from "../core/errors.ts";

/** A worker declares another limit than the database holds for its type. */
export class WorkerLimitMismatchError extends HoldfastError {
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
  readonly workerType: string;
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
