/**
 * `npm run simulate -- --seeds 100000 --from 1`: seed after seed, with a table of what was met.
 *
 * `npm run simulate -- --seed 1234 --trace` plays one again and prints all that happened in it.
 */
import { parseArgs } from "node:util";
import { Coverage } from "./coverage.ts";
import { Database } from "./database.ts";
import { simulate, type Run } from "./simulate.ts";

const PROGRESS_EVERY_MS = 5_000;
const FAILURES_MAX = 10;

export interface Total {
  seeds: number;
  jobs: number;
  moments: number;
  virtualMs: number;
  readonly coverage: Coverage;
  readonly failed: Run[];
}

export function newTotal(): Total {
  return { seeds: 0, jobs: 0, moments: 0, virtualMs: 0, coverage: new Coverage(), failed: [] };
}

/** Runs the seeds one after the other, until so many have failed that more would say nothing. */
export async function runSeeds(
  range: { readonly from: number; readonly seeds: number },
  progress: (total: Total) => void = () => {},
): Promise<Total> {
  // What is thrown by the thousand is never looked at; making stacks for it would be most of the work.
  Error.stackTraceLimit = 0;
  const database = await Database.open();
  const total = newTotal();
  for (let seed = range.from; seed < range.from + range.seeds; seed += 1) {
    const run = await simulate(database, seed, { coverage: total.coverage });
    total.seeds += 1;
    total.jobs += run.jobs;
    total.moments += run.moments;
    total.virtualMs += run.virtualMs;
    if (run.violations.length > 0) total.failed.push(run);
    progress(total);
    if (total.failed.length >= FAILURES_MAX) break;
  }
  return total;
}

/** What it takes to find out why a seed failed. */
export function report({ seed, plan, violations }: Run): string {
  const lines = violations.map(({ invariant, problem }) => `  ${invariant}: ${problem}`);
  return [
    `seed ${seed} failed:`,
    ...lines,
    `  its options: ${JSON.stringify(plan)}`,
    `  again: npm run simulate -- --seed ${seed} --trace`,
  ].join("\n");
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string" },
      seeds: { type: "string", default: "2000" },
      from: { type: "string", default: "1" },
      trace: { type: "boolean", default: false },
    },
  });
  if (values.seed !== undefined) return runOne(wholeOf("seed", values.seed), values.trace);
  return runMany({ from: wholeOf("from", values.from), seeds: wholeOf("seeds", values.seeds) });
}

function wholeOf(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error(`--${name} takes a whole number, not '${text}'.`);
}

async function runOne(seed: number, isTraced: boolean): Promise<void> {
  const print = isTraced ? { print: (line: string) => console.log(line) } : {};
  const run = await simulate(await Database.open(), seed, print);
  console.log(
    `seed ${seed}: ${run.jobs} jobs, ${run.moments} moments, ${Math.round(run.virtualMs)} ms`,
  );
  console.log(`options ${JSON.stringify(run.plan)}`);
  console.log(`trace ${run.hash}`);
  if (run.violations.length === 0) {
    console.log("nothing is wrong");
    return;
  }
  console.error(report(run));
  process.exitCode = 1;
}

async function runMany(range: { from: number; seeds: number }): Promise<void> {
  const startedAt = performance.now();
  let shownAt = startedAt;
  let told = 0;
  const total = await runSeeds(range, ({ seeds, failed }) => {
    for (const run of failed.slice(told)) console.error(report(run));
    told = failed.length;
    const now = performance.now();
    if (now - shownAt < PROGRESS_EVERY_MS) return;
    shownAt = now;
    const rate = Math.round((seeds * 60_000) / (now - startedAt));
    console.log(`${seeds} of ${range.seeds} seeds, ${rate} a minute, ${failed.length} failed`);
  });
  const seconds = (performance.now() - startedAt) / 1_000;
  console.log(summary(total, seconds));
  if (total.failed.length > 0) process.exitCode = 1;
}

export function summary(
  { seeds, jobs, moments, virtualMs, coverage }: Total,
  seconds: number,
): string {
  const hours = virtualMs / 3_600_000;
  return [
    `${seeds} seeds, ${jobs} jobs, ${moments} moments, ${hours.toFixed(1)} virtual hours`,
    `in ${seconds.toFixed(1)} s: ${Math.round(virtualMs / 1_000 / seconds)} times as fast as real time`,
    "",
    coverage.table(),
  ].join("\n");
}

if (import.meta.main) await main();
