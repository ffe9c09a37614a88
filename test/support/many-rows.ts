/** Enough rows for a planner to prefer an index, in SQL that every database understands. A long run has ten times as many. */
import { isLong } from "./scale.ts";

const TEN_THOUSANDS = isLong ? 20 : 2;

export const ROWS = TEN_THOUSANDS * 10_000;

const upTo = (count: number): string =>
  `(${Array.from({ length: count }, (_, d) => `select ${d} as d`).join(" union all ")})`;

/** The numbers below `ROWS`, as a table `n` with a column `n`. */
export const NUMBERS = `(select a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d as n
  from ${upTo(10)} a, ${upTo(10)} b, ${upTo(10)} c, ${upTo(10)} e, ${upTo(TEN_THOUSANDS)} f) n`;
