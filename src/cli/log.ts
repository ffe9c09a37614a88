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
import { isForPerson } from "./speech.ts";
import { cut, printable, widthOf } from "./table.ts";
import type { Terminal } from "./terminal.ts";

const STDERR = 2;

export interface LogOptions {
  readonly level: LogLevel;
  /** The number of this process among those that one command started. */
  readonly process?: number | undefined;
}

export function openLog(terminal: Terminal, { level, process: number }: LogOptions): Logger {
  const stream = isForPerson(terminal)
    ? { write: (line: string) => writeLine(humanLine(line, terminal)) }
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
  writeLine(isForPerson(terminal) ? humanLine(line, terminal) : line);
}

/** A terminal that went away is no reason to stop working. */
function writeLine(line: string): void {
  try {
    writeSync(STDERR, `${line}\n`);
  } catch {}
}

interface Entry {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly err?: { readonly type?: string; readonly message?: string; readonly stack?: string };
  readonly process?: number;
  /** Nobody caught the error: only its stack tells where it comes from. */
  readonly uncaught?: true;
  readonly source?: string;
}

const TONES = {
  debug: "dim",
  info: "green",
  warn: "yellow",
  error: "red",
  fatal: "red",
} as const;

/** What JSON lines tell besides, and a person can do without. */
const HIDDEN = new Set(["pid", "hostname", "traceId"]);

/** `12:03:04 info  mail.send done  job=0190… took=12ms`: the job in full, other facts as far as they fit. */
function humanLine(json: string, { errorColors: colors, errorColumns }: Terminal): string {
  const entry = JSON.parse(json) as Entry;
  const { level, time, msg, err, process: number, uncaught, source, ...facts } = entry;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const tone = colors[TONES[level as keyof typeof TONES] ?? "reset"];
  const { job, ...others } = facts as { job?: string };
  const shown = Object.entries(others)
    .filter(([name, value]) => !HIDDEN.has(name) && value !== 0)
    // Whose job it is, is clear where there is one worker; and where there are more, the process is named.
    .filter(([name]) => name !== "worker" || job === undefined)
    .map(([name, value]) => `${name}=${factText(value)}`);
  const cause = err === undefined ? "" : `: ${err.type ?? "Error"}: ${err.message ?? ""}`;
  const which = number === undefined ? "" : `[${number}] `;
  const words = printable(`${which}${msg}${cause}${job === undefined ? "" : `  job=${job}`}`, {
    lines: source === "console",
  });
  const taken = widthOf(`${clock} ${level.padEnd(5)} ${words}  `) % errorColumns;
  const rest = cut(printable(shown.join(" ")), errorColumns - taken);
  const told = `${colors.dim(clock)} ${tone(level.padEnd(5))} ${words}`;
  const line = rest === "" ? told : `${told}  ${colors.dim(rest)}`;
  if (uncaught !== true || err?.stack === undefined) return line;
  return `${line}\n${colors.dim(printable(err.stack, { lines: true }))}`;
}

function factText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
