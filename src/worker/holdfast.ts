/** The object an application opens: everything a client can do, and workers. */
import { checkKnown } from "../core/check.ts";
import { InvalidArgument } from "../core/errors.ts";
import { silentLogger, type Logger } from "../core/log.ts";
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
  const store =
    typeof urlOrStore === "string" ? await openStore(urlOrStore, { runtime, create }) : urlOrStore;
  try {
    await (migrate ? store.migrate() : store.checkSchema());
  } catch (error) {
    await store.close();
    throw error;
  }
  return new Holdfast({ store, runtime, logger });
}

export class Holdfast extends Client {
  readonly #workers = new Set<Worker>();

  async startWorker(options: WorkerOptions): Promise<Worker> {
    this.checkOpen();
    const settings = checkWorkerOptions(options);
    const { store, runtime, logger } = this;
    const worker = await Worker.start({ store, runtime, logger, settings });
    this.#workers.add(worker);
    worker.on("worker:stopped", () => this.#workers.delete(worker));
    return worker;
  }

  override async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    await super.close();
  }
}
