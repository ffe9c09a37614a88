/** `holdfast errors`: the errors of failed attempts by kind, the last seen first. */
import { Command, Option } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import { wholeNumber } from "../terminal/arguments.ts";
import { count, counted, relative, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { ErrorKinds, Errors } from "./errors.ts";
import { type ErrorKindState, kindStates } from "./store.ts";

type Kit = CommandKit<{ readonly errors: Errors }>;

interface Options extends DatabaseOptions {
  readonly state: ErrorKindState;
  readonly limit: number;
}

const LIMIT_DEFAULT = 20;

export function errorsCommand(kit: Kit): Command {
  return new Command("errors")
    .description("list errors by kind, last seen first")
    .addOption(new Option("--state <state>", "only these").choices(kindStates).default("open"))
    .option("--limit <n>", "maximum number of kinds", wholeNumber, LIMIT_DEFAULT)
    .addOption(urlOption())
    .addHelpText(
      "after",
      `
Workers count errors when a minute is over. A kind is one task, error name and
code, and a message that differs in values only. 'holdfast jobs --status failed'
lists the jobs, and 'holdfast retry --task <task> --code <code>' retries them.`,
    )
    .action((options: Options) => list(kit, options));
}

async function list({ terminal, open }: Kit, { url, ...filter }: Options): Promise<void> {
  await using holdfast = await open(url);
  const found = await holdfast.errors.list(filter);
  if (terminal.json) terminal.printJson(found);
  else if (found.groups.length === 0) terminal.print(`No ${filter.state} kind of error.`);
  else terminal.print(...linesOf(found, filter.state, terminal));
}

function linesOf(
  { groups, counts, isAll }: ErrorKinds,
  state: ErrorKindState,
  terminal: Terminal,
): string[] {
  const now = systemRuntime.now();
  const rows = groups.map(({ failed, retried, task, code, name, lastAt, isNew, message }) => [
    count(failed),
    count(retried),
    task,
    `${code ?? name}${isNew ? " (new)" : ""}`,
    relative(lastAt, now),
    message,
  ]);
  const columns = [
    { title: "FAILED", align: "right" },
    { title: "RETRIED", align: "right" },
    { title: "TASK", flexible: true },
    { title: "ERROR", flexible: true },
    { title: "LAST", align: "right" },
    { title: "MESSAGE", flexible: true },
  ] as const;
  const lines = table({ columns, rows, width: terminal.columns, paintTitle: terminal.colors.bold });
  const all = `${counted(counts[state], "kind")}${isAll ? "" : `, the last ${groups.length} of them here`}.`;
  return [...lines, "", terminal.colors.dim(all)];
}
