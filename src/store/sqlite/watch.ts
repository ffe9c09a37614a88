/** Notices that another connection has written to the file: its `data_version` changes then, and only then. */
import type { StatementSync } from "node:sqlite";
import type { Runtime, Timer } from "../../core/runtime.ts";
import type { Hint } from "../store.ts";
import type { Connection } from "./connection.ts";

/** How often it looks: 2 µs a look. */
const LOOK_MS = 10;

export class FileWatch {
  readonly #connection: Connection;
  readonly #runtime: Runtime;
  readonly #hear: (hint: Hint) => void;
  readonly #version: StatementSync;
  #seen: unknown = null;
  #timer: Timer | null = null;
  #stopped = false;

  constructor(parts: { connection: Connection; runtime: Runtime; hear: (hint: Hint) => void }) {
    this.#connection = parts.connection;
    this.#runtime = parts.runtime;
    this.#hear = parts.hear;
    this.#version = parts.connection.prepare("pragma data_version");
    void this.#look();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    try {
      const version = await this.#connection.read(() => this.#version.get()?.["data_version"]);
      if (this.#stopped) return;
      if (this.#seen !== null && version !== this.#seen) this.#hear({ kind: "unknown" });
      this.#seen = version;
    } catch {
      // A hint that cannot be had is no loss: whoever waits for one also polls.
    }
    if (this.#stopped) return;
    this.#timer = this.#runtime.timer(LOOK_MS, () => void this.#look(), "background");
  }
}
