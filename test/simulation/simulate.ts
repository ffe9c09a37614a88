/** One seed, from an empty database to the verdict. */
import { Bank } from "./bank.ts";
import { check, type Violation } from "./check/check.ts";
import { Client } from "./client.ts";
import { Coverage } from "./coverage.ts";
import { Crew, type Parts } from "./crew.ts";
import type { Database } from "./database.ts";
import type { History } from "./history.ts";
import { Network } from "./network.ts";
import { GRACE_MS, LEASE_MS, LIVENESS_MS, planOf, type Plan } from "./plan.ts";
import { Trace } from "./trace.ts";
import { noMachine, World } from "./world.ts";

/** How often it is looked whether all jobs have ended. */
const LOOK_MS = 200;
/** How long everything may take to close. */
const CLOSE_MS = 60_000;

export interface Run {
  readonly seed: number;
  readonly plan: Plan;
  readonly violations: readonly Violation[];
  /** Over every decision, every call and every answer. */
  readonly hash: string;
  readonly moments: number;
  readonly virtualMs: number;
  readonly jobs: number;
}

export interface SimulateOptions {
  readonly coverage?: Coverage;
  readonly print?: (line: string) => void;
}

export async function simulate(
  database: Database,
  seed: number,
  { coverage = new Coverage(), print }: SimulateOptions = {},
): Promise<Run> {
  const plan = planOf(seed);
  const trace = new Trace(print ?? null);
  const world = new World({ seed, trace, coverage });
  database.enter(world);
  const bank = new Bank({ chance: world.chance("bank"), coverage, faults: plan.failures });
  const history: History = { calls: [], notes: [], charges: bank.charges, ticks: null };
  const network = new Network(world, plan, database);
  const parts: Parts = { world, plan, database, network, history, bank };
  const stage = new Stage(parts);
  await stage.play();
  const changes = database.changes();
  const tables = database.tables();
  const violations = check({
    changes,
    tables,
    history,
    settings: {
      leaseMs: LEASE_MS,
      graceMs: GRACE_MS,
      maxCrashes: plan.crashes,
      limits: plan.limits,
    },
    stuck: stage.stuck,
    coverage,
  });
  for (const { seq, tx, tbl, op, id, epoch } of changes) {
    trace.say("witness", `${seq} ${tx} ${tbl} ${op} ${id} ${epoch}`);
  }
  return {
    seed,
    plan,
    violations,
    hash: trace.digest(),
    moments: world.happened,
    virtualMs: world.nowMs,
    jobs: tables.job.length,
  };
}

class Stage {
  readonly #parts: Parts;
  readonly #crew: Crew;
  readonly #client: Client;
  /** What did not come to an end in time. */
  stuck: string | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#crew = new Crew(parts);
    this.#client = new Client(parts);
  }

  async play(): Promise<void> {
    const { world, plan, network } = this.#parts;
    this.#crew.start();
    void this.#client.start();
    world.after(plan.chaosMs, noMachine, "the faults end", () => {
      if (plan.mode === "safety") return world.end();
      network.calm();
      this.#crew.heal();
      this.#look(world.nowMs + LIVENESS_MS);
    });
    try {
      await world.run();
    } catch (error) {
      this.stuck = String(error);
    }
    this.#crew.crashAll();
    this.#client.machine.crash();
    await new Promise((resolve) => setImmediate(resolve));
  }

  #look(deadline: number): void {
    const { world, database } = this.#parts;
    const left = database.unfinished();
    if (left === 0 && this.#client.isDone) return this.#close();
    if (world.nowMs >= deadline) {
      this.stuck = `${left} jobs have not ended ${LIVENESS_MS} ms after the faults did`;
      return world.end();
    }
    world.after(LOOK_MS, noMachine, "look", () => this.#look(deadline));
  }

  #close(): void {
    const { world, plan } = this.#parts;
    if (!plan.closes) return world.end();
    world.after(CLOSE_MS, noMachine, "closing took too long", () => {
      this.stuck = `not closed after ${CLOSE_MS} ms`;
      world.end();
    });
    void this.#crew.close().then(() => world.end());
  }
}
