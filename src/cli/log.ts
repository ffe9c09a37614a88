/**
 * The log of a service on stderr: one JSON object per line, or readable lines on a terminal.
 *
 * Every line is written before the call returns, so that the last lines of an ending process are not lost.
 */
import { writeSync } from "node:fs";
import { format } from "node:util";
import pino from "pino";
import type { LogLevel } from "../app/settings.ts";
import { redactedFacts, redactedText, redactedValues } from "../config/redact.ts";
import type { Logger } from "../core/log.ts";
import { escaped, isForPerson, writeEntry } from "../terminal/log-line.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { EndEvent, JobEvent } from "../worker/events.ts";
import { belongsToAttempt } from "../worker/uncaught.ts";
import type { Worker } from "../worker/worker.ts";
import { PersonLog } from "./person-log.ts";

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
