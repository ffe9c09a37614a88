/** The errors of commands: how they are reported, and their exit codes. */
import { inspect } from "node:util";
import { type Command, CommanderError } from "commander";
import { ConfigInvalidError, problemText, yesOrNo } from "../config/kind.ts";
import { fileSettings } from "../config/sources.ts";
import { HoldfastError } from "../core/errors.ts";
import { endsInLog, escaped, writeEntry } from "./log-line.ts";
import { printable } from "./table.ts";
import { type EndSignal, exitCodeAfter, listenForSignals, type Terminal } from "./terminal.ts";

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  database: 3,
  notFound: 4,
  refused: 5,
} as const;

/** The command whose help explains the correct usage. */
const misused = new WeakMap<CommanderError, string>();

/** Rethrows an error of the parser and remembers its command: `tokens create`. */
export function misusedAt(error: CommanderError, command: Command): never {
  const path = [];
  for (let each: Command | null = command; each !== null; each = each.parent) {
    path.unshift(each.name());
  }
  misused.set(error, path.join(" "));
  throw error;
}

/** The command failed for some of the named jobs, and succeeded for the others. Without errors, its output says what is wrong. */
export class SomeFailed extends Error {
  readonly errors: readonly unknown[];

  constructor(errors: readonly unknown[]) {
    super(`${errors.length} failed`);
    this.errors = errors;
  }
}

/** A signal stopped the command before it was finished. */
export class InterruptedError extends HoldfastError {
  readonly exitCode: number;

  /** `left` says what remains, or what continues without this command. */
  constructor(signal: EndSignal, left = "") {
    super("INTERRUPTED", `Interrupted by ${signal}. ${left}`.trimEnd());
    this.exitCode = exitCodeAfter(signal);
  }
}

/** Until disposed of, the first signal of the user aborts it, with an InterruptedError as the reason. */
export function abortOnSignal(left?: string): Disposable & { readonly signal: AbortSignal } {
  const ending = new AbortController();
  const signals = listenForSignals();
  void signals.first.then((signal) => ending.abort(new InterruptedError(signal, left)));
  return { signal: ending.signal, [Symbol.dispose]: () => signals[Symbol.dispose]() };
}

/** A supervised process failed. */
export class ChildrenFailedError extends HoldfastError {
  readonly exitCode: number;

  constructor(facts: { number: number; why: string; exitCode: number }) {
    super("CHILDREN_FAILED", `Process ${facts.number} ${facts.why}; all processes were stopped.`);
    this.exitCode = facts.exitCode;
  }
}

const USAGE_CODES = new Set([
  "BAD_USAGE",
  "AMBIGUOUS_ID",
  "TASKS_NOT_LOADED",
  "INVALID_ARGUMENT",
  "UNKNOWN_TASK",
  "UNKNOWN_WORKFLOW",
  "INPUT_REJECTED",
  "NOT_SERIALIZABLE",
  "TOO_LARGE",
]);

/** Another worker or a rule of the target refuses the operation. */
const REFUSAL_CODES = new Set(["COPY_REFUSED", "WORKER_REFUSED", "WORKER_LIMIT_MISMATCH"]);

export function exitCodeOf(error: unknown): number {
  if (error instanceof SomeFailed) return exitCodeOf(error.errors[0]);
  if (error instanceof InterruptedError || error instanceof ChildrenFailedError)
    return error.exitCode;
  if (error instanceof ConfigInvalidError)
    return error.isUsage ? exitCodes.usage : exitCodes.failed;
  if (error instanceof CommanderError) return exitCodes.usage;
  if (!(error instanceof HoldfastError)) return exitCodes.failed;
  if (USAGE_CODES.has(error.code)) return exitCodes.usage;
  if (/^(?:STORE|SCHEMA)_/.test(error.code)) return exitCodes.database;
  if (REFUSAL_CODES.has(error.code)) return exitCodes.refused;
  return error.code.endsWith("_NOT_FOUND") ? exitCodes.notFound : exitCodes.failed;
}

/** Reports the error on stderr, as a sentence or as JSON, and returns the exit code. `command` is the named command. */
export function report(terminal: Terminal, error: unknown, command: string | null): number {
  const errors = error instanceof SomeFailed ? error.errors : [error];
  if (endsInLog(terminal, command)) {
    for (const one of errors) logFailure(terminal, one);
    return exitCodeOf(error);
  }
  for (const one of errors) terminal.complain(...linesAbout(terminal, one));
  return exitCodeOf(error);
}

function logFailure({ env }: Terminal, error: unknown): void {
  const { code, message } = inWords(error);
  const problems =
    error instanceof ConfigInvalidError ? error.problems.map(problemText) : undefined;
  const isForeseen = error instanceof HoldfastError || error instanceof CommanderError;
  const facts = isForeseen && !wantsStack(env) ? {} : { err: error };
  const line = message
    .split("\n")
    .map((each) => each.trim())
    .join(" ");
  // Its values were redacted when they were read.
  const clean = error instanceof ConfigInvalidError && !wantsStack(env);
  writeEntry("error", { code, problems, ...facts }, line, { clean });
}

function linesAbout(terminal: Terminal, error: unknown): string[] {
  const { code, message } = inWords(error);
  if (terminal.json) return [escaped(JSON.stringify({ error: { code, message } }))];
  const debug = wantsStack(terminal.env) ? [inspect(error)] : [];
  return [terminal.errorColors.red(printable(message, { lines: true })), ...debug];
}

function wantsStack(env: NodeJS.ProcessEnv): boolean {
  return yesOrNo().read(env["HOLDFAST_DEBUG"]) === true;
}

function inWords(error: unknown): { code: string; message: string } {
  if (error instanceof CommanderError) {
    return { code: "BAD_USAGE", message: aboutUsage(error) };
  }
  if (error instanceof HoldfastError) return { code: error.code, message: error.message };
  const words = error instanceof Error ? error.message : String(error);
  const message = `Unexpected error: ${words.replace(/\.$/, "")}. Set HOLDFAST_DEBUG=1 to print the stack trace.`;
  return { code: "UNEXPECTED", message };
}

/** Commander writes "error: unknown option '--que'" and, on a second line, "(Did you mean --queue?)". */
function aboutUsage(error: CommanderError): string {
  const [what = "", ...hints] = error.message.replace(/^error: /, "").split("\n");
  const sentence = [what.charAt(0).toUpperCase() + what.slice(1), ...hints].join(" ");
  const help = `${misused.get(error) ?? "holdfast"} --help`;
  return `${sentence.replace(/\.$/, "")}. ${remedyOf(error)}See '${help}'.`;
}

const CONFIG_FLAG = /'--config\b/;

/** Every command reads the configuration file, and only those that run something have a flag for each of its settings. */
function remedyOf({ code, message }: CommanderError): string {
  if (code !== "commander.unknownOption" || !CONFIG_FLAG.test(message)) return "";
  return `Set ${fileSettings.config.env.join(" or ")} to the file instead: this command reads it too. `;
}
