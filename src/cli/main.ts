/** The command line: finds the command, runs it, and returns an exit code. */
import { registerHooks } from "node:module";
import { Command, CommanderError } from "commander";
import type { Holdfast } from "../app/holdfast.ts";
import { systemRuntime } from "../core/runtime.ts";
import { isCheckout, libraryVersion } from "../core/version.ts";
import type { CommandGroup } from "../operations/command.ts";
import type { Operation } from "../operations/operation.ts";
import { exitCodes, misusedAt, report } from "../terminal/failure.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { type CommandKit, Terminal } from "../terminal/terminal.ts";
import { logsOnly } from "../terminal/log-line.ts";
import { addEnvFile, completeUrl } from "./settings.ts";

// All commands, in the order of the help. Each is loaded on demand, so an idle worker does not hold the others in memory.

type Build = (kit: CommandKit<Holdfast>) => Command;

const groupOf = async <App>(group: CommandGroup<App>): Promise<(kit: CommandKit<App>) => Command> =>
  (await import("../operations/command.ts")).groupOf(group);
const commandOf = async <App>(
  operation: Operation<App>,
): Promise<(kit: CommandKit<App>) => Command> =>
  (await import("../operations/command.ts")).commandOf(operation);

const commands: Readonly<Record<string, () => Promise<Build>>> = {
  start: async () => (await import("./start.ts")).startCommand,
  work: async () => (await import("./start.ts")).workCommand,
  serve: async () => (await import("./start.ts")).serveCommand,
  enqueue: async () => (await import("./enqueue.ts")).enqueueCommand,
  jobs: async () => (await import("../jobs/command.ts")).jobsCommand,
  job: async () => groupOf((await import("./job.ts")).jobCommands),
  explain: async () => commandOf((await import("../explain/operations.ts")).explainCommand),
  retry: async () => (await import("../bulk/command.ts")).retryCommand,
  cancel: async () => (await import("../bulk/command.ts")).cancelCommand,
  flows: async () => groupOf((await import("../flows/command.ts")).flowCommands),
  rerun: async () => (await import("../steps/command.ts")).rerunCommand,
  errors: async () => groupOf((await import("../error-kinds/operations.ts")).errorCommands),
  bulk: async () => groupOf((await import("../bulk/command.ts")).bulkCommands),
  status: async () =>
    commandOf((await import("../dashboard/operations.ts")).statusOperations.status),
  stats: async () => commandOf((await import("../stats/operations.ts")).statsCommand),
  tasks: async () => groupOf((await import("../stats/task-operations.ts")).taskCommands),
  builds: async () => groupOf((await import("../stats/task-operations.ts")).buildCommands),
  top: async () => (await import("./top.ts")).topCommand,
  leases: async () => commandOf((await import("../registry/operations.ts")).leaseOperations.list),
  workers: async () => groupOf((await import("../registry/command.ts")).workerCommands),
  schedules: async () => groupOf((await import("../schedules/operations.ts")).scheduleCommands),
  locks: async () => groupOf((await import("../locks/operations.ts")).lockCommands),
  queues: async () => groupOf((await import("../queues/operations.ts")).queueCommands),
  alerts: async () => groupOf((await import("../alerts/command.ts")).alertCommands),
  doctor: async () => (await import("../doctor/command.ts")).doctorCommand,
  effects: async () => groupOf((await import("../steps/operations.ts")).effectCommands),
  events: async () => groupOf((await import("../steps/operations.ts")).eventCommands),
  workflows: async () => groupOf((await import("../workflows/operations.ts")).workflowCommands),
  items: async () => groupOf((await import("./items.ts")).itemCommands),
  audit: async () => groupOf((await import("../audit/command.ts")).auditCommands),
  mcp: async () => (await import("./mcp.ts")).mcpCommand,
  migrate: async () => (await import("./database.ts")).migrateCommand,
  copy: async () => (await import("../copy/command.ts")).copyCommand,
  tokens: async () => groupOf((await import("../tokens/operations.ts")).tokenCommands),
  config: async () => (await import("./settings.ts")).configCommand,
  completion: async () => (await import("./completion.ts")).completionCommand,
  demo: async () => (await import("../../verify/demo-command.ts")).demoCommand,
  verify: async () => (await import("../../verify/command.ts")).verifyCommand,
};

/** The named command, or null. */
function namedCommand(args: readonly string[]): string | null {
  const named = args.find((arg) => !arg.startsWith("-"));
  return named !== undefined && Object.hasOwn(commands, named) ? named : null;
}

/** Only the named command; all of them for the help and for an unknown name. */
export async function buildCommands(named: string | null, terminal: Terminal): Promise<Command[]> {
  const wanted = Object.entries(commands).filter(([name]) => named === null || name === named);
  const builds = await Promise.all(wanted.map(([, load]) => load()));
  // The database is loaded by the command that opens one.
  const kit: CommandKit<Holdfast> = {
    terminal,
    open: async (url) => (await import("./database.ts")).openForLooking(url),
    openForWork: async (url, say) => (await import("./database.ts")).openForChanging(url, say),
  };
  return builds.map((build) => build(kit));
}

/** A finished command waits this long for what a user's module left open: a pool, a timer. */
const LINGER_MS = 500;

const AFTER_HELP = `
Exit codes:
  0  success
  1  failure: a failed job, check or verification, or an invalid setting
  2  invalid input or usage
  3  the database is unavailable, or its schema version does not match
  4  job, worker, lock, schedule, flow or item not found
  5  refused, for example because another worker holds the slot
  130, 143  stopped by Ctrl-C or SIGTERM before it finished

Environment variables, also read from .env (all: holdfast config --all):
  HOLDFAST_URL        the database, instead of --url
  HOLDFAST_REDIS_URL  Redis for locks and, with MySQL, for waking workers
  HOLDFAST_TASKS      the module with your tasks
  LOG_LEVEL           trace, debug, info, warn, error, fatal or silent
  HOLDFAST_DEBUG=1    add the stack trace to error messages
  NO_COLOR=1          no colours

Is all well?             holdfast status
Check the database:      holdfast doctor --quick
See it survive kill -9:  holdfast demo`;

/** Runs a command line and returns its exit code. */
export async function main(args: readonly string[]): Promise<number> {
  if (isCheckout) importFromSources();
  addEnvFile();
  const { stdout, stderr, env } = process;
  const terminal = new Terminal({ json: asksForJson(args), env, stdout, stderr });
  if (logsOnly(terminal, namedCommand(args))) (await import("./log.ts")).processLog.listen();
  const code = await run(terminal, args);
  // oxlint-disable-next-line unicorn/no-process-exit -- the command is finished; what keeps the process alive belongs to the user
  systemRuntime.timer(LINGER_MS, () => process.exit(code), "background");
  return code;
}

/** Runs a command line in this process and returns its exit code. */
export async function run(terminal: Terminal, args: readonly string[]): Promise<number> {
  const named = namedCommand(args);
  const program = await buildProgram(terminal, named);
  if (asksForHelp(args)) (await import("./examples.ts")).addExamples(program);
  try {
    await program.parseAsync(args, { from: "user" });
    await terminal.flush();
    return exitCodes.ok;
  } catch (error) {
    // --help or --version.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    if (error instanceof CommanderError && error.code === "commander.help") {
      return showHelp(program, terminal);
    }
    return report(terminal, error, named);
  }
}

export async function buildProgram(terminal: Terminal, named: string | null): Promise<Command> {
  const program = new Command("holdfast")
    .description("Durable jobs in the SQL database you already have.")
    .version(libraryVersion())
    .option("--json", "print one JSON document to stdout, and errors as JSON to stderr")
    .addHelpText("after", AFTER_HELP)
    .hook("preAction", (_program, command) => completeUrl(command));
  // Its script names all of them.
  const built = await buildCommands(named === "completion" ? null : named, terminal);
  for (const command of built) program.addCommand(command);
  const parts = built.flatMap((command) => command.commands);
  for (const command of [program, ...built, ...parts]) {
    command
      .exitOverride((error) => misusedAt(error, command))
      .configureHelp({ showGlobalOptions: true })
      .configureOutput({
        writeOut: (text) => terminal.write(text),
        writeErr: () => {}, // `report` prints its errors.
        getOutHelpWidth: () => terminal.columns ?? 80,
        getOutHasColors: () => terminal.colors.isColorSupported,
      });
  }
  return program;
}

/** Without a command, a person needs the list of commands; for a script it is an error. */
function showHelp(program: Command, terminal: Terminal): number {
  if (!terminal.json) terminal.complain(program.helpInformation().trimEnd(), "");
  return report(terminal, new BadUsageError("No command given."), null);
}

/** May be true by mistake, such as for a task named "help". */
function asksForHelp(args: readonly string[]): boolean {
  return args.some((arg) => arg === "--help" || arg === "-h" || arg === "help");
}

export function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).includes("--json");
}

const ROOT = new URL("../../", import.meta.url).href;
const INSTALLED = `${ROOT}node_modules/`;

const SOURCES: Readonly<Record<string, string>> = {
  holdfast: `${ROOT}src/index.ts`,
  "holdfast/workflows": `${ROOT}src/workflows/index.ts`,
  "holdfast/locks": `${ROOT}src/locks/index.ts`,
  "holdfast/ops": `${ROOT}src/app/ops.ts`,
  "holdfast/dashboard": `${ROOT}src/app/dashboard.ts`,
  "holdfast/testing": `${ROOT}src/testing/index.ts`,
};

/**
 * In a checkout, its modules that import "holdfast" get src/, as the command itself does: no build is needed, and none can be
 * outdated. Modules elsewhere have their own holdfast installed.
 */
function importFromSources(): void {
  registerHooks({
    resolve(specifier, context, next) {
      const source = Object.hasOwn(SOURCES, specifier) ? SOURCES[specifier] : undefined;
      const { parentURL = "" } = context;
      const isOurs = parentURL.startsWith(ROOT) && !parentURL.startsWith(INSTALLED);
      return next(isOurs && source !== undefined ? source : specifier, context);
    },
  });
}
