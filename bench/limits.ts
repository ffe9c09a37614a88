/**
 * What do limits cost, and are lanes fair? `npm run bench:limits`
 *
 *     node bench/limits.ts [drain] [fairness]
 *
 * drain: a worker works off jobs of a plain queue, then of queues with rules that never bind, so the difference is pure
 * cost. In turn, round by round; a share is the median of the ratios of each round.
 *
 * fairness: one lane with a great many pending jobs and a hundred lanes with ten each. Counts the claims until the small
 * lanes are done, and compares how long a claim takes with claims from a queue without lanes that is as deep.
 *
 * Environment: JOBS (20,000), ROUNDS (3), ROWS (1,000,000), CLAIMS (1,000), ENGINES=sqlite,postgres,mariadb.
 */
import { openStore, type Store } from "../src/app/store.ts";
import { sql } from "../src/database/sql.ts";
import { defineTask, openHoldfast, type Holdfast } from "../src/index.ts";
import type { QueueOptions } from "../src/queues/queues.ts";
import { chosen, numberFrom, wordsFrom } from "./environment.ts";
import {
  median,
  milliseconds,
  perSecond,
  printTable,
  progress,
  quantile,
  ratio,
  times,
  whole,
} from "./figures.ts";
import { fill, SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { freshStatistics, scratchPlace, type Place } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";
import { Countdown } from "./systems/system.ts";

const JOBS = numberFrom("JOBS", 20_000);
const ROUNDS = numberFrom("ROUNDS", 3);
const ROWS = numberFrom("ROWS", 1_000_000);

const LANES = 100;
const SMALL_JOBS = 10;
const BATCH = 20;
const CLAIMS = numberFrom("CLAIMS", 1_000);
const LEASE_MS = 60_000;
/** Never reached. */
const HIGH = 1_000_000;
const FREELY = { concurrency: HIGH, rate: { count: HIGH, per: "1s", burst: HIGH } } as const;

interface Case {
  readonly words: string;
  readonly lanes: number;
  readonly rules: QueueOptions | null;
}

const CASES: readonly Case[] = [
  { words: "plain queue", lanes: 0, rules: null },
  { words: `${LANES} lanes, fairness only`, lanes: LANES, rules: null },
  {
    words: `${LANES} lanes, concurrency each`,
    lanes: LANES,
    rules: { eachLane: { concurrency: HIGH } },
  },
  { words: `${LANES} lanes, concurrency and rate each`, lanes: LANES, rules: { eachLane: FREELY } },
  { words: "whole queue, concurrency", lanes: 0, rules: { concurrency: HIGH } },
  { words: "whole queue, concurrency and rate", lanes: 0, rules: FREELY },
];

const noop = defineTask({ name: "noop", async run(_input: string) {} });

/** Jobs a second. */
async function drainRate(engine: SqlEngine, { lanes, rules }: Case): Promise<number> {
  await using place = await scratchPlace(engine);
  await using holdfast = await openHoldfast(place.url, { redis: "" });
  if (rules !== null) await holdfast.queues.set("default", rules);
  await enqueue(holdfast, lanes);
  await freshStatistics(engine, place);
  const left = new Countdown(JOBS);
  const worker = await holdfast.startWorker({ tasks: [noop] });
  const startedAt = performance.now();
  worker.on("job:done", left.tick);
  await left.over;
  return (JOBS / (performance.now() - startedAt)) * 1_000;
}

async function enqueue(holdfast: Holdfast, lanes: number): Promise<void> {
  const payloads = Array.from({ length: JOBS }, (_, at) => String(at));
  await holdfast.enqueueMany(noop, payloads, (payload) =>
    lanes === 0 ? {} : { lane: `lane ${Number(payload) % lanes}` },
  );
}

async function drains(engine: SqlEngine): Promise<string[][]> {
  const rates = new Map<Case, number[]>(CASES.map((each) => [each, []]));
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const each of CASES) {
      const rate = await drainRate(engine, each);
      progress(`${engine}, round ${round}: ${each.words}: ${perSecond(rate)}`);
      if (round > 0) rates.get(each)?.push(rate); // The first one warms up.
    }
  }
  const plain = rates.get(CASES[0] as Case) ?? [];
  return [...rates].map(([{ words }, all]) => [
    engine,
    words,
    perSecond(median(all)),
    times(ratio(all, plain)),
  ]);
}

/** A deep database, and a worker that claims from it without running anything. */
class Deep implements AsyncDisposable {
  readonly #place: Place;
  readonly #store: Store;
  #claims = 0;

  private constructor(place: Place, store: Store) {
    this.#place = place;
    this.#store = store;
  }

  static async open(engine: SqlEngine, lane: string): Promise<Deep> {
    const place = await scratchPlace(engine);
    const store = await openStore(place.url);
    await store.migrate();
    await fill(engine, place, { state: "pending", rows: ROWS, lane });
    if (lane === "") return new Deep(place, store);
    await using holdfast = await openHoldfast(place.url, { redis: "" });
    const payloads = Array.from({ length: LANES * SMALL_JOBS }, (_, at) => String(at));
    await holdfast.enqueueMany(noop, payloads, (payload) => ({
      lane: `small ${Number(payload) % LANES}`,
    }));
    return new Deep(place, store);
  }

  /** Claims a batch, and settles it outside of the time that is measured. */
  async claim(): Promise<{ ms: number; ids: string[] }> {
    this.#claims += 1;
    const wanted = {
      worker: "bench",
      queues: ["default"],
      tasks: ["noop"],
      limit: BATCH,
      leaseMs: LEASE_MS,
      claimId: this.#claims,
    };
    const startedAt = performance.now();
    const { claimed } = await this.#store.jobs.settleAndClaim([], wanted);
    const ms = performance.now() - startedAt;
    const done = claimed.map(({ id, worker, epoch }) => {
      return { id, worker, epoch, outcome: { kind: "done", result: null } as const };
    });
    await this.#store.jobs.settle(done);
    return { ms, ids: claimed.map(({ id }) => id) };
  }

  async smallLeft(): Promise<number> {
    const [row] = await this.#store.db.engine.all<{ count: number }>(
      sql`select count(*) as count from holdfast.ready where lane like 'small%'`,
    );
    return Number(row?.count);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store.close();
    await this.#place[Symbol.asyncDispose]();
  }
}

async function fairness(engine: SqlEngine): Promise<string[]> {
  progress(`${engine}: filling ${whole(2 * ROWS)} rows`);
  await using keyed = await Deep.open(engine, "large");
  await using plain = await Deep.open(engine, "");
  const [withLanes, without]: [number[], number[]] = [[], []];
  let jobs = 0;
  let doneAfter: number | null = null;
  for (let claim = 0; claim < CLAIMS; claim += 1) {
    const { ms, ids } = await keyed.claim();
    jobs += ids.length;
    withLanes.push(ms);
    without.push((await plain.claim()).ms);
    if (doneAfter === null && (await keyed.smallLeft()) === 0) doneAfter = jobs;
  }
  const cells = [0.5, 0.99].flatMap((share) => {
    const [above, below] = [quantile(withLanes, share), quantile(without, share)];
    return [milliseconds(below), milliseconds(above), times(above / below)];
  });
  const said = doneAfter === null ? `more than ${whole(jobs)}` : whole(doneAfter);
  return [engine, whole(ROWS), said, ...cells];
}

async function main(): Promise<void> {
  const questions = ["drain", "fairness"] as const;
  const asked = process.argv.slice(2);
  const wanted = chosen(asked.length > 0 ? asked : questions, questions);
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const named = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(named);
  const engines = named.filter((engine) => !servers.missing.has(engine));
  if (wanted.includes("drain")) {
    const rows: string[][] = [];
    for (const engine of engines) rows.push(...(await drains(engine)));
    console.log(`\n${whole(JOBS)} jobs drained; medians of ${ROUNDS} rounds.\n`);
    printTable(["engine", "queue", "drain", "share of plain"], rows);
  }
  if (wanted.includes("fairness")) {
    const rows: string[][] = [];
    for (const engine of engines) rows.push(await fairness(engine));
    console.log(
      `\nOne lane with a great many jobs, ${LANES} lanes with ${SMALL_JOBS} each; ${CLAIMS} claims of ${BATCH}.\n`,
    );
    const head = ["engine", "jobs of the large lane", "small lanes done after jobs"];
    printTable([...head, "p50 plain", "p50", "×", "p99 plain", "p99", "×"], rows);
  }
  console.log(`\nMachine: ${machine.words}.`);
  for (const engine of engines) console.log(`Database: ${await describeServer(engine)}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

await main();
