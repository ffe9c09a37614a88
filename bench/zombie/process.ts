/** A worker in a process of its own, as the story sees it: what it said, and the means to freeze and to wake it. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Pace, Site, Word } from "./subject.ts";

const PROGRAM = join(import.meta.dirname, "worker.ts");
const LOOK_MS = 10;
/** A process that was forgotten ends by itself after this long. */
const PROCESS_MS_MAX = 10 * 60_000;
const FREEZE_MS_MAX = 5_000;

export interface Config {
  readonly subject: string;
  readonly role: "A" | "B";
  readonly place: Site;
  readonly pace: Pace;
}

export interface Said {
  readonly word: Word;
  readonly facts: string;
}

export class WorkerProcess implements AsyncDisposable {
  readonly said: Said[] = [];
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #complaints = "";

  constructor(config: Config) {
    this.#child = fork(PROGRAM, [JSON.stringify(config)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      timeout: PROCESS_MS_MAX,
      killSignal: "SIGKILL",
    });
    this.#child.on("message", (message) => this.said.push(message as Said));
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#complaints += text;
    });
    this.#ended = once(this.#child, "close");
  }

  has(word: Word): boolean {
    return this.said.some((each) => each.word === word);
  }

  /** Waits until it has said the word. Returns false when it has not in time. */
  async says(word: Word, limitMs: number): Promise<boolean> {
    const stopAt = performance.now() + limitMs;
    while (!this.has(word)) {
      const failed = this.said.find((each) => each.word === "failed");
      if (failed !== undefined) throw new Error(failed.facts);
      if (this.#child.exitCode !== null) throw new Error(`it ended. ${this.#complaints}`);
      if (performance.now() > stopAt) return false;
      await pause(LOOK_MS);
    }
    return true;
  }

  tell(word: string): void {
    if (this.#child.connected) this.#child.send(word);
  }

  /** Stops every thread of it, at a moment that suits the database. */
  async freeze(suits: () => boolean): Promise<void> {
    const stopAt = performance.now() + FREEZE_MS_MAX;
    while (performance.now() < stopAt) {
      this.#child.kill("SIGSTOP");
      while (!this.#isStopped()) await pause(LOOK_MS);
      if (suits()) return;
      this.#child.kill("SIGCONT");
      await pause(LOOK_MS);
    }
    throw new Error("it holds the database locked whenever it is stopped");
  }

  wake(): void {
    this.#child.kill("SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  /** The third field of a process's line is its state; the second, its name, may contain anything. */
  #isStopped(): boolean {
    const line = readFileSync(`/proc/${this.#child.pid}/stat`, "utf8");
    return line.slice(line.lastIndexOf(")") + 2).startsWith("T");
  }
}
