/** `holdfast dead-letters`: lists failed jobs, groups them by cause, and revives one, if need be with another input. */
import { text } from "node:stream/consumers";
import { Command } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import { jobId, jobTable } from "../jobs/command.ts";
import type { Jobs } from "../jobs/jobs.ts";
import {
  actorName,
  parseJson,
  reasonOption,
  type ReasonOptions,
  repeated,
  wholeNumber,
} from "../terminal/arguments.ts";
import { count, counted, printable, relative, table } from "../terminal/table.ts";
import { type CommandKit, type DatabaseOptions, urlOption } from "../terminal/terminal.ts";
import type { DeadLetters } from "./dead-letters.ts";

type Kit = CommandKit<{ readonly jobs: Jobs; readonly deadLetters: DeadLetters }>;

interface ListOptions extends DatabaseOptions {
  readonly queue?: string;
  readonly task?: string;
  readonly tag?: readonly string[];
  readonly before?: string;
  readonly limit: number;
}

interface ReviveOptions extends DatabaseOptions, ReasonOptions {
  readonly input?: string;
  readonly attempts?: number;
  readonly withCalled?: true;
}

const LIMIT_DEFAULT = 20;

const GROUPED_DEFAULT = 10_000;

export function deadLettersCommand(kit: Kit): Command {
  const command = new Command("dead-letters").description(
    "list, group, edit and revive failed jobs",
  );
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(groupsCommand(kit));
  command.addCommand(reviveCommand(kit));
  return command.addHelpText(
    "after",
    `
For many jobs: 'holdfast retry --code E_BANK' retries them, 'holdfast bulk
delete --status failed --until 7d' deletes them. 'holdfast job <id>' shows all
details of one.`,
  );
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list failed jobs, newest first")
    .option("--queue <name>", "only jobs of this queue")
    .option("--task <name>", "only jobs of this task")
    .option("--tag <tag>", "only jobs with this tag; can be repeated", repeated)
    .option("--limit <n>", "maximum number of jobs", wholeNumber, LIMIT_DEFAULT)
    .option("--before <id>", "only jobs older than this one (next page)")
    .addOption(urlOption())
    .action((options: ListOptions) => list(kit, options));
}

function groupsCommand(kit: Kit): Command {
  return new Command("groups")
    .description("count failed jobs by task and cause")
    .option("--limit <n>", "how many to examine, newest first", wholeNumber, GROUPED_DEFAULT)
    .addOption(urlOption())
    .action((options: DatabaseOptions & { limit: number }) => groups(kit, options));
}

function reviveCommand(kit: Kit): Command {
  return new Command("revive")
    .description(
      "make a failed, cancelled or expired job pending again, optionally with a new input",
    )
    .argument("<id>", "the job's id, or an unambiguous prefix")
    .option("--input <json>", "the new input, or - to read it from stdin")
    .option("--attempts <n>", "additional attempts (default: 3)", wholeNumber)
    .option("--with-called", "also revive called jobs whose failure caused this one")
    .addOption(reasonOption())
    .addOption(urlOption())
    .action((id: string, options: ReviveOptions) => revive(kit, id, options));
}

async function list(
  { terminal, open }: Kit,
  { url, tag, before, ...options }: ListOptions,
): Promise<void> {
  await using holdfast = await open(url);
  const tags = tag === undefined ? {} : { tags: tag };
  const from = before === undefined ? {} : { before: await jobId(holdfast, before) };
  const found = await holdfast.deadLetters.list({ ...options, ...tags, ...from });
  const next = found.length === options.limit ? (found.at(-1)?.id ?? null) : null;
  if (terminal.json) terminal.printJson({ jobs: found, next });
  else if (found.length === 0) terminal.print("No dead letters.");
  else {
    const ids = found.map(({ id }) => id);
    const short = terminal.columns === null ? null : await holdfast.jobs.shortIds(ids);
    const more = next === null ? "" : ` Older: --before ${short?.get(next) ?? next}`;
    const footer = `${counted(found.length, "dead letter")}.${more}`;
    terminal.print(...jobTable(found, short, terminal), "", terminal.colors.dim(footer));
  }
}

async function groups(
  { terminal, open }: Kit,
  { url, limit }: DatabaseOptions & { readonly limit: number },
): Promise<void> {
  await using holdfast = await open(url);
  const found = await holdfast.deadLetters.groups({ limit });
  if (terminal.json) terminal.printJson(found);
  else if (found.groups.length === 0) terminal.print("No dead letters.");
  else {
    const now = systemRuntime.now();
    const lines = table({
      columns: [
        { title: "JOBS", align: "right" },
        { title: "TASK", flexible: true },
        { title: "ERROR", flexible: true },
        { title: "NEWEST", align: "right" },
        { title: "MESSAGE", flexible: true },
      ],
      rows: found.groups.map(({ task, error, jobs, message, newest }) => [
        count(jobs),
        task,
        error,
        relative(newest.at, now),
        message.split("\n")[0] ?? "",
      ]),
      width: terminal.columns,
      paintTitle: terminal.colors.bold,
    });
    const rest = found.isAll ? "all there are" : "the newest";
    const footer = `${counted(found.looked, "dead letter")}, ${rest}.`;
    terminal.print(...lines, "", terminal.colors.dim(footer));
  }
}

async function revive(
  { terminal, open }: Kit,
  typed: string,
  { url, input, ...options }: ReviveOptions,
): Promise<void> {
  const given =
    input === undefined
      ? {}
      : {
          input:
            input === "-"
              ? parseJson(await text(process.stdin), "The input from stdin", false)
              : parseJson(input, "--input"),
        };
  await using holdfast = await open(url);
  const id = await jobId(holdfast, typed);
  const how = { actor: actorName(), ...options, ...given };
  const called = await holdfast.deadLetters.revive(id, how);
  if (terminal.json) terminal.printJson({ id, status: "pending", called });
  else {
    const what = input === undefined ? "" : " with another input";
    const ids = [id, ...called].join(", ");
    terminal.print(printable(`${terminal.colors.green("Pending again")} ${ids}${what}`));
  }
}
