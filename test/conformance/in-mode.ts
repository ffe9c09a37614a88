/** The conformance suite on one way of opening a database. Whatever a test opened is closed or emptied after it. */
import { after, afterEach } from "node:test";
import { sql, type Sql } from "../../src/database/sql.ts";
import type { Open } from "../support/bundle.ts";
import { START_AT, testRuntime } from "../support/runtime.ts";
import { Home, type OpenFirst, type Place } from "./home.ts";
import { conformance } from "./suite.ts";

export type { Place };

export interface Mode {
  /** Why this database has one opener and no more; null: it can have several. */
  readonly alone: string | null;
  /** A database without jobs; with `migrate: false` it has no tables either. */
  readonly place: (options: { migrate: boolean }) => Place | Promise<Place>;
  readonly open: OpenFirst;
  /** All promises, or those that depend on who makes the call. */
  readonly which?: "all" | "between";
  /** The store is in other processes. */
  readonly apart?: boolean;
  /** Nothing is pushed on this way to the database. */
  readonly noPush?: boolean;
  /** Alerts, tokens and statistics as well. */
  readonly besideToo?: boolean;
}

export function inMode({ alone, place, open: openFirst, ...promises }: Mode): void {
  const runtime = testRuntime();
  const idle: Home[] = [];
  const used: Home[] = [];
  afterEach(async () => {
    for (const home of used.splice(0)) {
      if (home.isSpent || (await home.hasWorkflows())) await home.leave();
      else idle.push(home);
    }
  });
  after(async () => {
    for (const home of idle.splice(0)) await home.leave();
  });

  const move = async (migrate: boolean): Promise<Home> =>
    new Home({ place: await place({ migrate }), runtime, openFirst });

  const open: Open = async ({ migrate = true } = {}) => {
    runtime.clock.set(START_AT);
    const known = migrate ? idle.pop() : undefined;
    const home = known ?? (await move(migrate));
    used.push(home);
    home.isSpent = !migrate;
    await known?.empty();
    const store = await home.open();
    if (migrate && known === undefined) await store.migrate();
    const byHand = async (query: Sql): Promise<number> => {
      const { engine } = (await home.plain()).db;
      return engine.transaction((tx) => tx.run(query));
    };
    return {
      store,
      clock: runtime.clock,
      alone,
      another: () => home.open(),
      byHand,
      async pretendMigration(version, { breaking }) {
        home.isSpent = true;
        await byHand(sql`
          insert into holdfast.migration (version, name, breaking, applied_at)
          values (${version}, ${`pretended ${version}`}, ${breaking ? 1 : 0}, ${runtime.now()})`);
      },
    };
  };
  conformance(open, promises);
}
