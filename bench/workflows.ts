/**
 * What do workflows cost? `npm run bench:workflows`
 *
 *     node bench/workflows.ts [--json workflows.json]
 *
 * A move and an update of a child, each with its parent and its line in the audit: by the library, with the distributed lock
 * off, in the database and in Redis, and as the bare statements of the same change on one connection of the driver's. One
 * after the other, and who begins changes from round to round: what disturbs the machine disturbs all. Then a load: a hundred
 * clients send a hundred updates a second over ten orders, and the audit tells how long each waited for its lock; and three
 * clients update the parts of ten orders without a pause, also with the lock off. Last, a contest: four processes update the parts of one order without a pause.
 *
 * Environment: CHANGES (100) in each of ROUNDS (7), SECONDS (20), CLIENTS (100), RATE (100), CONTESTED (250) by each of the three and of the four, ENGINES=sqlite,postgres,mariadb.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { numberFrom, wordsFrom } from "./environment.ts";
import {
  median,
  milliseconds,
  perSecond,
  printTable,
  progress,
  quantile,
  whole,
} from "./figures.ts";
import { SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { describeServer, getServers } from "./servers.ts";
import { measureCosts, type Competitor, type Costs } from "./workflows/cost.ts";
import { measureLoad, PROCESSES, type LoadReport } from "./workflows/load.ts";
import { MODES, type Mode } from "./workflows/open.ts";

const ROUNDS = numberFrom("ROUNDS", 7);
/** Even, so that an item that goes to and fro is back at the end of a round. */
const CHANGES = 2 * Math.ceil(numberFrom("CHANGES", 100) / 2);
const SECONDS = numberFrom("SECONDS", 20);
const CLIENTS = numberFrom("CLIENTS", 100);
const RATE = numberFrom("RATE", 100);
/** Updates of each process in the contest. */
const CONTESTED = numberFrom("CONTESTED", 250);
const PARENTS = 10;

const LOAD = {
  clients: CLIENTS,
  parents: PARENTS,
  updates: Math.round((RATE * SECONDS) / CLIENTS),
  everyMs: (CLIENTS / RATE) * 1_000,
};
/** Few clients, as in most installations; here also without a lock, whose wait is none. */
const FEW = { clients: 3, parents: PARENTS, updates: CONTESTED, everyMs: 0 };
const CONTEST = { clients: PROCESSES, parents: 1, updates: CONTESTED, everyMs: 0 };

/** What the library may add to the bare statements. */
const ADDED_MS_MAX = 3;
const WAIT_MS_MAX = 10;
const TIMEOUTS_MAX = 0.001;

function verdict(isReached: boolean): string {
  return isReached ? "reached" : "MISSED";
}

/** What a layer adds to the bare statements: the median of the rounds, as each is disturbed in its own way. */
function added({ by }: Costs, name: Competitor): number {
  const bare = by.get("bare") ?? [];
  return median((by.get(name) ?? []).map((ms, round) => ms - (bare[round] ?? Number.NaN)));
}

function costRows(costs: Costs, modes: readonly Mode[]): string[][] {
  const { engine, kind, by } = costs;
  const each = (name: Competitor): string => milliseconds(median(by.get(name) ?? []));
  return modes.map((mode) => [
    engine,
    kind,
    mode,
    each(mode),
    each("bare"),
    milliseconds(added(costs, mode)),
    verdict(added(costs, mode) <= ADDED_MS_MAX),
  ]);
}

const COST_HEAD = [
  "engine",
  "change",
  "lock",
  "library",
  "bare",
  "added",
  `at most ${ADDED_MS_MAX} ms`,
];

function loadRow(report: LoadReport): string[] {
  const { engine, mode, ms, took, timeouts, errors } = report;
  const waits = report.waits.length === 0 ? [0] : report.waits; // none with the lock off
  const mean = waits.reduce((sum, wait) => sum + wait, 0) / waits.length;
  const share = timeouts / (took.length + timeouts);
  return [
    engine,
    mode,
    whole(took.length),
    perSecond((took.length / ms) * 1_000),
    milliseconds(mean),
    milliseconds(quantile(waits, 0.95)),
    milliseconds(quantile(waits, 0.99)),
    milliseconds(Math.max(...waits)),
    milliseconds(quantile(took, 0.5)),
    milliseconds(quantile(took, 0.99)),
    whole(timeouts),
    whole(errors.length),
    verdict(mean < WAIT_MS_MAX && share < TIMEOUTS_MAX && errors.length === 0),
  ];
}

const LOAD_HEAD = [
  "engine",
  "lock",
  "updates",
  "rate",
  "lock wait",
  "p95",
  "p99",
  "most",
  "update p50",
  "update p99",
  "time-outs",
  "errors",
  `under ${WAIT_MS_MAX} ms, 0.1 %`,
];

async function loads(
  engines: readonly SqlEngine[],
  modes: readonly Mode[],
  load: typeof LOAD,
  { off = false }: { off?: boolean } = {},
): Promise<LoadReport[]> {
  const reports: LoadReport[] = [];
  for (const engine of engines) {
    for (const mode of modes.filter((each) => off || each !== "off")) {
      progress(`${engine}: ${load.clients} clients on ${load.parents} orders, lock ${mode}`);
      reports.push(await measureLoad({ engine, mode, ...load }));
    }
  }
  return reports;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { json: { type: "string" } } });
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers([...wanted, "redis"]);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  const modes = MODES.filter((mode) => mode !== "redis" || !servers.missing.has("redis"));
  const costs: Costs[] = [];
  for (const engine of engines) {
    costs.push(...(await measureCosts({ engine, modes, rounds: ROUNDS, changes: CHANGES })));
  }
  const reports = await loads(engines, modes, LOAD);
  const few = await loads(engines, modes, FEW, { off: true });
  const contests = await loads(engines, modes, CONTEST);
  console.log(
    `\nOne change at a time, ${CHANGES} in a round, medians of ${ROUNDS} rounds in turn.\n`,
  );
  printTable(
    COST_HEAD,
    costs.flatMap((each) => costRows(each, modes)),
  );
  console.log(
    `\n${CLIENTS} clients in ${PROCESSES} processes, ${RATE} updates a second over ${PARENTS} orders.\n`,
  );
  printTable(LOAD_HEAD, reports.map(loadRow));
  console.log(`\n${FEW.clients} clients on ${PARENTS} orders without a pause.\n`);
  printTable(LOAD_HEAD, few.map(loadRow));
  console.log(`\n${PROCESSES} processes that update the parts of one order without a pause.\n`);
  printTable(LOAD_HEAD, contests.map(loadRow));
  const databases = await Promise.all([...engines, "redis" as const].map(describeServer));
  console.log(`\nMachine: ${machine.words}.`);
  for (const database of databases) console.log(`Database: ${database}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
  if (values.json !== undefined) {
    const measured = costs.map(({ by, ...cost }) => ({ ...cost, by: Object.fromEntries(by) }));
    const all = {
      at: new Date().toISOString(),
      machine,
      databases,
      costs: measured,
      loads: reports,
      few,
      contests,
    };
    writeFileSync(values.json, `${JSON.stringify(all, null, 2)}\n`);
  }
}

await main();
