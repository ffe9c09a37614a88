/** The flags of a command that are settings, read off the schema. What is wrong with them is said with all else that is. */
import { Option, type Command } from "commander";
import { keys, settingOf, type Key, type Settings } from "../config/schema.ts";
import { COMMAND_LINE } from "../config/problem.ts";
import { flagName, type Flags } from "../config/sources.ts";
import type { Config } from "../config/config.ts";

/** May be given several times. */
const REPEATED = new Set<Key>(["queues"]);

export function addFlags(command: Command, wanted: readonly Key[]): Command {
  for (const key of wanted) {
    const option = optionFor(key);
    if (option !== null) command.addOption(option);
  }
  return command;
}

/** What was given on the command line, by the names of the schema. */
export function flagsFrom(options: Readonly<Record<string, unknown>>): Flags {
  const given = keys.flatMap((key) => {
    const name = optionFor(key)?.attributeName();
    const value = name === undefined ? undefined : options[name];
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(given);
}

/** What was given on the command line, to be said again to a process that we start. */
export function flagsAgain({ settings, origins }: Config, wanted: readonly Key[]): string[] {
  return wanted
    .filter((key) => origins[key].source === COMMAND_LINE)
    .flatMap((key) => flagAgain(key, settings));
}

function flagAgain(key: Key, settings: Settings): string[] {
  const { flag, kind } = settingOf(key);
  const name = flagName(flag);
  return flag?.includes("<") === true ? [`${name}=${kind.text(settings[key])}`] : [name];
}

function optionFor(key: Key): Option | null {
  const { flag, about, initial, kind } = settingOf(key);
  if (flag === null) return null;
  const choice = kind.allowed.startsWith("one of ") ? `; ${kind.allowed}` : "";
  const words = about.charAt(0).toLowerCase() + about.slice(1).replace(/\.$/, "") + choice;
  const isSaid = initial === null || flag.startsWith("--standby");
  const option = new Option(flag, isSaid ? words : `${words} (${kind.print(initial)})`);
  return REPEATED.has(key) ? option.argParser(gather) : option;
}

function gather(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}
