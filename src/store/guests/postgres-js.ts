/** The `sql` of a transaction of `postgres`. */
import {
  call,
  can,
  give,
  givesRows,
  isShape,
  over,
  type Ask,
  type Shape,
  type Wanted,
} from "./ask.ts";
import { askingJson, rowsIn } from "./json-rows.ts";

export function askPostgresJs(tx: Shape, { library = "`postgres`" }: Wanted): Ask | null {
  if (!can(tx, "unsafe")) return null;
  if (!can(tx, "savepoint")) {
    throw give(
      "give the `sql` that `sql.begin(async (sql) => …)` of `postgres` hands to its function.",
    );
  }
  let known = false;
  return async (text, values) => {
    if (!known) await refuseOver(tx, library);
    known = true;
    const asksRows = givesRows(text, "postgres");
    const given = values.map((value) => (Array.isArray(value) ? arrayText(value) : value));
    const query = call(tx, "unsafe", asksRows ? askingJson(text) : text, given) as Shape;
    const answer = (await call(query, "values")) as unknown[][] & { count: number | null };
    const rows = asksRows ? rowsIn(answer.map(([json]) => json)) : [];
    return { rows, count: answer.count ?? 0 };
  };
}

/** The library would send it to a connection that it had once, and nothing but the server tells that nothing is open. */
async function refuseOver(tx: Shape, library: string): Promise<void> {
  try {
    await call(tx, "unsafe", ONLY_INSIDE);
  } catch (error) {
    if (!isShape(error) || error["code"] !== NO_TRANSACTION) throw error;
    throw over(library);
  }
}

/** Refused outside of a transaction, and inside nobody minds it. */
const ONLY_INSIDE = "lock table pg_catalog.pg_am in access share mode";
const NO_TRANSACTION = "25P01";

/** Written out, because the library may have been told not to ask the server for its types of arrays. */
function arrayText(texts: readonly string[]): string {
  const quoted = texts.map((text) => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`);
  return `{${quoted.join(",")}}`;
}
