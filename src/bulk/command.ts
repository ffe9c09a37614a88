/**
 * `holdfast retry` and `holdfast cancel`, by ids or by filter, and `holdfast bulk`: actions by filter, with progress. The
 * command carries the action out itself until it has ended or Ctrl-C stops it; workers carry on one that lost its command.
 */
import { Command, InvalidArgumentError, Option } from "commander";
import { toMs } from "../core/duration.ts";
import { HoldfastError, IllegalMoveError } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import { finalStatuses, type Status, statuses } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { type App as JobsApp, eachJob, type Handled, unknownNames } from "../jobs/command.ts";
import {
  actorName,
  givenJson,
  instant,
  reasonOption,
  type ReasonOptions,
  repeated,
  wholeNumber,
} from "../terminal/arguments.ts";
import { wholeId } from "../terminal/ids.ts";
import { BadUsageError, InterruptedError, SomeFailed } from "../terminal/failure.ts";
import { count, counted, printable, relative, table } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type EndSignal,
  listenForSignals,
  type Signals,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import type { BulkActions } from "./bulk.ts";
import { BulkNotFoundError, type BulkRecord } from "./store.ts";
import type { BulkAction, BulkFilter, BulkRequest } from "./filter.ts";

interface App extends JobsApp {
  readonly bulk: BulkActions;
}

type Kit = CommandKit<App>;

interface BulkCliOptions {
  readonly status?: Status;
  readonly queue?: string;
  readonly task?: string;
  readonly key?: string;
  readonly tag?: readonly string[];
  readonly worker?: string;
  readonly build?: string;
  readonly since?: Date;
  readonly until?: Date;
  readonly error?: string;
  readonly code?: string;
  readonly all?: true;
  readonly dryRun?: true;
  readonly detach?: true;
}

type FilterCommandOptions = DatabaseOptions & ReasonOptions & BulkCliOptions;

const LIMIT_DEFAULT = 20;

const PREFIX_PAGE = 1_000;

function filterOptions(command: Command, { when }: { readonly when: string }): Command {
  return command
    .addOption(new Option("--status <status>", "only jobs with this status").choices(statuses))
    .option("--queue <name>", "only jobs of this queue")
    .option("--task <name>", "only jobs of this task")
    .option("--key <key>", "only jobs with this key")
    .option("--tag <tag>", "only jobs with this tag; can be repeated", repeated)
    .option("--worker <id>", "only jobs that ran or run on this worker")
    .option("--build <id>", "only jobs that ran or run on a worker of this build")
    .option(
      "--since <time>",
      `only jobs ${when} since this time: 1h (ago), or 2027-01-31T09:00:00Z`,
      ago,
    )
    .option("--until <time>", `only jobs ${when} before this time`, ago)
    .option("--error <text>", "only jobs whose last error contains this text")
    .option("--code <code>", "only jobs whose last error has this code or name")
    .option("--all", "all eligible jobs")
    .option("--dry-run", "count the jobs without changing them")
    .option("--detach", "leave the action to workers and servers, and do not wait for it")
    .addOption(reasonOption())
    .addOption(urlOption());
}

/** `1h` ago, or an instant. */
function ago(text: string): Date {
  try {
    return new Date(systemRuntime.now() - toMs("duration", text));
  } catch {
    try {
      return instant(text);
    } catch {
      throw new InvalidArgumentError(
        "Write a duration (15m, 2h or 7d ago) or a time such as 2027-01-31T09:00:00Z.",
      );
    }
  }
}

interface SplitOptions<Options> {
  /** Null: none was given. */
  readonly filter: BulkFilter | null;
  readonly dryRun: boolean;
  readonly detach: boolean;
  readonly rest: Omit<Options, keyof BulkCliOptions>;
}

function split<Options extends BulkCliOptions>(options: Options): SplitOptions<Options> {
  const { status, queue, task, key, tag, worker, build, ...more } = options;
  const { since, until, error, code, all, ...others } = more;
  const { dryRun = false, detach = false, ...rest } = others;
  const times = { since, until, error, code, all };
  const named = { status, queue, task, key, tags: tag, worker, build, ...times };
  const given = Object.entries(named).filter(([, value]) => value !== undefined);
  const filter = given.length === 0 ? null : (Object.fromEntries(given) as BulkFilter);
  return { filter, dryRun, detach, rest: rest as Omit<Options, keyof BulkCliOptions> };
}

/** Either ids or a filter. */
function splitWithIds<Options extends BulkCliOptions>(
  ids: readonly string[],
  options: Options,
): SplitOptions<Options> {
  const parts = split(options);
  const isFilter = parts.filter !== null;
  if (isFilter === ids.length > 0 || ((parts.dryRun || parts.detach) && !isFilter)) {
    throw new BadUsageError(
      "Pass either job ids or a filter such as --task, --since or --all, but not both.",
    );
  }
  return parts;
}

// `holdfast cancel <id…>`, or by filter: prevents jobs from running, or asks their worker to stop them.

export function cancelCommand(kit: Kit): Command {
  const command = new Command("cancel")
    .description("cancel jobs that have not finished")
    .argument("[id...]", "job ids, or unambiguous prefixes");
  return filterOptions(command, { when: "enqueued" })
    .addHelpText(
      "after",
      `
Without ids, it cancels the unfinished jobs that match all given options, and
asks running jobs to stop. Ctrl-C stops it between two chunks and reports how
far it got; 'holdfast bulk resume' continues it. The audit log records each
cancellation.`,
    )
    .action((ids: string[], options: FilterCommandOptions) => cancel(kit, ids, options));
}

async function cancel(
  kit: Kit,
  ids: readonly string[],
  { url, ...given }: FilterCommandOptions,
): Promise<void> {
  const { terminal, open } = kit;
  const { colors } = terminal;
  const { filter, rest, ...how } = splitWithIds(ids, given);
  await using holdfast = await open(url);
  if (filter !== null) {
    await start({ terminal, holdfast }, { action: "cancel", filter }, { ...how, ...rest });
    return;
  }
  const options = { actor: actorName(), ...rest };
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const status = await holdfast.jobs.cancel(id, options);
      if (status === "done" || status === "failed") {
        throw new IllegalMoveError({ id, status, move: "cancel" });
      }
      return { id, status };
    },
    say: ({ id, status }) =>
      status === "processing"
        ? `${colors.yellow("Cancelling")} ${id}: its worker was asked to stop it`
        : `${colors.green("Cancelled")} ${id}`,
  });
}

// `holdfast retry <id…>`, or by filter: makes failed or cancelled jobs pending again.

interface RetryOptions extends FilterCommandOptions {
  readonly input?: string;
  readonly attempts?: number;
  readonly withCalled?: true;
}

export function retryCommand(kit: Kit): Command {
  const command = new Command("retry")
    .description("make failed, cancelled or expired jobs pending again")
    .argument("[id...]", "job ids, or unambiguous prefixes")
    .option("--input <json>", "another input for one job, or - to read it from stdin")
    .option("--attempts <n>", "additional attempts for each job (default: 3)", wholeNumber)
    .option("--with-called", "also retry the called jobs whose failure made these jobs fail");
  return filterOptions(command, { when: "finished" })
    .addHelpText(
      "after",
      `
Without ids, it retries the failed jobs that match all given options. Use
--status cancelled or --status expired for other jobs. Ctrl-C stops it between
two chunks and reports how far it got; 'holdfast bulk resume' continues it. The
audit log records each retry.`,
    )
    .action((ids: string[], options: RetryOptions) => retry(kit, ids, options));
}

async function retry(
  kit: Kit,
  ids: readonly string[],
  { url, ...given }: RetryOptions,
): Promise<void> {
  const { terminal, open } = kit;
  const { filter, rest, ...how } = splitWithIds(ids, given);
  const { reason, input, ...terms } = rest;
  if (input !== undefined && ids.length !== 1) {
    throw new BadUsageError("--input is for one job: pass its id.");
  }
  const why = reason === undefined ? {} : { reason };
  await using holdfast = await open(url);
  if (filter !== null) {
    await start({ terminal, holdfast }, { action: "retry", filter, ...terms }, { ...how, ...why });
    return;
  }
  const changed = input === undefined ? {} : { input: await givenJson(input, "--input") };
  const options = { actor: actorName(), ...terms, ...changed, ...why };
  await eachJob({ terminal, holdfast }, ids, {
    async act(id) {
      const called = await holdfast.jobs.retry(id, options);
      return { id, status: "pending", ...(called.length === 0 ? {} : { called }) };
    },
    say: ({ id, called = [] }: Handled & { readonly called?: readonly string[] }) =>
      `${terminal.colors.green("Pending again")} ${[id, ...called].join(", ")}`,
  });
}

// `holdfast bulk`: the stored actions, and those that have no command of their own.

export function bulkCommand(kit: Kit): Command {
  const command = new Command("bulk").description(
    "delete, move or reprioritize many jobs; list, stop and resume bulk actions",
  );
  command.addCommand(listCommand(kit), { isDefault: true });
  command.addCommand(showCommand(kit));
  command.addCommand(deleteCommand(kit));
  command.addCommand(moveCommand(kit));
  command.addCommand(priorityCommand(kit));
  for (const turn of ["stop", "resume"] as const) command.addCommand(turnCommand(kit, turn));
  return command;
}

function listCommand(kit: Kit): Command {
  return new Command("list")
    .description("list bulk actions, newest first")
    .option("--limit <n>", "maximum number of actions", wholeNumber, LIMIT_DEFAULT)
    .addOption(urlOption())
    .action((options: DatabaseOptions & { limit: number }) => list(kit, options));
}

function showCommand(kit: Kit): Command {
  return new Command("show")
    .description("show a bulk action and its progress")
    .argument("<id>", "its id, or an unambiguous prefix")
    .addOption(urlOption())
    .action(async (typed: string, { url }: DatabaseOptions) => {
      await using holdfast = await kit.open(url);
      show(kit.terminal, await holdfast.bulk.get(await bulkId(holdfast.bulk, typed)));
    });
}

function deleteCommand(kit: Kit): Command {
  const command = new Command("delete").description("delete ended jobs that match a filter");
  return filterOptions(command, { when: "finished" })
    .addHelpText("after", `\n--status is required and must be one of: ${finalStatuses.join(", ")}.`)
    .action(({ url, ...given }: FilterCommandOptions) =>
      startAlone(kit, url, given, (filter) => ({ action: "delete", filter })),
    );
}

function moveCommand(kit: Kit): Command {
  const command = new Command("move")
    .description("move unclaimed jobs that match a filter to another queue")
    .requiredOption("--to <queue>", "the new queue");
  return filterOptions(command, { when: "enqueued" }).action(
    ({ url, to, ...given }: FilterCommandOptions & { to: string }) =>
      startAlone(kit, url, given, (filter) => ({ action: "move", filter, queue: to })),
  );
}

function priorityCommand(kit: Kit): Command {
  const command = new Command("priority")
    .description("change the priority of unclaimed jobs that match a filter")
    .requiredOption("--to <n>", "the new priority; higher numbers run first", wholeNumber);
  return filterOptions(command, { when: "enqueued" }).action(
    ({ url, to, ...given }: FilterCommandOptions & { to: number }) =>
      startAlone(kit, url, given, (filter) => ({ action: "priority", filter, priority: to })),
  );
}

function turnCommand(kit: Kit, turn: "stop" | "resume"): Command {
  return new Command(turn)
    .description(turn === "stop" ? "stop a bulk action" : "resume a stopped bulk action")
    .argument("<id>", "its id, or an unambiguous prefix")
    .addOption(reasonOption())
    .addOption(urlOption())
    .action(async (typed: string, { url, ...why }: DatabaseOptions & ReasonOptions) => {
      await using holdfast = await kit.open(url);
      const id = await bulkId(holdfast.bulk, typed);
      const action = await holdfast.bulk[turn](id, { actor: actorName(), ...why });
      using signals = listenForSignals();
      if (turn === "resume") await follow({ terminal: kit.terminal, holdfast }, action, signals);
      else show(kit.terminal, action);
    });
}

async function startAlone(
  { terminal, open }: Kit,
  url: string,
  given: BulkCliOptions & ReasonOptions,
  request: (filter: BulkFilter) => BulkRequest,
): Promise<void> {
  const { filter, rest, ...how } = split(given);
  if (filter === null) {
    throw new BadUsageError("Pass a filter such as --task, --since or --all.");
  }
  await using holdfast = await open(url);
  await start({ terminal, holdfast }, request(filter), { ...how, ...rest });
}

interface Here {
  readonly terminal: Terminal;
  readonly holdfast: App;
}

async function start(
  here: Here,
  request: BulkRequest,
  { dryRun, detach, ...why }: { dryRun: boolean; detach: boolean } & ReasonOptions,
): Promise<void> {
  const { terminal, holdfast } = here;
  using signals = listenForSignals(); // from here on an action may exist, and Ctrl-C stops it
  const asked = dryRun ? { ...request, dryRun } : request;
  const action = await holdfast.bulk.start(asked, { actor: actorName(), ...why });
  if (!detach) await follow(here, action, signals);
  else if (terminal.json) terminal.printJson(action);
  else terminal.print(`Started ${action.id}. Follow it with 'holdfast bulk show ${action.id}'.`);
}

/** Carries it out with progress, until it has ended or a signal stops it. */
async function follow(
  { terminal, holdfast }: Here,
  action: BulkRecord,
  signals: Signals,
): Promise<void> {
  const heard: { signal: EndSignal | null } = { signal: null };
  const ending = new AbortController();
  void signals.first.then((signal) => {
    heard.signal = signal;
    ending.abort();
  });
  const ended = await holdfast.bulk.run(action, {
    signal: ending.signal,
    onProgress: (now) => terminal.progress(`${count(now.looked)} checked. ${sentence(now)}`),
  });
  terminal.progress("");
  const isCut = heard.signal !== null && ended.status === "running";
  const last = isCut ? await holdfast.bulk.stop(action.id, { actor: actorName() }) : ended;
  if (terminal.json) terminal.printJson(last);
  else {
    const unknown = last.matched === 0 ? await unknownNames(holdfast, action.filter) : "";
    terminal.print(printable(`${sentence(last)}${unknown}`));
  }
  if (heard.signal !== null && last.status === "stopped") {
    const left = `${sentence(last)} The remaining jobs are unchanged. Continue with: holdfast bulk resume ${last.id}`;
    throw new InterruptedError(heard.signal, left);
  }
  if (last.status === "failed") throw new HoldfastError("BULK_FAILED", last.error ?? "It failed.");
  const [first, ...more] = last.refusals.map(
    ({ code, message }) => new HoldfastError(code, message),
  );
  if (first !== undefined) throw new SomeFailed([first, ...more]);
}

const DONE: Readonly<Record<BulkAction, string>> = {
  retry: "Retried",
  cancel: "Cancelled",
  delete: "Deleted",
  move: "Moved",
  priority: "Reprioritised",
};

function sentence({ action, dryRun, matched, changed }: BulkRecord): string {
  if (dryRun) return `${counted(matched, "job")} would be ${DONE[action].toLowerCase()}.`;
  const others = matched - changed;
  const rest =
    others === 0 ? "" : ` ${counted(others, "job")} could not be, or had changed in the meantime.`;
  return `${DONE[action]} ${counted(changed, "job")}.${rest}`;
}

async function list(
  { terminal, open }: Kit,
  { url, limit }: DatabaseOptions & { readonly limit: number },
): Promise<void> {
  await using holdfast = await open(url);
  const actions = await holdfast.bulk.list({ limit });
  if (terminal.json) terminal.printJson({ actions });
  else if (actions.length === 0) terminal.print("No bulk actions.");
  else {
    const now = systemRuntime.now();
    const lines = table({
      columns: [
        { title: "ID" },
        { title: "ACTION" },
        { title: "STATUS" },
        { title: "STARTED", align: "right" },
        { title: "MATCHED", align: "right" },
        { title: "CHANGED", align: "right" },
        { title: "BY", flexible: true },
        { title: "FILTER", flexible: true },
      ],
      rows: actions.map((action) => [
        action.id,
        action.dryRun ? `${action.action} (dry run)` : action.action,
        action.status,
        relative(action.createdAt, now),
        count(action.matched),
        count(action.changed),
        action.actor,
        filterText(action),
      ]),
      width: terminal.columns,
      paintTitle: terminal.colors.bold,
    });
    terminal.print(...lines);
  }
}

function filterText({ filter }: BulkRecord): string {
  return Object.entries(filter)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}

function show(terminal: Terminal, action: BulkRecord): void {
  if (terminal.json) {
    terminal.printJson(action);
    return;
  }
  const now = systemRuntime.now();
  const { colors } = terminal;
  const lines: Record<string, string | null> = {
    status: action.status,
    filter: filterText(action),
    queue: action.terms.queue ?? null,
    priority: action.terms.priority === undefined ? null : String(action.terms.priority),
    by: `${action.actor}${action.reason === null ? "" : `: ${action.reason}`}`,
    started: relative(action.createdAt, now),
    changed: relative(action.changedAt, now),
    checked: count(action.looked),
    error: action.error,
  };
  terminal.print(
    `${colors.bold(action.action)} ${action.id}`,
    ...Object.entries(lines).flatMap(([name, text]) =>
      text === null ? [] : [`  ${colors.dim(name.padEnd(8))}  ${printable(text)}`],
    ),
    sentence(action),
    ...action.refusals.map(({ id, message }) => printable(`  ${id}: ${message}`)),
  );
}

function bulkId(bulk: BulkActions, typed: string): Promise<string> {
  if (isId(typed)) return Promise.resolve(typed);
  return wholeId(typed, {
    what: "bulk action",
    find: async (prefix, limit) => {
      const found = await bulk.list({ limit: PREFIX_PAGE });
      const fitting = found.filter(({ id }) => id.startsWith(prefix.toLowerCase()));
      return fitting
        .slice(0, limit)
        .map(({ id, action, status }) => ({ id, about: `${status} ${action}` }));
    },
    notFound: (id) => new BulkNotFoundError({ id }),
  });
}
