/** When a job starts, and before which others: the same for a new job and for one that is changed. */
import { InvalidArgumentError } from "../core/errors.ts";
import type { NewJob } from "./store.ts";

export const PRIORITY_MAX = 32_767;

/** Null: at once. */
export function startOf({
  delayMs,
  runAt,
}: {
  readonly delayMs?: number | undefined;
  readonly runAt?: number | undefined;
}): NewJob["start"] {
  if (delayMs !== undefined && runAt !== undefined) {
    throw new InvalidArgumentError({ field: "delay", problem: "pass delay or runAt, not both." });
  }
  if (runAt !== undefined) return { at: runAt };
  return delayMs === undefined || delayMs === 0 ? null : { delayMs };
}
