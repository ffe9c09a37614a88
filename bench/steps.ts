/**
 * What do steps cost? `npm run bench:steps`
 *
 *     node bench/steps.ts [--json steps.json]
 *
 * Jobs with three steps, worked off by a whole worker and by the bare loop of the statements that such jobs cause: the same
 * texts, in turns of the same size, on as many connections. One after the other, and who begins changes from round to round:
 * what disturbs the machine disturbs both. And, counted on the wire, what a step and a commit cost in round trips.
 *
 * Environment: JOBS (2,000), ROUNDS (5), CONCURRENCY=10,50, ENGINES=sqlite,postgres,mariadb.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { numberFrom, numbersFrom, wordsFrom } from "./environment.ts";
import { median, milliseconds, perSecond, printTable, progress, ratio, whole } from "./figures.ts";
import { SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { describeServer, getServers } from "./servers.ts";
import { barePace, workerPace, type Load, type Pace } from "./steps/pace.ts";
import { countRoundTrips, SERVERS, type RoundTrips } from "./steps/round-trips.ts";

const JOBS = numberFrom("JOBS", 2_000);
const ROUNDS = numberFrom("ROUNDS", 5);
const CONCURRENCY = numbersFrom("CONCURRENCY", [10, 50]);
/** So many jobs, at most, have everybody's code compiled. */
const WARM_UP_JOBS = 500;
/** Of the bare loop. */
const TARGET = 0.6;

class Compared {
  readonly load: Load;
  readonly worker: Pace[] = [];
  readonly bare: Pace[] = [];
  #batch = 1;

  constructor(load: Load) {
    this.load = load;
  }

  get ratio(): number {
    return ratio(rates(this.worker), rates(this.bare));
  }

  /** The bare loop's turns are as large as the worker's last ones were. */
  async round(number: number): Promise<void> {
    if (number % 2 === 0) await this.#bare();
    await this.#worker();
    if (number % 2 === 1) await this.#bare();
  }

  async warmUp(): Promise<void> {
    const load = { ...this.load, jobs: Math.min(WARM_UP_JOBS, this.load.jobs) };
    this.#batch = (await workerPace(load)).batch;
    await barePace(load, this.#batch);
  }

  async #worker(): Promise<void> {
    const pace = await workerPace(this.load);
    this.worker.push(pace);
    this.#batch = pace.batch;
  }

  async #bare(): Promise<void> {
    this.bare.push(await barePace(this.load, this.#batch));
  }
}

function rates(paces: readonly Pace[]): number[] {
  return paces.map(({ rate }) => rate);
}

function best(paces: readonly Pace[]): number {
  return Math.max(...rates(paces));
}

function cpu(paces: readonly Pace[]): string {
  return milliseconds(median(paces.map(({ cpuMs }) => cpuMs)));
}

function rowFor({ load, worker, bare, ratio: share }: Compared): string[] {
  const rounds = worker.map(({ rate }, round) => rate / (bare[round]?.rate ?? Number.NaN));
  return [
    load.engine,
    String(load.concurrency),
    perSecond(median(rates(worker))),
    perSecond(median(rates(bare))),
    percent(share),
    `${percent(Math.min(...rounds))} to ${percent(Math.max(...rounds))}`,
    percent(best(worker) / best(bare)),
    cpu(worker),
    cpu(bare),
    median(worker.map(({ batch }) => batch)).toFixed(1),
    share >= TARGET ? "reached" : "MISSED",
  ];
}

const HEAD = [
  "engine",
  "concurrency",
  "worker",
  "bare loop",
  "worker / bare",
  "from round to round",
  "best / best",
  "our CPU a job",
  "the loop's",
  "jobs in a turn",
  `at least ${percent(TARGET)}`,
];

function percent(share: number): string {
  return `${whole(share * 100)} %`;
}

async function comparePaces(engines: readonly SqlEngine[]): Promise<Compared[]> {
  const all = engines.flatMap((engine) =>
    CONCURRENCY.map((concurrency) => new Compared({ engine, jobs: JOBS, concurrency })),
  );
  for (const each of all) await each.warmUp();
  for (let round = 1; round <= ROUNDS; round += 1) {
    for (const each of all) {
      await each.round(round);
      const { load, worker, bare } = each;
      const [last, rival] = [worker.at(-1)?.rate ?? 0, bare.at(-1)?.rate ?? 0];
      const told = `${perSecond(last)}, bare ${perSecond(rival)}`;
      const where = `${load.engine}, concurrency ${load.concurrency}`;
      progress(`round ${round}/${ROUNDS}  ${where.padEnd(26)} ${told}`);
    }
  }
  return all;
}

function printRoundTrips(counted: readonly RoundTrips[]): void {
  const head = [
    "round trips on",
    "begin; insert; commit",
    "ctx.commit with it",
    "it adds",
    "ctx.step",
    "ctx.effect",
  ];
  const rows = counted.map(({ engine, transaction, commit, step, effect }) =>
    [engine, transaction, commit, commit - transaction, step, effect].map(String),
  );
  printTable(head, rows);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { json: { type: "string" } } });
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  const counted: RoundTrips[] = [];
  for (const engine of SERVERS.filter((each) => engines.includes(each))) {
    progress(`${engine}: counting round trips`);
    counted.push(await countRoundTrips(engine));
  }
  const compared = await comparePaces(engines);
  console.log(
    `\n${whole(JOBS)} jobs with three steps, medians of ${ROUNDS} rounds in turn; the ratio is the median of the rounds' ratios.\n`,
  );
  printTable(HEAD, compared.map(rowFor));
  console.log("");
  printRoundTrips(counted);
  const databases = await Promise.all(engines.map(describeServer));
  console.log(`\nMachine: ${machine.words}.`);
  for (const database of databases) console.log(`Database: ${database}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
  if (values.json !== undefined) {
    const paces = compared.map(({ load, worker, bare }) => ({ ...load, worker, bare }));
    const at = new Date().toISOString();
    const all = { at, machine, databases, paces, roundTrips: counted };
    writeFileSync(values.json, `${JSON.stringify(all, null, 2)}\n`);
  }
}

await main();
