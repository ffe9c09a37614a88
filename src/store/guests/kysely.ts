/** A Transaction of Kysely. */
import {
  call,
  can,
  give,
  givesRows,
  withNumbers,
  type Ask,
  type Shape,
  type Wanted,
} from "./ask.ts";
import { askingJson, rowsIn } from "./json-rows.ts";

interface KyselyAnswer {
  readonly rows: unknown[];
  readonly numAffectedRows?: bigint;
}

export function askKysely(tx: Shape, { database }: Wanted): Ask | null {
  if (!can(tx, "executeQuery", "withoutPlugins")) return null;
  if (tx["isTransaction"] !== true) {
    throw give(
      "give the `trx` that `db.transaction().execute(async (trx) => …)` of Kysely hands to its function.",
    );
  }
  const plain = call(tx, "withoutPlugins") as Shape; // a plugin may rename columns
  return async (text, values) => {
    const asksRows = givesRows(text, database);
    const asJson = asksRows && database === "postgres";
    const query = compiled(asJson ? askingJson(text) : text, values);
    const { rows, numAffectedRows } = (await call(plain, "executeQuery", query)) as KyselyAnswer;
    if (!asksRows) return { rows: [], count: Number(numAffectedRows ?? 0) };
    const read = asJson
      ? rowsIn(rows.map((row) => (row as { json: unknown }).json))
      : withNumbers(rows);
    return { rows: read, count: read.length };
  };
}

/** What its `CompiledQuery.raw` makes. */
function compiled(sql: string, values: readonly unknown[]): object {
  return {
    sql,
    parameters: [...values],
    query: { kind: "RawNode", sqlFragments: [sql], parameters: [] },
    queryId: { queryId: "holdfast" },
  };
}
