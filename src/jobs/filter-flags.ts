/** The fields of the filter as options of a command: `--status failed --enqueued-since 1h`. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { statuses } from "../core/job.ts";
import { isList, type JobFieldName, jobFieldNames, jobFields } from "../core/job-query.ts";
import { repeated } from "../terminal/arguments.ts";
import { readInstant } from "./filter.ts";

/** As they were typed; `Jobs.readFilter()` reads them. */
export type FilterFlags = { readonly [F in JobFieldName]?: string | readonly string[] };

const VALUES = {
  status: "<status>",
  ids: "<id>",
  id: "<id>",
  tags: "<tag>",
  name: "<name>",
  task: "<name>",
  key: "<text>",
  text: "<text>",
  instant: "<time>",
} as const;

export function filterFlags(command: Command, except: readonly JobFieldName[] = []): Command {
  for (const name of jobFieldNames) {
    if (!except.includes(name)) command.addOption(flagOf(name));
  }
  return command;
}

function flagOf(name: JobFieldName): Option {
  const { kind, about } = jobFields[name];
  const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const more = isList(name) ? "; can be repeated" : "";
  const hint = name === "enqueuedSince" ? ": 1h (ago), or 2027-01-31T09:00:00Z" : "";
  const option = new Option(`${flag} ${VALUES[kind]}`, `only jobs ${about}${more}${hint}`);
  if (kind === "status") {
    option.choices(statuses);
    const one = option.parseArg as (text: string, before?: unknown) => string;
    const each = (text: string): string[] => text.split(",").map((status) => one(status));
    return option.argParser((text, before?: string[]) => [...(before ?? []), ...each(text)]);
  }
  if (kind === "instant") return option.argParser((text) => checkTime(name, text));
  return isList(name) ? option.argParser(repeated) : option;
}

/** The database's clock reads it again. */
function checkTime(name: JobFieldName, text: string): string {
  try {
    readInstant(name, text, 0);
    return text;
  } catch {
    throw new InvalidArgumentError(
      "Write a duration (15m, 2h or 7d ago) or a time such as 2027-01-31T09:00:00Z.",
    );
  }
}
