/**
 * Notices that another connection has written to the file: then, and only then, its `data_version` changes.
 *
 * The operating system reports writes to the write-ahead log. After a report the version is read repeatedly for a moment, at
 * growing intervals, because a commit becomes visible a little after its last byte is written. Otherwise it is read once a
 * second, so that an idle process costs next to nothing.
 */
import { type FSWatcher, watch } from "node:fs";
import type { StatementSync } from "node:sqlite";
import type { Runtime, Timer } from "../../core/runtime.ts";
import type { Hint } from "../engine.ts";
import type { Connection } from "./connection.ts";

/** The first interval after a write, its growth, and how long it lasts. */
const BUSY_LOOK_MS = 2;

const BUSY_GROWTH = 1.5;

const BUSY_MS = 100;

/** In case a report of the operating system was missed. */
const IDLE_LOOK_MS = 1_000;

/** If the operating system reports nothing. */
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

  /** The log exists from the first read on, as long as a connection is open. */
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
      // A missed hint is no loss: callers that wait for one also poll.
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
