/**
 * A transaction of the user's, in which we are guests: recognised by its shape, so that no library has to be imported.
 *
 * We send statements and nothing else. When it begins and how it ends is the user's business, and what we wrote is there if,
 * and when, they commit.
 */
import { askDriver } from "./drivers.ts";
import { askCommit, askDrizzle, askKnex, askKysely, askPrisma, askTypeorm } from "./libraries.ts";
import { type Ask, type Database, give, isShape, type Library } from "./send.ts";

/** Before the drivers: some of these have methods of the same names. */
const LIBRARIES: readonly Library[] = [
  askCommit,
  askKnex,
  askKysely,
  askDrizzle,
  askPrisma,
  askTypeorm,
  askDriver,
];

/**
 * How to ask the user's transaction, for a database of this kind. `reading` is what a driver is told about reading values,
 * where the user may have told theirs something else.
 */
export function askOf(database: Database, tx: unknown, reading: object = {}): Ask {
  if (isShape(tx)) {
    for (const library of LIBRARIES) {
      const ask = library(tx, { database, reading });
      if (ask !== null) return ask;
    }
  }
  throw give(`give ${EXPECTED[database]}.`);
}

const EXPECTED = {
  sqlite:
    "a DatabaseSync of `node:sqlite`, after `begin immediate`, or a transaction of Kysely on one",
  postgres:
    "a client of `pg` (not a pool), after `begin`, or a transaction of `postgres`, Knex, Kysely, Drizzle, Prisma or TypeORM",
  mysql:
    "a connection of `mysql2` (not a pool), after `start transaction`, or a transaction of Knex, Kysely, Drizzle, Prisma or TypeORM",
};
