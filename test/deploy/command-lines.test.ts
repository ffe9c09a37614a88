/** Every `holdfast …` line of the README, the guide and the examples is one that the program's own parser accepts. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type Command, CommanderError } from "commander";
import { buildCommands } from "../../src/cli/main.ts";
import { Terminal } from "../../src/terminal/terminal.ts";
import { wordsOf } from "../support/words.ts";
import { ROOT } from "./settings.ts";

/** Not docs/evidence: what programs have printed. Nor the page of commands, which is written from the parser. */
const FOLDERS = ["docs/guide", "docs/design", "examples"];
const files = [
  "README.md",
  "deploy/prometheus/rules.yml",
  ...FOLDERS.flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name))),
].filter((file) => file !== "docs/guide/commands.md");

const { stdout, stderr } = process;
const terminal = new Terminal({ json: false, env: {}, stdout, stderr });
const commands = new Map(
  (await buildCommands(null, terminal)).map((command) => [command.name(), command]),
);
for (const command of commands.values()) {
  for (const each of [command, ...command.commands]) {
    // The program has it for all of them.
    each
      .option("--json")
      .exitOverride()
      .configureOutput({ writeErr: () => {} });
  }
}

describe("the command lines of the documentation", () => {
  const lines = files.flatMap((file) =>
    commandLines(readFileSync(join(ROOT, file), "utf8")).map((line) => ({ file, line })),
  );

  test("are found", () => {
    assert.ok(lines.length > 200, `${lines.length} command lines`);
    const pages = new Set(lines.map(({ file }) => file));
    assert.ok(pages.size > 20, [...pages].join(", "));
  });

  test("name existing commands and options", () => {
    const wrong = lines.flatMap(({ file, line }) => {
      const problem = problemOf(wordsOf(line));
      return problem === null ? [] : [`${file}: holdfast ${line}: ${problem}`];
    });
    assert.deepEqual(wrong, []);
  });

  test("of the README use the database of its sample", () => {
    const readme = readFileSync(join(ROOT, "README.md"), "utf8");
    const [, url = ""] = /openHoldfast\("([^"]+)"\)/.exec(readme) ?? [];
    assert.ok(commandLines(readme).includes(`jobs --url ${url}`), url);
  });

  test("are refused if they name unknown commands or options", () => {
    const wrong = [
      "helth",
      "serve --db sqlite:a.db",
      "workers stopp",
      "jobs failed",
      "retry --actor",
    ];
    for (const line of wrong) assert.notEqual(problemOf(wordsOf(line)), null, line);
    const right = ["jobs --status failed", "workers", `enqueue a.b '{"a": 1}' --wait 5s`];
    for (const line of right) assert.equal(problemOf(wordsOf(line)), null, line);
  });
});

/**
 * What follows every `holdfast` in code, up to the end of the command. In a block, the last line of a command is the
 * one without a backslash. Text outside of code counts only where it names a command that there is.
 */
function commandLines(text: string): string[] {
  const code = /```\w*\n([\s\S]*?)```|`([^`]+)`/g;
  const pieces = [...text.matchAll(code)].map(
    ([, block, span = ""]) => block ?? span.replaceAll(/\s*\n\s*/g, " "),
  );
  // Not the name of a project, a namespace, a database, a schema or a role.
  const inCode = /(?<=^|[\s($])(?<!--[a-z-]+ |schema |role )holdfast ([a-z][^|;#)>\n]*)/g;
  const inText = /\bholdfast ((?:[a-z]+)(?: (?:[a-z]+|--[a-z-]+)\b)*)/g;
  return [
    ...pieces.flatMap((piece) => [...piece.replaceAll("\\\n", " ").matchAll(inCode)]),
    ...[...text.replaceAll(code, "`").matchAll(inText)].filter(([, line = ""]) =>
      commands.has(line.split(" ")[0] ?? ""),
    ),
  ].map(([, line = ""]) => line.trim());
}

/** Why the program refuses these words; null: it takes them. Arguments may be left out where a page only mentions a command. */
function problemOf([name = "", ...rest]: readonly string[]): string | null {
  const named = commands.get(name);
  if (named === undefined) return `there is no command '${name}'`;
  const [first] = rest;
  const part = named.commands.find((each) => each.name() === first);
  if (part !== undefined) return refusalOf(part, rest.slice(1));
  const initial = named.commands.find((each) => ["list", "show"].includes(each.name()));
  return refusalOf(initial ?? named, rest);
}

function refusalOf(command: Command, words: string[]): string | null {
  try {
    const { operands, unknown } = command.parseOptions(words);
    const [option] = unknown;
    if (option !== undefined) return `there is no option '${option}'`;
    const { registeredArguments: taken } = command;
    const isList = taken.at(-1)?.variadic === true;
    const excess = isList ? [] : operands.slice(taken.length);
    return excess.length === 0 ? null : `'${excess.join(" ")}' is too much`;
  } catch (error) {
    if (error instanceof CommanderError) return error.message;
    throw error;
  }
}
