/**
 * Does a claim cost more when more is stored? `npm run bench:depth`
 *
 * The same claim on two databases in turn, one after the other: one with 1,000 pending jobs and nothing else, and one
 * that is deep. What disturbs the machine disturbs both. Before each claim as many jobs are enqueued as it takes, and
 * after it they are settled, so that both stay as they are; only the claim is timed, with its commit.
 *
 * Environment: ROWS (1,000,000), CLAIMS (1,000), ENGINES=sqlite,postgres,mariadb.
 */
import { makeIds } from "../src/core/id.ts";
import { systemRuntime } from "../src/core/runtime.ts";
import { openStore } from "../src/app/store.ts";
import { statementsFor } from "../src/jobs/statements.ts";
import type { JobStatements, NewJob } from "../src/jobs/store.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { milliseconds, printTable, progress, quantile, times, whole } from "./figures.ts";
import { fill, SQL_ENGINES, type SqlEngine, type State } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { scratchPlace } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";

const ROWS = numberFrom("ROWS", 1_000_000);
const CLAIMS = numberFrom("CLAIMS", 1_000);
const BASELINE = 1_000;
const BATCHES = [1, 50];
const WARM_UP = 20;
const LEASE_MS = 30_000;

interface Case {
  readonly words: string;
  readonly rows: readonly { readonly state: State; readonly rows: number }[];
}

const few = { state: "pending", rows: BASELINE } as const;

const CASES: readonly Case[] = [
  { words: `${whole(ROWS)} pending`, rows: [{ state: "pending", rows: ROWS }] },
  {
    words: `${whole(ROWS)} scheduled at top priority`,
    rows: [{ state: "scheduled", rows: ROWS }, few],
  },
  { words: `${whole(ROWS)} finished`, rows: [{ state: "finished", rows: ROWS }, few] },
];

/** One database with a worker of its own. */
class Queue implements AsyncDisposable {
  readonly #statements: JobStatements;
  readonly #end: () => Promise<void>;
  readonly #newId = makeIds(systemRuntime);

  private constructor(statements: JobStatements, end: () => Promise<void>) {
    this.#statements = statements;
    this.#end = end;
  }

  static async open(engine: SqlEngine, { rows }: Pick<Case, "rows">): Promise<Queue> {
    const place = await scratchPlace(engine);
    const store = await openStore(place.url);
    await store.migrate();
    for (const some of rows) await fill(engine, place, some);
    return new Queue(await statementsFor(store.db.engine), async () => {
      await store.close();
      await place[Symbol.asyncDispose]();
    });
  }

  /** How long a claim of so many jobs takes. */
  async claimMs(batch: number): Promise<number> {
    await this.#statements.insert(Array.from({ length: batch }, () => this.#newJob()));
    const wanted = {
      worker: "bench",
      queues: ["default"],
      tasks: ["noop"],
      limit: batch,
      leaseMs: LEASE_MS,
      claimId: 1,
    };
    const startedAt = performance.now();
    const { claimed } = await this.#statements.settleAndClaim([], wanted);
    const ms = performance.now() - startedAt;
    if (claimed.length !== batch) throw new Error(`claimed ${claimed.length} of ${batch} jobs`);
    const done = claimed.map(({ id, worker, epoch }) => ({
      id,
      worker,
      epoch,
      outcome: { kind: "done", result: null } as const,
    }));
    await this.#statements.settleAndClaim(done, null);
    return ms;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#end();
  }

  #newJob(): NewJob {
    return {
      id: this.#newId(),
      queue: "default",
      task: "noop",
      payload: '"xxxxxxxx"',
      priority: 0,
      maxAttempts: 3,
      key: null,
      start: null,
    };
  }
}

interface Compared {
  readonly deep: number[];
  readonly shallow: number[];
}

async function compare(deep: Queue, shallow: Queue, batch: number): Promise<Compared> {
  for (let claim = 0; claim < WARM_UP; claim += 1) {
    await deep.claimMs(batch);
    await shallow.claimMs(batch);
  }
  const compared: Compared = { deep: [], shallow: [] };
  for (let claim = 0; claim < CLAIMS; claim += 1) {
    compared.shallow.push(await shallow.claimMs(batch));
    compared.deep.push(await deep.claimMs(batch));
  }
  return compared;
}

function rowFor(first: readonly string[], { deep, shallow }: Compared): string[] {
  const cells = [0.5, 0.99].flatMap((share) => {
    const [below, above] = [quantile(shallow, share), quantile(deep, share)];
    return [milliseconds(below), milliseconds(above), times(above / below)];
  });
  return [...first, ...cells];
}

async function measure(engine: SqlEngine): Promise<string[][]> {
  const rows: string[][] = [];
  for (const each of CASES) {
    progress(`${engine}: ${each.words}: filling`);
    const startedAt = performance.now();
    await using deep = await Queue.open(engine, each);
    await using shallow = await Queue.open(engine, { rows: [few] });
    progress(`${engine}: ${each.words}: filled in ${milliseconds(performance.now() - startedAt)}`);
    for (const batch of BATCHES) {
      const row = rowFor([engine, each.words, String(batch)], await compare(deep, shallow, batch));
      rows.push(row);
      progress(row.join("  "));
    }
  }
  return rows;
}

async function main(): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  const rows: string[][] = [];
  for (const engine of engines) rows.push(...(await measure(engine)));
  console.log(
    `\nClaims with ${whole(BASELINE)} pending jobs and with more, in turn, ${whole(CLAIMS)} of each; ` +
      "× is the deep one against the other.\n",
  );
  const head = [
    "engine",
    "stored",
    "batch",
    "p50 of 1,000",
    "p50",
    "×",
    "p99 of 1,000",
    "p99",
    "×",
  ];
  printTable(head, rows);
  console.log(`\nMachine: ${machine.words}.`);
  for (const engine of engines) console.log(`Database: ${await describeServer(engine)}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

await main();
