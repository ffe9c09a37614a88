/** The settings of a command that is about to run. */
import { cwd } from "node:process";
import { Command, Option } from "commander";
import {
  type Config,
  type Key,
  keys,
  settingOf,
  type Settings,
  settingsTable,
} from "../app/settings.ts";
import {
  COMMAND_LINE,
  ConfigInvalidError,
  type Problem,
  problemText,
  problemWith,
} from "../config/kind.ts";
import { keepPasswordOf, keepSecret } from "../config/secrets.ts";
import { isGiven, loadConfig, settingsOf } from "../config/resolve.ts";
import { ENV_FILE, ENVIRONMENT, flagName, type Flags, readEnvFile } from "../config/sources.ts";
import { useRedaction } from "../config/redaction.ts";
import { names } from "../terminal/arguments.ts";
import { type CommandKit, type Terminal, UrlOption } from "../terminal/terminal.ts";
import { table } from "../terminal/table.ts";

/** The environment before `.env` was added. */
let found = { ...process.env };

/** Makes `.env` available to tasks; existing environment variables take precedence. */
export function addEnvFile(): void {
  found = { ...process.env };
  for (const [name, value] of Object.entries(readEnvFile(cwd()).value)) {
    process.env[name] ??= value;
  }
}

/** Does not throw: the result lists the problems. */
async function readConfig(options: Readonly<Record<string, unknown>>): Promise<Config> {
  const config = await loadConfig(settingsTable, {
    folder: cwd(),
    env: found,
    flags: flagsFrom(options),
  });
  keepSecrets(config.settings);
  useRedaction(config.settings.redact ?? []);
  return config;
}

/** Registers secrets, so that they are redacted wherever they occur. */
function keepSecrets(settings: Settings): void {
  for (const key of keys) {
    const value = settings[key];
    if (settingOf(key).kind.hidden === true && typeof value === "string") keepSecret(value);
  }
  for (const url of [settings.url, settings.redis]) if (url !== null) keepPasswordOf(url);
  for (const url of settings.webhookUrls ?? []) keepSecret(new URL(url).pathname);
}

interface Needs {
  /** The problem to report if no tasks are configured; null: the command does not need any. */
  readonly tasks?: (settings: Settings) => string | null;
}

/** Throws ConfigInvalidError, which lists all problems, including settings that this command requires. */
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
  return problem === null ? [] : [problemWith("HOLDFAST_TASKS", problem)];
}

/** For commands that only need the database: problems of other settings do not matter to them. */
async function readUrl(): Promise<{ url: string; isDefault: boolean }> {
  const { settings, origins, problems } = await readConfig({});
  // A malformed line of .env may be the one that names the database.
  const inQuestion = origins.url.source === ENVIRONMENT ? [] : [ENV_FILE];
  const about = new Set(["HOLDFAST_URL", "DATABASE_URL", origins.url.name, ...inQuestion]);
  const ours = problems.filter(({ name }) => about.has(name) || name.startsWith("MYSQL_DB_"));
  if (ours.length > 0) throw new ConfigInvalidError(ours);
  refuseWrongRules({ origins, problems });
  return { url: settings.url, isDefault: origins.url.source === null };
}

/** Without its rules, a command would show what it must hide. */
function refuseWrongRules({ origins, problems }: Pick<Config, "origins" | "problems">): void {
  const wrong = problems.filter(
    ({ name }) => name === "HOLDFAST_REDACT" || name === "redact" || name === origins.redact.name,
  );
  if (wrong.length > 0) throw new ConfigInvalidError(wrong);
}

// The flags of a command that are settings. Their problems are reported together with all others.

/** May be repeated. */
const REPEATED = new Set<Key>(["queues"]);

export function addFlags(command: Command, wanted: readonly Key[]): Command {
  for (const key of wanted) {
    const option = optionFor(key);
    if (option !== null) command.addOption(option);
  }
  return command;
}

/** The settings given on the command line, by key. */
function flagsFrom(options: Readonly<Record<string, unknown>>): Flags {
  const given = keys.flatMap((key) => {
    const name = optionFor(key)?.attributeName();
    const value = name === undefined ? undefined : options[name];
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(given);
}

/** The settings given on the command line, as flags for a child process. */
export function flagsAgain({ settings, origins }: Config, wanted: readonly Key[]): string[] {
  const given = wanted.filter((key) => origins[key].source === COMMAND_LINE);
  return given.map((key) => {
    const { flag, kind } = settingOf(key);
    const name = flagName(flag);
    return flag?.includes("<") === true ? `${name}=${kind.text(settings[key])}` : name;
  });
}

function optionFor(key: Key): Option | null {
  const { flag, about, initial, kind } = settingOf(key);
  if (flag === null) return null;
  const choice = kind.allowed.startsWith("one of ") ? `; ${kind.allowed}` : "";
  const words = about.charAt(0).toLowerCase() + about.slice(1).replace(/\.$/, "") + choice;
  const isSaid = initial === null || flag.startsWith("--standby");
  const option = new Option(flag, isSaid ? words : `${words} (default: ${kind.print(initial)})`);
  return REPEATED.has(key) ? option.argParser(names) : option;
}

// The database of commands without --url.

let isUnnamed = false;

/** Whether the database of this command is the default: neither a flag nor a setting names one. */
export function usesDefaultUrl(): boolean {
  return isUnnamed;
}

/** Every command uses the same database as the service. */
export async function completeUrl(command: Command): Promise<void> {
  isUnnamed = false;
  if (!command.options.some((option) => option instanceof UrlOption)) return;
  if (command.getOptionValue("url") !== undefined) {
    refuseWrongRules(await readConfig({}));
    return;
  }
  const { url, isDefault } = await readUrl();
  isUnnamed = isDefault;
  command.setOptionValue("url", url);
}

// `holdfast config`: the settings in use, their sources, and any problems.

export function configCommand({ terminal }: CommandKit<unknown>): Command {
  const command = new Command("config")
    .description("show the settings in use and their sources")
    .option("--all", "also show settings that have their default value")
    .action((options: { all?: boolean }) => showConfig(terminal, options));
  return addFlags(command, keys);
}

async function showConfig(terminal: Terminal, options: { all?: boolean }): Promise<void> {
  const config = await readConfig({ ...options });
  const shown = keys.filter((key) => options.all === true || isGiven(config, key));
  if (terminal.json) terminal.printJson(documentOf(config));
  else terminal.print(...shownTable(config, shown, terminal), ...hint(shown, terminal));
  if (config.problems.length > 0) throw new ConfigInvalidError(config.problems);
}

function shownTable(config: Config, shown: readonly Key[], terminal: Terminal): string[] {
  const { colors, columns } = terminal;
  if (shown.length === 0) return [];
  return table({
    columns: [
      { title: "SETTING" },
      { title: "VALUE", flexible: true },
      { title: "FROM", flexible: true },
    ],
    rows: shown.map((key) => [
      nameOf(key),
      { text: valueText(config, key) ?? "–" },
      { text: originText(config, key), paint: isGiven(config, key) ? String : colors.dim },
    ]),
    width: columns,
    paintTitle: colors.bold,
  });
}

/** The kind of a setting redacts secrets. */
function valueText({ settings }: Config, key: Key): string | null {
  const value = settings[key];
  return value === null ? null : settingOf(key).kind.print(value);
}

/** The name in the environment and in `.env`, which every setting has. */
function nameOf(key: Key): string {
  return settingOf(key).env[0] ?? key;
}

function hint(shown: readonly Key[], { colors }: Terminal): string[] {
  const left = keys.length - shown.length;
  if (left === 0) return [];
  const which =
    shown.length === 0 ? "All settings have their defaults" : `${left} others have their defaults`;
  return [colors.dim(`${which}. To show them: holdfast config --all`)];
}

function originText({ origins }: Config, key: Key): string {
  const { source, name, unused } = origins[key];
  if (source === null) return "default";
  const from = name === nameOf(key) ? source : `${name} (${source})`;
  const hidden = unused.map((each) => `${each.name} (${each.source})`).join(", ");
  return `${from}${hidden === "" ? "" : `, overrides ${hidden}`}`;
}

/** Includes all settings, so that a program can look up any of them. */
function documentOf(config: Config): object {
  const settings = Object.fromEntries(
    keys.map((key) => {
      const { env } = settingOf(key);
      return [key, { value: valueText(config, key), env, ...config.origins[key] }];
    }),
  );
  return {
    settings,
    problems: config.problems.map((each) => ({ ...each, text: problemText(each) })),
  };
}
