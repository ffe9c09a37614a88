/** What a command is given: a terminal, and a way to open the database. */
import { Option } from "commander";
import { DEFAULT_URL } from "../database/options.ts";
import type { Terminal } from "./terminal.ts";

/** `App` is the part of Holdfast that the command uses. */
export interface CommandKit<App> {
  readonly terminal: Terminal;
  /** For commands that need an existing database of this version. */
  readonly open: (url: string) => Promise<App & AsyncDisposable>;
  /** For commands that enqueue or configure: creates a missing database, migrates an old one, and says so. */
  readonly openForWork: (
    url: string,
    say: (line: string) => void,
  ) => Promise<App & AsyncDisposable>;
}

export interface DatabaseOptions {
  readonly url: string;
}

/** The option --url; if it is missing, the database comes from the settings. */
export class UrlOption extends Option {
  constructor() {
    super("--url <url>", `the database (default: ${DEFAULT_URL})`);
  }
}

export function urlOption(): UrlOption {
  return new UrlOption();
}
