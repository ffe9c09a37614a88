/** The object an application opens: everything a client can do, and workers. */
import { checkKnown } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { guardedLogger, silentLogger, type Logger } from "../core/log.ts";
import { systemRuntime, type Runtime } from "../core/runtime.ts";
import type { Duration } from "../core/duration.ts";
import type { LockMode } from "../core/lock.ts";
import { checkName } from "../core/name.ts";
import { appVersion, checkNode } from "../core/version.ts";
import { Client } from "../queue/client.ts";
import { taskClient } from "../queue/task-client.ts";
import { openLocks } from "../locks/open.ts";
import { openStore, type Place } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { checkWorkerOptions, type WorkerOptions } from "./settings.ts";
import { leaveOnSignals } from "./signals.ts";
import { Worker } from "./worker.ts";

export interface HoldfastOptions {
  /** Anything with debug, info, warn and error, such as a pino logger. Default: silence. */
  readonly logger?: Logger;
  /** False: the tables must be there already (see `holdfast migrate`). Default true. */
  readonly migrate?: boolean;
  /** SQLite: false makes a file that does not exist an error. Default true. */
  readonly create?: boolean;
  /** PostgreSQL: the schema that the tables stand in. Default `holdfast`. */
  readonly schema?: string;
  /**
   * A Redis, for locks; and on MySQL and MariaDB for processes to wake each other. Default: HOLDFAST_REDIS_URL, if it is set.
   */
  readonly redis?: string;
  /**
   * Where locks are kept: in rows of the database, or in Redis. "off": workflows do without. Default: HOLDFAST_LOCKS, else
   * "redis" if there is one, else "sql".
   */
  readonly locks?: LockMode;
  /** How long a lock lasts that is not extended. Default 15 s. */
  readonly lockTtl?: Duration;
  /** How long somebody waits for a lock. Default 10 s. */
  readonly lockWait?: Duration;
  /** Which build of the application this is. Default: the git commit, else BUILD_ID. */
  readonly version?: string;
  /** Time and randomness; tests bring their own. */
  readonly runtime?: Runtime;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;
const KNOWN = new Set([
  "logger",
  "migrate",
  "create",
  "schema",
  "redis",
  "locks",
  "lockTtl",
  "lockWait",
  "version",
  "runtime",
]);

/** Opens a URL (`sqlite:shop.db`, `postgres://…`, `mysql://…`), a `pg` pool of your own, or a store. */
export async function openHoldfast(
  place: Place | Store,
  options: HoldfastOptions = {},
): Promise<Holdfast> {
  checkNode();
  checkKnown(options, KNOWN);
  const { logger = silentLogger, migrate = true, version, ...others } = options;
  const { locks, lockTtl, lockWait, ...rest } = others;
  const { runtime = systemRuntime } = rest;
  if (LEVELS.some((level) => typeof logger?.[level] !== "function")) {
    throw new InvalidArgument({
      field: "logger",
      problem: "give one with debug, info, warn and error, such as a pino logger.",
    });
  }
  if (version !== undefined) checkName("version", version);
  const store = isStore(place) ? place : await openStore(place, rest);
  try {
    await (migrate ? store.migrate() : store.checkSchema());
    return new Holdfast({
      store,
      runtime,
      logger: guardedLogger(logger),
      version: version ?? appVersion(systemRuntime),
      locks: {
        ...(await openLocks({ locks, redis: rest.redis }, { rows: store, runtime })),
        ...(lockTtl === undefined ? {} : { ttl: lockTtl }),
        ...(lockWait === undefined ? {} : { wait: lockWait }),
      },
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}

function isStore(place: Place | Store): place is Store {
  return typeof place === "object" && place !== null && "settleAndClaim" in place;
}

export class Holdfast extends Client {
  readonly #started = new Set<Promise<Worker>>();
  /** Aborts when those who stand by for a slot need not wait any longer. */
  readonly #closing = new AbortController();

  async startWorker(options: WorkerOptions): Promise<Worker> {
    this.checkOpen();
    const settings = checkWorkerOptions(options, this.version);
    const { store, runtime, logger, workflows } = this;
    const { signal } = this.#closing;
    const ignoreSignals = settings.signals ? leaveOnSignals(this.#leave) : () => {};
    const client = taskClient(this);
    const starting = Worker.start({ store, runtime, logger, settings, workflows, client, signal });
    // From here on, so that a close() meanwhile waits for it and stops it.
    this.#started.add(starting);
    try {
      const worker = await starting;
      worker.on("worker:stopped", () => {
        this.#started.delete(starting);
        ignoreSignals();
      });
      return worker;
    } catch (error) {
      this.#started.delete(starting);
      ignoreSignals();
      // The process ends in a moment, and not because of this.
      if (this.isLeaving) return new Promise(() => {});
      throw error;
    }
  }

  readonly #leave = async (): Promise<void> => {
    this.isLeaving = true;
    await this.close();
  };

  /**
   * Stops gracefully: claims no more jobs, waits for those that run (up to each worker's `shutdown`, then they are aborted
   * and handed back uncharged), writes what is left to write, and closes the database. Safe to call twice.
   */

  override async close(): Promise<void> {
    this.refuseMore();
    this.#closing.abort();
    const starts = await Promise.allSettled(this.#started);
    const workers = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    try {
      await Promise.all(workers.map((worker) => worker.stop()));
    } finally {
      await super.close();
    }
  }
}
