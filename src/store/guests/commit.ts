/** The transaction of a `ctx.commit`. */
import { can, isShape, type Ask, type Shape, type Wanted } from "./ask.ts";
import { askConnection } from "./drivers.ts";

const KEYS = "client,query";

/** `client` is refused when the function has ended that the transaction was given to. */
export function askCommit(tx: Shape, wanted: Wanted): Ask | null {
  if (Object.keys(tx).toSorted().join(",") !== KEYS || !can(tx, "query")) return null;
  if (!isShape(tx["client"])) return null;
  return askConnection("ctx.commit", wanted, () => tx["client"]);
}
