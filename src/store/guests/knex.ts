/** A `trx` of Knex. */
import { call, can, give, over, type Ask, type Shape, type Wanted } from "./ask.ts";
import { askConnection } from "./drivers.ts";

/** We ask its connection and not `trx.raw`, which takes question marks for placeholders wherever they stand. */
export function askKnex(tx: Shape, wanted: Wanted): Ask | null {
  const { client } = tx;
  if (!can(tx, "raw", "transaction") || !can(client, "acquireConnection")) return null;
  if (tx["isTransaction"] !== true) {
    throw give("give the `trx` that `knex.transaction(async (trx) => …)` hands to its function.");
  }
  return askConnection("Knex", wanted, () => {
    if (call(tx, "isCompleted") === true) throw over("Knex");
    return call(client, "acquireConnection");
  });
}
