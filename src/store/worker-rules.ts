/** What every database enforces about workers, as conditions in SQL. */
import { activeStates, workerMoves, workerStates } from "../core/worker-state.ts";

export const isOneOf = (column: string, words: readonly string[]): string =>
  `${column} in (${words.map((word) => `'${word}'`).join(", ")})`;

export const isActive = (column: string): string => isOneOf(column, activeStates);

/** For a trigger: a change of status that the life of a worker does not have. */
export const ILLEGAL_MOVE = workerStates
  .map(
    (from) =>
      `(old.status = '${from}' and not ${isOneOf("new.status", [from, ...workerMoves[from]])})`,
  )
  .join(" or ");
