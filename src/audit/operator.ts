/** Operators. What a program does by itself has no actor, and is not recorded in the audit log. */
import { InvalidArgumentError } from "../core/errors.ts";
import { checkName } from "../core/name.ts";
import { checkWords } from "../core/options.ts";

const TEXT_LENGTH_MAX = 1_000;

/** A person, a program, or a job: a task passes its `ctx`. */
export type Actor = string | { readonly id: string; readonly traceId: string };

export interface Audited {
  readonly actor: Actor;
  readonly reason?: string;
  /** The caller's trace id. Default for a job: its attempt. */
  readonly trace?: string;
}

/** Options of every action that an operator may take. */
export type OperatorOptions = Partial<Audited>;

export const OPERATOR_OPTIONS = ["actor", "reason", "trace"] as const;

export const AUDITED_OPTIONS = new Set<string>(OPERATOR_OPTIONS);

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
  const problem = "is missing: a reason and a trace are recorded with their actor.";
  throw new InvalidArgumentError({ field: "actor", problem });
}

/** For actions that always belong to an operator, even without an actor. */
export function anyOperator(options: OperatorOptions, newId: () => string): OperatorEntry {
  return { id: newId(), ...checkOperator({ ...options, actor: options.actor ?? "api" }) };
}
