/** A client of `pg`. */
import { call, can, give, over, type Ask, type Shape, type Wanted } from "./ask.ts";

const IDLE = "I";

export function askPg(tx: Shape, { reading, library }: Wanted): Ask | null {
  if (!can(tx, "query")) return null;
  if ("totalCount" in tx) {
    throw give(
      "a pool of `pg` sends a statement to whichever connection is free: give a client (`await pool.connect()`), after `begin`.",
    );
  }
  let known = false;
  return async (text, values) => {
    const query = { ...reading, text, values: [...values] };
    const answer = (await call(tx, "query", query)) as { rows: unknown[]; rowCount: number | null };
    // The first statement reads, whatever is to be done, and its answer tells what goes for the others.
    if (!known) refuseIdle(tx, library);
    known = true;
    return { rows: answer.rows, count: answer.rowCount ?? 0 };
  };
}

/** Older drivers do not tell. */
function refuseIdle(tx: Shape, library: string | undefined): void {
  if (!can(tx, "getTransactionStatus") || call(tx, "getTransactionStatus") !== IDLE) return;
  if (library !== undefined) throw over(library);
  throw give("this client of `pg` has no transaction open: send `begin` first.");
}
