import { SqlStore } from "../../src/store/sql-store.ts";
import { SqliteEngine } from "../../src/store/sqlite/engine.ts";
import type { OpenStore } from "./world.ts";

export const openSqlite: OpenStore = async (runtime) => {
  const store = new SqlStore(await SqliteEngine.open({ path: ":memory:", runtime, create: true }));
  await store.migrate();
  return store;
};
