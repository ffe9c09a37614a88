/** The database a command works on. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Command } from "commander";
import { type Holdfast, type HoldfastOptions, openHoldfast } from "../app/holdfast.ts";
import type { Settings } from "../app/settings.ts";
import { openStore, type Store } from "../app/store.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import { type Logger, silentLogger } from "../core/log.ts";
import type { Migrated, MigrationPlan } from "../database/engine.ts";
import { DEFAULT_URL } from "../database/options.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { usesDefaultUrl } from "./settings.ts";

/** Migrates an old database and creates a missing one, which is reported: its name may be mistyped. */
export async function openForWork(
  url: string,
  say: (line: string) => void,
  options: Omit<HoldfastOptions, "migrate" | "create" | "version" | "runtime"> = {},
): Promise<Holdfast> {
  const { schema, redis, ...others } = options;
  const store = await openStore(url, {
    ...(schema === undefined ? {} : { schema }),
    ...(redis === undefined ? {} : { redis }),
  });
  try {
    const { from, applied } = await store.migrate();
    if (from === 0 && applied.length > 0) say(`Created ${store.db.name}.`);
    return await openHoldfast(store, { ...others, ...(redis === undefined ? {} : { redis }) });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The same, with all settings. */
export function openForService(settings: Settings, logger: Logger): Promise<Holdfast> {
  const say = (line: string): void => logger.info({ event: "schema:created" }, line);
  return openForWork(settings.url, say, optionsFrom(settings, logger));
}

/** The same, for an agent: creating or migrating tables is not for a reader. */
export function openForAgent(settings: Settings, logger: Logger): Promise<Holdfast> {
  const options = optionsFrom(settings, logger);
  return openHoldfast(settings.url, { ...options, create: false, migrate: false });
}

function optionsFrom(settings: Settings, logger: Logger) {
  const { schema, redis, locks, lockTtl, lockWait, redact } = settings;
  return {
    logger,
    lockTtl,
    lockWait,
    ...(redact === null ? {} : { redact }),
    ...(schema === null ? {} : { schema }),
    ...(redis === null ? {} : { redis }),
    ...(locks === null ? {} : { locks }),
  };
}

/** For commands that only read: creating a missing database would show misleading, empty results. */
export async function openForLooking(url: string): Promise<Holdfast> {
  refuseMissingDefault();
  // The doctor reports what these commands would warn of every time.
  return openHoldfast(url, { create: false, migrate: false, logger: silentLogger });
}

/** For commands that enqueue or configure. No worker would read a database that exists because a setting was forgotten. */
export async function openForChanging(url: string, say: (line: string) => void): Promise<Holdfast> {
  refuseMissingDefault();
  // They say by themselves what a service would log.
  return openForWork(url, say, { logger: silentLogger });
}

function refuseMissingDefault(): void {
  const path = resolve(DEFAULT_URL.replace("sqlite:", ""));
  if (!usesDefaultUrl() || existsSync(path)) return;
  throw new StoreUnavailableError({
    problem: `No database at ${path}, the default location. Neither --url nor HOLDFAST_URL is set.`,
    remedy:
      "Name your database, such as --url sqlite:shop.db, or create this one with 'holdfast migrate'.",
  });
}

// `holdfast migrate`: creates the tables, migrates them to this version, or prints the SQL for that.

interface Options extends DatabaseOptions {
  readonly dryRun?: true;
}

export function migrateCommand({ terminal }: CommandKit<unknown>): Command {
  return new Command("migrate")
    .description("create or migrate the tables")
    .addOption(urlOption())
    .option("--dry-run", "print the SQL without running it")
    .addHelpText(
      "after",
      `
--dry-run prints SQL for the database's shell: psql -1 -f, sqlite3 or mysql.
With --json, "sql" is one script for a driver or for another migration tool.`,
    )
    .action((options: Options) =>
      options.dryRun === true ? plan(terminal, options) : migrate(terminal, options),
    );
}

async function migrate(terminal: Terminal, { url }: Options): Promise<void> {
  const store = await openStore(url);
  try {
    const migrated = await store.migrate();
    if (terminal.json) terminal.printJson({ store: store.db.name, ...migrated });
    else terminal.print(inWords(store.db.name, migrated));
  } finally {
    await store.close();
  }
}

function inWords(name: string, { from, to, applied }: Migrated): string {
  if (applied.length === 0) return `Nothing to do: ${name} is at schema version ${to}.`;
  return `Migrated ${name} from schema version ${from} to ${to}: ${applied.join(", ")}.`;
}

async function plan(terminal: Terminal, { url }: Options): Promise<void> {
  const store = await openUnchanged(url);
  try {
    const { shellSql, ...planned } = await store.planMigration();
    if (terminal.json) terminal.printJson({ store: store.db.name, ...planned });
    else terminal.print(asScript({ ...planned, shellSql }));
  } finally {
    await store.close();
  }
}

/** A dry run must not create a missing database, so it plans for an empty one in memory. */
function openUnchanged(url: string): Promise<Store> {
  const isMissing = url.startsWith("sqlite:") && !existsSync(url.slice("sqlite:".length));
  return isMissing ? openStore("sqlite::memory:") : openStore(url, { create: false });
}

/** Always valid SQL, because the output may be piped into a shell. */
function asScript({ from, to, shellSql }: MigrationPlan): string {
  if (shellSql === "") return `-- Nothing to do: schema version ${to}.`;
  return `-- Holdfast, schema version ${from} to ${to}. Run it in one transaction if the database supports that.\n\n${shellSql.trimEnd()}`;
}
