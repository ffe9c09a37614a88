/** A `tx` of Drizzle. */
import { can, give, isShape, type Ask, type Shape, type Wanted } from "./ask.ts";
import { askConnection } from "./drivers.ts";

export function askDrizzle(tx: Shape, wanted: Wanted): Ask | null {
  const { session, dialect } = tx;
  if (!can(tx, "select", "transaction") || !isShape(dialect)) return null;
  if (!isShape(session) || !isShape(session["client"])) return null;
  if (!can(tx, "rollback")) {
    throw give(
      "give the `tx` that `db.transaction(async (tx) => …)` of Drizzle hands to its function.",
    );
  }
  // The library has no other way to its connection, and without it no way to send a text with values.
  return askConnection("Drizzle", wanted, () => session["client"]);
}
