/**
 * A transaction of the user's, in which we are guests: recognised by its shape, so that no driver has to be imported.
 *
 * We send statements and nothing else. When it begins and how it ends is the user's business, and what we wrote is there if,
 * and when, they commit.
 */
import { InvalidArgument } from "../core/errors.ts";

/** `count` is how many rows a statement concerned. */
export interface Asked {
  readonly rows: unknown[];
  readonly count: number;
}

/** Sends one statement. */
export type Ask = (text: string, values: readonly unknown[]) => Promise<Asked>;

type Callable = (...args: unknown[]) => unknown;

const isCallable = (value: unknown): value is Callable => typeof value === "function";

/**
 * How to ask the user's transaction, for a database of this kind. `reading` is what a driver is told about reading values,
 * where the user may have told theirs something else.
 */
export function askOf(
  engine: "sqlite" | "postgres" | "mysql",
  tx: unknown,
  reading: object = {},
): Ask {
  if ((typeof tx !== "object" && typeof tx !== "function") || tx === null) throw notOne(engine);
  const ask = WAYS[engine](tx as Record<string, unknown>, reading);
  if (ask === null) throw notOne(engine);
  return ask;
}

const WAYS = { sqlite: askSqlite, postgres: askPostgres, mysql: askMysql };

const EXPECTED = {
  sqlite: "a DatabaseSync of node:sqlite, after `begin immediate`",
  postgres: "a client of `pg` (not a pool), after `begin`",
  mysql: "a connection of `mysql2` (not a pool), after `start transaction`",
};

function notOne(engine: keyof typeof EXPECTED): InvalidArgument {
  return new InvalidArgument({ field: "tx", problem: `give ${EXPECTED[engine]}.` });
}

interface Statement {
  all(...values: unknown[]): unknown[];
  run(...values: unknown[]): { changes: number | bigint };
  columns?(): unknown[];
}

function askSqlite(tx: Record<string, unknown>): Ask | null {
  if (!isCallable(tx["prepare"]) || !("isTransaction" in tx)) return null;
  if (tx["isTransaction"] !== true) {
    throw new InvalidArgument({
      field: "tx",
      problem: "it has no transaction open: begin one first.",
    });
  }
  const prepare = (text: string): Statement =>
    Reflect.apply(tx["prepare"] as Callable, tx, [text]) as Statement;
  return async (text, values) => {
    const statement = prepare(text);
    if ((statement.columns?.() ?? []).length === 0) {
      return { rows: [], count: Number(statement.run(...values).changes) };
    }
    const rows = statement.all(...values).map((row) => ({ ...(row as object) }));
    return { rows, count: rows.length };
  };
}

function askPostgres(tx: Record<string, unknown>, reading: object): Ask | null {
  // A pool has a query too, which goes to whichever connection is free.
  if (!isCallable(tx["query"]) || "totalCount" in tx) return null;
  return async (text, values) => {
    const query = { ...reading, text, values: [...values] };
    const asked = Reflect.apply(tx["query"] as Callable, tx, [query]);
    const { rows, rowCount } = (await asked) as { rows: unknown[]; rowCount: number | null };
    return { rows, count: rowCount ?? 0 };
  };
}

function askMysql(tx: Record<string, unknown>): Ask | null {
  const isPool = isCallable(tx["getConnection"]);
  if (!isCallable(tx["query"]) || isPool) return null;
  const promised = isCallable(tx["promise"])
    ? (Reflect.apply(tx["promise"], tx, []) as Record<string, unknown>)
    : tx;
  return async (text) => {
    // Values stand in the text already.
    const asked = Reflect.apply(promised["query"] as Callable, promised, [text]);
    const [answer] = (await asked) as [unknown];
    if (Array.isArray(answer)) return { rows: answer as unknown[], count: answer.length };
    return { rows: [], count: (answer as { affectedRows?: number }).affectedRows ?? 0 };
  };
}
