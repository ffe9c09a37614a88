/**
 * `holdfast retry` and `holdfast cancel`, by ids or by filter, and `holdfast bulk`: actions by filter, with progress. The
 * command carries the action out itself until it has ended or Ctrl-C stops it; workers carry on one that lost its command.
 */
import { Command } from "commander";
import { HoldfastError, IllegalMoveError } from "../core/errors.ts";
import { finalStatuses } from "../core/job.ts";
import type { JobFieldName } from "../core/job-query.ts";
import { type FilterFlags, filterFlags } from "../jobs/filter-flags.ts";
import { pairsOf } from "../jobs/shapes.ts";
import { type App as JobsApp, eachJob, type Handled, unknownNames } from "../jobs/command.ts";
import {
  actorName,
  givenJson,
  reasonOption,
  type ReasonOptions,
  wholeNumber,
} from "../terminal/arguments.ts";
import { InterruptedError, SomeFailed } from "../terminal/failure.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { count, printable } from "../terminal/table.ts";
import {
  type CommandKit,
  type DatabaseOptions,
  type EndSignal,
  listenForSignals,
  type Signals,
  type Terminal,
  urlOption,
} from "../terminal/terminal.ts";
import { type BulkApp, bulkOperations, sentenceOf, wholeBulkId } from "./operations.ts";
import type { BulkFilter, BulkRequest } from "./request.ts";
import type { BulkRecord } from "./store.ts";

type App = JobsApp & BulkApp;

type Kit = CommandKit<App>;

interface BulkCliOptions extends FilterFlags {
  readonly all?: true;
  readonly dryRun?: true;
  readonly detach?: true;
}

type FilterCommandOptions = DatabaseOptions & ReasonOptions & BulkCliOptions;

function filterOptions(command: Command, except: readonly JobFieldName[] = []): Command {
  return filterFlags(command, ["id", ...except])
    .option("--all", "all eligible jobs")
    .option("--dry-run", "count the jobs without changing them")
    .option("--detach", "leave the action to workers and servers, and do not wait for it")
    .addOption(reasonOption())
    .addOption(urlOption());
}

type Pairs = ReturnType<typeof pairsOf>;

interface SplitOptions<Options> {
  /** Null: none was given. */
  readonly filter: { readonly fields: Pairs; readonly all: boolean } | null;
  readonly dryRun: boolean;
  readonly detach: boolean;
  readonly rest: Omit<Options, keyof BulkCliOptions>;
}

function split<Options extends BulkCliOptions>(options: Options): SplitOptions<Options> {
  const { all = false, dryRun = false, detach = false, ...others } = options;
  const fields = pairsOf(others);
  const names = new Set<string>(fields.map(([name]) => name));
  const rest = Object.fromEntries(Object.entries(others).filter(([name]) => !names.has(name)));
  const filter = fields.length === 0 && !all ? null : { fields, all };
  return { filter, dryRun, detach, rest: rest as Omit<Options, keyof BulkCliOptions> };
}

async function filterOf(
  { jobs }: App,
  { fields, all }: NonNullable<SplitOptions<unknown>["filter"]>,
): Promise<BulkFilter> {
  const filter = await jobs.readFilter(fields);
  return all ? { ...filter, all } : filter;
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
      "Pass either job ids or a filter such as --task, --error or --all, but not both.",
    );
  }
  return parts;
}

// `holdfast cancel <id…>`, or by filter: prevents jobs from running, or asks their worker to stop them.

export function cancelCommand(kit: Kit): Command {
  const command = new Command("cancel")
    .description("cancel jobs that have not finished")
    .argument("[id...]", "job ids, or unambiguous prefixes");
  return filterOptions(command)
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
    const request = { action: "cancel", filter: await filterOf(holdfast, filter) } as const;
    await start({ terminal, holdfast }, request, { ...how, ...rest });
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

/** The new input of one job. */
const RETRY_INPUT = "input";

export function retryCommand(kit: Kit): Command {
  const command = new Command("retry")
    .description("make failed, cancelled or expired jobs pending again")
    .argument("[id...]", "job ids, or unambiguous prefixes")
    .option("--input <json>", "another input for one job, or - to read it from stdin")
    .option("--attempts <n>", "additional attempts for each job (default: 3)", wholeNumber)
    .option("--with-called", "also retry the called jobs whose failure made these jobs fail");
  return filterOptions(command, [RETRY_INPUT])
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
  const { [RETRY_INPUT]: input, ...others } = given;
  const { filter, rest, ...how } = splitWithIds(ids, others);
  const { reason, ...terms } = rest;
  if (input !== undefined && ids.length !== 1) {
    throw new BadUsageError("--input is for one job: pass its id.");
  }
  const why = reason === undefined ? {} : { reason };
  await using holdfast = await open(url);
  if (filter !== null) {
    const request = {
      action: "retry",
      filter: await filterOf(holdfast, filter),
      ...terms,
    } as const;
    await start({ terminal, holdfast }, request, { ...how, ...why });
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

const { list, get, stop } = bulkOperations;

export const bulkCommands = {
  name: "bulk",
  about: "delete, move or reprioritize many jobs; list, stop and resume bulk actions",
  parts: [list, get, deleteCommand, moveCommand, priorityCommand, stop, resumeCommand],
};

function deleteCommand(kit: Kit): Command {
  const command = new Command("delete").description("delete ended jobs that match a filter");
  return filterOptions(command)
    .addHelpText("after", `\n--status is required and must be one of: ${finalStatuses.join(", ")}.`)
    .action(({ url, ...given }: FilterCommandOptions) =>
      startAlone(kit, url, given, (filter) => ({ action: "delete", filter })),
    );
}

function moveCommand(kit: Kit): Command {
  const command = new Command("move")
    .description("move unclaimed jobs that match a filter to another queue")
    .requiredOption("--to <queue>", "the new queue");
  return filterOptions(command).action(
    ({ url, to, ...given }: FilterCommandOptions & { to: string }) =>
      startAlone(kit, url, given, (filter) => ({ action: "move", filter, queue: to })),
  );
}

function priorityCommand(kit: Kit): Command {
  const command = new Command("priority")
    .description("change the priority of unclaimed jobs that match a filter")
    .requiredOption("--to <n>", "the new priority; higher numbers run first", wholeNumber);
  return filterOptions(command).action(
    ({ url, to, ...given }: FilterCommandOptions & { to: number }) =>
      startAlone(kit, url, given, (filter) => ({ action: "priority", filter, priority: to })),
  );
}

function resumeCommand(kit: Kit): Command {
  return new Command("resume")
    .description("resume a stopped bulk action")
    .argument("<id>", "its id, or an unambiguous prefix")
    .addOption(reasonOption())
    .addOption(urlOption())
    .action(async (typed: string, { url, ...why }: DatabaseOptions & ReasonOptions) => {
      await using holdfast = await kit.open(url);
      const id = await wholeBulkId(holdfast, typed);
      const action = await holdfast.bulk.resume(id, { actor: actorName(), ...why });
      using signals = listenForSignals();
      await follow({ terminal: kit.terminal, holdfast }, action, signals);
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
    throw new BadUsageError("Pass a filter such as --task, --error or --all.");
  }
  await using holdfast = await open(url);
  const asked = request(await filterOf(holdfast, filter));
  await start({ terminal, holdfast }, asked, { ...how, ...rest });
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
    onProgress: (now) => terminal.progress(`${count(now.looked)} checked. ${sentenceOf(now)}`),
  });
  terminal.progress("");
  const isCut = heard.signal !== null && ended.status === "running";
  const last = isCut ? await holdfast.bulk.stop(action.id, { actor: actorName() }) : ended;
  if (terminal.json) terminal.printJson(last);
  else {
    const unknown = last.matched === 0 ? await unknownNames(holdfast, action.filter) : "";
    terminal.print(printable(`${sentenceOf(last)}${unknown}`));
  }
  if (heard.signal !== null && last.status === "stopped") {
    const left = `${sentenceOf(last)} The remaining jobs are unchanged. Continue with: holdfast bulk resume ${last.id}`;
    throw new InterruptedError(heard.signal, left);
  }
  if (last.status === "failed") throw new HoldfastError("BULK_FAILED", last.error ?? "It failed.");
  const [first, ...more] = last.refusals.map(
    ({ code, message }) => new HoldfastError(code, message),
  );
  if (first !== undefined) throw new SomeFailed([first, ...more]);
}
