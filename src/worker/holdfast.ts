/** The object an application opens: everything a client can do, and workers. */
import { checkKnown } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { guardedLogger, silentLogger, type Logger } from "../core/log.ts";
import { systemRuntime, type Runtime } from "../core/runtime.ts";
import { Client } from "../queue/client.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { checkWorkerOptions, type WorkerOptions } from "./settings.ts";
import { Worker } from "./worker.ts";

export interface HoldfastOptions {
  /** Anything with debug, info, warn and error, such as a pino logger. Default: silence. */
  readonly logger?: Logger;
  /** False: the tables must be there already (see `holdfast migrate`). Default true. */
  readonly migrate?: boolean;
  /** False: a database that does not exist is an error. Default true. */
  readonly create?: boolean;
  /** Time and randomness; tests bring their own. */
  readonly runtime?: Runtime;
}

const LEVELS = ["debug", "info", "warn", "error"] as const;
const KNOWN = new Set(["logger", "migrate", "create", "runtime"]);

export async function openHoldfast(
  urlOrStore: string | Store,
  options: HoldfastOptions = {},
): Promise<Holdfast> {
  checkKnown(options, KNOWN);
  const { logger = silentLogger, runtime = systemRuntime, migrate = true, create = true } = options;
  if (typeof urlOrStore !== "string" && typeof urlOrStore?.settleAndClaim !== "function") {
    throw new InvalidArgument({
      field: "url",
      problem: "give a URL such as 'sqlite:shop.db', or a store.",
    });
  }
  if (LEVELS.some((level) => typeof logger?.[level] !== "function")) {
    throw new InvalidArgument({
      field: "logger",
      problem: "give one with debug, info, warn and error, such as a pino logger.",
    });
  }
  const store =
    typeof urlOrStore === "string" ? await openStore(urlOrStore, { runtime, create }) : urlOrStore;
  try {
    await (migrate ? store.migrate() : store.checkSchema());
  } catch (error) {
    await store.close();
    throw error;
  }
  return new Holdfast({ store, runtime, logger: guardedLogger(logger) });
}

export class Holdfast extends Client {
  readonly #workers = new Set<Promise<Worker>>();

  async startWorker(options: WorkerOptions): Promise<Worker> {
    this.checkOpen();
    const settings = checkWorkerOptions(options);
    const { store, runtime, logger } = this;
    const starting = Worker.start({ store, runtime, logger, settings });
    // From here on, so that a close() meanwhile waits for it and stops it.
    this.#workers.add(starting);
    try {
      const worker = await starting;
      worker.on("worker:stopped", () => this.#workers.delete(starting));
      return worker;
    } catch (error) {
      this.#workers.delete(starting);
      throw error;
    }
  }

  override async close(): Promise<void> {
    this.refuseMore();
    const starts = await Promise.allSettled(this.#workers);
    const workers = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    try {
      await Promise.all(workers.map((worker) => worker.stop()));
    } finally {
      await super.close();
    }
  }
}
