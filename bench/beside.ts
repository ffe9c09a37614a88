/**
 * Is this checkout as fast as another one of the same project? `npm run bench:beside -- <folder>`
 *
 * The other one is usually an older commit with its packages installed. A process of each answers the same small orders in
 * turn, both warm and seconds apart, so that a machine that slows down slows both; a ratio is the median of the ratios of
 * all rounds. A process can be a tenth faster than another of the same code for as long as it lives, so several pairs of
 * processes share the rounds.
 *
 * Environment: ROUNDS (15), PAIRS (3), JOBS (20,000), SINGLES (500), SIZE=10, ENGINES=sqlite,postgres,mariadb.
 */
import { resolve } from "node:path";
import { Competitor } from "./competitors.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { median, perSecond, printTable, progress, ratio } from "./figures.ts";
import { SQL_ENGINES } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import type { Figures, Metric } from "./questions/question.ts";
import { getServers } from "./servers.ts";
import { holdfast } from "./systems/holdfast.ts";
import { keyOf, type System } from "./systems/system.ts";

/** What each process does first, so that its code is compiled. */
const WARM_UP_ROUNDS = 3;
const QUESTIONS = ["enqueue", "drain"] as const;
const METRICS: readonly Metric[] = ["one by one", "in bulk", "drain"];

const rounds = numberFrom("ROUNDS", 15);
const pairs = numberFrom("PAIRS", 3);
const order = {
  jobs: numberFrom("JOBS", 20_000),
  singles: numberFrom("SINGLES", 500),
  bytes: numberFrom("SIZE", 10),
  pickups: 0,
};

interface Round {
  readonly ours: Figures;
  readonly theirs: Figures;
}

async function answers(competitor: Competitor): Promise<Figures> {
  const figures: Figures[] = [];
  for (const question of QUESTIONS) figures.push(await competitor.ask({ ...order, question }));
  return Object.assign({}, ...figures) as Figures;
}

async function compare(system: System, other: string): Promise<Round[]> {
  const measured: Round[] = [];
  for (let pair = 1; pair <= pairs; pair += 1) {
    const until = Math.round((rounds * pair) / pairs);
    const some = await comparePair(system, other, until - measured.length);
    measured.push(...some);
    const each = METRICS.map((metric) => `${metric} ${rowOf(metric, some)[3]}`);
    progress(`${keyOf(system)}: pair ${pair} of ${pairs}: ${each.join(", ")}`);
  }
  return measured;
}

async function comparePair(system: System, other: string, count: number): Promise<Round[]> {
  using ours = new Competitor(system);
  using theirs = new Competitor(system, other);
  const measured: Round[] = [];
  for (let round = -WARM_UP_ROUNDS; round < count; round += 1) {
    // Each goes first in every other round.
    const [first, second] = round % 2 === 0 ? [ours, theirs] : [theirs, ours];
    const [one, two] = [await answers(first), await answers(second)];
    if (round < 0) continue;
    measured.push(first === ours ? { ours: one, theirs: two } : { ours: two, theirs: one });
  }
  return measured;
}

function rowOf(metric: Metric, measured: readonly Round[]): string[] {
  const ours = measured.map((round) => round.ours[metric] ?? Number.NaN);
  const theirs = measured.map((round) => round.theirs[metric] ?? Number.NaN);
  const each = ours.map((figure, at) => (figure / (theirs[at] ?? Number.NaN)).toFixed(2));
  const [both, sorted] = [ratio(ours, theirs).toFixed(3), each.toSorted()];
  return [
    metric,
    perSecond(median(theirs)),
    perSecond(median(ours)),
    both,
    `${sorted.at(0)} to ${sorted.at(-1)}`,
  ];
}

async function main(other: string): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const engines = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(engines);
  const rows: string[][] = [];
  for (const engine of engines) {
    const reason = servers.missing.get(engine);
    if (reason !== undefined) {
      console.log(`LEFT OUT: ${reason}`);
      continue;
    }
    const measured = await compare(holdfast(engine), other);
    rows.push(...METRICS.map((metric) => [engine, ...rowOf(metric, measured)]));
  }
  printTable(["engine", "figure", "other", "this", "ratio", "rounds"], rows);
  console.log(`\n${rounds} rounds of ${pairs} pairs of processes. Machine: ${machine.words}.`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

const [, , folder] = process.argv;
if (folder === undefined) {
  console.error("Name the folder of the other checkout: npm run bench:beside -- ../old");
  process.exit(2);
}
await main(resolve(folder));
