/** The conformance suite on one way of opening a database. Whatever a test opened is closed after it. */
import { afterEach } from "node:test";
import { openStore } from "../../src/store/open.ts";
import { sql, type Sql } from "../../src/store/sql.ts";
import { SqlStore } from "../../src/store/sql-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { Open } from "../support/bundle.ts";
import { testRuntime, type TestRuntime } from "../support/runtime.ts";
import { conformance } from "./suite.ts";

export interface Place {
  readonly url: string;
  /** The test is over: somebody else may have the place. */
  free?(): Promise<void>;
}

export interface Mode {
  /** Why this database has one opener and no more; null: it can have several. */
  readonly alone: string | null;
  /** A database without jobs; with `migrate: false` it has no tables either. */
  readonly place: (options: { migrate: boolean }) => Place | Promise<Place>;
  readonly open: (url: string, runtime: TestRuntime) => Promise<Store>;
  /** All promises, or those that depend on who makes the call. */
  readonly which?: "all" | "between";
  /** The store is in other processes. */
  readonly apart?: boolean;
}

export function inMode({ alone, place, open: openFirst, ...promises }: Mode): void {
  const opened: Store[] = [];
  const places: Place[] = [];
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((store) => store.close()));
    for (const used of places.splice(0)) await used.free?.();
  });
  const keep = (store: Store): Store => {
    opened.push(store);
    return store;
  };

  const open: Open = async ({ migrate = true } = {}) => {
    const runtime = testRuntime();
    const where = await place({ migrate });
    places.push(where);
    const { url } = where;
    const store = keep(await openFirst(url, runtime));
    if (migrate) await store.migrate();
    const another = async (): Promise<Store> => keep(await openStore(url, { runtime }));
    const byHand = async (query: Sql): Promise<number> => {
      const opener = store instanceof SqlStore ? store : ((await another()) as SqlStore);
      return opener.engine.transaction((tx) => tx.run(query));
    };
    return {
      store,
      clock: runtime.clock,
      alone,
      another,
      byHand,
      async pretendMigration(version, { breaking }) {
        await byHand(sql`
          insert into holdfast.migration (version, name, breaking, applied_at)
          values (${version}, ${`pretended ${version}`}, ${breaking ? 1 : 0}, ${runtime.now()})`);
      },
    };
  };
  conformance(open, promises);
}
