/** `holdfast config`: the settings in use, their sources, and any problems. */
import { Command } from "commander";
import { type Config, type Key, keys, settingOf } from "../app/settings.ts";
import { ConfigInvalidError, problemText } from "../config/problem.ts";
import { isGiven } from "../config/resolve.ts";
import type { CommandKit } from "../terminal/kit.ts";
import { table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { addFlags, readConfig } from "./settings.ts";

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
  else terminal.print(...settingsTable(config, shown, terminal), ...hint(shown, terminal));
  if (config.problems.length > 0) throw new ConfigInvalidError(config.problems);
}

function settingsTable(config: Config, shown: readonly Key[], terminal: Terminal): string[] {
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
