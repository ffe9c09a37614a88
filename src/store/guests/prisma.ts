/** The client of an interactive transaction of Prisma. */
import {
  call,
  can,
  give,
  givesRows,
  isShape,
  withNumbers,
  type Ask,
  type Database,
  type Shape,
  type Wanted,
} from "./ask.ts";
import { askingJson, rowsIn } from "./json-rows.ts";

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
