/**
 * The bare loop: what a job with three steps makes the store send, and nothing else. Jobs are claimed and settled in turns
 * of the size that the worker takes; each step is written and committed by itself; as many at once as the worker can.
 */
import type { SqlEngine } from "../fill.ts";
import type { Place } from "../places.ts";
import type { Bare, BareParts } from "./loop.ts";
import { openBareMariadb } from "./bare-mariadb.ts";
import { openBarePostgres } from "./bare-postgres.ts";
import { openBareSqlite } from "./bare-sqlite.ts";
import { stepStatements } from "./statement.ts";
import type { Store } from "../../src/app/store.ts";

/** The store's connections for steps: no more of them are written at once, whatever the concurrency. */
const CONNECTIONS = 10;
const WORKER = "raw";

const OPEN: Readonly<Record<SqlEngine, (parts: BareParts) => Promise<Bare>>> = {
  sqlite: openBareSqlite,
  postgres: openBarePostgres,
  mariadb: openBareMariadb,
};

export async function openBare(
  name: SqlEngine,
  { place, store, task, concurrency }: OpenOptions,
): Promise<Bare> {
  const steps = await stepStatements(store.db.engine, name, WORKER);
  const lanes = Math.min(concurrency, CONNECTIONS);
  return OPEN[name]({ place, worker: WORKER, task, lanes, steps });
}

interface OpenOptions {
  readonly place: Place;
  readonly store: Store;
  readonly task: string;
  readonly concurrency: number;
}
