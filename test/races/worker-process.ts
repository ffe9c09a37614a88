/**
 * A worker in a process of its own, seen from the test: what it said, how it ended, and the means to
 * stop, freeze and kill it. The other side is `worker-child.ts`.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { WorkerOptions } from "../../src/index.ts";
import { until } from "../worker/observe.ts";

/** A process that a test forgot ends by itself after this long. */
const PROCESS_MS_MAX = 60_000;

/** What a child is told when it starts. */
export interface ChildConfig {
  readonly url: string;
  /** Tells the processes of one test apart. */
  readonly role: string;
  readonly worker: Omit<WorkerOptions, "tasks">;
  /** Where every write to the database is noted down; see `worker-witness.ts`. */
  readonly journal?: string;
  /** The statement that is robbed of its fence. */
  readonly plant?: string;
  /** What gives its threads another clock, and which. */
  readonly threadClock?: { readonly preload: string; readonly is: "behind" | "ahead" };
}

/** What a child says: a word, and facts that belong to it. */
export interface Said {
  readonly word: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class WorkerProcess implements AsyncDisposable {
  readonly said: Said[] = [];
  readonly ended: Promise<End>;
  #errors = "";
  readonly #child: ChildProcess;

  /** Starts `program`, a file of this folder. */
  constructor(program: string, config: ChildConfig) {
    const preloads = [
      ...(config.journal === undefined ? [] : [join(import.meta.dirname, "worker-witness.ts")]),
      ...(config.threadClock === undefined ? [] : [config.threadClock.preload]),
    ];
    this.#child = fork(join(import.meta.dirname, program), [JSON.stringify(config)], {
      execArgv: preloads.flatMap((file) => ["--import", file]),
      env: {
        ...process.env,
        WITNESS_JOURNAL: config.journal ?? "",
        WITNESS_PLANT: config.plant ?? "",
        THREAD_CLOCK: config.threadClock?.is ?? "",
      },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      serialization: "advanced",
      timeout: PROCESS_MS_MAX,
      killSignal: "SIGKILL",
    });
    this.#child.on("message", (message) => this.said.push(message as Said));
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#errors += text));
    this.ended = once(this.#child, "close").then(([code, signal]) => ({ code, signal }));
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** What it wrote to standard error. */
  get errors(): string {
    return this.#errors;
  }

  /** Its leases are renewed even if its event loop is blocked. */
  get hasThread(): boolean {
    return this.of("log").some(({ message }) => message === "the lease renewer's thread is ready");
  }

  of(word: string): Said["facts"][] {
    return this.said.filter((one) => one.word === word).map((one) => one.facts);
  }

  /** Waits until it has said the word this often, and returns the last. */
  async until(word: string, count = 1): Promise<Said["facts"]> {
    const facts = await until(`process said '${word}' ${count} times`, () => {
      if (this.#child.exitCode !== null && this.of(word).length < count) {
        throw new Error(`It ended with code ${this.#child.exitCode} before. ${this.#errors}`);
      }
      return this.of(word)[count - 1];
    });
    return facts;
  }

  tell(word: string): void {
    if (this.#child.connected) this.#child.send(word);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /**
   * Stops every thread of it, at a moment when it holds no lock of the database: one that does stops
   * all others too, and none could take over.
   */
  async freeze(path: string): Promise<void> {
    for (;;) {
      this.signal("SIGSTOP");
      await until("it is frozen", () => isStopped(this.pid));
      if (isWritable(path)) return;
      this.signal("SIGCONT");
      await until("it goes on", () => !isStopped(this.pid));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.hasEnded) this.signal("SIGKILL");
    await this.ended;
  }
}

/** The third field of a process's line is its state; the second, its name, may contain anything. */
export function isStopped(pid: number): boolean {
  const line = readFileSync(`/proc/${pid}/stat`, "utf8");
  return line.slice(line.lastIndexOf(")") + 2).startsWith("T");
}

function isWritable(path: string): boolean {
  using db = new DatabaseSync(path, { timeout: 0 });
  try {
    db.exec("begin immediate; rollback");
    return true;
  } catch {
    return false;
  }
}
