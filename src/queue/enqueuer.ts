/**
 * Tells the database which build of the application enqueues jobs, about once a minute, so that it can be seen when the
 * workers run another. Nobody waits for it, and nothing fails with it.
 */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { isKnownVersion } from "../core/version.ts";
import type { Store } from "../store/store.ts";

const NOTE_EVERY_MS = 60_000;

export class Enqueuer {
  readonly #parts: EnqueuerParts;
  #notedAt = Number.NEGATIVE_INFINITY;
  #noting: Promise<void> | null = null;

  constructor(parts: EnqueuerParts) {
    this.#parts = parts;
  }

  /** Jobs were enqueued. */
  note(): void {
    const { runtime, version } = this.#parts;
    const now = runtime.monotonic();
    if (!isKnownVersion(version) || now - this.#notedAt < NOTE_EVERY_MS) return;
    this.#notedAt = now;
    this.#noting = this.#write();
  }

  /** Until what was begun is written. */
  async stop(): Promise<void> {
    await this.#noting;
  }

  async #write(): Promise<void> {
    const { store, logger, version } = this.#parts;
    try {
      await store.noteEnqueuer(version);
    } catch (error) {
      logger.debug({ err: error }, "could not note which version enqueues");
    }
  }
}

export interface EnqueuerParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly version: string;
}
