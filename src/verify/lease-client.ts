/**
 * Holds one job at a time through the lease API. It has no watchdog, so it writes when it wakes up, however late: after
 * each freeze there is a write that the database must refuse.
 */
import { LeaseLostError } from "../core/errors.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import type { Lease, Leases } from "../jobs/leases.ts";
import { LEASE_MS } from "./plan.ts";
import type { ProcessLog } from "./process-log.ts";
import { type Input, LEASE_CLIENTS } from "./workload.ts";

const HOLDS_MS_MAX = 1_000;

const RESTS_MS = 200;

export class LeaseClient {
  readonly name: string;
  readonly #leases: Leases;
  readonly #processLog: ProcessLog;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;

  constructor(parts: { name: string; leases: Leases; processLog: ProcessLog }) {
    this.name = parts.name;
    this.#leases = parts.leases;
    this.#processLog = parts.processLog;
    this.#stopped = this.#work();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#stopped;
  }

  async #work(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // While the database is away, the lease expires.
      const worked = await this.#once().catch(() => false);
      if (!worked) await sleep(systemRuntime, RESTS_MS, { signal });
    }
  }

  async #once(): Promise<boolean> {
    const wanted = { worker: this.name, queues: [LEASE_CLIENTS], lease: LEASE_MS };
    const [lease] = await this.#leases.acquire(wanted);
    if (lease === undefined) return false;
    const { id: job, epoch } = lease;
    this.#processLog.say({ f: "run", job, epoch, worker: this.name });
    await sleep(systemRuntime, systemRuntime.random() * HOLDS_MS_MAX);
    await this.#handBack(lease);
    return true;
  }

  async #handBack(lease: Lease): Promise<void> {
    const { id: job, epoch } = lease;
    const { n } = lease.input as Input;
    try {
      await this.#leases.release(lease, { as: "done", result: { n, epoch } });
      this.#processLog.say({ f: "done", job, epoch, worker: this.name });
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      this.#processLog.say({ f: "refused", job, epoch });
    }
  }
}
