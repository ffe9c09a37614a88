/**
 * In production, what is said beside the log goes into the log: warnings of Node, errors that nobody caught, what tasks print.
 *
 * Whoever gathers the log reads one JSON object a line, and a line that is none is lost or spoils the next.
 */
import { format } from "node:util";
import type { Logger } from "../core/log.ts";
import { belongsToAttempt } from "../worker/uncaught.ts";
import { covered } from "./covering.ts";
import { writeEntry } from "./entry.ts";

const LEVELS = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" } as const;

/** Without a log yet: warnings and errors are lines of their own. */
export const entryLog: Logger = {
  debug() {},
  info: (facts, message) => writeEntry("info", facts, message),
  warn: (facts, message) => writeEntry("warn", facts, message),
  error: (facts, message) => writeEntry("error", facts, message),
};

class ProcessLog {
  #logger: Logger = entryLog;

  /** From the first moment on. */
  listen(): void {
    process.removeAllListeners("warning"); // Node's own prints them as they are.
    process.on("warning", (warning) => this.#warn(warning));
    this.#takeConsole();
    process.on("uncaughtException", (error) => this.#end(error));
  }

  /** There is a log now. */
  use(logger: Logger): void {
    this.#logger = logger;
  }

  #warn(warning: Error): void {
    this.#logger.warn({ event: "process:warning", warning: warning.name }, warning.message);
  }

  /** An error of a task fails its job; any other ends the process, which says so last. */
  #end(error: unknown): void {
    if (belongsToAttempt()) return;
    this.#logger.error(
      { event: "process:uncaught", err: error, uncaught: true },
      "an error that nobody caught ends this process",
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

/** An object is copied without its secrets; an error prints its stack, in which they are covered as in any text. */
function printed(word: unknown): unknown {
  return typeof word === "object" && !(word instanceof Error) ? covered(word) : word;
}

export const processLog = new ProcessLog();
