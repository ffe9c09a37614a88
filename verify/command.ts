/**
 * `holdfast verify`: the torture kit, on your own database server. A plan derived from a seed kills, freezes and
 * disconnects processes; an independent checker, which shares no code with the product, reports broken promises.
 */
import { exec } from "node:child_process";
import { promisify } from "node:util";
import { Command, InvalidArgumentError } from "commander";
import { formatMs } from "../src/core/duration.ts";
import { HoldfastError } from "../src/core/errors.ts";
import { checkWhole } from "../src/core/options.ts";
import { systemRuntime } from "../src/core/runtime.ts";
import { wholeNumber } from "../src/terminal/arguments.ts";
import { abortOnSignal } from "../src/terminal/failure.ts";
import { type Cell, count, table } from "../src/terminal/table.ts";
import type { CommandKit, Terminal } from "../src/terminal/terminal.ts";
import type { Preset } from "./plan.ts";
import type { Progress, Report, VerifyOptions } from "./verify.ts";

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

const LINE_EVERY_MS = 3_000;

const BACK_AND_CLEAR = "\r\u001B[K";

class PromiseBrokenError extends HoldfastError {
  constructor({ violations, seed }: Pick<Report, "violations" | "seed">) {
    const what = violations.length === 1 ? "A promise was broken" : "Promises were broken";
    super("PROMISE_BROKEN", `${what}, as listed above. Please report this with the seed ${seed}.`);
  }
}

export function verifyCommand({ terminal }: CommandKit<unknown>): Command {
  return new Command("verify")
    .description("stress-test a temporary database on your server and verify every promise")
    .option(
      "--url <url>",
      "the server, or a SQLite file next to which it creates one (default: a temporary file)",
    )
    .option("--minutes <n>", "approximate duration", minutes, 1.25)
    .option("--seed <n>", "repeat the plan of an earlier run", wholeNumber)
    .option(
      "--restart <command>",
      "a shell command that kills and restarts the server, run at intervals",
    )
    .action((options: Options) => run(terminal, options));
}

function minutes(text: string): number {
  const number = Number(text);
  if (number >= MINUTES.least && number <= MINUTES.most) return number;
  throw new InvalidArgumentError(`Write a number from ${MINUTES.least} to ${MINUTES.most}.`);
}

async function run(terminal: Terminal, options: Options): Promise<void> {
  const { url, restart, seed } = options;
  const { torturePreset } = await import("./plan.ts");
  const ms = options.minutes * 60_000;
  const report = await runKit(terminal, {
    url,
    seed,
    preset: torturePreset({ ms }),
    ...(restart === undefined ? {} : { restart: () => restartBy(restart) }),
    line: (progress) => lineOf(progress, ms),
  });
  if (report === null) return;
  show(terminal, report);
  if (report.violations.length > 0) throw new PromiseBrokenError(report);
}

async function restartBy(command: string): Promise<void> {
  await promisify(exec)(command, { timeout: RESTART_MS_MAX });
}

interface KitOptions extends Pick<VerifyOptions, "restart" | "onStart" | "beside"> {
  readonly url: string | undefined;
  readonly seed: number | undefined;
  readonly preset: Preset;
  /** Describes the progress in one line. */
  readonly line: (progress: Progress) => string;
  /** Shows the report, while the database is still there; the signal says that the user has seen enough. */
  readonly onReport?: (report: Report, signal: AbortSignal) => Promise<void>;
}

/** Runs the kit to its end or a signal, and shows the progress. Null: the output was closed. */
export async function runKit(
  terminal: Terminal,
  { url, line, onReport, ...options }: KitOptions,
): Promise<Report | null> {
  const drawn = options.seed ?? Math.floor(systemRuntime.random() * SEED_MAX);
  const seed = checkWhole("--seed", drawn, { least: 0, most: SEED_MAX });
  using ending = abortOnSignal();
  const { verify } = await import("./verify.ts");
  using progress = showProgress(terminal, line);
  const signal = AbortSignal.any([ending.signal, terminal.gone]);
  try {
    return await verify({
      ...options,
      ...(url === undefined ? {} : { url }),
      seed,
      signal,
      onProgress: (how) => progress.show(how),
      onReport: async (report) => {
        progress[Symbol.dispose]();
        await onReport?.(report, signal);
      },
    });
  } catch (error) {
    if (terminal.gone.aborted) return null;
    throw error;
  }
}

/** A terminal gets one line that is updated and removed at the end; a pipe gets a line every few seconds. */
function showProgress(
  terminal: Terminal,
  line: KitOptions["line"],
): Disposable & { show(progress: Progress): void } {
  let nextMs = LINE_EVERY_MS;
  let lines = 0;
  let isShown = false;
  return {
    show(progress) {
      isShown = true;
      if (terminal.live) terminal.write(BACK_AND_CLEAR + line(progress));
      if (terminal.json || terminal.live || progress.elapsedMs < nextMs) return;
      nextMs = progress.elapsedMs + LINE_EVERY_MS;
      lines += 1;
      terminal.print(line(progress));
    },
    [Symbol.dispose]() {
      if (terminal.live && isShown) terminal.write(BACK_AND_CLEAR);
      else if (lines > 0) terminal.print("");
      isShown = false;
      lines = 0;
    },
  };
}

export function seconds(ms: number): string {
  return formatMs(Math.floor(ms / 1_000) * 1_000).replace("0ms", "0s");
}

function lineOf({ elapsedMs, jobs, done, faults }: Progress, ms: number): string {
  const { kill = 0, freeze = 0, cut = 0, restart = 0 } = faults;
  const met = [`${kill} killed`, `${freeze} frozen`, `${cut} cut`, `${restart} restarts`];
  const shown = met.filter((words) => !words.startsWith("0 "));
  return `  ${seconds(elapsedMs)} of ${seconds(ms)}  ${count(done)}/${count(jobs)} jobs  ${shown.join("  ")}`;
}

function show(terminal: Terminal, report: Report): void {
  if (terminal.json) return terminal.printJson({ held: report.violations.length === 0, ...report });
  const { bold, green, red, dim } = terminal.colors;
  const { violations, notes } = report;
  terminal.print(bold(`${report.database}, seed ${report.seed}, ${seconds(report.ms)}`), "");
  terminal.print(...reportTable(terminal, report), "");
  for (const note of notes) terminal.print(dim(`Note: ${note}.`));
  for (const { invariant, job, sentence } of violations.slice(0, VIOLATIONS_SHOWN))
    terminal.print(red(`${invariant}  ${job === undefined ? "" : `${job} `}${sentence}`));
  if (violations.length > VIOLATIONS_SHOWN)
    terminal.print(
      dim(`… and ${violations.length - VIOLATIONS_SHOWN} more; --json prints all of them.`),
    );
  const share = report.bound.toExponential(1);
  if (violations.length === 0)
    terminal.print(
      bold(green("Every promise held.")),
      dim(`With 95 % confidence, fewer than ${share} of jobs are lost or run twice.`),
    );
}

function reportTable({ columns, colors }: Terminal, report: Report): string[] {
  const { faults, accepted, byStatus, recovery, governed } = report;
  const statuses = Object.entries(byStatus).map(([status, n]) => `${count(n)} ${status}`);
  const note = (text: string): Cell => ({ text, paint: colors.dim });
  const rows: [string, string, Cell][] = [
    ["jobs accepted", count(accepted.ok), note(`plus ${accepted.unknown} whose response was lost`)],
    ["jobs finished", count(report.jobs), note(statuses.join(", "))],
    ["attempts", count(report.attempts), note("")],
    ["under limits", count(governed.starts), note(limitsNote(governed))],
    ["flows", count(report.flows), note("each job after those that it waits for")],
    ["ticks of a schedule", count(report.ticks), note("one job each")],
    ["processes killed", count(faults.kill ?? 0), note("kill -9")],
    [
      "processes frozen",
      count(faults.freeze ?? 0),
      note("for longer than the lease, then resumed"),
    ],
    ["event loops blocked", count(faults.block ?? 0), note("")],
    ["connections cut", count(faults.cut ?? 0), note("")],
    ["answers lost", count(faults.deafen ?? 0), note("on all connections through a proxy")],
    ["server restarts", count(faults.restart ?? 0), note("")],
    ["lock storms", count(faults.storm ?? 0), note("")],
    ["late writes refused", count(report.refused), note("")],
    ["changes recorded", count(report.witnessed), note("by triggers")],
    [
      "freed after kill -9",
      `${recovery.afterKill.p50} ms`,
      note(`p99 ${recovery.afterKill.p99} ms`),
    ],
    ["violations", count(report.violations.length), note("")],
  ];
  const shown = rows.filter(([what, value]) => value !== "0" || what === "violations");
  return factTable(columns, shown);
}

function limitsNote({ most, mostOfLane, fullAfterMs }: Report["governed"]): string {
  const full = fullAfterMs === null ? "" : `; full ${fullAfterMs} ms after kill -9 of all workers`;
  return `at most ${most} at once, ${mostOfLane} of a lane${full}`;
}

/** Each row: a fact, its value and a remark. */
export function factTable(columns: number | null, rows: [string, string, Cell][]): string[] {
  const [, ...lines] = table({
    columns: [{ title: "" }, { title: "", align: "right" }, { title: "", flexible: true }],
    rows,
    width: columns === null ? null : columns - 2,
  });
  return lines.map((line) => `  ${line}`);
}
