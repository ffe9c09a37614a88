/** The page of all commands, from the commands themselves. */
import { PassThrough } from "node:stream";
import type { Argument, Command, Option } from "commander";
import { addExamples } from "../src/cli/examples.ts";
import { buildProgram } from "../src/cli/main.ts";
import { Terminal } from "../src/terminal/terminal.ts";

const HEAD = `<!-- Written by \`node scripts/reference.ts\` from the commands. Do not edit it, nor merge it by hand: write it again. -->

# Commands

Every command, with its arguments, options and examples, as \`--help\` prints them.`;

export async function commandReference(): Promise<string> {
  const nowhere = Object.assign(new PassThrough(), { columns: 80 }) as never;
  const terminal = new Terminal({ json: false, env: {}, stdout: nowhere, stderr: nowhere });
  const program = await buildProgram(terminal, null);
  const ofAll = notesOf(program);
  addExamples(program);
  const own = optionsOf(program).join("\n");
  const sections = program.commands.map((command) =>
    sectionsOf(command, `holdfast ${command.name()}`, 2),
  );
  return `${[HEAD, "Options of all commands:", own, ofAll, ...sections.flat()].join("\n\n")}\n`;
}

function sectionsOf(command: Command, path: string, depth: number): string[] {
  const [first] = command.commands;
  const title = `${"#".repeat(depth)} ${path}`;
  const about = sentence(command.description());
  if (first !== undefined) {
    const parts = command.commands.flatMap((part) =>
      sectionsOf(part, `${path} ${part.name()}`, depth + 1),
    );
    return [title, `${about} Without a name, it is \`${path} ${first.name()}\`.`, ...parts];
  }
  const given = [...command.registeredArguments.map(argumentLine), ...optionsOf(command)];
  return [
    title,
    about,
    `\`${path} ${command.usage()}\``,
    given.join("\n"),
    notesOf(command),
  ].filter((part) => part !== "");
}

function argumentLine(argument: Argument): string {
  const called = `${argument.name()}${argument.variadic ? "…" : ""}`;
  return `- \`${argument.required ? `<${called}>` : `[${called}]`}\`: ${argument.description}`;
}

function optionsOf(command: Command): string[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .filter(({ long }) => long !== "--help")
    .map((option) => optionLine(command, option));
}

function optionLine(command: Command, option: Option): string {
  return `- \`${option.flags}\`: ${command.createHelp().optionDescription(option)}`;
}

/** What the help prints after the options: remarks and examples. */
function notesOf(command: Command): string {
  const printed: string[] = [];
  command.configureOutput({ writeOut: (text) => void printed.push(text) });
  command.outputHelp();
  const notes = printed.join("").slice(command.helpInformation().length).trim();
  return notes === "" ? "" : `\`\`\`text\n${notes}\n\`\`\``;
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}
