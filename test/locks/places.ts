/** Where locks are tried: in rows of each database, and in a Redis of the tests' own beside a file. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Holdfast, type HoldfastOptions, openHoldfast } from "../../src/index.ts";
import { openStore } from "../../src/app/store.ts";
import { notItsTurn, reasonOf } from "../support/scale.ts";
import {
  missing,
  missingPrograms,
  scratchDatabase,
  startRedis,
  type GuardedServer,
  type ScratchDatabase,
} from "../support/servers.ts";
import { emptyTables } from "../support/tables.ts";

export interface LockSite extends AsyncDisposable {
  readonly url: string;
  readonly options: Pick<HoldfastOptions, "locks" | "redis">;
  /** Opens it as another process would; what was opened is closed with the site. */
  open(options?: HoldfastOptions): Promise<Holdfast>;
}

export interface PlaceUnderTest {
  readonly name: "SQLite" | "PostgreSQL" | "MariaDB" | "Redis";
  readonly skip: string | false;
  readonly site: () => Promise<LockSite>;
}

function siteOn(
  url: string,
  options: LockSite["options"],
  discard: () => Promise<void> | void,
): LockSite {
  const opened: Holdfast[] = [];
  return {
    url,
    options,
    async open(more = {}) {
      const holdfast = await openHoldfast(url, { ...options, ...more });
      opened.push(holdfast);
      return holdfast;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(opened.map((holdfast) => holdfast.close()));
      await discard();
    },
  };
}

export async function onFile(options: LockSite["options"]): Promise<LockSite> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-locks-"));
  // The file's name is the database's: no two sites meet in Redis.
  const url = `sqlite:${join(folder, `${folder.slice(-6)}.db`)}`;
  return siteOn(url, options, () => rmSync(folder, { recursive: true, force: true }));
}

/** Of tests that are over: making the tables takes longer than most tests. */
const emptied: ScratchDatabase[] = [];

async function onServer(name: "postgres" | "mysql"): Promise<LockSite> {
  const known = emptied.findIndex(({ url }) => url.startsWith(name));
  const scratch = emptied.splice(known, known === -1 ? 0 : 1)[0] ?? (await scratchDatabase(name));
  return siteOn(scratch.url, { locks: "sql" }, async () => {
    const store = await openStore(scratch.url);
    await emptyTables(store.db.engine);
    await store.close();
    emptied.push(scratch);
  });
}

let redis: Promise<GuardedServer> | null = null;

/** One for all tests of a file, which leave it alone. */
function sharedRedis(): Promise<GuardedServer> {
  redis ??= startRedis();
  return redis;
}

export const places: readonly PlaceUnderTest[] = [
  { name: "SQLite", skip: false, site: () => onFile({ locks: "sql" }) },
  {
    name: "PostgreSQL",
    skip: reasonOf(missing("postgres"), notItsTurn("postgres")),
    site: () => onServer("postgres"),
  },
  {
    name: "MariaDB",
    skip: reasonOf(missing("mysql"), notItsTurn("mysql")),
    site: () => onServer("mysql"),
  },
  {
    name: "Redis",
    skip: missingPrograms("redis"),
    site: async () => onFile({ locks: "redis", redis: (await sharedRedis()).url }),
  },
];

/** After the last test. */
export async function leavePlaces(): Promise<void> {
  await (await redis)?.[Symbol.asyncDispose]();
  for (const scratch of emptied.splice(0)) await scratch.drop();
}
