/**
 * `holdfast demo`: the torture kit as a story. A shop takes orders and charges for them while its workers are killed and
 * frozen; the kit's checker proves that no order was lost and none was paid twice.
 */
import { Command } from "commander";
import { HoldfastError } from "../src/core/errors.ts";
import { checkWhole } from "../src/core/options.ts";
import { sleep, systemRuntime } from "../src/core/runtime.ts";
import { wholeNumber } from "../src/terminal/arguments.ts";
import { type Cell, count, counted } from "../src/terminal/table.ts";
import type { CommandKit, Terminal } from "../src/terminal/terminal.ts";
import { factTable, runKit, seconds } from "./command.ts";
import type { DemoDashboard } from "./demo-dashboard.ts";
import type { Plan } from "./plan.ts";
import type { Progress, Report } from "./verify.ts";

interface Options {
  readonly url?: string;
  readonly orders: number;
  readonly workers: number;
  readonly seed?: number;
}

const BAR_WIDTH = 24;

const PROBLEMS_SHOWN = 5;

/** The longest that the demo stays open. */
const STAY_MS_MAX = 3_600_000;

class ProofFailedError extends HoldfastError {
  constructor({ problems, seed }: { problems: readonly string[]; seed: number }) {
    const shown = problems.slice(0, PROBLEMS_SHOWN).join("; ");
    const more =
      problems.length > PROBLEMS_SHOWN ? `; and ${problems.length - PROBLEMS_SHOWN} more` : "";
    super("PROOF_FAILED", `NOT PROVED: ${shown}${more}. Please report it with the seed ${seed}.`);
  }
}

export function demoCommand({ terminal }: CommandKit<unknown>): Command {
  return new Command("demo")
    .description("kill workers at random, and prove that nothing is lost or done twice")
    .option(
      "--url <url>",
      "the server, or a SQLite file next to which it creates one (default: a temporary file)",
    )
    .option("--orders <n>", "how many orders", wholeNumber, 1_000)
    .option("--workers <n>", "how many worker processes", wholeNumber, 4)
    .option("--seed <n>", "repeat the plan of an earlier run", wholeNumber)
    .action((options: Options) => run(terminal, options));
}

async function run(terminal: Terminal, options: Options): Promise<void> {
  const orders = checkWhole("--orders", options.orders, { least: 20, most: 100_000 });
  const workers = checkWhole("--workers", options.workers, { least: 2, most: 16 });
  const { demoPreset } = await import("./plan.ts");
  const { openDashboard } = await import("./demo-dashboard.ts");
  let dashboard: DemoDashboard | null = null;
  await runKit(terminal, {
    url: options.url,
    seed: options.seed,
    preset: demoPreset({ orders, workers }),
    beside: async (holdfast) => (dashboard = await openDashboard(holdfast)),
    onStart: ({ database, plan }) => showPlan(terminal, { database, plan, url: dashboard?.url }),
    line: (progress) => (terminal.live ? barOf(terminal, progress) : lineOf(progress)),
    onReport: async (report, signal) => {
      showProof(terminal, report);
      if (terminal.live) await stay(terminal, signal);
    },
  });
}

/** So that the user can look around on the dashboard after the proof. */
async function stay(terminal: Terminal, signal: AbortSignal): Promise<void> {
  terminal.print(terminal.colors.dim("The dashboard stays open. Ctrl-C ends the demo."));
  await sleep(systemRuntime, STAY_MS_MAX, { signal });
}

function showPlan(
  terminal: Terminal,
  { database, plan, url }: { database: string; plan: Plan; url: string | undefined },
): void {
  if (terminal.json) return;
  const { jobs, workers, faults, seed } = plan;
  const kills = faults.filter(({ kind }) => kind === "kill").length;
  const { bold, dim } = terminal.colors;
  terminal.print(
    `${bold(`${count(jobs)} orders`)} on ${database}, and ${workers} worker processes that charge and book them.`,
    `At random, ${kills}× kill -9 and ${faults.length - kills}× frozen past the lease. ${dim(`(--seed ${seed})`)}`,
    `Watch it live: ${bold(`${url}/?range=15m`)}`,
    "",
  );
}

function barOf({ colors }: Terminal, { done, jobs, workers, faults, elapsedMs }: Progress): string {
  const { green, dim, red, cyan } = colors;
  const filled = Math.floor((BAR_WIDTH * done) / jobs);
  const bar = green("█".repeat(filled)) + dim("░".repeat(BAR_WIDTH - filled));
  const marks = { starting: dim("○"), working: green("●"), frozen: cyan("❄"), dead: red("✗") };
  const met = `${red(`${faults.kill ?? 0} killed`)}  ${cyan(`${faults.freeze ?? 0} frozen`)}`;
  const processes = workers.map((health) => marks[health]).join(" ");
  return `  ${bar}  ${count(done)}/${count(jobs)}  ${met}  ${processes}  ${dim(seconds(elapsedMs))}`;
}

function lineOf({ done, jobs, faults, elapsedMs }: Progress): string {
  const met = `${counted(faults.kill ?? 0, "worker")} killed, ${faults.freeze ?? 0} frozen`;
  return `  ${count(done)} of ${count(jobs)} orders done after ${seconds(elapsedMs)}; ${met}`;
}

type Proof = ReturnType<typeof proofOf>;

/** `problems` are sentences that contradict the promise; empty when it held. */
export function proofOf(report: Report) {
  const { effects, faults, violations } = report;
  const accepted = report.accepted.ok;
  const done = report.byStatus["done"] ?? 0;
  const kills = faults.kill ?? 0;
  const broken = violations.map(({ invariant, job, sentence }) =>
    [invariant, job, sentence].filter((word) => word !== undefined).join(" "),
  );
  const checks: [boolean, string][] = [
    [done !== accepted, `${done} orders are done, but ${accepted} were accepted`],
    [effects.charged !== accepted, `${effects.charged} payments for ${accepted} orders`],
    [effects.booked !== accepted, `${effects.booked} bookings for ${accepted} orders`],
    [kills === 0, "no worker was killed, so nothing was proved"],
  ];
  return {
    accepted,
    done,
    lost: Math.max(0, accepted - done),
    paid: effects.charged,
    booked: effects.booked,
    doubled: effects.doubled,
    cents: effects.cents,
    kills,
    freezes: faults.freeze ?? 0,
    leasesRecovered: report.crashed,
    staleWritesRefused: report.refused,
    attemptsRepeated: report.attempts - report.jobs,
    paymentsLookedUp: effects.asked,
    problems: [...checks.filter(([wrong]) => wrong).map(([, words]) => words), ...broken],
  };
}

/** Throws when the promise was broken. */
function showProof(terminal: Terminal, report: Report): void {
  const { seed, ms, database } = report;
  const proof = proofOf(report);
  const { problems, accepted, paid, doubled, lost } = proof;
  const proved = problems.length === 0;
  if (terminal.json) terminal.printJson({ proved, database, seed, ms, ...proof });
  else terminal.print(...proofTable(terminal, proof, report), "");
  if (!proved) throw new ProofFailedError({ problems, seed });
  if (terminal.json) return;
  const { bold, green } = terminal.colors;
  const what = `${count(accepted)} orders, ${count(paid)} payments, ${doubled} doubled, ${lost} lost`;
  terminal.print(bold(green(`PROVED in ${seconds(ms)}: ${what}.`)));
}

function proofTable({ colors, columns }: Terminal, proof: Proof, report: Report): string[] {
  const { green, red, dim } = colors;
  const must = (held: boolean): Cell =>
    held ? { text: "✓", paint: green } : { text: "✗ broken", paint: red };
  const note = (text: string): Cell => ({ text, paint: dim });
  const { accepted } = proof;
  const violations = report.violations.length;
  const money = (proof.cents / 100).toLocaleString("en-US", { minimumFractionDigits: 2 });
  return factTable(columns, [
    ["orders accepted", count(accepted), note("")],
    ["orders done", count(proof.done), must(proof.done === accepted)],
    ["orders lost", count(proof.lost), must(proof.lost === 0)],
    ["payments", count(proof.paid), must(proof.paid === accepted)],
    ["paid or booked twice", count(proof.doubled), must(proof.doubled === 0)],
    ["money at the bank", money, note("each payment matches its order")],
    ["promises broken", count(violations), must(violations === 0)],
    ["workers killed with kill -9", count(proof.kills), must(proof.kills > 0)],
    ["workers frozen past their lease", count(proof.freezes), note("")],
    ["leases recovered", count(proof.leasesRecovered), note("orders of dead and frozen workers")],
    ["late writes refused", count(proof.staleWritesRefused), note("from workers that woke up")],
    ["attempts repeated", count(proof.attemptsRepeated), note("")],
    ["payments looked up", count(proof.paymentsLookedUp), note("instead of charged again")],
    ["changes witnessed", count(report.witnessed), note("by triggers, for the checker")],
  ]);
}
