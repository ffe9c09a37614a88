/**
 * Does a migration hold up claims? `npm run bench:migrate`
 *
 * Millions of finished jobs, and clients that enqueue, claim and settle one job after another. Meanwhile another process
 * applies what later versions may bring to the table of finished jobs: a column, an index that is built online, and the same
 * index as an ordinary statement, which is what a migration must not do. The longest claim says how long workers stood still.
 *
 * Environment: ROWS (5,000,000), CLIENTS (4), ENGINES=sqlite,postgres,mariadb, PAUSE=yes (it waits for a line of input after
 * the databases are filled, which takes long and needs no quiet machine).
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { StoreBusyError } from "../src/core/errors.ts";
import { makeIds } from "../src/core/id.ts";
import { systemRuntime } from "../src/core/runtime.ts";
import { openStore, type Store, storeOn } from "../src/app/store.ts";
import type { Migration } from "../src/database/engine.ts";
import type { NewJob } from "../src/jobs/store.ts";
import { withMigrations } from "../test/support/later-version.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { milliseconds, printTable, progress, quantile, whole } from "./figures.ts";
import { fill, SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { type Place, scratchPlace } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";

const ROWS = numberFrom("ROWS", 5_000_000);
const CLIENTS = numberFrom("CLIENTS", 4);
/** Claims without a migration, to compare with. */
const CALM_MS = 10_000;
/** What a migration may hold a claim up for. */
const AIM_MS = 1_000;
const LEASE_MS = 60_000;
const newId = makeIds(systemRuntime);

const COLUMNS = "(status, finished_at, id)";

interface Later {
  readonly words: string;
  readonly online: boolean;
  readonly script: string;
}

/** What later versions do, in this order. */
const LATER = {
  column: {
    words: "a column",
    online: false,
    script: "alter table holdfast.finished add column later_column integer;",
  },
  online: {
    words: "an index, online",
    online: true,
    script: `create index if not exists later_online on holdfast.finished ${COLUMNS};`,
  },
  ordinary: {
    words: "an index, as an ordinary statement",
    online: false,
    script: `create index if not exists later_ordinary on holdfast.finished ${COLUMNS};`,
  },
} as const satisfies Readonly<Record<string, Later>>;

type Kind = keyof typeof LATER;

const KINDS = Object.keys(LATER) as Kind[];

/** What one job waited for. */
interface Waited {
  readonly claimMs: number;
  /** The longer one of its enqueueing and its settling. */
  readonly otherMs: number;
}

interface Loaded {
  readonly tookMs: number;
  readonly jobs: readonly Waited[];
}

/** Clients run jobs until the body has ended. */
async function underLoad(store: Store, body: () => Promise<unknown>): Promise<Loaded> {
  const jobs: Waited[] = [];
  const over = new AbortController();
  const clients = Array.from({ length: CLIENTS }, async (_, n) => {
    while (!over.signal.aborted) {
      jobs.push(await workOn(store, `bench-${n}`));
      await turn(); // SQLite answers within one turn of the event loop, which would then have no time for anything else.
    }
  });
  const startedAt = performance.now();
  try {
    await body();
  } finally {
    over.abort();
    await Promise.all(clients);
  }
  return { tookMs: performance.now() - startedAt, jobs };
}

/** One job from its enqueueing to its end. */
async function workOn(store: Store, worker: string): Promise<Waited> {
  const job = newJob();
  const [, enqueueMs] = await timed(() => store.jobs.enqueue([job]));
  const order = { queues: ["default"], tasks: ["noop"], limit: 1, leaseMs: LEASE_MS };
  const [claimed, claimMs] = await timed(() => store.jobs.claim({ worker, ...order }));
  const outcome = { kind: "done", result: null } as const;
  const endings = claimed.map(({ id, epoch }) => ({ id, worker, epoch, outcome }));
  const [, settleMs] = await timed(() => store.jobs.settle(endings));
  return { claimMs, otherMs: Math.max(enqueueMs, settleMs) };
}

/** A worker tries again what was refused because the table was locked for too long: all of that is waiting. */
async function timed<T>(body: () => Promise<T>): Promise<[T, number]> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return [await body(), performance.now() - startedAt];
    } catch (error) {
      if (!(error instanceof StoreBusyError)) throw error;
    }
  }
}

function newJob(): NewJob {
  const terms = { queue: "default", task: "noop", payload: '"xxxxxxxx"', priority: 0 };
  return { ...terms, id: newId(), maxAttempts: 3, key: null, start: null };
}

/** Migrates as a later version does: it has all kinds up to this one. */
async function apply(url: string, last: Kind): Promise<void> {
  const store = await openStore(url);
  const { engine } = store.db;
  const newest = Math.max(...engine.migrations.map((migration) => migration.version));
  const added: Migration[] = KINDS.slice(0, KINDS.indexOf(last) + 1).map((kind, at) => {
    const { online, script } = LATER[kind];
    const named = engine.migrationDialect.named(script);
    return { version: newest + 1 + at, name: kind, breaking: false, online, script: named };
  });
  const newer = await storeOn(withMigrations(engine, [...engine.migrations, ...added]));
  await newer.migrate();
  await store.close();
}

/** In a process of its own, as a deployment has it: on SQLite, an index blocks the process that builds it. */
async function applyBeside(url: string, kind: Kind): Promise<void> {
  const child = fork(import.meta.filename, ["apply", url, kind]);
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`The migration '${kind}' failed.`);
}

async function filled(engine: SqlEngine): Promise<Place> {
  progress(`${engine}: filling`);
  const place = await scratchPlace(engine);
  const store = await openStore(place.url);
  try {
    await store.migrate();
  } finally {
    await store.close();
  }
  await fill(engine, place, { state: "finished", rows: ROWS });
  return place;
}

async function measure(engine: SqlEngine, { url }: Place): Promise<string[][]> {
  const store = await openStore(url);
  const rows: string[][] = [];
  const add = (words: string, load: Loaded): void => {
    rows.push(rowOf(engine, words, load));
    progress((rows.at(-1) ?? []).join("  "));
  };
  try {
    add("none", await underLoad(store, () => pause(CALM_MS)));
    for (const kind of KINDS) {
      add(LATER[kind].words, await underLoad(store, () => applyBeside(url, kind)));
    }
  } finally {
    await store.close();
  }
  return rows;
}

const HEAD = [
  "engine",
  "migration",
  "took",
  "claims",
  "p50",
  "p99",
  "longest",
  `over ${milliseconds(AIM_MS)}`,
  "longest enqueue or settle",
];

function rowOf(engine: string, words: string, { tookMs, jobs }: Loaded): string[] {
  const claims = jobs.map(({ claimMs }) => claimMs);
  return [
    engine,
    words,
    milliseconds(tookMs),
    whole(claims.length),
    milliseconds(quantile(claims, 0.5)),
    milliseconds(quantile(claims, 0.99)),
    milliseconds(Math.max(...claims)),
    whole(claims.filter((ms) => ms > AIM_MS).length),
    milliseconds(Math.max(...jobs.map(({ otherMs }) => otherMs))),
  ];
}

async function main(): Promise<void> {
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  await using places = new AsyncDisposableStack();
  const filledPlaces = new Map<SqlEngine, Place>();
  for (const engine of engines) filledPlaces.set(engine, places.use(await filled(engine)));
  if (process.env["PAUSE"] === "yes") {
    progress("filled: press Enter");
    await once(process.stdin, "data");
    process.stdin.pause();
  }
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const rows: string[][] = [];
  for (const [engine, place] of filledPlaces) rows.push(...(await measure(engine, place)));
  console.log(`\nClaims of ${CLIENTS} clients while ${whole(ROWS)} finished jobs are migrated.\n`);
  printTable(HEAD, rows);
  console.log(`\nMachine: ${machine.words}.`);
  for (const engine of engines) console.log(`Database: ${await describeServer(engine)}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

const [, , verb, url = "", kind] = process.argv;
if (verb === "apply") await apply(url, kind as Kind);
else await main();
