/**
 * The machines that run workers: started, crashed, paused, stopped and started again.
 *
 * A machine that crashed is never seen again; its place is taken by a new one.
 */
import { openHoldfast } from "../../src/index.ts";
import type { Holdfast } from "../../src/app/holdfast.ts";
import type { Worker } from "../../src/worker/worker.ts";
import { silentLogger, type Logger } from "../../src/core/log.ts";
import type { Bank } from "./bank.ts";
import type { Chance } from "./chance.ts";
import type { Database } from "./database.ts";
import { FaultyEngine } from "./faulty-engine.ts";
import type { History } from "./history.ts";
import { Machine } from "./machine.ts";
import type { Network } from "./network.ts";
import {
  GOVERNED,
  GRACE_MS,
  LEASE_MS,
  machineFaults,
  type MachineFault,
  type Plan,
} from "./plan.ts";
import { recordingStore } from "./recording-store.ts";
import { tasksAt, type Place } from "./tasks.ts";
import { noMachine, type World } from "./world.ts";

const RESTART_MS = [100, 1_500] as const;
const VERSION = "simulated";

export interface Parts {
  readonly world: World;
  readonly plan: Plan;
  readonly database: Database;
  readonly network: Network;
  readonly history: History;
  readonly bank: Bank;
}

/** Room for one machine at a time. */
interface Post {
  readonly name: string;
  started: number;
  machine: Machine | null;
  holdfast: Holdfast | null;
  worker: Worker | null;
}

export class Crew {
  readonly #parts: Parts;
  readonly #chance: Chance;
  readonly #posts: readonly Post[];
  #tokens = 0;
  #isClosing = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#chance = parts.world.chance("crew");
    this.#posts = Array.from({ length: parts.plan.machines }, (_, index) => ({
      name: `w${index + 1}`,
      started: 0,
      machine: null,
      holdfast: null,
      worker: null,
    }));
  }

  start(): void {
    for (const post of this.#posts) this.#startLater(post, this.#chance.between(0, 50));
    for (const fault of machineFaults) this.#strikeLater(fault);
  }

  /** Paused machines resume, and no more faults strike. */
  heal(): void {
    for (const { machine } of this.#posts) machine?.resume();
  }

  /** Closes every Holdfast, as an application does when it ends. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(this.#posts.map(async ({ holdfast }) => holdfast?.close()));
  }

  /** Nothing of anybody goes on. */
  crashAll(): void {
    for (const { machine } of this.#posts) machine?.crash();
  }

  #startLater(post: Post, ms: number): void {
    if (this.#isClosing) return;
    this.#parts.world.after(ms, noMachine, `${post.name} starts`, () => void this.#startAt(post));
  }

  async #startAt(post: Post): Promise<void> {
    const { plan } = this.#parts;
    post.started += 1;
    const machine = this.#newMachine(`${post.name}.${post.started}`);
    post.machine = machine;
    try {
      post.holdfast = await openAt(machine, this.#parts);
      post.worker = await post.holdfast.startWorker({
        name: "sim",
        tasks: Object.values(tasksAt(this.#place(machine, post))),
        ...(plan.limits === null ? {} : { queues: ["default", GOVERNED] }),
        concurrency: plan.concurrency,
        lease: LEASE_MS,
        grace: GRACE_MS,
        maxCrashes: plan.crashes,
        poll: 1_000,
        maintenanceInterval: 200,
        heartbeat: 1_000,
        heartbeatTimeout: 4_000,
        stoppingTimeout: 6_000,
        shutdown: 1_000,
      });
    } catch {
      // A process that can not start ends, and is started again.
      machine.crash();
      this.#replace(post);
    }
  }

  #newMachine(name: string): Machine {
    const { world, plan } = this.#parts;
    const skewMs = this.#chance.between(-plan.skewMs, plan.skewMs);
    const rate = 1 + this.#chance.between(-plan.drift, plan.drift);
    if (plan.skewMs > 0) world.coverage.hit("fault: a wall clock is wrong");
    if (plan.drift > 0) world.coverage.hit("fault: a monotonic clock is fast or slow");
    return new Machine(name, world, { skewMs, rate });
  }

  #place(machine: Machine, post: Post): Place {
    const { plan, bank, history, database, world } = this.#parts;
    return {
      machine,
      plan,
      bank,
      note: (note) =>
        void history.notes.push({
          ...note,
          tx: database.transactions,
          at: world.databaseNow,
          monotonicAt: machine.runtime.monotonic(),
        }),
      crash: () => {
        world.coverage.hit("fault: a task kills its machine");
        this.#crash(post);
      },
      token: (prefix) => {
        this.#tokens += 1;
        return `${prefix}-${this.#tokens}`;
      },
    };
  }

  // ── What happens to them ─────────────────────────────────────────────────────────────────────

  #strikeLater(fault: MachineFault): void {
    const { world, plan } = this.#parts;
    const everyMs = plan.machineFaults[fault];
    if (everyMs === 0) return;
    const waitMs = -Math.log(1 - this.#chance.draw()) * everyMs;
    if (world.nowMs + waitMs >= plan.chaosMs) return;
    world.after(waitMs, noMachine, `a ${fault}`, () => {
      this.#strike(fault);
      this.#strikeLater(fault);
    });
  }

  #strike(fault: MachineFault): void {
    const { world, network } = this.#parts;
    const post = this.#chance.pick(this.#posts);
    if (post.machine?.life !== "up") return;
    if (fault === "stop" && post.worker === null) return;
    world.coverage.hit(`fault: ${fault} of a machine`);
    if (fault === "crash") this.#crash(post);
    if (fault === "pause") this.#pause(post.machine, true);
    if (fault === "sleep") this.#pause(post.machine, false);
    if (fault === "hold") network.hold(post.machine, this.#lateMs());
    if (fault === "stop") void this.#stop(post);
  }

  #crash(post: Post): void {
    const { machine } = post;
    if (machine === null || machine.life === "dead") return;
    machine.crash();
    this.#parts.network.lose(machine);
    this.#replace(post);
  }

  #pause(machine: Machine, hasNoticed: boolean): void {
    const { world } = this.#parts;
    machine.pause();
    world.after(this.#lateMs(), noMachine, `${machine.name} may go on`, () =>
      machine.resume(hasNoticed),
    );
  }

  /** Mostly long enough for another machine to take its jobs over. */
  #lateMs(): number {
    return this.#chance.between(0.5, 3) * LEASE_MS;
  }

  async #stop(post: Post): Promise<void> {
    const { machine, holdfast, worker } = post;
    this.#parts.world.trace.say(post.name, "is asked to stop");
    post.worker = null;
    try {
      await worker?.stop({ timeout: this.#chance.pick([0, 300, 1_000]) });
      await holdfast?.close();
    } finally {
      if (post.machine === machine && machine?.life === "up") {
        machine.crash();
        this.#replace(post);
      }
    }
  }

  #replace(post: Post): void {
    post.machine = null;
    post.holdfast = null;
    post.worker = null;
    this.#startLater(post, this.#chance.between(...RESTART_MS));
  }
}

/** A Holdfast on a machine. */
export async function openAt(machine: Machine, parts: Parts): Promise<Holdfast> {
  const { database, network, plan, history } = parts;
  const engine = new FaultyEngine({
    inner: database.engine,
    statements: database.statements,
    machine,
    network,
    pollCycles: plan.pollCycles,
  });
  const recorder = {
    who: machine.name,
    calls: history.calls,
    now: () => database.transactions,
    monotonic: () => machine.runtime.monotonic(),
  };
  return openHoldfast(recordingStore(engine, recorder), {
    migrate: false,
    runtime: machine.runtime,
    version: VERSION,
    logger: parts.world.trace.isPrinted ? printed(machine) : silentLogger,
  });
}

/** What the product logs is part of a trace that a person reads. */
function printed(machine: Machine): Logger {
  const say = (_facts: object, message: string): void =>
    machine.world.trace.show(machine.name, `log: ${message}`);
  return { debug: () => {}, info: say, warn: say, error: say };
}
