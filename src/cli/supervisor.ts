/**
 * Watches over several processes that run jobs: starts them, starts again those that crash, stops them.
 *
 * A crash is followed by a pause that doubles each time; one process that crashes again and again within a minute is given up, and everything with
 * it: whoever watches over us (systemd, a container) shall see that something is wrong.
 */
import { constants } from "node:os";
import { formatMs } from "../core/duration.ts";
import type { Logger } from "../core/log.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { Child, type ChildEnd } from "./child.ts";
import { ChildrenFailed, exitCodes } from "./failure.ts";

const RESTARTS_A_MINUTE_MAX = 5;
const MINUTE_MS = 60_000;
const PAUSE_MS_FIRST = 100;
const PAUSE_MS_MAX = 30_000;
/** Beyond the time that a child's jobs are given: to hand back what is left, and to close. */
const CLOSE_MS_MAX = 6_000;

export interface SupervisorOptions {
  readonly count: number;
  readonly args: readonly string[];
  readonly logger: Logger;
  readonly passOn: (line: string) => void;
  readonly shutdownMs: number;
  /** What is done about one that crashed: it is started again, or left until something changes. */
  readonly onCrash: "restart" | "wait";
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #children = new Map<number, Child>();
  readonly #crashes = new Map<number, number[]>();
  readonly #stopping = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  /** How many crashed and wait for their next start. */
  #pausing = 0;
  #restarting = false;
  #changedAgain = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#over.promise.catch(() => {}); // nobody may be waiting for it
    // Whatever ends us ends them: an error of our own too.
    process.once("exit", () => this.killAll());
    this.#startAll();
  }

  /** Resolves when all have ended by themselves and as they should; rejects when one had to be given up. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  /** Of those that run now. */
  get pids(): number[] {
    return [...this.#children.values()].flatMap(({ pid, isRunning }) =>
      isRunning ? (pid ?? []) : [],
    );
  }

  /** Stops all and starts them anew; once more when it is asked for meanwhile. */
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

  /** At once, by their ids. */
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
    void child.ended.then((end) => this.#hear(child, end));
  }

  async #stopAll(signal: NodeJS.Signals): Promise<void> {
    const limitMs = this.#options.shutdownMs + CLOSE_MS_MAX;
    const children = [...this.#children.values()];
    await Promise.all(children.map((child) => child.stop(signal, limitMs)));
  }

  #hear(child: Child, end: ChildEnd): void {
    const { number } = child;
    if (this.#children.get(number) === child) this.#children.delete(number);
    if (this.#stopping.signal.aborted || this.#restarting) return;
    const { logger, onCrash } = this.#options;
    if (onCrash === "wait") {
      return logger.warn(factsOf(number, end), `process ${ending(end)}: waiting for a change`);
    }
    if (end.code === exitCodes.ok) return this.#leave(number, end);
    if (end.code === exitCodes.usage) return this.#giveUp(number, ending(end), exitCodes.usage);
    this.#afterCrash(child, end);
  }

  /** Somebody stopped its worker through the database. */
  #leave(number: number, end: ChildEnd): void {
    this.#options.logger.info(factsOf(number, end), "process ended as it was asked to");
    if (this.#children.size + this.#pausing === 0) this.#over.resolve();
  }

  #afterCrash({ number }: Child, end: ChildEnd): void {
    const now = systemRuntime.monotonic();
    const before = (this.#crashes.get(number) ?? []).filter((at) => at > now - MINUTE_MS);
    const crashes = [...before, now];
    this.#crashes.set(number, crashes);
    if (crashes.length > RESTARTS_A_MINUTE_MAX) {
      const why = `crashed ${crashes.length} times within a minute`;
      return this.#giveUp(number, why, exitCodes.failed);
    }
    const pauseMs = Math.min(PAUSE_MS_FIRST * 2 ** (crashes.length - 1), PAUSE_MS_MAX);
    const again = `starting it again in ${formatMs(pauseMs)}`;
    this.#options.logger.error(factsOf(number, end), `process ${ending(end)}: ${again}`);
    this.#pausing += 1;
    void sleep(systemRuntime, pauseMs, { signal: this.#stopping.signal }).then(() => {
      this.#pausing -= 1;
      if (!this.#stopping.signal.aborted) this.#start(number);
    });
  }

  #giveUp(number: number, why: string, exitCode: number): void {
    this.#over.reject(new ChildrenFailed({ number, why, exitCode }));
  }
}

function factsOf(number: number, { code, signal }: ChildEnd): object {
  return { event: "process:ended", process: number, exitCode: code, signal };
}

function ending({ code, signal }: ChildEnd): string {
  if (signal === null) return `ended with code ${code}`;
  return `was ended by ${signal} (${constants.signals[signal]})`;
}
