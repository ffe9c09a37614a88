/** Empty stores for the model, one engine after the other. */
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";
import { openStore, storeOn } from "../../src/app/store.ts";
import { INDEX_TABLES } from "../../src/copy/tables.ts";
import { SqliteEngine } from "../../src/database/sqlite/engine.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import type { OpenStore } from "./world.ts";

export interface Opener extends AsyncDisposable {
  readonly open: OpenStore;
}

export interface ModelEngine {
  readonly name: string;
  readonly skip: string | false;
  readonly start: () => Promise<Opener>;
}

export const openSqlite: OpenStore = async (runtime) => {
  const store = await storeOn(await SqliteEngine.open({ path: ":memory:", runtime, create: true }));
  await store.migrate();
  return store;
};

export const engines: readonly ModelEngine[] = [
  {
    name: "SQLite",
    skip: false,
    start: async () => ({ open: openSqlite, [Symbol.asyncDispose]: async () => {} }),
  },
  { name: "PostgreSQL", skip: missing("postgres"), start: startPostgres },
  { name: "MariaDB", skip: missing("mysql"), start: startMysql },
];

const JOB_TABLES = ["job", "ready", "waiting", "lease", "finished", "attempt"];
const TABLES = [...JOB_TABLES, "job_key", "kept_key", "queue", "queue_rule", "gate"];

async function startPostgres(): Promise<Opener> {
  const database = await scratchDatabase("postgres");
  const admin = new Client({ connectionString: database.url });
  await admin.connect();
  return onServer(database, {
    empty: async () =>
      void (await admin.query(TABLES.map((table) => `delete from holdfast.${table}`).join(";"))),
    end: () => admin.end(),
  });
}

async function startMysql(): Promise<Opener> {
  const database = await scratchDatabase("mysql");
  const admin = await createConnection({ uri: database.url, multipleStatements: true });
  return onServer(database, {
    empty: async () =>
      void (await admin.query(
        [...TABLES, ...INDEX_TABLES].map((table) => `delete from holdfast_${table}`).join(";"),
      )),
    end: () => admin.end(),
  });
}

/** One store for all runs, emptied after each: connecting and planning would take most of the time. */
async function onServer(
  database: ScratchDatabase,
  admin: { empty: () => Promise<void>; end: () => Promise<void> },
): Promise<Opener> {
  let current: Runtime = systemRuntime;
  const store = await openStore(database.url, {
    runtime: {
      ...systemRuntime,
      now: () => current.now(),
      monotonic: () => current.monotonic(),
    },
  });
  await store.migrate();
  const close = store.close.bind(store);
  return {
    async open(runtime) {
      current = runtime;
      return Object.assign(store, { close: admin.empty });
    },
    async [Symbol.asyncDispose]() {
      await close();
      await admin.end();
      await database.drop();
    },
  };
}
