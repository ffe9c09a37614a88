/** A database of `node:sqlite`, and why there is no other. */
import { call, can, give, type Ask, type Shape } from "./ask.ts";

/**
 * SQLite locks a file for the whole process, and knows within a process by its own memory alone who has it. So two copies of
 * the library in one process write at the same time, and the one that closes first deletes the log of the other.
 */
export const OTHER_COPY =
  "it runs on a copy of SQLite of its own (as better-sqlite3 and sqlite3 bring it), and two copies in one process do not see each other's locks on a file: " +
  "rows are lost. Give a DatabaseSync of `node:sqlite`, and let nothing else in this process open the file.";

/** What one copy of the library says about itself. */
export const FINGERPRINT = `
  select sqlite_source_id() || group_concat(compile_options, ' ') as copy
    from pragma_compile_options`;

export function askSqlite(tx: Shape): Ask | null {
  if (!can(tx, "prepare")) return null;
  if ("inTransaction" in tx) throw give(OTHER_COPY); // better-sqlite3
  if (!("isTransaction" in tx)) return null;
  const refuseIdle = (): void => {
    if (tx["isTransaction"] === true) return;
    throw give("this database has no transaction open: run `begin immediate` first.");
  };
  refuseIdle();
  return async (text, values) => {
    refuseIdle(); // a statement after the commit would be there whatever became of the others
    const statement = call(tx, "prepare", text) as Shape;
    call(statement, "setReadBigInts", false);
    if (can(statement, "setReturnArrays")) call(statement, "setReturnArrays", false);
    if ((call(statement, "columns") as unknown[]).length === 0) {
      const { changes } = call(statement, "run", ...values) as { changes: number | bigint };
      return { rows: [], count: Number(changes) };
    }
    const rows = (call(statement, "all", ...values) as object[]).map((row) => ({ ...row }));
    return { rows, count: rows.length };
  };
}
