/** The bare loop on SQLite. One writer at a time is its nature, so nothing is gained by doing several things at once. */
import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { SqlValue } from "../../src/database/sql.ts";
import { fileOf } from "../places.ts";
import { Turns, type Held } from "../systems/raw-sqlite.ts";
import type { Bare, BareParts } from "./loop.ts";
import { ID_MARK } from "./statement.ts";

interface Prepared {
  readonly statement: StatementSync;
  readonly valuesFor: (id: string) => SqlValue[];
}

export async function openBareSqlite({ place, worker, task, steps }: BareParts): Promise<Bare> {
  const db = new DatabaseSync(fileOf(place), { timeout: 0 });
  db.exec("pragma journal_mode = wal; pragma synchronous = full;");
  const turns = new Turns(db);
  const prepared = steps.map(({ text, values }) => ({
    statement: db.prepare(text),
    valuesFor: (id: string) =>
      values.map((value) => (value === ID_MARK ? id : value)) as SqlValue[],
  }));
  return {
    async run(batch) {
      let held: Held[] = [];
      let settled = 0;
      do {
        settled += held.length;
        held = turns.turn(held, { worker, task, limit: batch });
        for (const [id] of held) keepSteps(db, prepared, id);
      } while (held.length > 0);
      return settled;
    },
    [Symbol.asyncDispose]: async () => db.close(),
  };
}

function keepSteps(db: DatabaseSync, steps: readonly Prepared[], id: string): void {
  for (const { statement, valuesFor } of steps) {
    db.exec("begin immediate");
    statement.run(...valuesFor(id));
    db.exec("commit");
  }
}
