/**
 * A copy of SQLite that another library brings is refused: two copies in one process do not see each other's locks. The
 * libraries that bring one are built when they are installed, or downloaded, so stand-ins are refused here in their place.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import { Kysely, SqliteDialect } from "kysely";
import { defineTask, type Holdfast, openHoldfast } from "../../src/index.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { withCode } from "../worker/observe.ts";
import { forKysely } from "./apps/kysely.ts";

const ship = defineTask({ name: "ship", run: (id: number) => id });

/** Says of itself what another copy would say. */
function openOther(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  db.function("sqlite_source_id", () => "another copy");
  return db;
}

describe("another copy of SQLite", () => {
  let holdfast: Holdfast;
  before(async () => {
    holdfast = await openHoldfast("sqlite::memory:");
  });
  after(() => holdfast.close());

  const refuse = (tx: unknown): Promise<void> =>
    assert.rejects(holdfast.within(tx).enqueue(ship, 1), (error: Error) => {
      assert.match(error.message, /its own copy of SQLite.*`node:sqlite`/);
      return withCode("INVALID_ARGUMENT", "tx")(error);
    });

  test("a database of better-sqlite3's shape (a stand-in) is refused, in a transaction or not", async () => {
    const db = new DatabaseSync(":memory:");
    for (const inTransaction of [true, false]) {
      await refuse({
        open: true,
        inTransaction,
        prepare: (text: string) => db.prepare(text),
        exec: (text: string) => db.exec(text),
        transaction: () => {},
        pragma: () => {},
      });
    }
    db.close();
  });

  test("a database that looks like node:sqlite but uses another copy is refused", async () => {
    const db = openOther();
    db.exec("begin immediate");
    await refuse(db);
    db.close();
  });

  test("a transaction of Kysely on another copy is refused, though Kysely hides its driver", async () => {
    await using db = new Kysely({
      dialect: new SqliteDialect({ database: forKysely(openOther()) }),
    });
    await db.transaction().execute(refuse);
  });
});

after(assertNothingRuns);
