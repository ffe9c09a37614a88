/** Parsers of arguments and options. Their errors become sentences that name the option. */
import { userInfo } from "node:os";
import { text as textOf } from "node:stream/consumers";
import { InvalidArgumentError, Option } from "commander";
import { toMs } from "../core/duration.ts";
import { BadUsageError } from "./usage.ts";

export function wholeNumber(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Write a whole number.");
}

/** Checked here, before the command has any effect. */
export function duration(text: string): string {
  try {
    toMs("duration", text);
    return text;
  } catch {
    throw new InvalidArgumentError("Write a duration such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m.");
  }
}

/** A date, or a date and a time. Without a time zone, local time. */
export function instant(text: string): Date {
  const date = new Date(/^\d{4}-\d\d-\d\d(?:[T ]|$)/.test(text) ? text : Number.NaN);
  if (!Number.isNaN(date.getTime())) return date;
  throw new InvalidArgumentError("Write a time such as 2027-01-31T09:00:00Z.");
}

/** For options that may be repeated or comma-separated. */
export function names(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(",")];
}

/** For options that may be repeated, and whose values may contain a comma. */
export function repeated(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** Parses JSON. `source` names it in the error. If it was typed, the shell may have removed the quotes. */
export function parseJson(text: string, source: string, typed = true): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const hint = typed ? ` In a shell, enclose it in single quotes: '{"to":"ada"}'.` : "";
    throw new BadUsageError(`${source} is not valid JSON: ${why}.${hint}`, error);
  }
}

/** The JSON of an option or argument; `-` reads it from stdin. */
export async function givenJson(typed: string, source: string): Promise<unknown> {
  if (typed !== "-") return parseJson(typed, source);
  return parseJson(await textOf(process.stdin), "The input from stdin", false);
}

// The actor and the reason that a command records in the audit log.

export interface ReasonOptions {
  readonly reason?: string;
}

export function reasonOption(): Option {
  return new Option("--reason <text>", "the reason, recorded in the audit log");
}

export function actorName(): string {
  return `cli ${userName()}`;
}

/** In a container, the user id may have no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown");
  }
}
