/** `holdfast config`: what is in use, where each value came from, and what is wrong. */
import { Command } from "commander";
import type { Config } from "../config/config.ts";
import { ConfigInvalid, problemText } from "../config/problem.ts";
import { keys, settingOf, type Key } from "../config/schema.ts";
import { addFlags } from "./flags.ts";
import { readConfig } from "./settings.ts";
import { table } from "./table.ts";
import type { Terminal } from "./terminal.ts";

export function configCommand(terminal: Terminal): Command {
  const command = new Command("config")
    .description("show the settings in use and where they come from")
    .option("--all", "also the settings that have their default")
    .action((options: { all?: boolean }) => showConfig(terminal, options));
  return addFlags(command, keys);
}

async function showConfig(terminal: Terminal, options: { all?: boolean }): Promise<void> {
  const config = await readConfig({ ...options });
  const shown = keys.filter((key) => options.all === true || isGiven(config, key));
  if (terminal.json) terminal.printJson(documentOf(config));
  else terminal.print(...settingsTable(config, shown, terminal), ...hint(shown, terminal));
  if (config.problems.length > 0) throw new ConfigInvalid(config.problems);
}

function isGiven({ origins }: Config, key: Key): boolean {
  return origins[key].source !== null;
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

/** Secrets are covered by their kind. */
function valueText({ settings }: Config, key: Key): string | null {
  const value = settings[key];
  return value === null ? null : settingOf(key).kind.print(value);
}

/** What it is called in the environment and in `.env`: every setting has such a name. */
function nameOf(key: Key): string {
  return settingOf(key).env[0] ?? key;
}

function hint(shown: readonly Key[], { colors }: Terminal): string[] {
  const left = keys.length - shown.length;
  if (left === 0) return [];
  const which =
    shown.length === 0 ? "Every setting has its default" : `${left} others have their default`;
  return [colors.dim(`${which}. To see them: holdfast config --all`)];
}

function originText({ origins }: Config, key: Key): string {
  const { source, name, unused } = origins[key];
  if (source === null) return "default";
  const from = name === nameOf(key) ? source : `${name} (${source})`;
  const hidden = unused.map((each) => `${each.name} (${each.source})`).join(", ");
  return `${from}${hidden === "" ? "" : `, hides ${hidden}`}`;
}

/** All of them: a program looks for one by its name. */
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
