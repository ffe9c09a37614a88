/** What an account with all privileges can do: disable the triggers. */
import { sql, type Sql } from "../../src/database/sql.ts";
import type { Store } from "../../src/app/store.ts";

/** From now on nothing watches over these tables. */
export async function takeGuardsAway(
  { db: { engine } }: Store,
  tables: readonly string[],
): Promise<void> {
  const drop = (names: readonly { name: string }[]): string =>
    names.map(({ name }) => `drop trigger ${name}`).join(";");
  const unguard = async (): Promise<string> => {
    if (engine.address?.engine === "postgres") {
      return tables.map((table) => `alter table holdfast.${table} disable trigger user`).join(";");
    }
    const owned = tables.map((table) => `holdfast_${table}`);
    const listed: Sql =
      engine.address?.engine === "mysql"
        ? sql`select trigger_name as name from information_schema.triggers
               where event_object_schema = database() and ${engine.among(sql`event_object_table`, owned)}`
        : sql`select name from sqlite_schema
               where type = 'trigger' and ${engine.among(sql`tbl_name`, owned)}`;
    return drop(await engine.all<{ name: string }>(listed));
  };
  const script = await unguard();
  await engine.transaction((tx) => tx.script(script));
}
