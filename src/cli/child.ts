/**
 * One process that a supervisor watches over.
 *
 * It is in a process group of its own, so that Ctrl-C at the terminal reaches it once, through us. When we are gone without a word, the channel between us
 * closes, and it stops by itself.
 */
import { spawn, type ChildProcess } from "node:child_process";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Logger } from "../core/log.ts";
import { systemRuntime } from "../core/runtime.ts";
import { appVersion, isKnownVersion } from "../core/version.ts";
import { CHILD_VARIABLE } from "./speech.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/holdfast.js", import.meta.url));
const LINE_LENGTH_MAX = 65_536;

export interface ChildOptions {
  readonly number: number;
  readonly args: readonly string[];
  readonly logger: Logger;
  /** A line of its log. */
  readonly passOn: (line: string) => void;
}

export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class Child {
  readonly number: number;
  readonly startedAt = systemRuntime.monotonic();
  readonly ended: Promise<ChildEnd>;
  readonly #process: ChildProcess;

  constructor({ number, args, logger, passOn }: ChildOptions) {
    this.number = number;
    this.#process = spawn(process.execPath, [...process.execArgv, LAUNCHER, ...args], {
      env: { ...process.env, ...ourVersion(), [CHILD_VARIABLE]: String(number) },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      detached: true,
    });
    const { stdout, stderr } = this.#process;
    // It logs what is said there by itself; what is left was written past it, such as V8's last words.
    const hearAs = (level: "info" | "warn") => (line: string) => {
      if (isEntry(line)) passOn(line);
      else logger[level]({ process: number }, line);
    };
    if (stdout !== null) eachLine(stdout, hearAs("info"));
    if (stderr !== null) eachLine(stderr, hearAs("warn"));
    this.ended = new Promise((resolve) => {
      this.#process.once("close", (code, signal) => resolve({ code, signal }));
      this.#process.once("error", (error) => {
        logger.error({ process: number, err: error }, "a process could not be started");
        resolve({ code: 1, signal: null });
      });
    });
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  tell(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#process.kill(signal);
  }

  /** Asks it to stop, and ends it when it has not stopped within the limit. */
  async stop(signal: NodeJS.Signals, limitMs: number): Promise<ChildEnd> {
    this.tell(signal);
    const timer = systemRuntime.timer(limitMs, () => this.tell("SIGKILL"));
    try {
      return await this.ended;
    } finally {
      timer.cancel();
    }
  }
}

/** Where nothing says which build this is, each process would call it by the time of its own start. */
function ourVersion(): { BUILD_ID?: string } {
  const version = appVersion(systemRuntime);
  return isKnownVersion(version) ? {} : { BUILD_ID: version };
}

/** A line of our log, as opposed to what else may be printed. */
function isEntry(line: string): boolean {
  if (!line.startsWith("{")) return false;
  try {
    return typeof (JSON.parse(line) as { level?: unknown }).level === "string";
  } catch {
    return false;
  }
}

function eachLine(stream: Readable, hear: (line: string) => void): void {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > LINE_LENGTH_MAX) {
      lines.push(rest);
      rest = "";
    }
    for (const line of lines) if (line !== "") hear(line);
  });
  stream.on("end", () => {
    if (rest !== "") hear(rest);
  });
  stream.on("error", () => {}); // Its end is heard of otherwise.
}
