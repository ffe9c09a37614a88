/** A Transaction of Kysely. */
import { askConnection } from "./drivers.ts";
import {
  type Ask,
  askingJson,
  call,
  can,
  type Database,
  give,
  givesRows,
  isShape,
  over,
  rowsIn,
  type Shape,
  type Wanted,
  withNumbers,
} from "./send.ts";

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
    const compiledQuery = compiled(asJson ? askingJson(text) : text, values);
    const { rows, numAffectedRows } = (await call(
      plain,
      "executeQuery",
      compiledQuery,
    )) as KyselyAnswer;
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

// The transaction of a `ctx.commit`.

const KEYS = "client,query";

/** `client` is refused when the function has ended that the transaction was given to. */
export function askCommit(tx: Shape, wanted: Wanted): Ask | null {
  if (Object.keys(tx).toSorted().join(",") !== KEYS || !can(tx, "query")) return null;
  if (!isShape(tx["client"])) return null;
  return askConnection("ctx.commit", wanted, () => tx["client"]);
}

// A `tx` of Drizzle.

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

// A `trx` of Knex.

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

// The client of an interactive transaction of Prisma.

export function askPrisma(tx: Shape, { database }: Wanted): Ask | null {
  if (!can(tx, "$queryRawUnsafe", "$executeRawUnsafe")) return null;
  // Only the client that begins transactions can connect.
  if (can(tx, "$connect")) {
    throw give(
      "give the `tx` that `prisma.$transaction(async (tx) => …)` hands to its function; a list of queries is no place for it.",
    );
  }
  return async (text, values) => {
    try {
      return givesRows(text, database)
        ? await query(tx, { text, values, database })
        : { rows: [], count: (await call(tx, "$executeRawUnsafe", text, ...values)) as number };
    } catch (error) {
      throw asTheDriverSaidIt(error);
    }
  };
}

async function query(
  tx: Shape,
  { text, values, database }: { text: string; values: readonly unknown[]; database: Database },
): Promise<{ rows: unknown[]; count: number }> {
  const asJson = database === "postgres";
  const asked = asJson ? askingJson(text) : text;
  const given = (await call(tx, "$queryRawUnsafe", asked, ...values)) as { json: unknown }[];
  const rows = asJson ? rowsIn(given.map(({ json }) => json)) : withNumbers(given);
  return { rows, count: rows.length };
}

/** Prisma has codes of its own and keeps the database's inside: where depends on what it runs on. */
function asTheDriverSaidIt(error: unknown): unknown {
  const meta = isShape(error) ? error["meta"] : null;
  if (!isShape(meta)) return error;
  const { driverAdapterError, code: engineCode, message: engineMessage } = meta;
  const inner = isShape(driverAdapterError) ? driverAdapterError["cause"] : null;
  const { originalCode = engineCode, originalMessage = engineMessage } = isShape(inner)
    ? inner
    : {};
  if (typeof originalCode !== "string") return error;
  const words = typeof originalMessage === "string" ? originalMessage : (error as Error).message;
  const said = new Error(words, { cause: error });
  return Object.assign(said, { code: originalCode, errno: Number(originalCode), sqlState: "" });
}

// An EntityManager or a QueryRunner of TypeORM.

export function askTypeorm(tx: Shape, wanted: Wanted): Ask | null {
  if (isRunner(tx)) return askRunner(tx, wanted);
  if (!can(tx, "getRepository", "transaction")) return null;
  const { queryRunner } = tx;
  if (!isRunner(queryRunner)) throw outside();
  return askRunner(queryRunner, wanted);
}

function askRunner(runner: Shape, wanted: Wanted): Ask {
  return askConnection("TypeORM", wanted, () => {
    if (runner["isTransactionActive"] !== true) throw outside();
    return call(runner, "connect"); // the one that it has
  });
}

function isRunner(tx: unknown): tx is Shape {
  return can(tx, "connect", "startTransaction", "commitTransaction");
}

function outside(): Error {
  return give(
    "give the `manager` that `dataSource.transaction(async (manager) => …)` of TypeORM hands to its function, or a QueryRunner after `startTransaction()`.",
  );
}
