/** The database of a command, where it is not said on the command line: it comes from where all settings come from. */
import { Option, type Command } from "commander";
import { DEFAULT_URL } from "../config/database-settings.ts";
import { readUrl } from "./settings.ts";

export class UrlOption extends Option {
  constructor() {
    super("--url <url>", `the database (${DEFAULT_URL})`);
  }
}

let isUnnamed = false;

/** Whether the database of this command is the default: neither a flag nor a setting names one. */
export function usesDefaultUrl(): boolean {
  return isUnnamed;
}

/** Every command looks at the database that the service works on. */
export async function completeUrl(command: Command): Promise<void> {
  isUnnamed = false;
  if (!command.options.some((option) => option instanceof UrlOption)) return;
  if (command.getOptionValue("url") !== undefined) return;
  const { url, isDefault } = await readUrl();
  isUnnamed = isDefault;
  command.setOptionValue("url", url);
}
