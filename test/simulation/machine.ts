/**
 * A simulated process: its own clocks, its own chance, and a life that can end or stand still.
 *
 * All that runs in it runs in moments that belong to it. So a machine that crashed is one whose moments never come, and a
 * machine that is paused is one whose moments come late.
 */
import { noGauge, type Runtime } from "../../src/core/runtime.ts";
import type { Chance } from "./chance.ts";
import { START_AT, type Moment, type Owner, type World } from "./world.ts";

export interface Clocks {
  /** How far its wall clock is off. */
  readonly skewMs: number;
  /** How fast its monotonic clock goes. */
  readonly rate: number;
}

export class Machine implements Owner {
  readonly name: string;
  readonly world: World;
  readonly backlog: Moment[] = [];
  readonly runtime: Runtime;
  readonly chance: Chance;
  life: "up" | "paused" | "dead" = "up";
  /** How much time went by that its monotonic clock has not seen. */
  #missedMs = 0;
  #pausedAt = 0;
  /** Told when the machine can not go on with what it has open in the database. */
  readonly onCut = new Set<() => void>();

  constructor(name: string, world: World, clocks: Clocks) {
    this.name = name;
    this.world = world;
    this.chance = world.chance(name);
    this.runtime = this.#runtime(clocks);
  }

  /** Nothing of it ever goes on. */
  crash(): void {
    if (this.life === "dead") return;
    this.world.trace.say(this.name, "CRASHED");
    this.life = "dead";
    this.#cut();
  }

  pause(): void {
    if (this.life !== "up") return;
    this.world.trace.say(this.name, "PAUSED");
    this.life = "paused";
    this.#pausedAt = this.world.nowMs;
    this.#cut();
  }

  /** A machine that was asleep as a whole has not noticed: its monotonic clock stood still too. */
  resume(hasNoticed = true): void {
    if (this.life !== "paused") return;
    this.world.trace.say(this.name, hasNoticed ? "RESUMED" : "RESUMED, as if no time had passed");
    this.life = "up";
    if (!hasNoticed) this.#missedMs += this.world.nowMs - this.#pausedAt;
    this.world.release(this);
  }

  /** What a task does outside the database takes time. */
  work(ms: number, what: string): Promise<void> {
    return new Promise((resolve) => void this.world.after(ms, this, what, resolve));
  }

  /** A database ends the session of a client that is gone or says nothing. */
  #cut(): void {
    for (const cut of this.onCut) cut();
    this.onCut.clear();
  }

  #runtime({ skewMs, rate }: Clocks): Runtime {
    const { world, chance } = this;
    return {
      now: () => START_AT + Math.floor(world.nowMs + skewMs),
      monotonic: () => (world.nowMs - this.#missedMs) * rate,
      random: chance.draw,
      fillRandom: (bytes) => chance.fill(bytes),
      timer: (ms, call) => world.after(Math.max(1, Math.trunc(ms)) / rate, this, "timer", call),
      afterIo: (call) => void world.after(0, this, "after io", call),
      gauge: () => noGauge,
    };
  }
}
