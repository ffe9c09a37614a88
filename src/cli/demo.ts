/**
 * `holdfast demo`: a thousand orders, workers that are killed and frozen at random, and a proof at the end that nothing
 * was lost and nothing was done twice.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { HoldfastError } from "../core/errors.ts";
import { sleep, systemRuntime } from "../core/runtime.ts";
import { checkWhole } from "../queue/options.ts";
import { openHoldfast, type Holdfast } from "../worker/holdfast.ts";
import { wholeNumber } from "./arguments.ts";
import { Crew } from "./demo/crew.ts";
import { Ledger } from "./demo/ledger.ts";
import { bookingTask, makeOrders } from "./demo/order.ts";
import { planFaults, randomFrom, type Fault } from "./demo/plan.ts";
import { Progress, seconds } from "./demo/progress.ts";
import { gather, problemsIn, type Evidence } from "./demo/proof.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals } from "./signals.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count } from "./words.ts";

interface Options {
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

class ProofFailed extends HoldfastError {
  constructor(facts: { problems: readonly string[]; seed: number }) {
    super(
      "PROOF_FAILED",
      `NOT PROVED: ${facts.problems.join("; ")}. Please report it with the seed ${facts.seed}.`,
    );
  }
}

export function demoCommand(terminal: Terminal): Command {
  return new Command("demo")
    .description("kill workers at random, and prove that nothing is lost or done twice")
    .option("--orders <n>", "how many orders", wholeNumber, 1_000)
    .option("--workers <n>", "how many worker processes", wholeNumber, 4)
    .option("--seed <n>", "repeats the plan of an earlier run", wholeNumber)
    .action((options: Options) => demo(terminal, options));
}

async function demo(terminal: Terminal, options: Options): Promise<void> {
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
  const { orders: howMany, workers, seed } = run;
  const url = `sqlite:${join(folder, "shop.db")}`;
  const random = randomFrom(seed);
  const startedAt = systemRuntime.monotonic();
  await using holdfast = await openHoldfast(url);
  const ledger = new Ledger(holdfast.store);
  await ledger.create();
  const orders = makeOrders(howMany, random);
  const faults = planFaults(howMany, random);
  sayPlan(terminal, run, faults);
  const accepted = await holdfast.enqueueMany(bookingTask(ledger), orders);
  const crew = new Crew({ url, store: holdfast.store, size: workers, random });
  try {
    await untilDone({ holdfast, crew, faults, terminal, run, startedAt });
    await crew.stop();
    const evidence = await gather({ holdfast, ledger, crew, orders, accepted });
    sayProof(terminal, evidence, { seed, ms: systemRuntime.monotonic() - startedAt });
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
      progress.show({ ...run, ...standing(crew), done, elapsedMs: now - startedAt });
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
    progress.clear();
  }
}

function standing({ health, kills, freezes }: Crew) {
  return { crew: health, kills, freezes };
}

async function countDone(holdfast: Holdfast): Promise<number> {
  const queues = await holdfast.stats();
  return queues.reduce((sum, { counts }) => sum + counts.done, 0);
}

function sayPlan(
  terminal: Terminal,
  { orders, workers, seed }: Run,
  faults: readonly Fault[],
): void {
  if (terminal.json) return;
  const kills = faults.filter(({ kind }) => kind === "kill").length;
  const freezes = faults.length - kills;
  const { bold, dim } = terminal.colors;
  terminal.print(
    `${bold(`${count(orders)} orders`)}, ${workers} worker processes, one SQLite file. On the way:`,
    `${kills} kill -9 and ${freezes} freezes at random. ${dim(`(--seed ${seed} repeats the plan)`)}`,
    "",
  );
}

function sayProof(
  terminal: Terminal,
  evidence: Evidence,
  { seed, ms }: { seed: number; ms: number },
): void {
  const problems = problemsIn(evidence);
  const proved = problems.length === 0;
  if (terminal.json) {
    terminal.printJson({ proved, seed, ms: Math.round(ms), ...evidence, problems });
  } else {
    terminal.print(...proofTable(terminal, evidence), "");
  }
  if (!proved) throw new ProofFailed({ problems, seed });
  if (terminal.json) return;
  const { bold, green } = terminal.colors;
  const verdict = `PROVED in ${seconds(ms)}: nothing was lost, nothing was booked twice.`;
  terminal.print(bold(green(verdict)));
}

function proofTable({ colors, columns }: Terminal, evidence: Evidence): string[] {
  const { green, red, dim } = colors;
  const must = (held: boolean): Cell =>
    held ? { text: "✓", paint: green } : { text: "✗ broken", paint: red };
  const note = (text: string): Cell => ({ text, paint: dim });
  const { accepted, booked, centsAsked, centsBooked, takenOver, staleWritesRefused } = evidence;
  const rows: [string, string, Cell][] = [
    ["orders accepted", count(accepted), note("")],
    ["orders booked", count(booked), must(booked === accepted)],
    ["orders lost", count(evidence.lost), must(evidence.lost === 0)],
    ["orders booked twice", count(evidence.bookedTwice), must(evidence.bookedTwice === 0)],
    ["jobs not done exactly once", count(evidence.notDoneOnce), must(evidence.notDoneOnce === 0)],
    ["jobs left over", count(evidence.unfinished), must(evidence.unfinished === 0)],
    ["money in the till", money(centsBooked), must(centsBooked === centsAsked)],
    ["workers killed with kill -9", count(evidence.kills), must(evidence.kills > 0)],
    ["workers frozen past their lease", count(evidence.freezes), note("")],
    ["leases recovered", count(evidence.leasesRecovered), note("orders of the dead and frozen")],
    [
      "late writes refused",
      count(staleWritesRefused),
      takenOver > 0 ? must(staleWritesRefused > 0) : note(""),
    ],
    ["attempts repeated", count(evidence.attemptsRepeated), note("")],
    ["bookings tried again", count(evidence.bookingsRepeated), note("and found booked")],
  ];
  const [, ...lines] = table({
    columns: [{ title: "" }, { title: "", align: "right" }, { title: "", flexible: true }],
    rows,
    width: columns === null ? null : columns - 2,
  });
  return lines.map((line) => `  ${line}`);
}

function money(cents: number): string {
  return (cents / 100).toLocaleString("en-US", { minimumFractionDigits: 2 });
}
