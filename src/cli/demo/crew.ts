/** The demo's worker processes: started, killed, frozen, thawed, started again. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { HoldfastError } from "../../core/errors.ts";
import { sleep, systemRuntime } from "../../core/runtime.ts";
import type { Store } from "../../store/store.ts";
import type { Fault } from "./plan.ts";
import { GRACE_MS, LEASE_MS } from "./settings.ts";
import type { Message } from "./worker-process.ts";

/** How a member of the crew is doing. One that just woke up is left alone until it has seen what it lost. */
export type Health = "starting" | "working" | "frozen" | "waking" | "dead";

const RESTART_MS = { least: 200, most: 600 };
const FROZEN_MS_LEAST = LEASE_MS + GRACE_MS;
const FROZEN_MS_MOST = 8_000;
const WAKING_MS = 1_500;
/** A worker that ends by itself is a bug or a broken machine, not a fault of the demo's. */
const SURPRISES_MAX = 3;
const LEASES_MAX = 1_000;
const STOP_MS_MAX = 10_000;

export class CrewFailed extends HoldfastError {
  constructor(facts: { code: number | null; signal: string | null }) {
    const how = facts.signal ?? `exit code ${facts.code ?? "none"}`;
    super("CREW_FAILED", `The demo's workers keep ending by themselves (${how}). See above why.`);
  }
}

interface Member {
  readonly child: ChildProcess;
  health: Health;
  since: number;
  last: Message | null;
  /** How many orders it held when it was frozen. */
  held: number;
}

export class Crew {
  readonly #url: string;
  readonly #store: Store;
  readonly #random: () => number;
  readonly #members: Member[] = [];
  /** The last words of those that are gone. */
  readonly #former: Message[] = [];
  #stopping = false;
  #surprises = 0;
  kills = 0;
  freezes = 0;
  /** Orders that were taken from a frozen worker, which will try to finish them all the same. */
  takenOver = 0;
  failure: CrewFailed | null = null;

  constructor(parts: { url: string; store: Store; size: number; random: () => number }) {
    this.#url = parts.url;
    this.#store = parts.store;
    this.#random = parts.random;
    for (let place = 0; place < parts.size; place += 1) this.#start(place);
  }

  get health(): Health[] {
    return this.#members.map((member) => member.health);
  }

  /** Outcomes that the database refused, as far as the workers lived to tell. */
  get staleWritesRefused(): number {
    const told = [...this.#former, ...this.#members.map(({ last }) => last)];
    return told.reduce((sum, status) => sum + (status?.staleWritesRefused ?? 0), 0);
  }

  /** Hits a worker that holds orders. False: none can be hit now. */
  async strike({ kind, victim }: Fault): Promise<boolean> {
    const held = await this.#heldBy();
    const working = this.#members.filter(({ health }) => health === "working");
    const able = working.filter(({ last }) => held.has(last?.id ?? ""));
    const member = able[Math.floor(victim * able.length)];
    // Somebody has to be left to take a frozen worker's orders.
    if (member === undefined || (kind === "freeze" && working.length < 2)) return false;
    if (kind === "kill") {
      this.kills += 1;
      member.child.kill("SIGKILL");
      this.#become(member, "dead");
    } else {
      this.freezes += 1;
      member.held = held.get(member.last?.id ?? "") ?? 0;
      member.child.kill("SIGSTOP");
      this.#become(member, "frozen");
    }
    return true;
  }

  /** Wakes those whose orders somebody else has by now. */
  async thaw(): Promise<void> {
    this.#settleDown();
    const frozen = this.#members.filter(({ health }) => health === "frozen");
    if (frozen.length === 0) return;
    const held = await this.#heldBy();
    for (const member of frozen) {
      const frozenMs = systemRuntime.monotonic() - member.since;
      const left = held.get(member.last?.id ?? "") ?? 0;
      if (frozenMs < FROZEN_MS_LEAST || (left > 0 && frozenMs < FROZEN_MS_MOST)) continue;
      this.takenOver += member.held - left;
      member.child.kill("SIGCONT");
      this.#become(member, "waking");
    }
  }

  get anyFrozen(): boolean {
    return this.#members.some(({ health }) => health === "frozen");
  }

  /** Lets everybody finish and say a last word. Whoever takes too long is ended without it. */
  async stop(): Promise<void> {
    const asked = this.#end((child) => void child.send("stop", () => {}));
    await Promise.race([asked, sleep(systemRuntime, STOP_MS_MAX, { kind: "background" })]);
    await this.destroy();
  }

  /** Ends everybody at once, the frozen ones too. */
  async destroy(): Promise<void> {
    await this.#end((child) => void child.kill("SIGKILL"));
  }

  async #end(tell: (child: ChildProcess) => void): Promise<void> {
    this.#stopping = true;
    await Promise.all(
      this.#members.map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const exited = once(child, "exit");
        tell(child);
        await exited;
      }),
    );
  }

  #start(place: number): void {
    const child = fork(processFile(), [this.#url], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    const since = systemRuntime.monotonic();
    const member: Member = { child, health: "starting", since, last: null, held: 0 };
    this.#members[place] = member;
    child.on("message", (message) => {
      member.last = message as Message;
      if (member.health === "starting") this.#become(member, "working");
    });
    child.on("exit", (code, signal) => {
      const surprise = member.health !== "dead" && !this.#stopping;
      this.#become(member, "dead");
      if (surprise) this.#noteSurprise(code, signal);
      if (!this.#stopping && this.failure === null) this.#restart(place, member);
    });
  }

  #restart(place: number, { last }: Member): void {
    const { least, most } = RESTART_MS;
    systemRuntime.timer(least + this.#random() * (most - least), () => {
      if (this.#stopping) return;
      if (last !== null) this.#former.push(last);
      this.#start(place);
    });
  }

  #noteSurprise(code: number | null, signal: string | null): void {
    this.#surprises += 1;
    if (this.#surprises > SURPRISES_MAX) this.failure ??= new CrewFailed({ code, signal });
  }

  #settleDown(): void {
    const now = systemRuntime.monotonic();
    for (const member of this.#members) {
      const awake = member.health === "waking" && now - member.since > WAKING_MS;
      if (awake) this.#become(member, "working");
    }
  }

  #become(member: Member, health: Health): void {
    member.health = health;
    member.since = systemRuntime.monotonic();
  }

  /** How many orders each worker holds, by its id. */
  async #heldBy(): Promise<Map<string, number>> {
    const active = await this.#store.leases({ state: "active", limit: LEASES_MAX });
    const expired = await this.#store.leases({ state: "expired", limit: LEASES_MAX });
    const held = new Map<string, number>();
    for (const { worker } of [...active, ...expired]) held.set(worker, (held.get(worker) ?? 0) + 1);
    return held;
  }
}

/** Sources run as they are in a checkout; the published package has JavaScript only. */
function processFile(): URL {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return new URL(`./worker-process.${extension}`, import.meta.url);
}
