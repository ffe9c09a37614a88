/**
 * The log of a service, on stderr: one JSON object a line, or on a terminal one line for a person.
 *
 * Every line is written before the call returns, so that the last words of a process that ends are not lost.
 */
import { writeSync } from "node:fs";
import pino from "pino";
import type { LogLevel } from "../config/service-settings.ts";
import type { Logger } from "../core/log.ts";
import { coveredFacts, coveredText } from "./covering.ts";
import { escaped } from "./entry.ts";
import { PersonLog } from "./person-log.ts";
import { isForPerson } from "./speech.ts";
import type { Terminal } from "./terminal.ts";

const STDERR = 2;

export interface LogOptions {
  readonly level: LogLevel;
  /** The number of this process among those that one command started. */
  readonly process?: number | undefined;
}

export function openLog(terminal: Terminal, { level, process: number }: LogOptions): Logger {
  const stream = isForPerson(terminal)
    ? { write: (line: string) => personLog(terminal).write(line) }
    : pino.destination({ dest: STDERR, sync: true }).on("error", () => {}); // nobody reads it any more
  const log = pino(
    {
      level,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: coveredFacts },
      // What is left of an error is plain by then.
      serializers: { err: (error: unknown) => error },
      hooks: {
        logMethod(args, method) {
          const [facts, message = ""] = args as unknown as [object, string?];
          method.call(this, facts, coveredText(message));
        },
        streamWrite: escaped,
      },
    },
    stream,
  );
  return number === undefined ? log : log.child({ process: number });
}

/** A line as another process of ours logged it, for whoever looks at this one's. */
export function passOn(terminal: Terminal, line: string): void {
  if (isForPerson(terminal)) personLog(terminal).write(line);
  else writeLine(line);
}

/** A terminal that went away is no reason to stop working. */
function writeLine(line: string): void {
  try {
    writeSync(STDERR, `${line}\n`);
  } catch {}
}

/** One for all lines of the process, its own and its children's: it counts them. */
let forPerson: PersonLog | null = null;

function personLog(terminal: Terminal): PersonLog {
  forPerson ??= new PersonLog(terminal, writeLine);
  return forPerson;
}
