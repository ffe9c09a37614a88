/** Operations as commands: flags from the input, `--json` from the result, exit codes from the errors. */
import { Command, InvalidArgumentError, Option } from "commander";
import {
  actorName,
  duration,
  instant,
  givenJson,
  parseJson,
  reasonOption,
  repeated,
  wholeNumber,
} from "../terminal/arguments.ts";
import { SomeFailed } from "../terminal/failure.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { type CommandKit, urlOption } from "../terminal/terminal.ts";
import type { FlagSpec, Operation } from "./operation.ts";
import { bareOf, type Node } from "./shape.ts";

type Build<App> = (kit: CommandKit<App>) => Command;

export interface CommandGroup<App> {
  readonly name: string;
  readonly about: string;
  /** Operations, and commands written by hand, in the order of the help. The first is the default. */
  readonly parts: readonly (Operation<App> | Build<App>)[];
}

/** `queues pause --all` is another operation than `queues pause <name>`, and the same command. */
const ALL = " --all";

/** `holdfast locks`. */
export function groupOf<App>({ name, about, parts }: CommandGroup<App>): Build<App> {
  return (kit) => {
    const group = new Command(name).description(about);
    const byPath = new Map(
      parts.flatMap((part) => (typeof part === "function" ? [] : [[part.cli?.command, part]])),
    );
    for (const part of parts) {
      const path = typeof part === "function" ? "" : part.cli?.command;
      if (path === undefined || path.endsWith(ALL)) continue;
      const build = typeof part === "function" ? part : commandOf(part, byPath.get(path + ALL));
      group.addCommand(build(kit), { isDefault: group.commands.length === 0 });
    }
    return group;
  };
}

const examples = new WeakMap<Command, readonly string[]>();

/** The command lines that an operation gives as examples. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? [];
}

/** The command of an operation; with `--all`, of another one, which takes no arguments. */
export function commandOf<App>(operation: Operation<App>, ofAll?: Operation<App>): Build<App> {
  const { cli, input, summary, isAudited } = operation;
  if (cli === undefined) throw new Error(`${operation.name} has no command`);
  const { command: path, about = lowered(summary), flags = {}, after } = cli;
  const named = Object.entries(cli.arguments ?? {});
  return (kit) => {
    const command = new Command(path.split(" ").at(-1)).description(about);
    for (const [field, text] of named) {
      const mayMiss = ofAll !== undefined || isOptional(input[field]?.node);
      command.argument(mayMiss ? `[${field}]` : `<${field}>`, text);
    }
    if (cli.opensNothing !== true) command.addOption(urlOption());
    for (const [field, flag] of Object.entries(flags)) {
      command.addOption(optionOf(field, (cli.typed?.[field] ?? input[field])?.node, flag));
    }
    if (ofAll !== undefined) command.option("--all", ofAll.cli?.about);
    if (isAudited === true) command.addOption(reasonOption());
    if (after !== undefined) command.addHelpText("after", after);
    examples.set(command, [...cli.examples, ...(ofAll?.cli?.examples ?? [])]);
    return command.action(async (...given: unknown[]) => {
      const { url, reason, ...options } = given[named.length] as Options;
      const typed = named.flatMap(([field], at) =>
        given[at] === undefined ? [] : [[field, given[at]] as const],
      );
      const chosen = Object.entries(flags).flatMap(([field, { flag = field, means }]) => {
        const value = options[flag];
        if (value === undefined) return [];
        return [[field, means ?? (value instanceof Given ? value.value : value)] as const];
      });
      const isAll = ofAll !== undefined && options["all"] === true;
      if (ofAll !== undefined && isAll === typed.length > 0) {
        const [text] = Object.values(cli.arguments ?? {});
        throw new BadUsageError(`Pass ${text}, or --all, but not both.`);
      }
      if (isAll && chosen.length > 0) {
        throw new BadUsageError(`Pass --all, or --${chosen[0]?.[0]}, but not both.`);
      }
      const all = Object.fromEntries(await Promise.all([...typed, ...chosen].map(pipedIn)));
      await perform(kit, isAll ? ofAll : operation, { url, input: all, reason });
    });
  };
}

/** JSON whose text is `-` is read once the rest of the command line is known to be right. */
class FromStdin {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

async function pipedIn([field, value]: readonly [string, unknown]): Promise<[string, unknown]> {
  return [field, value instanceof FromStdin ? await givenJson("-", value.name) : value];
}

interface Options {
  readonly url: string;
  readonly reason?: string;
  readonly [option: string]: unknown;
}

interface Asked {
  readonly url: string;
  readonly input: Record<string, unknown>;
  readonly reason?: string | undefined;
}

/** Runs the operation and prints its result. */
export async function perform<App>(
  kit: CommandKit<App>,
  operation: Operation<App>,
  { url, input: typed, reason }: Asked,
): Promise<void> {
  const { cli } = operation;
  if (cli === undefined) return;
  const given: Record<string, unknown> = { ...(cli.inputOf?.(typed as never) ?? typed) };
  const { terminal } = kit;
  const by = { actor: actorName(), ...(reason === undefined ? {} : { reason }) };
  const notes: string[] = [];
  await using app = await openedFor(cli, kit, { url, say: (line) => void notes.push(line) });
  for (const [field, find] of Object.entries(cli.ids ?? {})) {
    const prefix = given[field];
    if (typeof prefix === "string") given[field] = await find(app, prefix);
  }
  const input = (await cli.complete?.(app, given)) ?? given;
  const result = await operation.run(app, input, { by, ids: [] });
  if (terminal.json) terminal.printJson((await cli.json?.(result, input, app)) ?? result);
  else terminal.print(...(await cli.show(result, { app, terminal, input, notes })));
  // What was printed says why.
  if (cli.fails?.(result) === true) throw new SomeFailed([]);
}

function openedFor<App>(
  { opensNothing, opensForWork }: { opensNothing?: boolean; opensForWork?: boolean },
  { open, openForWork }: CommandKit<App>,
  { url, say }: { readonly url: string; readonly say: (line: string) => void },
): Promise<App & AsyncDisposable> | (App & AsyncDisposable) {
  if (opensNothing === true) return { [Symbol.asyncDispose]: async () => {} } as never;
  return opensForWork === true ? openForWork(url, say) : open(url);
}

/** `--dry-run`, `--limit <n>`, `--last <duration>`. */
function optionOf(field: string, node: Node | undefined, flag: FlagSpec): Option {
  if (node === undefined) throw new Error(`there is no field ${field}`);
  const { bare, text = "" } = bareOf(node);
  const { flag: called = field, read, means } = flag;
  const name = `--${called.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const [value, ofKind] = means === undefined ? valueOf(bare, field, name) : [null, null];
  const parser = read === undefined ? ofKind : explained(read);
  const flags = value === null ? name : `${name} ${flag.value ?? value}`;
  const required = flag.isRequired === true ? " (required)" : "";
  const piped = value === "<json>" ? ", or - to read it from stdin" : "";
  const option = new Option(flags, `${flag.about ?? lowered(text)}${piped}${required}`);
  if (flag.initial !== undefined) option.default(flag.initial);
  if (flag.isRequired === true) option.makeOptionMandatory();
  if (bare.kind === "choice" && means === undefined) return option.choices(bare.values);
  return parser === null ? option : option.argParser(parser);
}

/** The parser of commands takes null for an empty text. */
class Given {
  readonly value: unknown;

  constructor(value: unknown) {
    this.value = value;
  }
}

type Parser = (text: string, before: unknown) => unknown;

/** The parser of commands adds the name of the option. */
function explained(read: (text: string) => unknown): Parser {
  return (text) => {
    try {
      return new Given(read(text));
    } catch (error) {
      throw new InvalidArgumentError((error as Error).message);
    }
  };
}

/** What the help calls the value of an option, and how it is read. */
function valueOf(bare: Node, field: string, name: string): [value: string | null, Parser | null] {
  switch (bare.kind) {
    case "boolean":
      return [null, null];
    case "integer":
    case "number":
      if (bare.as === "instant") return ["<time>", (text) => instant(text).getTime()];
      return ["<n>", wholeNumber];
    case "anything":
    case "map":
      return ["<json>", (text) => (text === "-" ? new FromStdin(name) : parseJson(text, name))];
    case "list":
      return [`<${field}>`, (text, before) => repeated(text, before as string[] | undefined)];
    case "text":
      return isDuration(bare) ? ["<duration>", duration] : [`<${field}>`, null];
    case "union":
      if (bare.of.some((one) => isDuration(bareOf(one).bare))) return ["<duration>", duration];
      return [`<${field}>`, null];
    default:
      return [`<${field}>`, null];
  }
}

function isOptional(node: Node | undefined): boolean {
  return node?.kind === "about" ? isOptional(node.of) : node?.kind === "optional";
}

const isDuration = (bare: Node): boolean => bare.kind === "text" && bare.as === "duration";

/** Help texts begin in lower case and have no full stop. */
function lowered(sentence: string): string {
  return (sentence.charAt(0).toLowerCase() + sentence.slice(1)).replace(/\.$/, "");
}
