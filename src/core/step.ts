/**
 * Steps: the parts of a task whose results are kept, so that an attempt that begins again skips what is done.
 *
 *     begun ──► done
 *       ├─────► failed  (a call, until its job is revived)
 *       └─────► doubt ──► done, or begun again when a person says that it did not happen
 */
import { DEFAULT_PAYLOAD_BYTES_MAX, encodeReturned } from "./json.ts";

export const stepKinds = ["step", "effect", "commit", "sleep", "event", "call"] as const;
export type StepKind = (typeof stepKinds)[number];

export const stepStates = ["begun", "done", "failed", "doubt"] as const;
export type StepState = (typeof stepStates)[number];

/** The event that tells that a job has ended for which another waits. No event of a user's has such a name. */
export const JOB_ENDED = "@job";

/** A transaction as a user's function is given it. */
export interface UserTransaction {
  /** One statement in the database's own dialect, with its own placeholders. Resolves to the rows. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** The driver's own connection, in the transaction: a `pg` client, a `mysql2` connection, a `DatabaseSync`. */
  readonly client: unknown;
}

/** The limit of what a step returns. */
export const KEPT = { what: "result of a step", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** What a step's function returned, as text. */
export function encodeStep(
  value: unknown,
  { kind, name }: { readonly kind: StepKind; readonly name: string },
): string | null {
  return encodeReturned(value, KEPT, () => ({
    what: `result of ${kind} '${name}'`,
    consequence:
      kind === "commit"
        ? "Nothing was committed, and the job is not retried."
        : "Its work was done, so the job is not retried.",
  }));
}
