/**
 * Log lines where there is no log yet, or no longer: in production every line that a service writes is a JSON object, also the last one.
 */
import { writeSync } from "node:fs";
import { hostname } from "node:os";
import { visible } from "../core/characters.ts";
import { systemRuntime } from "../core/runtime.ts";
import { coveredFacts, coveredText } from "./covering.ts";
import { childNumber } from "./speech.ts";

const STDERR = 2;

/** JSON leaves some characters as they are that a terminal obeys, or that turn the direction of a text. */
export function escaped(json: string): string {
  return visible(json, { lines: true });
}

export interface EntryOptions {
  /** Facts and message are words of ours that hold no secret. Covering them would hide words of the sentence. */
  readonly clean?: boolean;
}

/** One line, as the log itself would write it. */
export function entryLine(
  level: string,
  facts: object,
  message: string,
  { clean = false }: EntryOptions = {},
): string {
  const time = new Date(systemRuntime.now()).toISOString();
  const child = childNumber();
  const which = child === undefined ? {} : { process: child };
  const entry = { level, time, pid: process.pid, hostname: hostname(), ...which };
  const told = clean ? facts : coveredFacts(facts);
  const msg = clean ? message : coveredText(message);
  return escaped(JSON.stringify({ ...entry, ...told, msg }));
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
    // Nobody is left to tell.
  }
}
