/** The help of every command fits a terminal and shows a command line that works. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import type { Command } from "commander";
import { addExamples } from "../../src/cli/examples.ts";
import { buildProgram } from "../../src/cli/main.ts";
import { Terminal } from "../../src/terminal/terminal.ts";
import { wordsOf } from "../support/words.ts";
import { TestCli } from "./command.ts";

const COLUMNS = 80;

const { stdout, stderr } = process;
const terminal = new Terminal({ json: false, env: {}, stdout, stderr });

async function program(): Promise<Command> {
  const built = await buildProgram(terminal, null);
  addExamples(built);
  return built;
}

/** By path: `schedules create`. */
function commandsOf(built: Command): Map<string, Command> {
  return new Map(
    built.commands.flatMap((command) => [
      [command.name(), command] as const,
      ...command.commands.map((part) => [`${command.name()} ${part.name()}`, part] as const),
    ]),
  );
}

function helpOf(command: Command): string {
  let help = "";
  command.configureOutput({ writeOut: (text) => (help += text), getOutHelpWidth: () => COLUMNS });
  command.outputHelp();
  return help;
}

suite("help", () => {
  test("of every command fits 80 columns", async () => {
    const built = await program();
    const all = [["", built] as const, ...commandsOf(built)];
    assert.ok(all.length > 80, `${all.length} commands`);
    const wide = all.flatMap(([path, command]) =>
      helpOf(command)
        .split("\n")
        .filter((line) => line.length > COLUMNS)
        .map((line) => `${path}: ${line}`),
    );
    assert.deepEqual(wide, []);
  });

  test("of every command shows an example of it", async () => {
    const without = [...commandsOf(await program())].filter(
      ([path, command]) =>
        !new RegExp(`\n\nExamples?:\n  holdfast ${path}\\b`).test(helpOf(command)),
    );
    assert.deepEqual(
      without.map(([path]) => path),
      [],
    );
  });

  test("shows only examples that the command takes", async () => {
    const wrong = [];
    for (const line of addExamples(await program())) {
      const problem = await refusalOf(line);
      if (problem !== null) wrong.push(`${line}: ${problem}`);
    }
    assert.deepEqual(wrong, []);
    // What `holdfast status` advises.
    const advised = [
      "work --tasks tasks.ts --queue mail",
      "workers show shop-1",
      "workers resume --type shop",
      "queues resume --all",
      "queues resume mail",
      "explain --queue mail",
      "stats --exact",
    ];
    for (const line of advised) assert.equal(await refusalOf(line), null, line);
    for (const line of ["jobs --que x", "jobs --status lost", "bulk move", "job", "stats now"]) {
      assert.notEqual(await refusalOf(line), null, line);
    }
  });
});

/** Why the program refuses this line; null: it would run it. */
async function refusalOf(line: string): Promise<string | null> {
  const built = await program();
  const ran: Command[] = [];
  const commands = commandsOf(built);
  for (const command of commands.values()) {
    command.action((...given) => void ran.push(given.at(-1)));
  }
  const words = wordsOf(line);
  try {
    await built.parseAsync(words, { from: "user" });
  } catch (error) {
    return String(error);
  }
  const expected = commands.get(words.slice(0, 2).join(" ")) ?? commands.get(words[0] ?? "");
  return ran[0] === expected ? null : "another command runs";
}

suite("holdfast help", () => {
  const cli = new TestCli();
  after(() => cli[Symbol.asyncDispose]());

  test("shows the examples however it is asked for", async () => {
    const asked = [
      ["jobs", "--help"],
      ["jobs", "-h"],
      ["help", "jobs"],
    ];
    for (const args of asked) {
      const { code, stdout: help } = await cli.holdfast(args);
      assert.equal(code, 0);
      assert.match(help, /\n\nExamples:\n {2}holdfast jobs --status failed --task mail\.send\n/);
    }
    const part = await cli.holdfast(["schedules", "help", "create"]);
    assert.match(part.stdout, /\n\nExamples:\n {2}holdfast schedules create nightly /);
  });
});
