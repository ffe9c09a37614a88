/**
 * How often this process was refused a move, of a job or of an item, by the code of the error that said so.
 *
 * The errors count themselves: whoever throws one, and however it is handled, it is a refusal.
 */
const counts = new Map<string, number>();

export function countRefusal(code: string): void {
  counts.set(code, (counts.get(code) ?? 0) + 1);
}

export function refusals(): ReadonlyMap<string, number> {
  return counts;
}
