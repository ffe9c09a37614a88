/** `holdfast config`: what is in use, where each value came from, and what is wrong. */
import { Command } from "commander";
import type { Config, Origin } from "../config/config.ts";
import { ConfigInvalid, problemText } from "../config/problem.ts";
import { keys, settingOf, type Key } from "../config/schema.ts";
import { addFlags } from "./flags.ts";
import { readConfig } from "./settings.ts";
import { table } from "./table.ts";
import type { Terminal } from "./terminal.ts";

export function configCommand(terminal: Terminal): Command {
  const command = new Command("config")
    .description("show the settings in use and where they come from")
    .option("--given", "only what was given somewhere")
    .action((options: { given?: boolean }) => showConfig(terminal, options));
  return addFlags(command, keys);
}

async function showConfig(terminal: Terminal, options: { given?: boolean }): Promise<void> {
  const config = await readConfig({ ...options });
  const shown = keys.filter((key) => options.given !== true || isGiven(config, key));
  if (terminal.json) terminal.printJson(documentOf(config, shown));
  else if (shown.length === 0) terminal.print("Nothing is set: every setting has its default.");
  else terminal.print(...settingsTable(config, shown, terminal));
  if (config.problems.length > 0) throw new ConfigInvalid(config.problems);
}

function isGiven({ origins }: Config, key: Key): boolean {
  return origins[key].source !== null;
}

function settingsTable(config: Config, shown: readonly Key[], terminal: Terminal): string[] {
  const { colors, columns } = terminal;
  return table({
    columns: [
      { title: "SETTING" },
      { title: "VALUE", flexible: true },
      { title: "FROM", flexible: true },
    ],
    rows: shown.map((key) => [
      key,
      { text: valueText(config, key) ?? "–" },
      { text: originText(config.origins[key]), paint: isGiven(config, key) ? String : colors.dim },
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

function originText({ source, name, unused }: Origin): string {
  if (source === null) return "default";
  const hidden = unused.map((each) => `${each.name} (${each.source})`).join(", ");
  return `${name} (${source})${hidden === "" ? "" : `, hides ${hidden}`}`;
}

function documentOf(config: Config, shown: readonly Key[]): object {
  const settings = Object.fromEntries(
    shown.map((key) => [key, { value: valueText(config, key), ...config.origins[key] }]),
  );
  return {
    settings,
    problems: config.problems.map((each) => ({ ...each, text: problemText(each) })),
  };
}
