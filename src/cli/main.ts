/** The command line: finds the command, runs it, and turns whatever happens into an exit code. */
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { systemRuntime } from "../core/runtime.ts";
import { buildCommands, namedCommand } from "./commands.ts";
import { BadUsage, exitCodes, misusedAt, report } from "./failure.ts";
import { addEnvFile } from "./settings.ts";
import { logsOnly } from "./speech.ts";
import { Terminal } from "./terminal.ts";
import { completeUrl } from "./url-option.ts";

/** A command that is over waits this long for what a module of the user's left open: a pool, a timer. */
const LINGER_MS = 500;

const IN_CHECKOUT = import.meta.url.endsWith(".ts");

const AFTER_HELP = `
Exit codes:
  0  done
  1  it failed: the job, a promise, the audit, a check; or a wrong setting
  2  bad input or usage
  3  the database is not available, or its schema does not fit
  4  there is no such job, worker, lock or item
  5  another worker is active in the slot
  130, 143  ended by Ctrl-C or SIGTERM before it was finished

Environment, also in a file .env (all of it: holdfast config --all):
  HOLDFAST_URL        the database, instead of --url
  HOLDFAST_REDIS_URL  a Redis for locks, and on MySQL for waking workers
  HOLDFAST_TASKS      the module with your tasks
  LOG_LEVEL           trace, debug, info, warn, error, fatal or silent
  HOLDFAST_DEBUG=1    adds the stack to error messages
  NO_COLOR=1          no colours

Is it healthy?           holdfast doctor --quick, or GET /health of a service
See it survive kill -9:  holdfast demo`;

/** Runs one command line and gives its exit code. */
export async function main(args: readonly string[]): Promise<number> {
  if (IN_CHECKOUT) (await import("./checkout.ts")).importFromSources();
  addEnvFile();
  const { stdout, stderr, env } = process;
  const terminal = new Terminal({ json: asksForJson(args), env, stdout, stderr });
  const named = namedCommand(args);
  if (logsOnly(terminal, named)) (await import("./process-log.ts")).processLog.listen();
  const program = await buildProgram(terminal, named);
  const code = await run(program, { terminal, args, named });
  systemRuntime.timer(LINGER_MS, () => endWith(code), "background");
  return code;
}

interface Line {
  readonly terminal: Terminal;
  readonly args: readonly string[];
  readonly named: string | null;
}

async function run(program: Command, { terminal, args, named }: Line): Promise<number> {
  try {
    await program.parseAsync(args, { from: "user" });
    await terminal.flush();
    return exitCodes.ok;
  } catch (error) {
    // The help or the version that was asked for.
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    if (error instanceof CommanderError && error.code === "commander.help") {
      return showHelp(program, terminal);
    }
    return report(terminal, error, named);
  }
}

async function buildProgram(terminal: Terminal, named: string | null): Promise<Command> {
  const program = new Command("holdfast")
    .description("Durable jobs in the SQL database you already have.")
    .version(readVersion())
    .option("--json", "one JSON document on stdout; errors as JSON on stderr")
    .addHelpText("after", AFTER_HELP)
    .hook("preAction", (_program, command) => completeUrl(command));
  const commands = await buildCommands(named, terminal);
  for (const command of commands) program.addCommand(command);
  const parts = commands.flatMap((command) => command.commands);
  for (const command of [program, ...commands, ...parts]) {
    command
      .exitOverride((error) => misusedAt(error, command))
      .configureHelp({ showGlobalOptions: true })
      .configureOutput({
        writeOut: (text) => terminal.write(text),
        writeErr: () => {}, // Its errors are reported with all others.
        getOutHelpWidth: () => terminal.columns ?? 80,
        getOutHasColors: () => terminal.colors.isColorSupported,
      });
  }
  return program;
}

/** Somebody who names no command wants to know which there are; a script that does has a mistake. */
function showHelp(program: Command, terminal: Terminal): number {
  if (!terminal.json) terminal.complain(program.helpInformation().trimEnd(), "");
  return report(terminal, new BadUsage("Name a command."), null);
}

function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return (end === -1 ? args : args.slice(0, end)).includes("--json");
}

function readVersion(): string {
  const file = new URL("../../package.json", import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

function endWith(code: number): void {
  // oxlint-disable-next-line unicorn/no-process-exit -- the command is over; what keeps us is not ours
  process.exit(code);
}
