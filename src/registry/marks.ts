/** What charts mark: when a build was first seen, and when a worker was found dead. */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { isKnownVersion } from "../core/version.ts";
import type { Engine, Transaction } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import type { WorkersStore } from "./store.ts";
import { TASKS_MAX, whyUnknown } from "./tasks.ts";
import type { Workers } from "./workers.ts";

/** Of each kind, newest first; a chart joins marks that are near to each other. */
const MARKS_MAX = 100;

/** Builds that are recorded in one minute. */
const BUILDS_MAX = 100;

export interface Mark {
  readonly at: number;
  readonly kind: "deploy" | "crash";
  /** The build, or the word crash. */
  readonly text: string;
  readonly detail: string;
  /** The worker that was found dead. */
  readonly worker: string | null;
}

interface Seen {
  readonly version: string;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Records the builds of the workers that were alive in the folded minutes: rows of workers are deleted after a week. */
export const buildFold = {
  async read(engine: Engine, from: number): Promise<(tx: Transaction) => Promise<void>> {
    const seen = await engine.all<Seen>(sql`
      select version, min(started_at) as "firstAt", max(heartbeat_at) as "lastAt"
        from holdfast.worker
       where heartbeat_at >= ${from}
       group by version
       order by max(heartbeat_at) desc
       limit ${BUILDS_MAX}`);
    return async (tx) => {
      for (const { version, firstAt, lastAt } of seen) {
        const known = await tx.run(sql`
          update holdfast.build set last_at = ${lastAt} where version = ${version} and last_at < ${lastAt}`);
        if (known > 0) continue;
        await tx.run(
          engine.insertOrIgnore(sql`
            holdfast.build (version, first_at, last_at) values (${version}, ${firstAt}, ${lastAt})`),
        );
      }
    };
  },
};

/** The marks since an instant, oldest first. */
export async function marksSince(engine: Engine, from: number): Promise<Mark[]> {
  const builds = await engine.all<Seen>(sql`
    select version, first_at as "firstAt", last_at as "lastAt"
      from holdfast.build
     where first_at >= ${from}
     order by first_at desc
     limit ${MARKS_MAX}`);
  const dead = await engine.all<{
    id: string;
    type: string;
    hostname: string;
    at: number;
    reason: string;
  }>(sql`
    select id, type, hostname, stopped_at as at, reason
      from holdfast.worker
     where status = 'stopped'
       and stopped_at >= ${from}
       and reason in ('gone', 'stale', 'hung')
     order by stopped_at desc
     limit ${MARKS_MAX}`);
  const marks: Mark[] = [
    ...builds.map(({ version, firstAt }) => {
      return {
        at: firstAt,
        kind: "deploy" as const,
        text: version,
        detail: `build ${version}`,
        worker: null,
      };
    }),
    ...dead.map(({ id, type, hostname, at, reason }) => {
      const detail = `${type} on ${hostname} was found dead (${reason})`;
      return { at, kind: "crash" as const, text: "crash", detail, worker: id };
    }),
  ];
  return marks.toSorted((a, b) => a.at - b.at);
}

// Records about once a minute which build of the application enqueues jobs, and looks once for each task that is enqueued by
// name whether workers know it. No caller waits for it or fails with it.

const NOTE_EVERY_MS = 60_000;

/** Names that are looked up in the life of a process. */
const NAMES_MAX = 1_000;

/** Logs a warning, or prints it where the application gave no logger. */
export type Warn = (facts: object, message: string) => void;

interface EnqueuerParts {
  readonly store: { readonly workers: Pick<WorkersStore, "noteEnqueuer" | "taskNames"> };
  readonly workers: Workers;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly warn: Warn;
  readonly version: string;
}

export class Enqueuer {
  readonly #parts: EnqueuerParts;
  readonly #names = new Set<string>();
  #notedAt = Number.NEGATIVE_INFINITY;
  /** One after the other. */
  #noting: Promise<void> = Promise.resolve();

  constructor(parts: EnqueuerParts) {
    this.#parts = parts;
  }

  /** Jobs were enqueued. */
  note(): void {
    const { store, runtime, version } = this.#parts;
    const now = runtime.monotonic();
    if (!isKnownVersion(version) || now - this.#notedAt < NOTE_EVERY_MS) return;
    this.#notedAt = now;
    this.#after(() => store.workers.noteEnqueuer(version));
  }

  /** Jobs of these tasks were enqueued by name, which may be misspelt. */
  noteNames(tasks: readonly string[]): void {
    for (const task of tasks) {
      if (this.#names.has(task) || this.#names.size >= NAMES_MAX) continue;
      this.#names.add(task);
      this.#after(() => this.#lookUp(task));
    }
  }

  /** Waits for what is in progress. */
  async stop(): Promise<void> {
    await this.#noting;
  }

  #after(next: () => Promise<void>): void {
    this.#noting = this.#queued(this.#noting, next);
  }

  async #queued(before: Promise<void>, next: () => Promise<void>): Promise<void> {
    await before;
    try {
      await next();
    } catch (error) {
      this.#parts.logger.debug({ err: error }, "could not record or look up what is enqueued");
    }
  }

  async #lookUp(task: string): Promise<void> {
    const { store, workers, warn } = this.#parts;
    const known = await store.workers.taskNames(TASKS_MAX);
    const why = await whyUnknown(task, { known, workers });
    if (why !== null) warn({ event: "task:unknown", task }, why);
  }
}
