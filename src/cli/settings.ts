/** The settings of a command that is about to run. */
import { cwd } from "node:process";
import { loadConfig, settingsOf, type Config } from "../config/config.ts";
import { ConfigInvalid } from "../config/problem.ts";
import type { Settings } from "../config/schema.ts";
import { ENV_FILE, ENVIRONMENT, readEnvFile } from "../config/sources.ts";
import { flagsFrom } from "./flags.ts";

/** As the process found it, before `.env` was added. */
const found = { ...process.env };

/** What `.env` says is there for tasks too, unless the environment says it. */
export function addEnvFile(): void {
  for (const [name, value] of Object.entries(readEnvFile(cwd()).value)) {
    process.env[name] ??= value;
  }
}

/** With whatever is wrong. */
export function readConfig(options: Readonly<Record<string, unknown>>): Promise<Config> {
  return loadConfig({ folder: cwd(), env: found, flags: flagsFrom(options) });
}

/** Throws ConfigInvalid. */
export async function readSettings(
  options: Readonly<Record<string, unknown>>,
): Promise<{ config: Config; settings: Settings }> {
  const config = await readConfig(options);
  return { config, settings: settingsOf(config) };
}

/** For commands that only need the database: nothing else that may be wrong is in their way. */
export async function readUrl(): Promise<string> {
  const { settings, origins, problems } = await readConfig({});
  // A line of .env that says nothing may be the one that was to name the database.
  const inQuestion = origins.url.source === ENVIRONMENT ? [] : [ENV_FILE];
  const names = new Set(["HOLDFAST_URL", "DATABASE_URL", origins.url.name, ...inQuestion]);
  const ours = problems.filter(({ name }) => names.has(name) || name.startsWith("MYSQL_DB_"));
  if (ours.length > 0) throw new ConfigInvalid(ours);
  return settings.url;
}
