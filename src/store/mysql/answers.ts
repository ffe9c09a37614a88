/** What the server answered, statement by statement. */
import type { Answer } from "./session.ts";

export function rowsOf<T>(answer: Answer | undefined): T[] {
  return Array.isArray(answer) ? (answer as T[]) : [];
}

/** The rows of several answers of the same kind. */
export function allRows<T>(answers: readonly Answer[]): T[] {
  const [first, ...more] = answers;
  return more.length === 0 ? rowsOf<T>(first) : answers.flatMap((answer) => rowsOf<T>(answer));
}

/** The one number of the one row; null: it says nothing. */
export function numberIn(answer: Answer | undefined): number | null {
  const [row] = rowsOf<[number | null]>(answer);
  return row?.[0] ?? null;
}

export function changesOf(answer: Answer | undefined): number {
  return answer !== undefined && "affectedRows" in answer ? answer.affectedRows : 0;
}
