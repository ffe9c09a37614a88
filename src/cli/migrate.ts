/** `holdfast migrate`: creates the tables, or brings them up to this version; or prints the SQL for it. */
import { existsSync } from "node:fs";
import { Command } from "commander";
import { openStore } from "../store/open.ts";
import { urlOption, type DatabaseOptions } from "./database.ts";
import type { Migrated, MigrationPlan, Store } from "../store/store.ts";
import type { Terminal } from "./terminal.ts";

interface Options extends DatabaseOptions {
  readonly dryRun?: true;
}

export function migrateCommand(terminal: Terminal): Command {
  return new Command("migrate")
    .description("create the tables or bring them up to date")
    .addOption(urlOption())
    .option("--dry-run", "print the SQL instead, and change nothing")
    .addHelpText(
      "after",
      `
The SQL of --dry-run is for the database's shell: psql -1 -f, sqlite3, mysql. With --json, "sql" is
for a driver or for another migration tool, which runs it as one script.`,
    )
    .action((options: Options) =>
      options.dryRun === true ? plan(terminal, options) : migrate(terminal, options),
    );
}

async function migrate(terminal: Terminal, { url }: Options): Promise<void> {
  const store = await openStore(url);
  try {
    const migrated = await store.migrate();
    if (terminal.json) terminal.printJson({ store: store.name, ...migrated });
    else terminal.print(inWords(store.name, migrated));
  } finally {
    await store.close();
  }
}

function inWords(name: string, { from, to, applied }: Migrated): string {
  if (applied.length === 0) return `Nothing to do: ${name} has schema version ${to}.`;
  return `Migrated ${name} from schema version ${from} to ${to}: ${applied.join(", ")}.`;
}

async function plan(terminal: Terminal, { url }: Options): Promise<void> {
  const store = await openUnchanged(url);
  try {
    const { shellSql, ...planned } = await store.planMigration();
    if (terminal.json) terminal.printJson({ store: store.name, ...planned });
    else terminal.print(asScript({ ...planned, shellSql }));
  } finally {
    await store.close();
  }
}

/** A database that is not there yet has nothing, and is not created by a look at it. */
function openUnchanged(url: string): Promise<Store> {
  const isMissing = url.startsWith("sqlite:") && !existsSync(url.slice("sqlite:".length));
  return isMissing ? openStore("sqlite::memory:") : openStore(url, { create: false });
}

/** Also where there is nothing to do it is SQL: what comes out may go into a shell. */
function asScript({ from, to, shellSql }: MigrationPlan): string {
  if (shellSql === "") return `-- Nothing to do: schema version ${to}.`;
  return `-- Holdfast, schema version ${from} to ${to}. Run it in one transaction where the database can.\n\n${shellSql.trimEnd()}`;
}
