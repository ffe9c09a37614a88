/** Injects the faults of the plan at their times, and logs each. */
import { sleep, systemRuntime } from "../core/runtime.ts";
import type { Database } from "./database.ts";
import type { Fault, FaultKind } from "./plan.ts";
import type { ProcessLog } from "./process-log.ts";
import type { Processes } from "./processes.ts";
import type { Proxy } from "./proxy.ts";

interface NemesisParts {
  readonly processes: Processes;
  readonly database: Database;
  readonly proxy: Proxy | null;
  readonly processLog: ProcessLog;
  /** Kills the server and starts it again; null: we may not. */
  readonly restart: (() => Promise<void>) | null;
  /** Fills the queue with limits, and waits until as many of its jobs run as may. */
  readonly fill: () => Promise<void>;
  readonly signal: AbortSignal;
}

/** Right after a fault the next one may have no target. It looks again up to this often, and is late on a busy machine. */
const LOOKS_MAX = 400;

const LOOK_MS = 50;

export class Nemesis {
  readonly done: Partial<Record<FaultKind, number>> = {};
  readonly #parts: NemesisParts;
  readonly #lasting: Promise<unknown>[] = [];

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  /** Resolves after the last fault, when all lasting ones are over. */
  async carryOut(faults: readonly Fault[]): Promise<void> {
    const { signal } = this.#parts;
    const startedAt = systemRuntime.monotonic();
    for (const fault of faults) {
      const waitMs = startedAt + fault.atMs - systemRuntime.monotonic();
      if (waitMs > 0) await sleep(systemRuntime, waitMs, { signal });
      if (signal.aborted) break;
      if (await this.#strike(fault)) this.done[fault.kind] = (this.done[fault.kind] ?? 0) + 1;
    }
    await Promise.all(this.#lasting);
  }

  async #strike(fault: Fault): Promise<boolean> {
    for (let looks = 0; looks < LOOKS_MAX && !this.#parts.signal.aborted; looks += 1) {
      if (await this.#try(fault)) return true;
      await sleep(systemRuntime, LOOK_MS);
    }
    return false;
  }

  /** False: the fault has no target now. */
  async #try({ kind, whom, ms }: Fault): Promise<boolean> {
    const { processes, database, proxy, processLog, fill, signal } = this.#parts;
    switch (kind) {
      case "kill":
        return processes.kill(whom, (name) => this.#say(kind, name));
      case "kill-all":
        await fill();
        processLog.say({ f: "fault", kind });
        return processes.killAll((name) => void this.#say("kill", name));
      case "freeze": {
        const frozen = processes.freeze(whom, ms, signal);
        if (frozen !== null) this.#lasting.push(frozen.thawed);
        return this.#say(kind, frozen?.name ?? null);
      }
      case "block":
        return this.#say(kind, processes.block(whom, ms));
      case "cut":
        return (await database.cut(whom).catch(() => false)) && this.#say(kind, "");
      case "deafen":
        if (proxy !== null) this.#lasting.push(proxy.deafen(ms));
        return this.#say(kind, proxy === null ? null : "");
      case "storm":
        this.#lasting.push(database.storm(ms));
        return this.#say(kind, "");
      case "restart":
        return this.#restart();
    }
  }

  async #restart(): Promise<boolean> {
    const { restart, processLog } = this.#parts;
    if (restart === null) return false;
    processLog.say({ f: "fault", kind: "restart" });
    await restart();
    processLog.say({ f: "fault", kind: "back" });
    return true;
  }

  #say(kind: FaultKind, worker: string | null): boolean {
    if (worker === null) return false;
    this.#parts.processLog.say({ f: "fault", kind, worker });
    return true;
  }
}
