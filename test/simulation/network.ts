/** What is on its way between machines and the database, and what becomes of it. */
import type { Timer } from "../../src/core/runtime.ts";
import type { Hint } from "../../src/database/engine.ts";
import type { Chance } from "./chance.ts";
import type { Database } from "./database.ts";
import type { Machine } from "./machine.ts";
import { callFaults, type CallFault, type Plan } from "./plan.ts";
import type { World } from "./world.ts";

/** How much longer a slow call takes, and how much later one arrives that was given up. */
const SLOW_MS = 400;
/** Some are so slow that a lease ends meanwhile. */
const VERY_SLOW_SHARE = 0.3;
const VERY_SLOW_MS = 5_000;
const LATE_MS = 600;
const HINT_MS = 30;

export interface Passage {
  readonly number: number;
  readonly fault: CallFault | null;
  readonly thereMs: number;
  readonly backMs: number;
  /** The number that the database has for the connection. */
  readonly session: number;
}

export class Network {
  readonly #world: World;
  readonly #plan: Plan;
  readonly #chance: Chance;
  readonly #database: Database;
  readonly #sent = new Map<Machine, Timer[]>();
  readonly #late = new Map<number, Timer>();
  readonly #heldUntil = new Map<Machine, number>();
  readonly #listeners = new Set<{ machine: Machine; hear: (hint: Hint) => void }>();
  #calls = 0;
  /** Nothing fails any more, and nothing takes long. */
  #isCalm = false;

  constructor(world: World, plan: Plan, database: Database) {
    this.#world = world;
    this.#plan = plan;
    this.#database = database;
    this.#chance = world.chance("network");
    database.busyShare = plan.lockedShare;
  }

  calm(): void {
    this.#isCalm = true;
    this.#heldUntil.clear();
    this.#database.busyShare = 0;
  }

  draw(machine: Machine, kind: "read" | "write" | "transaction"): Passage {
    const { latencyMs } = this.#plan;
    const chance = this.#chance;
    this.#calls += 1;
    const fault = this.#isCalm ? null : this.#drawFault(kind);
    if (fault !== null) {
      this.#world.coverage.hit(`fault: ${fault}`);
      this.#world.trace.say(machine.name, `#${this.#calls} will be ${fault}`);
    }
    const slowMs = fault === "slow" ? this.#drawSlow() : 0;
    const heldMs = Math.max(0, (this.#heldUntil.get(machine) ?? 0) - this.#world.nowMs);
    const lateMs = fault === "late" ? chance.between(0, LATE_MS) : 0;
    return {
      number: this.#calls,
      session: this.#calls,
      fault: fault === "slow" ? null : fault,
      thereMs: chance.between(0, latencyMs) + slowMs + lateMs + heldMs,
      backMs: chance.between(0, latencyMs) + (slowMs > 0 ? chance.between(0, SLOW_MS) : 0),
    };
  }

  /** What a machine sends from now on arrives when this time is over. */
  hold(machine: Machine, ms: number): void {
    this.#heldUntil.set(machine, this.#world.nowMs + ms);
  }

  #drawSlow(): number {
    const isVery = this.#chance.isHit(VERY_SLOW_SHARE);
    return this.#chance.between(0, isVery ? VERY_SLOW_MS : SLOW_MS);
  }

  #drawFault(kind: "read" | "write" | "transaction"): CallFault | null {
    const drawn = callFaults.find((fault) => this.#chance.isHit(this.#plan.callFaults[fault]));
    if (drawn === undefined) return null;
    if (drawn === "made again" && kind !== "transaction") return null;
    // A read that was lost has only failed.
    if (kind === "read" && drawn !== "slow" && drawn !== "busy") return "refused";
    return drawn;
  }

  /** A request of a machine: if that crashes before it arrives, it may never do so. */
  send(machine: Machine, request: Timer): void {
    const sent = this.#sent.get(machine) ?? [];
    sent.push(request);
    this.#sent.set(machine, sent);
  }

  /** Of what a machine sent just before it crashed, some is lost. */
  lose(machine: Machine): void {
    for (const request of this.#sent.get(machine) ?? [])
      if (this.#chance.isHit(0.5)) request.cancel();
    this.#sent.delete(machine);
  }

  /** A request that its sender has given up, and that is still on its way. */
  remember(session: number, request: Timer): void {
    this.#late.set(session, request);
  }

  /** The database ends a session: what was on its way in it never arrives. */
  forget(session: number): void {
    this.#late.get(session)?.cancel();
    this.#late.delete(session);
  }

  listen(machine: Machine, hear: (hint: Hint) => void): () => void {
    const listener = { machine, hear };
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A hint may come late, twice, or not at all; also when nothing else fails. */
  tell(from: Machine, hint: Hint): void {
    for (const { machine, hear } of this.#listeners) {
      if (machine === from || machine.life === "dead") continue;
      if (this.#chance.isHit(this.#plan.hintsLost)) {
        this.#world.coverage.hit("fault: a hint is lost");
        continue;
      }
      const times = this.#chance.isHit(0.05) ? 2 : 1;
      for (let time = 0; time < times; time += 1) {
        this.#world.after(this.#chance.between(0, HINT_MS), machine, "hint", () => hear(hint));
      }
    }
  }
}
