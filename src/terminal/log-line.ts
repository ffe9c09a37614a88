/** Log lines before the log is open and after it is closed: in production every line of a service is a JSON object. */
import { writeSync } from "node:fs";
import { hostname } from "node:os";
import { redactedFacts, redactedText } from "../config/secrets.ts";
import { visible } from "../core/text.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Terminal } from "./terminal.ts";

const STDERR = 2;

/** JSON does not escape some characters that control a terminal or reverse the direction of text. */
export function escaped(json: string): string {
  return visible(json, { lines: true });
}

interface EntryOptions {
  /** Fields and message contain no secrets. Redacting would hide words of the message. */
  readonly clean?: boolean;
}

/** A line in the format of the log. */
export function entryLine(
  level: string,
  facts: object,
  message: string,
  { clean = false }: EntryOptions = {},
): string {
  const time = new Date(systemRuntime.now()).toISOString();
  const which = childNumber === undefined ? {} : { process: childNumber };
  const entry = { level, time, pid: process.pid, hostname: hostname(), ...which };
  const fields = clean ? facts : redactedFacts(facts);
  const msg = clean ? message : redactedText(message);
  return escaped(JSON.stringify({ ...entry, ...fields, msg }));
}

export function writeEntry(
  level: string,
  facts: object,
  message: string,
  options?: EntryOptions,
): void {
  try {
    writeSync(STDERR, `${entryLine(level, facts, message, options)}\n`);
  } catch {
    // stderr is closed: there is nowhere left to report to.
  }
}

// The format of a service's output: readable lines for a terminal, or one JSON object per line.

/** Tells a child process its number. */
export const CHILD_VARIABLE = "HOLDFAST_CHILD";

const SERVICES = new Set(["start", "work", "serve"]);

const given = process.env[CHILD_VARIABLE];
// Processes that a task starts must not take themselves for children of the supervisor.
Reflect.deleteProperty(process.env, CHILD_VARIABLE);

/** The number of this process among its siblings; undefined: it has no supervisor. */
export const childNumber = given === undefined ? undefined : Number(given);

/** stderr is a terminal, and neither --json nor production asks for JSON. */
export function isForPerson({ errorLive, json, env }: Terminal): boolean {
  return errorLive && !json && env["NODE_ENV"] !== "production";
}

/** If the log is JSON, the final error of a service is a log line too. */
export function endsInLog(terminal: Terminal, command: string | null): boolean {
  return isService(command) && !isForPerson(terminal);
}

/** All output must be log lines: in production, and in a child process, whose parent would otherwise log them without knowing their level. */
export function logsOnly({ env }: Terminal, command: string | null): boolean {
  return isService(command) && (childNumber !== undefined || env["NODE_ENV"] === "production");
}

function isService(command: string | null): boolean {
  return command !== null && SERVICES.has(command);
}
