/** A connection of `mysql2`, with promises or callbacks. */
import { call, can, give, isShape, over, type Ask, type Shape, type Wanted } from "./ask.ts";

/** Flags of the server's status. */
const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;

/** The user may have told their connection otherwise. Values stand in the text, where no mark is a placeholder. */
const READING = {
  values: [],
  namedPlaceholders: false,
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
  supportBigNumbers: false,
  bigNumberStrings: false,
};

export function askMysql2(tx: Shape, { library }: Wanted): Ask | null {
  if (!can(tx, "query")) return null;
  if (can(tx, "getConnection")) {
    throw give(
      "a pool of `mysql2` sends a statement to whichever connection is free: give a connection (`await pool.getConnection()`), after `start transaction`.",
    );
  }
  const connection = can(tx, "promise") ? (call(tx, "promise") as Shape) : tx;
  return async (text) => {
    const [answer] = (await call(connection, "query", { ...READING, sql: text })) as [unknown];
    if (Array.isArray(answer)) return { rows: answer as unknown[], count: answer.length };
    refuseIdle(answer, library);
    return { rows: [], count: (answer as { affectedRows?: number }).affectedRows ?? 0 };
  };
}

/** What we say first changes a setting of the session, and nothing that lasts. */
function refuseIdle(answer: unknown, library: string | undefined): void {
  const status = isShape(answer) ? answer["serverStatus"] : null;
  if (typeof status !== "number") return;
  // Without autocommit a transaction is open, or is about to.
  if ((status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0) return;
  if (library !== undefined) throw over(library);
  throw give(
    "this connection of `mysql2` has no transaction open: send `start transaction` first.",
  );
}
