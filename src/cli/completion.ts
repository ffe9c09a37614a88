/** `holdfast completion`: a script that completes the command line, generated from the commands themselves. */
import { Argument, Command, type Option } from "commander";
import type { CommandKit, Terminal } from "../terminal/terminal.ts";

/** What can follow the words of a path, such as `holdfast schedules`. */
interface CommandPath {
  readonly path: string;
  readonly commands: readonly Choice[];
  readonly flags: readonly Flag[];
}

interface Choice {
  readonly word: string;
  readonly about: string;
}

interface Flag extends Choice {
  readonly takesValue: boolean;
  /** Without any, the shell completes the value as the name of a file. */
  readonly values: readonly string[];
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

type Shell = keyof typeof scripts;

const shells = Object.keys(scripts) as Shell[];

export function completionCommand({ terminal }: CommandKit<unknown>): Command {
  return new Command("completion")
    .description("print a script that completes commands and options in your shell")
    .addArgument(new Argument("<shell>", "your shell").choices(shells))
    .addHelpText(
      "after",
      `
Add one of these lines to the file that your shell reads when it starts:
  bash, in ~/.bashrc:                   eval "$(holdfast completion bash)"
  zsh, in ~/.zshrc, after compinit:     eval "$(holdfast completion zsh)"
  fish, in ~/.config/fish/config.fish:  holdfast completion fish | source`,
    )
    .action((shell: Shell, _options: object, command: Command) => show(terminal, shell, command));
}

function show(terminal: Terminal, shell: Shell, { parent }: Command): void {
  const script = scripts[shell](parent === null ? [] : placesOf(parent));
  if (terminal.json) terminal.printJson({ shell, script });
  else terminal.print(script);
}

function placesOf(program: Command): CommandPath[] {
  const visit = (command: Command, path: string): CommandPath[] => [
    placeOf(command, path),
    ...command.commands.flatMap((part) => visit(part, `${path} ${part.name()}`)),
  ];
  return visit(program, program.name());
}

function placeOf(command: Command, path: string): CommandPath {
  const help = command.createHelp();
  const first = command.registeredArguments.at(0)?.argChoices ?? [];
  const parts = help.visibleCommands(command);
  // Without the name of a part, the words of a group go to its list.
  const list = command.commands.find((part) => part.name() === "list");
  const taking = [command, ...(list === undefined ? [] : [list])];
  const options = taking.flatMap((each) => [
    ...help.visibleOptions(each),
    ...help.visibleGlobalOptions(each).filter(({ long }) => long === "--json"),
  ]);
  const flags = new Map(options.map((option) => [option.long, flagOf(option)]));
  return {
    path,
    commands: [
      ...parts.map((part) => ({ word: part.name(), about: part.description() })),
      ...first.map((word) => ({ word, about: "" })),
    ],
    flags: [...flags.values()],
  };
}

function flagOf(option: Option): Flag {
  const { long, flags, description: about, required, optional } = option;
  return {
    word: long ?? flags,
    about,
    takesValue: required || optional,
    values: option.argChoices ?? choicesIn(about),
  };
}

/** A setting refuses a wrong value itself, together with the other settings, so its option has no choices. */
function choicesIn(about: string): string[] {
  return /; one of ((?:\w+, )+\w+)/.exec(about)?.[1]?.split(", ") ?? [];
}

/** The flags whose values are completed alike, as the words that are before the value. */
function byValues(places: readonly CommandPath[]): [values: string, before: string[]][] {
  const found = new Map<string, string[]>();
  for (const { path, flags } of places) {
    for (const { word, values } of flags.filter(({ takesValue }) => takesValue)) {
      const same = found.get(values.join(" ")) ?? [];
      found.set(values.join(" "), [...same, `${path} ${word}`]);
    }
  }
  return [...found];
}

/** The paths that a word leads to. */
function pathsIn(places: readonly CommandPath[]): string[] {
  return places.slice(1).map(({ path }) => path);
}

function doubleQuoted(words: readonly string[]): string {
  return words.map((word) => `"${word}"`).join(" | ");
}

function bashScript(places: readonly CommandPath[]): string {
  const values = byValues(places).map(
    ([words, before]) => `    ${doubleQuoted(before)}) words="${words}" ;;`,
  );
  const words = places.map(({ path, commands, flags }) => {
    const all = [...commands, ...flags].map(({ word }) => word);
    return `    "${path}") words="${all.join(" ")}" ;;`;
  });
  return `# bash completion of holdfast: eval "$(holdfast completion bash)"
_holdfast() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local at=holdfast words= value= i
  if [[ $cur == "=" ]]; then cur=
  elif [[ $prev == "=" ]]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
    ${doubleQuoted(pathsIn(places))}) at+=" \${COMP_WORDS[i]}" ;;
    *" --json") ;;
    *) break ;;
    esac
  done
  case "$at $prev" in
${values.join("\n")}
    *) value=no ;;
  esac
  [[ $value == no ]] && case $at in
${words.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _holdfast holdfast`;
}

function zshScript(places: readonly CommandPath[]): string {
  const values = byValues(places).map(
    ([words, before]) =>
      `    (${doubleQuoted(before)}) ${words === "" ? "_files" : `compadd -- ${words}`}; return ;;`,
  );
  const words = places.map(
    ({ path, commands, flags }) =>
      `    ("${path}") commands=(${described(commands)}); flags=(${described(flags)}) ;;`,
  );
  return `#compdef holdfast
# zsh completion of holdfast: eval "$(holdfast completion zsh)"
_holdfast() {
  local at=holdfast before=$words[CURRENT-1] i
  local -a commands flags
  for ((i = 2; i < CURRENT; i++)); do
    case "$at $words[i]" in
    (${doubleQuoted(pathsIn(places))}) at+=" $words[i]" ;;
    (*" --json") ;;
    (*) break ;;
    esac
  done
  if [[ $words[CURRENT] == --*=* ]]; then
    before=\${words[CURRENT]%%=*}
    compset -P '*='
  fi
  case "$at $before" in
${values.join("\n")}
  esac
  case $at in
${words.join("\n")}
  esac
  (( $#commands )) && _describe command commands
  [[ $words[CURRENT] == -* ]] && _describe -o flag flags
  (( $#commands )) || [[ $words[CURRENT] == -* ]] || _files
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi`;
}

function described(choices: readonly Choice[]): string {
  return choices.map(({ word, about }) => quotedForZsh(`${word}:${about}`)).join(" ");
}

function quotedForZsh(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function fishScript(places: readonly CommandPath[]): string {
  const lines = places.flatMap(({ path, commands, flags }) => {
    const here = `complete -c holdfast -n '__holdfast_at ${path}'`;
    return [
      ...commands.map(({ word, about }) => `${here} -f -a ${word} -d ${quotedForFish(about)}`),
      ...flags.map((flag) => `${here} -l ${flag.word.slice(2)} ${fishValue(flag)}`),
    ];
  });
  return `# fish completion of holdfast: holdfast completion fish | source
set -g __holdfast_paths ${pathsIn(places).map(quotedForFish).join(" ")}
function __holdfast_at
  set -l at holdfast
  for word in (commandline -opc)[2..-1]
    if contains -- "$at $word" $__holdfast_paths
      set at "$at $word"
    else if test "$word" != --json
      break
    end
  end
  test "$at" = "$argv"
end
complete -c holdfast -e
${lines.join("\n")}`;
}

function fishValue({ about, takesValue, values }: Flag): string {
  const description = `-d ${quotedForFish(about)}`;
  if (!takesValue) return description;
  return values.length === 0
    ? `-r -F ${description}`
    : `-x -a ${quotedForFish(values.join(" "))} ${description}`;
}

function quotedForFish(text: string): string {
  return `'${text.replaceAll("\\", String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;
}
