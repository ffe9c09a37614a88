/**
 * The log of a service on stderr: one JSON object per line, or readable lines on a terminal.
 *
 * Every line is written before the call returns, so that the last lines of an ending process are not lost.
 */
import { writeSync } from "node:fs";
import { format } from "node:util";
import pino from "pino";
import type { LogLevel } from "../app/settings.ts";
import { redactedFacts, redactedText, redactedValues } from "../config/secrets.ts";
import type { Logger } from "../core/log.ts";
import { systemRuntime, type Timer } from "../core/runtime.ts";
import { counted, cut, printable, span, widthOf } from "../terminal/table.ts";
import { escaped, isForPerson, writeEntry } from "../terminal/log-line.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { EndEvent, JobEvent } from "../worker/events.ts";
import { belongsToAttempt } from "../worker/failure.ts";
import type { Worker } from "../worker/worker.ts";

const STDERR = 2;

interface LogOptions {
  readonly level: LogLevel;
  /** The number of this process among those that one command started. */
  readonly process?: number | undefined;
}

export function openLog(terminal: Terminal, { level, process: number }: LogOptions): Logger {
  const stream = isForPerson(terminal)
    ? { write: (line: string) => personLog(terminal).write(line) }
    : pino.destination({ dest: STDERR, sync: true }).on("error", () => {}); // stderr is closed
  const log = pino(
    {
      level,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: redactedFacts },
      // The formatter has already turned errors into plain objects.
      serializers: { err: (error: unknown) => error },
      hooks: {
        logMethod(args, method) {
          const [facts, message = ""] = args as unknown as [object, string?];
          method.call(this, facts, redactedText(message));
        },
        streamWrite: escaped,
      },
    },
    stream,
  );
  return number === undefined ? log : log.child({ process: number });
}

/** Writes a log line of a child process. */
export function passOn(terminal: Terminal, line: string): void {
  if (isForPerson(terminal)) personLog(terminal).write(line);
  else writeLine(line);
}

/** A closed terminal is no reason to stop working. */
function writeLine(line: string): void {
  try {
    writeSync(STDERR, `${line}\n`);
  } catch {}
}

/** One for the lines of this process and its children, because it counts them. */
let forPerson: PersonLog | null = null;

function personLog(terminal: Terminal): PersonLog {
  forPerson ??= new PersonLog(terminal, writeLine);
  return forPerson;
}

// What a service logs about jobs. Inputs and results are never logged: they belong to the user and may be secret.
//
// Log stores query by `event` and by fields, so the message is the same for every task, and numbers stay numbers.

/** The worker itself logs its start, its end and its errors. */
export function logJobs(worker: Worker, logger: Logger): void {
  worker.on("job:started", (event) => logger.debug(factsOf("job:started", event), "job started"));
  worker.on("job:done", (event) => logger.info(endOf("job:done", event), "job done"));
  worker.on("job:retrying", (event) => {
    const { error: err, retryAt } = event;
    logger.warn({ ...endOf("job:retrying", event), retryAt, err }, "job retrying");
  });
  worker.on("job:cancelled", (event) =>
    logger.info(endOf("job:cancelled", event), "job cancelled"),
  );
  worker.on("job:released", (event) => logger.info(endOf("job:released", event), "job released"));
}

function factsOf(event: string, { id, task, queue, attempt, worker }: JobEvent): object {
  return { event, job: id, task, queue, attempt, worker };
}

function endOf(event: string, ended: EndEvent): object {
  return { ...factsOf(event, ended), durationMs: Math.round(ended.durationMs) };
}

// In production, everything else that is printed goes into the log: warnings of Node, uncaught errors, the output of tasks.
//
// Log collectors expect one JSON object per line. Any other line is lost or corrupts the next one.

const LEVELS = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const;

/** Used before the log is open. */
const entryLog: Logger = {
  debug() {},
  info: (facts, message) => writeEntry("info", facts, message),
  warn: (facts, message) => writeEntry("warn", facts, message),
  error: (facts, message) => writeEntry("error", facts, message),
};

class ProcessLog {
  #logger: Logger = entryLog;

  /** Called before anything else runs. */
  listen(): void {
    process.removeAllListeners("warning"); // Node's own listener prints plain text.
    process.on("warning", (warning) => this.#warn(warning));
    this.#takeConsole();
    process.on("uncaughtException", (error) => this.#end(error));
  }

  /** Called when the log is open. */
  use(logger: Logger): void {
    this.#logger = logger;
  }

  #warn(warning: Error): void {
    this.#logger.warn({ event: "process:warning", warning: warning.name }, warning.message);
  }

  /** An uncaught error of a task fails its job. Any other is logged and ends the process. */
  #end(error: unknown): void {
    if (belongsToAttempt()) return;
    this.#logger.error(
      { event: "process:uncaught", err: error, uncaught: true },
      "uncaught error: the process exits",
    );
    // oxlint-disable-next-line unicorn/no-process-exit -- as Node does it
    process.exit(1);
  }

  #takeConsole(): void {
    for (const [method, level] of Object.entries(LEVELS)) {
      const say = (...words: unknown[]): void =>
        this.#logger[level]({ source: "console" }, format(...words.map(printed)));
      Object.defineProperty(console, method, { value: say, configurable: true, writable: true });
    }
  }
}

/** Copies an object without its secrets. An error is printed as its stack, which is redacted as text. */
function printed(word: unknown): unknown {
  return typeof word === "object" && !(word instanceof Error) ? redactedValues(word) : word;
}

export const processLog = new ProcessLog();

// The log for a terminal: one short line per entry. The JSON log has the omitted fields.

interface Entry {
  readonly level: string;
  readonly time: string;
  readonly msg: string;
  readonly event?: string;
  readonly job?: string;
  readonly task?: string;
  readonly attempt?: number;
  readonly durationMs?: number;
  readonly retryAt?: number | null;
  readonly err?: { readonly type?: string; readonly message?: string; readonly stack?: string };
  readonly process?: number;
  /** An uncaught error: only its stack shows where it comes from. */
  readonly uncaught?: true;
  readonly source?: string;
}

type Screen = Pick<Terminal, "errorColors" | "errorColumns">;

/** Above this rate, done jobs are counted instead of listed. */
const DONE_A_SECOND_MAX = 8;
const SECOND_MS = 1_000;
/** `2027-01-31T09:00:07` */
const SECOND_LENGTH = 19;

export class PersonLog {
  readonly #screen: Screen;
  readonly #write: (line: string) => void;
  #second = "";
  #done = 0;
  #left = 0;
  #timer: Timer | null = null;

  constructor(screen: Screen, write: (line: string) => void) {
    this.#screen = screen;
    this.#write = write;
  }

  /** Takes one JSON line. */
  write(json: string): void {
    const entry = JSON.parse(json) as Entry;
    if (entry.event === "job:done" && this.#isOneTooMany(entry)) return;
    this.#writeLeft();
    this.#write(lineOf(entry, this.#screen));
  }

  #isOneTooMany({ time }: Entry): boolean {
    const second = time.slice(0, SECOND_LENGTH);
    if (second !== this.#second) this.#done = 0;
    this.#second = second;
    this.#done += 1;
    if (this.#done <= DONE_A_SECOND_MAX) return false;
    this.#left += 1;
    this.#timer ??= systemRuntime.timer(SECOND_MS, () => this.#writeLeft(), "background");
    return true;
  }

  #writeLeft(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#left === 0) return;
    const msg = `${counted(this.#left, "more job")} done`;
    this.#left = 0;
    this.#write(lineOf({ level: "info", time: `${this.#second}Z`, msg }, this.#screen));
  }
}

const TONES = { debug: "dim", info: "green", warn: "yellow", error: "red", fatal: "red" } as const;

/** Fields that are shown elsewhere in the line. */
const SHOWN = "level time msg err process uncaught source job durationMs retryAt".split(" ");
/** Fields for machines, and fields that the sentence already contains. */
const NOT_NEEDED = "pid hostname event queue signal limitMs exitCode command".split(" ");
const HIDDEN = new Set([...SHOWN, ...NOT_NEEDED]);
const HIDDEN_OF_JOBS = new Set(["worker", "task", "status", "epoch", "attempt"]);

/** Long enough to tell apart the ids of one process, short enough to type: `holdfast job 01a1e5ed-5337-7002`. */
const ID_LENGTH = 18;

/** `12:03:04 info  mail.send done 12ms  job=01a1e5ed-5337-7002`, and other fields as far as they fit. */
function lineOf(entry: Entry, { errorColors: colors, errorColumns }: Screen): string {
  const { level, time, process: number, job, uncaught, source, err } = entry;
  const clock = new Date(time).toTimeString().slice(0, 8);
  const tone = colors[TONES[level as keyof typeof TONES] ?? "reset"];
  const which = number === undefined ? "" : `[${number}] `;
  const id = job === undefined ? "" : `  job=${job.slice(0, ID_LENGTH)}`;
  const words = printable(`${which}${sentenceOf(entry)}${causeOf(entry)}${id}`, {
    lines: source === "console",
  });
  const taken = widthOf(`${clock} ${level.padEnd(5)} ${words}  `) % errorColumns;
  const rest = cut(printable(shownFacts(entry).join(" ")), errorColumns - taken);
  const start = `${colors.dim(clock)} ${tone(level.padEnd(5))} ${words}`;
  const line = rest === "" ? start : `${start}  ${colors.dim(rest)}`;
  if (uncaught !== true || err?.stack === undefined) return line;
  return `${line}\n${colors.dim(printable(err.stack, { lines: true }))}`;
}

/** `job done` becomes `mail.send done 12ms`. */
function sentenceOf({ msg, task, event, time, durationMs, retryAt }: Entry): string {
  const words = task === undefined ? msg : msg.replace(/^job (?=\w)/, `${task} `);
  if (event === "job:done" && durationMs !== undefined) return `${words} ${span(durationMs)}`;
  if (typeof retryAt !== "number") return words;
  return `${words} in ${span(Math.max(0, retryAt - Date.parse(time)))}`;
}

function causeOf({ err }: Entry): string {
  if (err === undefined) return "";
  const kind = err.type === undefined || err.type === "Error" ? "" : `${err.type}: `;
  return `: ${kind}${err.message ?? ""}`;
}

function shownFacts(entry: Entry): string[] {
  const { event, job, attempt = 1 } = entry;
  if (event === "queues:counted") return []; // its sentence contains every number
  const again = job !== undefined && attempt > 1 ? [`attempt=${attempt}`] : [];
  const shown = Object.entries(entry as object as Record<string, unknown>)
    .filter(([name, value]) => !HIDDEN.has(name) && value !== 0 && value !== null)
    .filter(([name]) => job === undefined || !HIDDEN_OF_JOBS.has(name))
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [...again, ...shown];
}
