/**
 * Does a migration hold up claims? `npm run bench:migrate`
 *
 * Millions of finished jobs, and clients that enqueue, claim and settle one job after another. Meanwhile a later version adds
 * an index over all finished jobs: once as an ordinary statement, which is what a migration must not do, and once online.
 * The longest claim says how long workers stood still.
 *
 * Environment: ROWS (5,000,000), CLIENTS (4), ENGINES=postgres,mariadb.
 */
import { setTimeout as pause } from "node:timers/promises";
import { makeIds } from "../src/core/id.ts";
import { systemRuntime } from "../src/core/runtime.ts";
import { openStore, type Store, storeOn } from "../src/app/store.ts";
import type { Migration } from "../src/database/engine.ts";
import type { NewJob } from "../src/jobs/store.ts";
import { withMigrations } from "../test/support/later-version.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { milliseconds, printTable, progress, quantile, whole } from "./figures.ts";
import { fill } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { scratchPlace } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";

const ROWS = numberFrom("ROWS", 5_000_000);
const CLIENTS = numberFrom("CLIENTS", 4);
const ENGINES = ["postgres", "mariadb"] as const;
/** Claims without a migration, to compare with. */
const CALM_MS = 10_000;
/** What a migration may hold a claim up for. */
const AIM_MS = 1_000;
const LEASE_MS = 60_000;
const newId = makeIds(systemRuntime);

interface Loaded {
  readonly tookMs: number;
  readonly claims: readonly number[];
}

/** Clients claim and settle until the body has ended. */
async function underLoad(store: Store, body: () => Promise<unknown>): Promise<Loaded> {
  const claims: number[] = [];
  const over = new AbortController();
  const clients = Array.from({ length: CLIENTS }, async (_, n) => {
    while (!over.signal.aborted) claims.push(await workOn(store, `bench-${n}`));
  });
  const startedAt = performance.now();
  try {
    await body();
  } finally {
    over.abort();
    await Promise.all(clients);
  }
  return { tookMs: performance.now() - startedAt, claims };
}

/** One job from its enqueueing to its end. Returns how long its claim took. */
async function workOn(store: Store, worker: string): Promise<number> {
  await store.jobs.enqueue([newJob()]);
  const startedAt = performance.now();
  const claimed = await store.jobs.claim({
    worker,
    queues: ["default"],
    tasks: ["noop"],
    limit: 1,
    leaseMs: LEASE_MS,
  });
  const ms = performance.now() - startedAt;
  const outcome = { kind: "done", result: null } as const;
  await store.jobs.settle(claimed.map(({ id, epoch }) => ({ id, worker, epoch, outcome })));
  return ms;
}

function newJob(): NewJob {
  const terms = { queue: "default", task: "noop", payload: '"xxxxxxxx"', priority: 0 };
  return { ...terms, id: newId(), maxAttempts: 3, key: null, start: null };
}

/** The store as a later version has it, with one more index over all finished jobs. */
function later(store: Store, online: boolean): Promise<Store> {
  const { engine } = store.db;
  const name = online ? "later_online" : "later_plain";
  const version = Math.max(...engine.migrations.map((migration) => migration.version)) + 1;
  const script = engine.migrationDialect.named(
    `create index if not exists ${name} on holdfast.finished (status, finished_at, id);`,
  );
  const added: Migration = { version, name, breaking: false, online, script };
  return storeOn(withMigrations(engine, [...engine.migrations, added]));
}

async function measure(engine: (typeof ENGINES)[number]): Promise<string[][]> {
  const rows: string[][] = [];
  for (const online of [false, true]) {
    await using place = await scratchPlace(engine);
    const store = await openStore(place.url);
    try {
      await store.migrate();
      progress(`${engine}: filling`);
      await fill(engine, place, { state: "finished", rows: ROWS });
      const newer = await later(store, online);
      rows.push(rowOf(engine, "none", await underLoad(store, () => pause(CALM_MS))));
      const load = await underLoad(store, () => newer.migrate());
      rows.push(rowOf(engine, online ? "online" : "an ordinary statement", load));
      for (const row of rows.slice(-2)) progress(row.join("  "));
    } finally {
      await store.close();
    }
  }
  return rows;
}

function rowOf(engine: string, kind: string, { tookMs, claims }: Loaded): string[] {
  const longest = Math.max(...claims);
  return [
    engine,
    kind,
    milliseconds(tookMs),
    whole(claims.length),
    milliseconds(quantile(claims, 0.5)),
    milliseconds(quantile(claims, 0.99)),
    milliseconds(longest),
    whole(claims.filter((ms) => ms > AIM_MS).length),
  ];
}

async function main(): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  const rows: string[][] = [];
  for (const engine of engines) rows.push(...(await measure(engine)));
  console.log(
    `\nClaims of ${CLIENTS} clients while a migration indexes ${whole(ROWS)} finished jobs.\n`,
  );
  const head = [
    "engine",
    "migration",
    "took",
    "claims",
    "p50",
    "p99",
    "longest",
    `over ${milliseconds(AIM_MS)}`,
  ];
  printTable(head, rows);
  console.log(`\nMachine: ${machine.words}.`);
  for (const engine of engines) console.log(`Database: ${await describeServer(engine)}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

await main();
