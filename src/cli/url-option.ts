/** The database of a command, where it is not said on the command line: it comes from where all settings come from. */
import { Option, type Command } from "commander";
import { DEFAULT_URL } from "../config/database-settings.ts";
import { readUrl } from "./settings.ts";

export class UrlOption extends Option {
  constructor() {
    super("--url <url>", `the database (${DEFAULT_URL})`);
  }
}

/** Every command looks at the database that the service works on. */
export async function completeUrl(command: Command): Promise<void> {
  if (!command.options.some((option) => option instanceof UrlOption)) return;
  if (command.getOptionValue("url") === undefined) command.setOptionValue("url", await readUrl());
}
