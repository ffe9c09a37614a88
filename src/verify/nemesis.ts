/** Does what the plan says, when it says so, and says what it did. */
import { systemRuntime, sleep } from "../core/runtime.ts";
import type { Crew } from "./crew.ts";
import type { Database } from "./database.ts";
import type { Journal } from "./journal.ts";
import type { Fault, FaultKind } from "./plan.ts";
import type { Proxy } from "./proxy.ts";

export interface NemesisParts {
  readonly crew: Crew;
  readonly database: Database;
  readonly proxy: Proxy | null;
  readonly journal: Journal;
  /** Kills the server and starts it again; null: it is not ours. */
  readonly restart: (() => Promise<void>) | null;
  readonly signal: AbortSignal;
}

/** Right after a fault there may be nobody whom the next can meet: it waits, so often at most. On a busy machine it is late. */
const LOOKS_MAX = 400;
const LOOK_MS = 50;

export class Nemesis {
  readonly done: Partial<Record<FaultKind, number>> = {};
  /** Everything was done, and what lasts is over. */
  isOver = false;
  readonly #parts: NemesisParts;
  readonly #lasting: Promise<unknown>[] = [];

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  async carryOut(faults: readonly Fault[]): Promise<void> {
    try {
      await this.#carryOut(faults);
    } finally {
      this.isOver = true;
    }
  }

  async #carryOut(faults: readonly Fault[]): Promise<void> {
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

  /** False: there is nobody to be met now. */
  async #try({ kind, whom, ms }: Fault): Promise<boolean> {
    const { crew, database, proxy } = this.#parts;
    switch (kind) {
      case "kill":
        return this.#say(kind, crew.kill(whom));
      case "freeze": {
        const frozen = crew.freeze(whom, ms);
        if (frozen !== null) this.#lasting.push(frozen.thawed);
        return this.#say(kind, frozen?.name ?? null);
      }
      case "block":
        return this.#say(kind, crew.block(whom, ms));
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
    const { restart, journal } = this.#parts;
    if (restart === null) return false;
    journal.say({ f: "fault", kind: "restart" });
    await restart();
    journal.say({ f: "fault", kind: "back" });
    return true;
  }

  #say(kind: FaultKind, worker: string | null): boolean {
    if (worker === null) return false;
    this.#parts.journal.say({ f: "fault", kind, worker });
    return true;
  }
}
