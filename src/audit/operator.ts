/** Who acts as an operator. What a program does on its own account has no actor, and leaves no line in the audit. */
import { InvalidArgumentError } from "../core/errors.ts";
import { checkName } from "../core/name.ts";
import { checkWords } from "../core/options.ts";

const REASON_LENGTH_MAX = 1_000;

const TRACE_LENGTH_MAX = 1_000;

/** A person, a program, or the job that does it: a task gives its `ctx`. */
export type Actor = string | { readonly id: string; readonly traceId: string };

export interface Audited {
  /** Who does it. */
  readonly actor: Actor;
  readonly reason?: string;
  /** Whatever the caller traces by; of a job, its attempt. */
  readonly trace?: string;
}

/** Options of every action that an operator may take. */
export type OperatorOptions = Partial<Audited>;

export const OPERATOR_OPTIONS = ["actor", "reason", "trace"] as const;

export const AUDITED_OPTIONS = new Set<string>(OPERATOR_OPTIONS);

/** Who acts, and why, as a line records it. */
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
  const traceId = trace ?? job?.traceId;
  return {
    actor: checkName(
      "actor",
      job === null ? (actor as string) : `job ${checkName("actor", job.id)}`,
    ),
    reason: reason === undefined ? null : checkWords("reason", reason, REASON_LENGTH_MAX),
    traceId: traceId === undefined ? null : checkWords("trace", traceId, TRACE_LENGTH_MAX),
  };
}

/** Null: no actor is named, so it is the program's own doing. */
export function operatorOf(options: OperatorOptions, newId: () => string): OperatorEntry | null {
  const { actor, reason, trace } = options;
  if (actor !== undefined) return { id: newId(), ...checkOperator({ ...options, actor }) };
  if (reason === undefined && trace === undefined) return null;
  const problem = "say who does it: a reason and a trace are kept with their actor.";
  throw new InvalidArgumentError({ field: "actor", problem });
}

/** For actions that are always an operator's, whether an actor is named or not. */
export function anyOperator(options: OperatorOptions, newId: () => string): OperatorEntry {
  return { id: newId(), ...checkOperator({ ...options, actor: options.actor ?? "api" }) };
}
