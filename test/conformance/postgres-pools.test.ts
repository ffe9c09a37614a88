/** The store contract on PostgreSQL where connections are not ours alone: through PgBouncer, and on a pool of the user's. */
import { after, before, describe } from "node:test";
import { Pool } from "pg";
import { openStore } from "../../src/app/store.ts";
import { assertNothingRuns } from "../support/nothing-runs.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import { Schemas } from "../support/schemas.ts";
import { missing, scratchDatabase, type ScratchDatabase } from "../support/servers.ts";
import { inMode } from "./in-mode.ts";

const limits = { timeout: 480_000, skip: missing("postgres") };

let database: ScratchDatabase;
let schemas: Schemas;
before(async () => {
  if (limits.skip !== false) return;
  database = await scratchDatabase("postgres");
  schemas = await Schemas.open(database.url);
});

const POOLS = ["PgBouncer", "lent"];
const pooled = { ...limits, skip: reasonOf(missing("pgbouncer"), notItsTurn("PgBouncer", POOLS)) };
const lent = { ...limits, skip: reasonOf(limits.skip, notItsTurn("lent", POOLS)) };

describe("postgres through PgBouncer in transaction mode", pooled, () => {
  inMode({
    alone: null,
    place: (options) => schemas.place(String(database.pooledUrl), options),
    which: "between",
    noPush: true,
    open: (url, runtime) => openStore(url, { runtime }),
  });
});

describe("postgres on a pool of the user's", lent, () => {
  const pools: Pool[] = [];
  inMode({
    alone: null,
    place: (options) => schemas.place(database.url, options),
    which: "between",
    open: async (url, runtime) => {
      const { searchParams } = new URL(url);
      const pool = new Pool({ connectionString: database.url, max: 4, idleTimeoutMillis: 500 });
      pools.push(pool);
      return openStore(pool, { runtime, schema: String(searchParams.get("schema")) });
    },
  });
  after(() => Promise.all(pools.map((pool) => pool.end())));
});

after(async () => {
  await schemas?.close();
  await database?.drop();
  await assertNothingRuns();
});
