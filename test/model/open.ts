/** Empty stores for the model, one engine after the other. */
import { createConnection } from "mysql2/promise";
import { systemRuntime, type Runtime } from "../../src/core/runtime.ts";
import { openStore } from "../../src/store/open.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import type { Store } from "../../src/store/store.ts";
import { Schemas } from "../support/schemas.ts";
import { missing, scratchDatabase } from "../support/servers.ts";
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
  const store = new SqlStore(await SqliteEngine.open({ path: ":memory:", runtime, create: true }));
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

async function startPostgres(): Promise<Opener> {
  const database = await scratchDatabase("postgres");
  const schemas = await Schemas.open(database.url);
  return {
    async open(runtime) {
      const place = await schemas.place(database.url, { migrate: true });
      return thenFree(await openStore(place.url, { runtime: patient(runtime) }), () =>
        place.free(),
      );
    },
    async [Symbol.asyncDispose]() {
      await schemas.close();
      await database.drop();
    },
  };
}

const TABLES = ["job", "ready", "waiting", "lease", "finished", "attempt", "job_key"];

async function startMysql(): Promise<Opener> {
  const database = await scratchDatabase("mysql");
  const admin = await createConnection({ uri: database.url, multipleStatements: true });
  const empty = TABLES.map((table) => `delete from holdfast_${table}`).join(";");
  return {
    async open(runtime) {
      const store = await openStore(database.url, { runtime: patient(runtime) });
      await store.migrate();
      return thenFree(store, async () => void (await admin.query(empty)));
    },
    async [Symbol.asyncDispose]() {
      await admin.end();
      await database.drop();
    },
  };
}

/** Somebody else may have to be waited for, though nobody has to be here. */
function patient(runtime: Runtime): Runtime {
  return { ...runtime, timer: (ms, call, kind) => systemRuntime.timer(ms, call, kind) };
}

function thenFree(store: Store, free: () => Promise<void>): Store {
  const close = store.close.bind(store);
  store.close = async () => {
    await close();
    await free();
  };
  return store;
}
