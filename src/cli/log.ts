/**
 * The log of a worker, on stderr: one JSON object a line, or on a terminal one line for a person.
 *
 * Every line is written before the call returns, so that the last words of a process that ends are not lost.
 */
import { writeSync } from "node:fs";
import pino from "pino";
import { InvalidArgument } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { cut, printable, widthOf } from "./table.ts";
import type { Terminal } from "./terminal.ts";

const STDERR = 2;
const LEVELS = ["debug", "info", "warn", "error", "silent"] as const;

export function openLog(terminal: Terminal): Logger {
  const { env } = terminal;
  const forPerson = terminal.errorLive && !terminal.json && env["NODE_ENV"] !== "production";
  const stream = forPerson
    ? { write: (line: string) => writeLine(humanLine(line, terminal)) }
    : pino.destination({ dest: STDERR, sync: true });
  const log = pino(
    {
      level: levelFrom(env["HOLDFAST_LOG_LEVEL"]),
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  );
  return log;
}

function levelFrom(text: string | undefined): string {
  if (text === undefined || text === "") return "info";
  const level = LEVELS.find((name) => name === text.toLowerCase());
  if (level !== undefined) return level;
  throw new InvalidArgument({
    field: "HOLDFAST_LOG_LEVEL",
    problem: `'${text}' is none. The levels are: ${LEVELS.join(", ")}.`,
  });
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
  readonly err?: { readonly type?: string; readonly message?: string };
}

const TONES = { debug: "dim", info: "green", warn: "yellow", error: "red" } as const;

/** What JSON lines tell besides, and a person can do without. */
const HIDDEN = new Set(["pid", "hostname", "traceId"]);

/** `12:03:04 info  mail.send done  job=0190… took=12ms`: the job in full, other facts as far as they fit. */
function humanLine(json: string, { errorColors: colors, errorColumns }: Terminal): string {
  const { level, time, msg, err, ...facts } = JSON.parse(json) as Entry;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const tone = colors[TONES[level as keyof typeof TONES] ?? "reset"];
  const { job, ...others } = facts as { job?: string };
  const shown = Object.entries(others)
    .filter(([name, value]) => !HIDDEN.has(name) && value !== 0)
    .map(([name, value]) => `${name}=${factText(value)}`);
  const cause = err === undefined ? "" : `: ${err.type ?? "Error"}: ${err.message ?? ""}`;
  const words = printable(`${msg}${cause}${job === undefined ? "" : `  job=${job}`}`);
  const taken = widthOf(`${clock} ${level.padEnd(5)} ${words}  `) % errorColumns;
  const rest = cut(printable(shown.join(" ")), errorColumns - taken);
  const told = `${colors.dim(clock)} ${tone(level.padEnd(5))} ${words}`;
  return rest === "" ? told : `${told}  ${colors.dim(rest)}`;
}

function factText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
