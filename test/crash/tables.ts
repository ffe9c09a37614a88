/** Reads a database without the product's code, and says what must be true of it whatever happened. */
import { deepEqual, equal } from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";

type Row = Record<string, unknown>;

/** Every row of every table, in an order that does not depend on how they got there. */
export type Tables = Record<string, Row[]>;

const STATE_TABLES = ["ready", "waiting", "lease", "finished"] as const;

/** Opens the file as the next process would: what the dead one left in its log is recovered first. */
export function readTables(path: string): Tables {
  const db = new DatabaseSync(path);
  try {
    deepEqual(db.prepare("pragma quick_check").all(), [{ __proto__: null, quick_check: "ok" }]);
    const names = db
      .prepare("select name from sqlite_schema where type = 'table' order by name")
      .all()
      .map((row) => String(row["name"]));
    return Object.fromEntries(names.map((name) => [name.replace("holdfast_", ""), all(db, name)]));
  } finally {
    db.close();
  }
}

function all(db: DatabaseSync, table: string): Row[] {
  const rows = db.prepare(`select * from ${table}`).all();
  // The number of a claim is drawn at random; two claims that come to the same are the same.
  const texts = rows
    .map(({ claim_id: _drawn, ...row }) => JSON.stringify(row))
    .toSorted((a, b) => (a < b ? -1 : 1));
  return texts.map((text) => JSON.parse(text) as Row);
}

export function ids(tables: Tables, ...names: readonly string[]): string[] {
  return names.flatMap((name) => (tables[name] ?? []).map((row) => String(row["id"])));
}

export function sorted(values: readonly string[]): string[] {
  return values.toSorted((a, b) => (a < b ? -1 : 1));
}

/** How many jobs are there, or stand somewhere else, or have another row than before. */
export function countChanged(before: Tables, after: Tables): number {
  const [old, now] = [rowsById(before), rowsById(after)];
  const known = new Set([...old.keys(), ...now.keys()]);
  return [...known].filter((id) => old.get(id) !== now.get(id)).length;
}

function rowsById(tables: Tables): Map<string, string> {
  const rows = STATE_TABLES.flatMap((name) =>
    (tables[name] ?? []).map((row): [string, string] => [
      String(row["id"]),
      `${name} ${JSON.stringify(row)}`,
    ]),
  );
  return new Map(rows);
}

/** Every accepted job stands in exactly one state table, and a key is held by the live job that has it. */
export function assertWhole(tables: Tables): void {
  deepEqual(sorted(ids(tables, ...STATE_TABLES)), sorted(ids(tables, "job")));
  const live = ["ready", "waiting", "lease"].flatMap((name) => tables[name] ?? []);
  const holders = live.filter((row) => row["job_key"] !== null);
  const held = (row: Row, id: string): string =>
    JSON.stringify([row["task"], row["job_key"], row[id]]);
  deepEqual(
    sorted((tables["job_key"] ?? []).map((row) => held(row, "job_id"))),
    sorted(holders.map((row) => held(row, "id"))),
  );
  const known = new Set(ids(tables, "job"));
  const orphans = (tables["attempt"] ?? []).filter((row) => !known.has(String(row["job_id"])));
  equal(orphans.length, 0, "an attempt of a job that does not exist");
}
