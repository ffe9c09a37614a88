/**
 * Keeps what is told by queue from growing with the number of queues: those with the most to tell stand for themselves, and
 * all others together under one name, so that sums are right.
 */

/** Somebody may have a queue for every customer. */
export const QUEUES_MAX = 1_000;
export const OTHERS = "(others)";

export function foremost<Row extends { readonly queue: string }>(
  rows: readonly Row[],
  { weigh, add }: { weigh: (row: Row) => number; add: (a: Row, b: Row) => Row },
): Row[] {
  if (rows.length <= QUEUES_MAX) return [...rows];
  // By name where they weigh the same: whoever does this again comes to the same.
  const heaviest = rows.toSorted((a, b) => weigh(b) - weigh(a) || (a.queue < b.queue ? -1 : 1));
  const rest = heaviest.slice(QUEUES_MAX).reduce(add);
  return [...heaviest.slice(0, QUEUES_MAX), { ...rest, queue: OTHERS }];
}
