/**
 * Notices that another connection has written to the file: its `data_version` changes then, and only then.
 *
 * The operating system says when somebody writes to the write-ahead log; the version is looked at again and again for a
 * moment after that, because a commit becomes visible a little later than its last byte is written: soon at first, because
 * it is mostly soon. Otherwise it is looked at once in a while, so that an idle process costs next to nothing.
 */
import { type FSWatcher, watch } from "node:fs";
import type { StatementSync } from "node:sqlite";
import type { Runtime, Timer } from "../../core/runtime.ts";
import type { Hint } from "../engine.ts";
import type { Connection } from "./connection.ts";

/** How soon it looks again after a write, how much later each time, and for how long. */
const BUSY_LOOK_MS = 2;

const BUSY_GROWTH = 1.5;

const BUSY_MS = 100;

/** How often it looks when nothing happens: in case a word of the operating system was missed. */
const IDLE_LOOK_MS = 1_000;

/** How often it looks where the operating system says nothing. */
const DEAF_LOOK_MS = 25;

export class FileWatch {
  readonly #connection: Connection;
  readonly #runtime: Runtime;
  readonly #hear: (hint: Hint) => void;
  readonly #version: StatementSync;
  #watcher: FSWatcher | null = null;
  #busyUntil = 0;
  #busyLookMs = BUSY_LOOK_MS;
  #dueAt = 0;
  #seen: unknown = null;
  #timer: Timer | null = null;
  #looking = false;
  #stopped = false;

  constructor(parts: { connection: Connection; runtime: Runtime; hear: (hint: Hint) => void }) {
    this.#connection = parts.connection;
    this.#runtime = parts.runtime;
    this.#hear = parts.hear;
    this.#version = parts.connection.prepare("pragma data_version");
    void this.#look().then(() => this.#watch());
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#watcher?.close();
  }

  /** The log exists from the first read on, and as long as a connection is open. */
  #watch(): void {
    if (this.#stopped) return;
    try {
      const log = `${this.#connection.path}-wal`;
      this.#watcher = watch(log, { persistent: false }, () => this.#pollSoon());
      this.#watcher.on("error", () => this.#goDeaf());
    } catch {
      this.#goDeaf();
    }
  }

  #goDeaf(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #pollSoon(): void {
    const now = this.#runtime.monotonic();
    const quiet = now >= this.#busyUntil;
    this.#busyUntil = now + BUSY_MS;
    this.#busyLookMs = BUSY_LOOK_MS;
    if (this.#looking) return;
    if (!quiet && this.#dueAt <= now + BUSY_LOOK_MS) return;
    this.#timer?.cancel();
    if (quiet) void this.#look();
    else this.#lookIn(BUSY_LOOK_MS);
  }

  async #look(): Promise<void> {
    this.#looking = true;
    try {
      const version = await this.#connection.read(() => this.#version.get()?.["data_version"]);
      if (this.#stopped) return;
      if (this.#seen !== null && version !== this.#seen) this.#hear({ kind: "unknown" });
      this.#seen = version;
    } catch {
      // A hint that cannot be had is no loss: whoever waits for one also polls.
    } finally {
      this.#looking = false;
    }
    if (this.#stopped) return;
    this.#lookIn(this.#waitMs());
  }

  #lookIn(ms: number): void {
    this.#dueAt = this.#runtime.monotonic() + ms;
    this.#timer = this.#runtime.timer(ms, () => void this.#look(), "background");
  }

  #waitMs(): number {
    if (this.#watcher === null) return DEAF_LOOK_MS;
    if (this.#runtime.monotonic() >= this.#busyUntil) return IDLE_LOOK_MS;
    const waitMs = this.#busyLookMs;
    this.#busyLookMs *= BUSY_GROWTH;
    return waitMs;
  }
}
