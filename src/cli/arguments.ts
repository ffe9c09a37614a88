/** Readers of arguments and options. What is wrong with a value is said in a sentence that names the option. */
import { InvalidArgumentError } from "commander";
import { toMs } from "../core/duration.ts";
import { BadUsage } from "./failure.ts";

export function wholeNumber(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Write a whole number.");
}

/** Checked here, so that nothing has happened yet when it is wrong. */
export function duration(text: string): string {
  try {
    toMs("duration", text);
    return text;
  } catch {
    throw new InvalidArgumentError("Write a duration such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m.");
  }
}

/** A day, or a day and a time. Without a zone it is this machine's. */
export function instant(text: string): Date {
  const date = new Date(/^\d{4}-\d\d-\d\d(?:[T ]|$)/.test(text) ? text : Number.NaN);
  if (!Number.isNaN(date.getTime())) return date;
  throw new InvalidArgumentError("Write a time such as 2027-01-31T09:00:00Z.");
}

/** For options that may be given several times, or once with commas. */
export function names(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(",")];
}

/** The value of a JSON text. `source` says where it came from; a shell may have taken quotes off what was typed. */
export function parseJson(text: string, source: string, typed = true): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const hint = typed ? ` In a shell, put it in single quotes: '{"to":"ada"}'.` : "";
    throw new BadUsage(`${source} is not JSON: ${why}.${hint}`, error);
  }
}
