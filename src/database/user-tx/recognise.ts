/**
 * How to send statements in a user transaction. We recognise it by its shape, so no library has to be imported.
 *
 * We send statements and nothing else: the user begins and ends the transaction.
 */
import {
  type Ask,
  askConnection,
  askDriver,
  askingJson,
  call,
  can,
  type Database,
  give,
  givesRows,
  isShape,
  type Library,
  over,
  rowsIn,
  type Shape,
  type Wanted,
  withNumbers,
} from "./drivers.ts";

/** Drivers come last: some libraries have methods of the same names. */
const LIBRARIES: readonly Library[] = [
  askCommit,
  askKnex,
  askKysely,
  askDrizzle,
  askPrisma,
  askTypeorm,
  askDriver,
];

/** `reading`: options that override how the user has set up the driver to read values. */
export function askOf(database: Database, tx: unknown, reading: object = {}): Ask {
  if (isShape(tx)) {
    for (const library of LIBRARIES) {
      const ask = library(tx, { database, reading });
      if (ask !== null) return ask;
    }
  }
  throw give(`pass ${EXPECTED[database]}.`);
}

const EXPECTED = {
  sqlite:
    "a DatabaseSync of `node:sqlite`, after `begin immediate`, or a transaction of Kysely on one",
  postgres:
    "a client of `pg` (not a pool), after `begin`, or a transaction of `postgres`, Knex, Kysely, Drizzle, Prisma or TypeORM",
  mysql:
    "a connection of `mysql2` (not a pool), after `start transaction`, or a transaction of Knex, Kysely, Drizzle, Prisma or TypeORM",
};

// A Transaction of Kysely.

interface KyselyAnswer {
  readonly rows: unknown[];
  readonly numAffectedRows?: bigint;
}

function askKysely(tx: Shape, { database }: Wanted): Ask | null {
  if (!can(tx, "executeQuery", "withoutPlugins")) return null;
  if (tx["isTransaction"] !== true) {
    throw give(
      "pass the `trx` that `db.transaction().execute(async (trx) => …)` of Kysely gives to its function.",
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

/** The result of its `CompiledQuery.raw`. */
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

/** Reading `client` throws after the user's function has ended. */
function askCommit(tx: Shape, wanted: Wanted): Ask | null {
  if (Object.keys(tx).toSorted().join(",") !== KEYS || !can(tx, "query")) return null;
  if (!isShape(tx["client"])) return null;
  return askConnection("ctx.commit", wanted, () => tx["client"]);
}

// A `tx` of Drizzle.

function askDrizzle(tx: Shape, wanted: Wanted): Ask | null {
  const { session, dialect } = tx;
  if (!can(tx, "select", "transaction") || !isShape(dialect)) return null;
  if (!isShape(session) || !isShape(session["client"])) return null;
  if (!can(tx, "rollback")) {
    throw give(
      "pass the `tx` that `db.transaction(async (tx) => …)` of Drizzle gives to its function.",
    );
  }
  // Drizzle has no other way to its connection, and no way to send a text with values.
  return askConnection("Drizzle", wanted, () => session["client"]);
}

// A `trx` of Knex.

/** Uses its connection, because `trx.raw` takes every question mark for a placeholder. */
function askKnex(tx: Shape, wanted: Wanted): Ask | null {
  const { client } = tx;
  if (!can(tx, "raw", "transaction") || !can(client, "acquireConnection")) return null;
  if (tx["isTransaction"] !== true) {
    throw give("pass the `trx` that `knex.transaction(async (trx) => …)` gives to its function.");
  }
  return askConnection("Knex", wanted, () => {
    if (call(tx, "isCompleted") === true) throw over("Knex");
    return call(client, "acquireConnection");
  });
}

// The client of an interactive transaction of Prisma.

function askPrisma(tx: Shape, { database }: Wanted): Ask | null {
  if (!can(tx, "$queryRawUnsafe", "$executeRawUnsafe")) return null;
  // Only the client that begins transactions can connect.
  if (can(tx, "$connect")) {
    throw give(
      "pass the `tx` that `prisma.$transaction(async (tx) => …)` gives to its function; a list of queries does not work.",
    );
  }
  return async (text, values) => {
    try {
      return givesRows(text, database)
        ? await query(tx, { text, values, database })
        : { rows: [], count: (await call(tx, "$executeRawUnsafe", text, ...values)) as number };
    } catch (error) {
      throw driverError(error);
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

/** Prisma wraps the database's error code: where depends on its engine. */
function driverError(error: unknown): unknown {
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

function askTypeorm(tx: Shape, wanted: Wanted): Ask | null {
  if (isRunner(tx)) return askRunner(tx, wanted);
  if (!can(tx, "getRepository", "transaction")) return null;
  const { queryRunner } = tx;
  if (!isRunner(queryRunner)) throw outside();
  return askRunner(queryRunner, wanted);
}

function askRunner(runner: Shape, wanted: Wanted): Ask {
  return askConnection("TypeORM", wanted, () => {
    if (runner["isTransactionActive"] !== true) throw outside();
    return call(runner, "connect"); // returns its connection
  });
}

function isRunner(tx: unknown): tx is Shape {
  return can(tx, "connect", "startTransaction", "commitTransaction");
}

function outside(): Error {
  return give(
    "pass the `manager` that `dataSource.transaction(async (manager) => …)` of TypeORM gives to its function, or a QueryRunner after `startTransaction()`.",
  );
}
