/** `holdfast migrate`: creates the tables, or brings them up to this version. */
import { Command } from "commander";
import { openStore } from "../store/open.ts";
import { urlOption, type DatabaseOptions } from "./database.ts";
import type { Migrated } from "../store/store.ts";
import type { Terminal } from "./terminal.ts";

export function migrateCommand(terminal: Terminal): Command {
  return new Command("migrate")
    .description("create the tables or bring them up to date")
    .addOption(urlOption())
    .action((options: DatabaseOptions) => migrate(terminal, options));
}

async function migrate(terminal: Terminal, { url }: DatabaseOptions): Promise<void> {
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
