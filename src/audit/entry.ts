/** The lines of the audit log about operators. Lines about items are stored with these: see item.ts. */
import { createHash } from "node:crypto";
import { invalid } from "../core/errors.ts";
import { checkName } from "../core/name.ts";
import { checkWords, needed, optionsOf, passed } from "../core/options.ts";

/** One line: who did what, and why. The numbers have no gaps, and each line has the hash of the previous one. */
export interface AuditEntry {
  /** The UUID of the line. */
  readonly id: string;
  /** From 1. */
  readonly seq: number;
  /** When it was written (ms since 1970, the database's clock). */
  readonly at: number;
  /** Who acted: a person, a program, or a job. */
  readonly actor: string;
  /** Such as `job.cancel`, `job.retry`, `job.run-now`, `job.edit`, `job.delete`, `job.replay`, `step.done`, `worker.pause`, `worker.limit`, `lock.release`, `token.create`, `workflow.keep`, `schedule.edit`. */
  readonly action: string;
  /** Such as `job 0199…`, `worker mailer-…`, `type mailer`, `lock order:…`, `token ci`, `workflow order`, `schedule nightly`. */
  readonly subject: string;
  /** Null where the action concerns no status, or several. */
  readonly oldStatus: string | null;
  /** The status after the action; null where it concerns none, or several. */
  readonly newStatus: string | null;
  /** What the actor gave as `reason`; null: nothing. */
  readonly reason: string | null;
  /** The actor's trace id. */
  readonly traceId: string | null;
  /** More facts, such as the name of a step. */
  readonly detail: string | null;
  /** The hash of the line before it; null: it was removed. */
  readonly previousHash: string | null;
  /** Null: it was removed. */
  readonly hash: string | null;
}

/** What is wrong with a line, or with its subject. */
export type BreakKind =
  | "gap" // lines before it are missing
  | "link" // it does not follow the line before it
  | "changed" // it was changed after it was written
  | "head" // the last line is not the one that was counted
  | "hash" // its hash was removed
  | "pruning" // lines before it were deleted without the line that a pruning writes
  | "status" // its item has another status now
  | "data" // its item has other data now
  | "orphan" // its item does not exist
  | "witness"; // it is not the line that an earlier run saw

/** A place where the hash chain of the audit log does not fit. */
export interface AuditBreak {
  /** What does not fit: a gap, a hash, or the end of the chain. */
  readonly kind: BreakKind;
  /** Null: a line of operators. */
  readonly item: string | null;
  /** The number of the line at which it was noticed. */
  readonly seq: number;
  /** A sentence. */
  readonly problem: string;
}

/** The names of subjects. */
export const subjects = {
  job: (id: string): string => `job ${id}`,
  queue: (name: string): string => `queue ${name}`,
  queues: "all queues",
  worker: (id: string): string => `worker ${id}`,
  type: (name: string): string => `type ${name}`,
  workers: "all workers",
  lock: (key: string): string => `lock ${key}`,
  workflow: (name: string): string => `workflow ${name}`,
  token: (name: string): string => `token ${name}`,
  bulk: (id: string): string => `bulk ${id}`,
  schedule: (name: string): string => `schedule ${name}`,
  error: (id: string): string => `error ${id}`,
  alert: (id: string): string => `alert ${id}`,
  audit: "audit",
  database: "database",
} as const;

/** The previous hash of the first line. */
export const NO_HASH = "0".repeat(64);

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

// Operators. What a program does by itself has no actor, and is not recorded in the audit log.

const TEXT_LENGTH_MAX = 1_000;

/** A person, a program, or a job: a task passes its `ctx`. */
export type Actor =
  | string
  | {
      /** The id of the job. */
      readonly id: string;
      /** The trace id of its attempt. */
      readonly traceId: string;
    };

/** Who makes a change, and why. */
export interface Audited {
  /** Who makes the change; inside of a task pass its `ctx`. */
  readonly actor: Actor;
  /** Why, for the audit log. Default: none. */
  readonly reason?: string;
  /** The caller's trace id. Default for a job: its attempt. */
  readonly trace?: string;
}

/** Options of every action that an operator may take. */
export interface OperatorOptions {
  /** Who makes the change. Default: the user and host of the process. */
  readonly actor?: Actor;
  /** Why, for the audit log. Default: none. */
  readonly reason?: string;
  /** The caller's trace id. Default for a job: its attempt. */
  readonly trace?: string;
}

/** The same for tables of options that have more. They are checked with the operator: see operatorOf. */
export const operatorFields = {
  actor: passed<Actor>(),
  reason: passed<string>(),
  trace: passed<string>(),
};

/** The same with an actor that must be given. */
export const auditedFields = { ...operatorFields, actor: needed(passed<Actor>()) };

export const auditedOptions = optionsOf<Audited>()(auditedFields);

export const operatorOptions = optionsOf<OperatorOptions>()(operatorFields);

/** Who acts, and why, as recorded in a line. */
export interface Operator {
  readonly actor: string;
  readonly reason: string | null;
  readonly traceId: string | null;
}

/** The same with the id of the line, which identifies an action whose answer was lost. */
export interface OperatorEntry extends Pick<Operator, "actor">, Partial<Omit<Operator, "actor">> {
  readonly id: string;
}

export function checkOperator({ actor, reason, trace }: Audited): Operator {
  const job = typeof actor === "object" && actor !== null ? actor : null;
  const name = job === null ? (actor as string) : `job ${checkName("actor", job.id)}`;
  const traceId = trace ?? job?.traceId;
  return {
    actor: checkName("actor", name),
    reason: reason === undefined ? null : checkWords("reason", reason, TEXT_LENGTH_MAX),
    traceId: traceId === undefined ? null : checkWords("trace", traceId, TEXT_LENGTH_MAX),
  };
}

/** Null: without an actor, the program acts by itself. */
export function operatorOf(options: OperatorOptions, newId: () => string): OperatorEntry | null {
  const { actor, reason, trace } = options;
  if (actor !== undefined) return { id: newId(), ...checkOperator({ ...options, actor }) };
  if (reason === undefined && trace === undefined) return null;
  throw invalid("actor", "is missing: a reason and a trace are recorded with their actor.");
}

/** For actions that always belong to an operator, even without an actor. */
export function anyOperator(options: OperatorOptions, newId: () => string): OperatorEntry {
  return { id: newId(), ...checkOperator({ ...options, actor: options.actor ?? "api" }) };
}
