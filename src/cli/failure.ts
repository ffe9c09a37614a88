/** What a command says when it cannot do what it was asked, and the exit code that goes with it. */
import { inspect } from "node:util";
import { CommanderError, type Command } from "commander";
import { ConfigInvalid, problemText } from "../config/problem.ts";
import { schema } from "../config/schema.ts";
import { HoldfastError } from "../core/errors.ts";
import { escaped, writeEntry } from "./entry.ts";
import { endsInLog } from "./speech.ts";
import { printable } from "./table.ts";
import type { Terminal } from "./terminal.ts";

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  database: 3,
  notFound: 4,
  refused: 5,
} as const;

/** The command line cannot be carried out as it stands. */
export class BadUsage extends HoldfastError {
  constructor(message: string, cause?: unknown) {
    super("BAD_USAGE", message, cause);
  }
}

/** Whose help says how it goes. */
const misused = new WeakMap<CommanderError, string>();

/** Throws what the parser complains about, and keeps in mind which command it was: `tokens create`. */
export function misusedAt(error: CommanderError, command: Command): never {
  const path = [];
  for (let each: Command | null = command; each !== null; each = each.parent) {
    path.unshift(each.name());
  }
  misused.set(error, path.join(" "));
  throw error;
}

/** Some of the jobs that were named could not be helped; the others were. */
export class SomeFailed extends Error {
  readonly errors: readonly [unknown, ...unknown[]];

  constructor(errors: readonly [unknown, ...unknown[]]) {
    super(`${errors.length} failed`);
    this.errors = errors;
  }
}

/** Ctrl-C, or somebody's kill, in the middle. */
export class Interrupted extends HoldfastError {
  readonly exitCode: number;

  /** `left` says what goes on without us. */
  constructor(facts: { signal: string; exitCode: number; left?: string }) {
    const { signal, left } = facts;
    super("INTERRUPTED", `Interrupted by ${signal}.${left === undefined ? "" : ` ${left}`}`);
    this.exitCode = facts.exitCode;
  }
}

/** A process that was watched over ended as it should not have. */
export class ChildrenFailed extends HoldfastError {
  readonly exitCode: number;

  constructor(facts: { number: number; why: string; exitCode: number }) {
    super("CHILDREN_FAILED", `Process ${facts.number} ${facts.why}; all are stopped.`);
    this.exitCode = facts.exitCode;
  }
}

const USAGE_CODES = new Set([
  "BAD_USAGE",
  "AMBIGUOUS_ID",
  "TASKS_NOT_LOADED",
  "INVALID_ARGUMENT",
  "UNKNOWN_TASK",
  "INPUT_REJECTED",
  "NOT_SERIALIZABLE",
  "TOO_LARGE",
]);

/** A worker may not register. */
const REFUSAL_CODES = new Set(["COPY_REFUSED", "WORKER_REFUSED", "WORKER_LIMIT_MISMATCH"]);

export function exitCodeOf(error: unknown): number {
  if (error instanceof SomeFailed) return exitCodeOf(error.errors[0]);
  if (error instanceof Interrupted || error instanceof ChildrenFailed) return error.exitCode;
  if (error instanceof ConfigInvalid) return error.isUsage ? exitCodes.usage : exitCodes.failed;
  if (error instanceof CommanderError) return exitCodes.usage;
  if (!(error instanceof HoldfastError)) return exitCodes.failed;
  if (USAGE_CODES.has(error.code)) return exitCodes.usage;
  if (/^(?:STORE|SCHEMA)_/.test(error.code)) return exitCodes.database;
  if (REFUSAL_CODES.has(error.code)) return exitCodes.refused;
  return error.code.endsWith("_NOT_FOUND") ? exitCodes.notFound : exitCodes.failed;
}

/** Tells the user on stderr, in a sentence or as JSON, and gives the exit code. `command` is the one that was named. */
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
  const problems = error instanceof ConfigInvalid ? error.problems.map(problemText) : undefined;
  const isForeseen = error instanceof HoldfastError || error instanceof CommanderError;
  const facts = isForeseen && !wantsStack(env) ? {} : { err: error };
  const line = message
    .split("\n")
    .map((each) => each.trim())
    .join(" ");
  // The values in it were covered where they were read.
  const clean = error instanceof ConfigInvalid && !wantsStack(env);
  writeEntry("error", { code, problems, ...facts }, line, { clean });
}

function linesAbout(terminal: Terminal, error: unknown): string[] {
  const { code, message } = inWords(error);
  if (terminal.json) return [escaped(JSON.stringify({ error: { code, message } }))];
  const debug = wantsStack(terminal.env) ? [inspect(error)] : [];
  return [terminal.errorColors.red(printable(message, { lines: true })), ...debug];
}

function wantsStack(env: NodeJS.ProcessEnv): boolean {
  return schema.debug.kind.read(env["HOLDFAST_DEBUG"]) === true;
}

function inWords(error: unknown): { code: string; message: string } {
  if (error instanceof CommanderError) {
    return { code: "BAD_USAGE", message: aboutUsage(error) };
  }
  if (error instanceof HoldfastError) return { code: error.code, message: error.message };
  const words = error instanceof Error ? error.message : String(error);
  const message = `Something unforeseen happened: ${words}. Set HOLDFAST_DEBUG=1 to see where.`;
  return { code: "UNEXPECTED", message };
}

/** Commander says "error: unknown option '--que'" and, on a second line, "(Did you mean --queue?)". */
function aboutUsage(error: CommanderError): string {
  const [what = "", ...hints] = error.message.replace(/^error: /, "").split("\n");
  const sentence = [what.charAt(0).toUpperCase() + what.slice(1), ...hints].join(" ");
  const help = `${misused.get(error) ?? "holdfast"} --help`;
  return `${sentence.replace(/\.$/, "")}. See '${help}'.`;
}
