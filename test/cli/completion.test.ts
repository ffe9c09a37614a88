/** The scripts of `holdfast completion`, in the shells they are for. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { after, suite, test } from "node:test";
import { buildProgram } from "../../src/cli/main.ts";
import { Terminal } from "../../src/terminal/terminal.ts";
import { assertRefused, TestCli } from "./command.ts";

const STATUSES = "scheduled pending processing waiting retry done failed cancelled expired".split(
  " ",
);

/** A line up to the cursor, and the words that complete it. */
const completed: readonly (readonly [line: string, words: readonly string[]])[] = [
  ["holdfast sch", ["schedules"]],
  ["holdfast --json wor", ["work", "workers", "workflows"]],
  ["holdfast help sch", ["schedules"]],
  ["holdfast schedules cr", ["create"]],
  ["holdfast schedules --ta", ["--task"]],
  ["holdfast schedules --task run --pa", ["--paused"]],
  ["holdfast schedules create --ov", ["--overlap"]],
  ["holdfast schedules create --overlap ", ["allow", "skip", "queue"]],
  ["holdfast jobs --queue mail --status ", STATUSES],
  ["holdfast jobs --status f", ["failed"]],
  ["holdfast start --log-level d", ["debug"]],
  ["holdfast completion f", ["fish"]],
  ["holdfast jobs --nothing", []],
];

const UNIQUE = completed.filter(([, words]) => words.length === 1);

const BASH = `
source completion.bash
complete -p holdfast >&2
offer() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _holdfast
  echo "\${COMPREPLY[*]}"
}
`;

/** Presses Tab at the end of each line, in a terminal, and prints what the line is then. */
const ZSH = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit && compinit -D -u; eval "$(<completion.zsh)"
  press-tab() { zle complete-word; print -rn -- "<$BUFFER>"; zle kill-whole-line }
  zle -N press-tab; bindkey "^I" press-tab; print READ""Y'
zpty -r shell out '*READY*'
for line in "$@"; do
  zpty -w -n shell "$line"$'\\t'
  zpty -r shell out '*<holdfast*>*'
  print -r -- "\${\${out##*<}%%>*}"
done
`;

const FISH = `
source completion.fish
for line in $argv
  echo (complete -C "$line" | string split -f 1 \\t)
end
`;

suite("holdfast completion", () => {
  const cli = new TestCli();
  after(() => cli[Symbol.asyncDispose]());

  async function answers(shell: string, program: string, args: readonly string[] = []) {
    const { code, stdout: script } = await cli.holdfast(["completion", shell]);
    assert.equal(code, 0);
    cli.file(`completion.${shell}`, script);
    const path = cli.file(`ask.${shell}`, program);
    const started = cli.spawn(shell, [path, ...args]);
    started.child.stdin.end();
    const said = await started.ended;
    assert.equal(said.code, 0, said.stderr);
    return { lines: said.stdout.trimEnd().split("\n"), stderr: said.stderr };
  }

  test("completes commands, options and values in bash", async () => {
    const asks = completed.map(([line]) => offer(line.split(" ")));
    const { lines, stderr } = await answers("bash", `${BASH}${asks.join("\n")}\necho end`);
    assert.deepEqual(
      lines.slice(0, -1),
      completed.map(([, words]) => words.join(" ")),
    );
    assert.match(stderr, /^complete .*-F _holdfast holdfast\n$/);
  });

  test("completes the value after an equals sign, which bash takes for a word", async () => {
    const lines = [
      ["holdfast", "jobs", "--status", "="],
      ["holdfast", "jobs", "--status", "=", "f"],
    ];
    const answered = await answers("bash", BASH + lines.map(offer).join("\n"));
    assert.deepEqual(answered.lines, [STATUSES.join(" "), "failed"]);
  });

  test("knows every command and every option", async () => {
    const { stdout, stderr } = process;
    const terminal = new Terminal({ json: false, env: {}, stdout, stderr });
    const { commands } = await buildProgram(terminal, null);
    const all = commands.flatMap((command) => [
      ["holdfast", command] as const,
      ...command.commands.map((part) => [`holdfast ${command.name()}`, part] as const),
    ]);
    assert.ok(all.length > 80, `${all.length} commands`);
    const asked = all.flatMap(([before, command]) => {
      const path = [...before.split(" "), command.name()];
      const options = command.options.map(({ long }) => long ?? "");
      return [
        { words: path, expected: command.name() },
        ...options.map((option) => ({ words: [...path, option], expected: option })),
      ];
    });
    const { lines } = await answers(
      "bash",
      BASH + asked.map(({ words }) => offer(words)).join("\n"),
    );
    const missing = asked.filter(
      ({ expected }, at) => !(lines[at] ?? "").split(" ").includes(expected),
    );
    assert.deepEqual(missing, []);
  });

  test("completes commands, options and values in zsh", { skip: without("zsh") }, async () => {
    const asked = UNIQUE.map(([line]) => line);
    const { lines } = await answers("zsh", ZSH, asked);
    assert.deepEqual(
      lines.map((line) => line.trimEnd()),
      UNIQUE.map(([line, [word]]) => line.replace(/\S*$/, word ?? "")),
    );
  });

  test("completes commands, options and values in fish", { skip: without("fish") }, async () => {
    const asked = completed.map(([line]) => line);
    const { lines } = await answers("fish", FISH, [...asked, "holdfast j"]);
    assert.deepEqual(
      lines.slice(0, -1).map((line) => line.split(" ").toSorted()),
      completed.map(([, words]) => (words.length === 0 ? [""] : words.toSorted())),
    );
  });

  test("is one document with --json, and refuses an unknown shell", async () => {
    const { shell, script } = await cli.json(["completion", "bash"]);
    assert.equal(shell, "bash");
    assert.equal(`${script}\n`, (await cli.holdfast(["completion", "bash"])).stdout);
    assertRefused(await cli.holdfast(["completion", "tcsh"]), 2, /tcsh/, /bash, zsh, fish/);
    assertRefused(await cli.holdfast(["completion"]), 2, /argument 'shell'/);
  });
});

function offer(words: readonly string[]): string {
  return `offer ${words.map((word) => `'${word}'`).join(" ")}`;
}

function without(shell: string): string | false {
  return spawnSync(shell, ["-c", "exit"]).status === 0 ? false : `there is no ${shell}`;
}
