/**
 * Supervises several processes that run jobs: starts them, restarts those that crash, and stops them.
 *
 * The pause after a crash doubles each time. If one process crashes too often within a minute, the supervisor stops all of them
 * and fails, so that its own supervisor (systemd, a container runtime) notices.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { formatMs } from "../core/duration.ts";
import { appVersion, isKnownVersion, packageFile } from "../core/version.ts";
import type { Logger } from "../core/log.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { ChildrenFailedError, exitCodes } from "../terminal/failure.ts";
import { CHILD_VARIABLE } from "../terminal/log-line.ts";

const RESTARTS_A_MINUTE_MAX = 5;
const MINUTE_MS = 60_000;
const PAUSE_MS_FIRST = 100;
const PAUSE_MS_MAX = 30_000;

/** After the shutdown timeout of a child's jobs: to release the rest, and to close. */
const CLOSE_MS_MAX = 6_000;

interface SupervisorOptions {
  readonly count: number;
  readonly args: readonly string[];
  readonly logger: Logger;
  readonly passOn: (line: string) => void;
  readonly shutdownMs: number;
  /** Whether a crashed process is restarted at once, or only when a file changes. */
  readonly onCrash: "restart" | "wait";
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #children = new Map<number, Child>();
  readonly #crashes = new Map<number, number[]>();
  readonly #stopping = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  /** Crashed processes that wait for their restart. */
  #pausing = 0;
  #restarting = false;
  #changedAgain = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#over.promise.catch(() => {}); // it may reject before a caller awaits it
    // The children end with this process, even if it crashes.
    process.once("exit", () => this.killAll());
    this.#startAll();
  }

  /** Resolves when all have ended normally; rejects when one crashed too often. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Of the running processes. */
  get pids(): number[] {
    return [...this.#children.values()].flatMap(({ pid, isRunning }) =>
      isRunning ? (pid ?? []) : [],
    );
  }

  /** Restarts all processes; a request during a restart leads to another one. */
  async restart(): Promise<void> {
    this.#changedAgain = this.#restarting;
    if (this.#restarting || this.#stopping.signal.aborted) return;
    this.#restarting = true;
    await this.#stopAll("SIGTERM");
    this.#restarting = false;
    if (this.#stopping.signal.aborted) return;
    this.#startAll();
    if (this.#changedAgain) await this.restart();
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    this.#stopping.abort();
    await this.#stopAll(signal);
  }

  killAll(): void {
    for (const child of this.#children.values()) child.tell("SIGKILL");
  }

  #startAll(): void {
    for (let number = 1; number <= this.#options.count; number += 1) this.#start(number);
  }

  #start(number: number): void {
    const { args, logger, passOn } = this.#options;
    const child = new Child({ number, args, logger, passOn });
    this.#children.set(number, child);
    const facts = { event: "process:started", process: number, pid: child.pid };
    logger.debug(facts, "process started");
    void child.ended.then((end) => this.#onEnd(child, end));
  }

  async #stopAll(signal: NodeJS.Signals): Promise<void> {
    const limitMs = this.#options.shutdownMs + CLOSE_MS_MAX;
    const children = [...this.#children.values()];
    await Promise.all(children.map((child) => child.stop(signal, limitMs)));
  }

  #onEnd(child: Child, end: ChildEnd): void {
    const { number } = child;
    if (this.#children.get(number) === child) this.#children.delete(number);
    if (this.#stopping.signal.aborted || this.#restarting) return;
    const { logger, onCrash } = this.#options;
    if (onCrash === "wait") {
      const message = `process ${ending(end)}: waiting for a file to change`;
      return logger.warn(factsOf(number, end), message);
    }
    if (end.code === exitCodes.ok) return this.#leave(number, end);
    if (end.code === exitCodes.usage) return this.#giveUp(number, ending(end), exitCodes.usage);
    this.#afterCrash(child, end);
  }

  /** An operator stopped its worker through the database. */
  #leave(number: number, end: ChildEnd): void {
    this.#options.logger.info(factsOf(number, end), "process stopped as requested");
    if (this.#children.size + this.#pausing === 0) this.#over.resolve();
  }

  #afterCrash({ number }: Child, end: ChildEnd): void {
    const now = systemRuntime.monotonic();
    const before = (this.#crashes.get(number) ?? []).filter((at) => at > now - MINUTE_MS);
    const crashes = [...before, now];
    this.#crashes.set(number, crashes);
    if (crashes.length > RESTARTS_A_MINUTE_MAX) {
      const why = `crashed ${crashes.length} times in one minute`;
      return this.#giveUp(number, why, exitCodes.failed);
    }
    const pauseMs = Math.min(PAUSE_MS_FIRST * 2 ** (crashes.length - 1), PAUSE_MS_MAX);
    const again = `restarting it in ${formatMs(pauseMs)}`;
    this.#options.logger.error(factsOf(number, end), `process ${ending(end)}: ${again}`);
    this.#pausing += 1;
    void sleep(systemRuntime, pauseMs, { signal: this.#stopping.signal }).then(() => {
      this.#pausing -= 1;
      if (!this.#stopping.signal.aborted) this.#start(number);
    });
  }

  #giveUp(number: number, why: string, exitCode: number): void {
    this.#over.reject(new ChildrenFailedError({ number, why, exitCode }));
  }
}

function factsOf(number: number, { code, signal }: ChildEnd): object {
  return { event: "process:ended", process: number, exitCode: code, signal };
}

function ending({ code, signal }: ChildEnd): string {
  if (signal === null) return `exited with code ${code}`;
  return `was killed by ${signal} (${constants.signals[signal]})`;
}

// A process of a supervisor.
//
// It has its own process group, so that Ctrl-C reaches it only once, through the supervisor. If the supervisor crashes, the
// channel between them closes and the child stops by itself.

const LAUNCHER = fileURLToPath(packageFile("bin/holdfast.js"));
const LINE_LENGTH_MAX = 65_536;

interface ChildOptions {
  readonly number: number;
  readonly args: readonly string[];
  readonly logger: Logger;
  /** A line of its log. */
  readonly passOn: (line: string) => void;
}

interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

class Child {
  readonly number: number;
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
    // The child writes its own log lines. Anything else bypassed its log, such as the last output of V8.
    const hearAs = (level: "info" | "warn") => (line: string) => {
      if (isEntry(line)) passOn(line);
      else logger[level]({ process: number }, line);
    };
    if (stdout !== null) eachLine(stdout, hearAs("info"));
    if (stderr !== null) eachLine(stderr, hearAs("warn"));
    this.ended = new Promise((resolve) => {
      this.#process.once("close", (code, signal) => resolve({ code, signal }));
      this.#process.once("error", (error) => {
        logger.error({ process: number, err: error }, "cannot start a process");
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

  /** Asks the process to stop, and kills it after the limit. */
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

/** Without a known version, each process would derive one from its own start time. */
function ourVersion(): { BUILD_ID?: string } {
  const version = appVersion(systemRuntime);
  return isKnownVersion(version) ? {} : { BUILD_ID: version };
}

/** Whether it is a line of our log and not other output. */
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
  stream.on("error", () => {}); // The end of the process is noticed elsewhere.
}
