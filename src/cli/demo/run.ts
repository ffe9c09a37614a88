/** One run of the demo, from the empty folder to the verdict. Whatever happens, it leaves nothing behind. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep, systemRuntime } from "../../core/runtime.ts";
import { randomFrom } from "../../core/seeded.ts";
import { checkWhole } from "../../core/check.ts";
import { openHoldfast, type Holdfast } from "../../worker/holdfast.ts";
import { Interrupted } from "../failure.ts";
import { exitCodeAfter, listenForSignals } from "../signals.ts";
import type { Terminal } from "../terminal.ts";
import { Crew } from "./crew.ts";
import { Ledger } from "./ledger.ts";
import { bookingTask, makeOrders } from "./order.ts";
import { planFaults, type Fault } from "./plan.ts";
import { Progress } from "./progress.ts";
import { gather } from "./proof.ts";
import { sayPlan, sayProof } from "./story.ts";

export interface DemoOptions {
  readonly orders: number;
  readonly workers: number;
  readonly seed?: number;
}

interface Run {
  readonly orders: number;
  readonly workers: number;
  readonly seed: number;
  /** Aborts when the run shall end early; the reason is what to throw. */
  readonly end: AbortSignal;
}

const TICK_MS = 100;
/** Longer than any lease, backoff or freeze of the demo takes. */
const STUCK_MS = 30_000;
const SEED_MAX = 2 ** 31 - 1;

export async function runDemo(terminal: Terminal, options: DemoOptions): Promise<void> {
  const orders = checkWhole("--orders", options.orders, { least: 20, most: 100_000 });
  const workers = checkWhole("--workers", options.workers, { least: 2, most: 16 });
  const drawn = options.seed ?? Math.floor(systemRuntime.random() * SEED_MAX);
  const seed = checkWhole("--seed", drawn, { least: 0, most: SEED_MAX });
  const ending = new AbortController();
  const end = AbortSignal.any([ending.signal, terminal.gone]);
  using signals = listenForSignals();
  void signals.first.then((signal) =>
    ending.abort(new Interrupted({ signal, exitCode: exitCodeAfter(signal) })),
  );
  const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  try {
    await runIn(folder, terminal, { orders, workers, seed, end });
  } catch (error) {
    // Nobody reads the story any more, so there is nobody to tell its end.
    if (!terminal.gone.aborted) throw error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runIn(folder: string, terminal: Terminal, run: Run): Promise<void> {
  const startedAt = systemRuntime.monotonic();
  const url = `sqlite:${join(folder, "shop.db")}`;
  const random = randomFrom(run.seed);
  await using holdfast = await openHoldfast(url);
  const ledger = new Ledger(holdfast.store);
  await ledger.create();
  const orders = makeOrders(run.orders, random);
  const faults = planFaults(run.orders, random);
  sayPlan(terminal, run, faults);
  const accepted = await holdfast.enqueueMany(bookingTask(ledger), orders);
  const crew = new Crew({ url, store: holdfast.store, size: run.workers, random });
  try {
    await untilDone({ holdfast, crew, faults, terminal, run, startedAt });
    await crew.stop();
    const evidence = await gather({ holdfast, ledger, crew, orders, accepted });
    sayProof(terminal, evidence, { seed: run.seed, ms: systemRuntime.monotonic() - startedAt });
  } finally {
    await crew.destroy();
  }
}

/** Watches the orders and strikes by the plan, until all are done and nobody is frozen any more. */
async function untilDone(parts: {
  holdfast: Holdfast;
  crew: Crew;
  faults: readonly Fault[];
  terminal: Terminal;
  run: Run;
  startedAt: number;
}): Promise<void> {
  const { holdfast, crew, terminal, run, startedAt } = parts;
  const progress = new Progress(terminal);
  const faults = [...parts.faults];
  let best = { done: -1, at: startedAt };
  try {
    for (;;) {
      run.end.throwIfAborted();
      if (crew.failure !== null) throw crew.failure;
      const done = await countDone(holdfast);
      const now = systemRuntime.monotonic();
      progress.show({ orders: run.orders, done, crew, elapsedMs: now - startedAt });
      await crew.thaw();
      if (done === run.orders && !crew.anyFrozen) return;
      const next = faults[0];
      if (next !== undefined && next.afterOrders <= done && (await crew.strike(next))) {
        faults.shift();
      }
      if (done > best.done) best = { done, at: now };
      else if (now - best.at > STUCK_MS) return; // The proof will say what is missing.
      await sleep(systemRuntime, TICK_MS, { signal: run.end });
    }
  } finally {
    progress.end();
  }
}

async function countDone(holdfast: Holdfast): Promise<number> {
  const queues = await holdfast.stats();
  return queues.reduce((sum, { counts }) => sum + counts.done, 0);
}
