/** Records about once a minute which build of the application enqueues jobs. No caller waits for it or fails with it. */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { isKnownVersion } from "../core/version.ts";

const NOTE_EVERY_MS = 60_000;

interface EnqueuerParts {
  readonly store: { readonly workers: { noteEnqueuer(version: string): Promise<void> } };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly version: string;
}

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

  /** Waits for a write in progress. */
  async stop(): Promise<void> {
    await this.#noting;
  }

  async #write(): Promise<void> {
    const { store, logger, version } = this.#parts;
    try {
      await store.workers.noteEnqueuer(version);
    } catch (error) {
      logger.debug({ err: error }, "could not record which build enqueues");
    }
  }
}
