/** The settings of a command that is about to run. */
import { cwd } from "node:process";
import { loadConfig, settingsOf, type Config } from "../config/config.ts";
import { keepPasswordOf, keepSecret } from "../config/masking.ts";
import { ConfigInvalid, type Problem } from "../config/problem.ts";
import { keys, settingOf, type Settings } from "../config/schema.ts";
import { ENV_FILE, ENVIRONMENT, readEnvFile } from "../config/sources.ts";
import { flagsFrom } from "./flags.ts";

/** As the process found it, before `.env` was added. */
let found = { ...process.env };

/** What `.env` says is there for tasks too, unless the environment says it. */
export function addEnvFile(): void {
  found = { ...process.env };
  for (const [name, value] of Object.entries(readEnvFile(cwd()).value)) {
    process.env[name] ??= value;
  }
}

/** With whatever is wrong. */
export async function readConfig(options: Readonly<Record<string, unknown>>): Promise<Config> {
  const config = await loadConfig({ folder: cwd(), env: found, flags: flagsFrom(options) });
  keepSecrets(config.settings);
  return config;
}

/** So that they are covered in every text, also where nothing around them says what they are. */
function keepSecrets(settings: Settings): void {
  for (const key of keys) {
    const value = settings[key];
    if (settingOf(key).kind.hidden === true && typeof value === "string") keepSecret(value);
  }
  for (const url of [settings.url, settings.redis]) if (url !== null) keepPasswordOf(url);
  for (const url of settings.webhookUrls ?? []) keepSecret(new URL(url).pathname);
}

export interface Needs {
  /** Whether the command needs tasks, and what the user is told if there are none; null: it does without. */
  readonly tasks?: (settings: Settings) => string | null;
}

/** Throws ConfigInvalid, which names everything that is wrong: what this command lacks, too. */
export async function readSettings(
  options: Readonly<Record<string, unknown>>,
  needs: Needs = {},
): Promise<{ config: Config; settings: Settings }> {
  const read = await readConfig(options);
  const config = { ...read, problems: [...read.problems, ...lacks(read, needs)] };
  return { config, settings: settingsOf(config) };
}

function lacks({ settings, origins }: Config, { tasks }: Needs): Problem[] {
  if (origins.tasks.source !== null) return [];
  const problem = tasks?.(settings) ?? null;
  return problem === null ? [] : [{ name: "HOLDFAST_TASKS", source: null, given: null, problem }];
}

/** For commands that only need the database: nothing else that may be wrong is in their way. */
export async function readUrl(): Promise<{ url: string; isDefault: boolean }> {
  const { settings, origins, problems } = await readConfig({});
  // A line of .env that says nothing may be the one that was to name the database.
  const inQuestion = origins.url.source === ENVIRONMENT ? [] : [ENV_FILE];
  const names = new Set(["HOLDFAST_URL", "DATABASE_URL", origins.url.name, ...inQuestion]);
  const ours = problems.filter(({ name }) => names.has(name) || name.startsWith("MYSQL_DB_"));
  if (ours.length > 0) throw new ConfigInvalid(ours);
  return { url: settings.url, isDefault: origins.url.source === null };
}
