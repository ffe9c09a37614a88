/** Who acts as an operator. What a program does on its own account has no actor, and leaves no line in the audit. */
import { InvalidArgument } from "../core/errors.ts";
import type { Signature } from "../store/actions.ts";
import { signatureOf, type Signed } from "./item-options.ts";

/** Options of whatever an operator may do. */
export type ByOperator = Partial<Signed>;

export const OPERATOR_OPTIONS = ["actor", "reason", "trace"] as const;

/** Null: nobody is named, so it is the program's own doing. */
export function operatorOf(options: ByOperator, newId: () => string): Signature | null {
  const { actor, reason, trace } = options;
  if (actor !== undefined) return signed({ ...options, actor }, newId);
  if (reason === undefined && trace === undefined) return null;
  const problem = "say who does it: a reason and a trace are kept with their actor.";
  throw new InvalidArgument({ field: "actor", problem });
}

/** Of what only operators do: somebody did it, named or not. */
export function anyOperator(options: ByOperator, newId: () => string): Signature {
  return signed({ ...options, actor: options.actor ?? "api" }, newId);
}

function signed(by: Signed, newId: () => string): Signature {
  const { actor, reason, traceId } = signatureOf(by);
  return { id: newId(), actor, reason, traceId };
}
