/**
 * `holdfast verify`: the torture kit, on your own database. Processes are killed, frozen and cut off by a plan that a seed
 * decides; a checker that knows nothing of the product's code says whether any promise was broken.
 */
import { exec } from "node:child_process";
import { promisify } from "node:util";
import { Command, InvalidArgumentError } from "commander";
import { checkWhole } from "../core/check.ts";
import { HoldfastError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Progress, Report } from "../verify/verify.ts";
import { wholeNumber } from "./arguments.ts";
import { seconds } from "./demo/progress.ts";
import { Interrupted } from "./failure.ts";
import { exitCodeAfter, listenForSignals } from "./signals.ts";
import { table, type Cell } from "./table.ts";
import type { Terminal } from "./terminal.ts";
import { count } from "./words.ts";

interface Options {
  readonly url?: string;
  readonly minutes: number;
  readonly seed?: number;
  readonly restart?: string;
}

const MINUTES = { least: 0.25, most: 24 * 60 };
const SEED_MAX = 2 ** 31 - 1;
const RESTART_MS_MAX = 60_000;
const VIOLATIONS_SHOWN = 20;
const LINE_EVERY_MS = 5_000;
const BACK_AND_CLEAR = "\r\u001B[K";

class PromiseBroken extends HoldfastError {
  constructor(facts: { violations: number; seed: number }) {
    const what = facts.violations === 1 ? "A promise was broken" : "Promises were broken";
    super("PROMISE_BROKEN", `${what}: see above. Please report it with the seed ${facts.seed}.`);
  }
}

export function verifyCommand(terminal: Terminal): Command {
  return new Command("verify")
    .description("torture a database of its own beside yours, and check every promise")
    .option(
      "--url <url>",
      "the server, or a file beside which one is made; default: a temporary file",
    )
    .option("--minutes <n>", "how long, about", minutes, 1.25)
    .option("--seed <n>", "repeats the plan of an earlier run", wholeNumber)
    .option("--restart <command>", "kills the server and starts it again, now and then")
    .action((options: Options) => run(terminal, options));
}

function minutes(text: string): number {
  const number = Number(text);
  if (number >= MINUTES.least && number <= MINUTES.most) return number;
  throw new InvalidArgumentError(`Write a number from ${MINUTES.least} to ${MINUTES.most}.`);
}

async function run(terminal: Terminal, options: Options): Promise<void> {
  const drawn = options.seed ?? Math.floor(systemRuntime.random() * SEED_MAX);
  const seed = checkWhole("--seed", drawn, { least: 0, most: SEED_MAX });
  const ending = new AbortController();
  using signals = listenForSignals();
  void signals.first.then((signal) =>
    ending.abort(new Interrupted({ signal, exitCode: exitCodeAfter(signal) })),
  );
  const { verify } = await import("../verify/verify.ts"); // Nobody else needs any of it.
  const { restart, url } = options;
  const report = await verify({
    ...(url === undefined ? {} : { url }),
    ...(restart === undefined ? {} : { restart: () => restartBy(restart) }),
    seed,
    ms: options.minutes * 60_000,
    signal: AbortSignal.any([ending.signal, terminal.gone]),
    onProgress: progressOn(terminal),
  });
  show(terminal, report);
  const { violations } = report;
  if (violations.length > 0) throw new PromiseBroken({ violations: violations.length, seed });
}

async function restartBy(command: string): Promise<void> {
  await promisify(exec)(command, { timeout: RESTART_MS_MAX });
}

/** A line that moves on a terminal, a line now and then elsewhere. */
function progressOn(terminal: Terminal): (progress: Progress) => void {
  let nextMs = 0;
  return (progress) => {
    if (terminal.json) return;
    if (terminal.live) return terminal.write(BACK_AND_CLEAR + lineOf(progress));
    if (progress.elapsedMs < nextMs) return;
    nextMs = progress.elapsedMs + LINE_EVERY_MS;
    terminal.print(lineOf(progress));
  };
}

function lineOf({ elapsedMs, ms, jobs, done, faults }: Progress): string {
  const { kill = 0, freeze = 0, cut = 0, restart = 0 } = faults;
  const met = [`${kill} killed`, `${freeze} frozen`, `${cut} cut`, `${restart} restarts`];
  const shown = met.filter((words) => !words.startsWith("0 "));
  return `  ${seconds(elapsedMs)} of ${seconds(ms)}  ${count(done)}/${count(jobs)} jobs  ${shown.join("  ")}`;
}

function show(terminal: Terminal, report: Report): void {
  if (terminal.json) return terminal.printJson({ held: report.violations.length === 0, ...report });
  if (terminal.live) terminal.write(BACK_AND_CLEAR);
  const { bold, green, red, dim } = terminal.colors;
  const { violations, notes } = report;
  terminal.print(bold(`${report.database}, seed ${report.seed}, ${seconds(report.ms)}`), "");
  terminal.print(...reportTable(terminal, report), "");
  for (const note of notes) terminal.print(dim(`Note: ${note}.`));
  for (const { invariant, job, sentence } of violations.slice(0, VIOLATIONS_SHOWN))
    terminal.print(red(`${invariant}  ${job === undefined ? "" : `${job} `}${sentence}`));
  if (violations.length > VIOLATIONS_SHOWN)
    terminal.print(dim(`… and ${violations.length - VIOLATIONS_SHOWN} more; --json has them all.`));
  const share = report.bound.toExponential(1);
  if (violations.length === 0)
    terminal.print(
      bold(green("Every promise held.")),
      dim(`With 95 % confidence fewer than ${share} of jobs are lost or done twice.`),
    );
}

function reportTable({ columns, colors }: Terminal, report: Report): string[] {
  const { faults, accepted, byStatus, recovery } = report;
  const statuses = Object.entries(byStatus).map(([status, n]) => `${count(n)} ${status}`);
  const note = (text: string): Cell => ({ text, paint: colors.dim });
  const rows: [string, string, Cell][] = [
    ["jobs accepted", count(accepted.ok), note(`and ${accepted.unknown} whose answer was lost`)],
    ["jobs that ended", count(report.jobs), note(statuses.join(", "))],
    ["attempts", count(report.attempts), note("")],
    ["processes killed", count(faults.kill ?? 0), note("kill -9")],
    ["processes frozen", count(faults.freeze ?? 0), note("longer than the lease, then woken")],
    ["event loops blocked", count(faults.block ?? 0), note("")],
    ["connections cut", count(faults.cut ?? 0), note("")],
    ["answers lost", count(faults.deafen ?? 0), note("for all connections through a proxy")],
    ["server restarts", count(faults.restart ?? 0), note("")],
    ["lock storms", count(faults.storm ?? 0), note("")],
    ["late writes refused", count(report.refused), note("")],
    ["changes witnessed", count(report.witnessed), note("by triggers")],
    [
      "free after kill -9",
      `${recovery.afterKill.p50} ms`,
      note(`p99 ${recovery.afterKill.p99} ms`),
    ],
    ["violations", count(report.violations.length), note("")],
  ];
  const [, ...lines] = table({
    columns: [{ title: "" }, { title: "", align: "right" }, { title: "", flexible: true }],
    rows: rows.filter(([what, value]) => value !== "0" || what === "violations"),
    width: columns === null ? null : columns - 2,
  });
  return lines.map((line) => `  ${line}`);
}
