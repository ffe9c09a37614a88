/**
 * Holds a job at a time with the lease verbs alone. Without a watchdog, it always writes when it wakes up, however late:
 * whenever its process was frozen there is a write that has to be refused.
 */
import { LeaseLost } from "../core/errors.ts";
import { systemRuntime, sleep } from "../core/runtime.ts";
import type { Lease, Leases } from "../queue/leases.ts";
import type { Journal } from "./journal.ts";
import { LEASE_MS } from "./plan.ts";
import { CLERKS, type Input } from "./workload.ts";

const HOLDS_MS_MAX = 1_000;
const RESTS_MS = 200;

export class Clerk {
  readonly name: string;
  readonly #leases: Leases;
  readonly #journal: Journal;
  readonly #stopping = new AbortController();
  readonly #stopped: Promise<void>;

  constructor(parts: { name: string; leases: Leases; journal: Journal }) {
    this.name = parts.name;
    this.#leases = parts.leases;
    this.#journal = parts.journal;
    this.#stopped = this.#work();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#stopped;
  }

  async #work(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      // When the database is away, the lease will end.
      const worked = await this.#once().catch(() => false);
      if (!worked) await sleep(systemRuntime, RESTS_MS, { signal });
    }
  }

  async #once(): Promise<boolean> {
    const wanted = { worker: this.name, queues: [CLERKS], lease: LEASE_MS };
    const [lease] = await this.#leases.acquire(wanted);
    if (lease === undefined) return false;
    const { id: job, epoch } = lease;
    this.#journal.say({ f: "run", job, epoch, worker: this.name });
    await sleep(systemRuntime, systemRuntime.random() * HOLDS_MS_MAX);
    await this.#handBack(lease);
    return true;
  }

  async #handBack(lease: Lease): Promise<void> {
    const { id: job, epoch } = lease;
    const { n } = lease.input as Input;
    try {
      await this.#leases.release(lease, { as: "done", result: { n, epoch } });
      this.#journal.say({ f: "done", job, epoch, worker: this.name });
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      this.#journal.say({ f: "refused", job, epoch });
    }
  }
}
