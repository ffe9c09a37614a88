/** Finds the engine for a URL and opens a store on it. Engines load only when they are asked for. */
import { InvalidArgument } from "../core/errors.ts";
import { systemRuntime, type Runtime } from "../core/runtime.ts";
import { SqlStore } from "./sql-store.ts";
import type { Store, StoreAddress } from "./store.ts";

export interface StoreOptions {
  readonly runtime?: Runtime;
  /** False: a database that does not exist yet is an error instead of a new, empty one. */
  readonly create?: boolean;
}

/** Engines that are on their way: a URL of theirs is no mistake. */
const COMING = new Set(["postgres", "postgresql", "mysql", "mariadb"]);

export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const { runtime = systemRuntime, create = true } = options;
  if (typeof url !== "string" || !url.includes(":")) throw unknownUrl(url);
  const scheme = url.slice(0, url.indexOf(":"));
  if (scheme !== "sqlite") throw unknownUrl(url);
  const { SqliteEngine, sqlitePath } = await import("./sqlite/engine.ts");
  return new SqlStore(await SqliteEngine.open({ path: sqlitePath(url), runtime, create }));
}

/** Opens, from another thread, the store that `address` was read from. */
export async function openStoreAt(address: StoreAddress, runtime: Runtime): Promise<Store> {
  const { SqliteEngine } = await import("./sqlite/engine.ts");
  const path = String(address.options["path"]);
  return new SqlStore(await SqliteEngine.open({ path, runtime, create: false }));
}

function unknownUrl(url: unknown): InvalidArgument {
  // The URL may hold a password, so at most its scheme is repeated.
  const [scheme = "", ...rest] = String(url).split(":");
  if (COMING.has(scheme)) {
    const problem = `'${scheme}:' is not ready yet. Use sqlite:<file> until it is.`;
    return new InvalidArgument({ field: "url", problem });
  }
  const what =
    rest.length === 0 ? "this is not a URL" : `'${scheme.slice(0, 20)}:' is not known here`;
  return new InvalidArgument({
    field: "url",
    problem: `${what}. Use sqlite:<file>, such as sqlite:shop.db, or sqlite::memory:.`,
  });
}
