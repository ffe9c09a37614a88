/**
 * Tells the database which build of the application enqueues jobs, about once a minute, so that it can be seen when the
 * workers run another. Nobody waits for it, and nothing fails with it.
 */
import { StoreRefusedError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { isKnownVersion } from "../core/version.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { EnqueuerRecord } from "./worker-record.ts";

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
      await store.workers.noteEnqueuer(version);
    } catch (error) {
      logger.debug({ err: error }, "could not note which version enqueues");
    }
  }
}

interface EnqueuerParts {
  readonly store: { readonly workers: { noteEnqueuer(version: string): Promise<void> } };
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly version: string;
}

// Which builds of the application enqueue jobs, and since when.
//
// One row for each build, not for each process or job: enough to see that jobs are made by a build which no worker runs, and
// it costs an enqueuing process one statement a minute.

/** More builds than this are not told apart. */
const LISTED_MAX = 100;

export async function noteEnqueuer(engine: Engine, version: string): Promise<void> {
  const known = await engine.transaction((tx) =>
    tx.run(sql`update holdfast.enqueuer set last_at = ${engine.now()} where version = ${version}`),
  );
  if (known > 0) return;
  try {
    await engine.transaction((tx) =>
      tx.run(sql`
        insert into holdfast.enqueuer (version, first_at, last_at)
        values (${version}, ${engine.now()}, ${engine.now()})`),
    );
  } catch (error) {
    // Somebody else was faster.
    if (!(error instanceof StoreRefusedError)) throw error;
  }
}

export function enqueuers(engine: Engine, withinMs: number): Promise<EnqueuerRecord[]> {
  return engine.all<EnqueuerRecord>(sql`
    select version, first_at as "firstAt", last_at as "lastAt", ${engine.now()} - last_at as "silentMs"
      from holdfast.enqueuer
     where last_at >= ${engine.now()} - ${withinMs}
     order by last_at desc, version
     limit ${LISTED_MAX}`);
}

export function pruneEnqueuers(engine: Engine, silentForMs: number): Promise<number> {
  return engine.transaction((tx) =>
    tx.run(sql`delete from holdfast.enqueuer where last_at < ${engine.now()} - ${silentForMs}`),
  );
}
