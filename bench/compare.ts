/**
 * How fast is Holdfast beside others, on one machine, in one run? `npm run bench`
 *
 *     node bench/compare.ts [enqueue] [drain] [pickup] [--json results.json]
 *
 * Everybody once, then everybody again: noise on the machine meets all of them alike, and every figure is compared with
 * ours of the same round. It takes a quarter of an hour.
 *
 * Environment: JOBS (100,000), SINGLES (2,000), PICKUPS (100), ROUNDS (3), SIZE=10,1000 (bytes of payload),
 * ENGINES=sqlite,postgres,mariadb,redis, PEER=none (only Holdfast and the raw loops). Servers that HOLDFAST_TEST_*_URL
 * names are used; others are started, and end with the bench.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Competitor } from "./competitors.ts";
import { chosen, numberFrom, numbersFrom, wordsFrom } from "./environment.ts";
import { progress } from "./figures.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { installPeers } from "./peers.ts";
import type { Order } from "./questions/question.ts";
import { Results, type LeftOut } from "./results.ts";
import { describeServer, getServers } from "./servers.ts";
import { SYSTEMS } from "./systems/all.ts";
import { ENGINES, type EngineName } from "./places.ts";
import { keyOf, QUESTIONS, type QuestionName, type System } from "./systems/system.ts";

/** So many jobs, at most, see whether a system works at all and have its code compiled. */
const WARM_UP_JOBS = 2_000;
const WARM_UP_SINGLES = 100;

interface Plan {
  readonly questions: readonly QuestionName[];
  readonly engines: readonly EngineName[];
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly peers: boolean;
  readonly order: Omit<Order, "question" | "bytes">;
  readonly json: string | null;
}

function plan(): Plan {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { json: { type: "string" } },
  });
  return {
    questions: chosen(positionals.length > 0 ? positionals : QUESTIONS, QUESTIONS),
    engines: wordsFrom("ENGINES", ENGINES),
    sizes: numbersFrom("SIZE", [10, 1_000]),
    rounds: numberFrom("ROUNDS", 3),
    peers: process.env["PEER"] !== "none",
    order: {
      jobs: numberFrom("JOBS", 100_000),
      singles: numberFrom("SINGLES", 2_000),
      pickups: numberFrom("PICKUPS", 100),
    },
    json: values.json ?? null,
  };
}

/** Who is asked to take part. */
function invited({ peers, engines, questions }: Plan): System[] {
  return SYSTEMS.filter(
    ({ engine, role, answers }) =>
      engines.includes(engine) &&
      (peers || role !== "peer") &&
      questions.some((question) => answers.includes(question)),
  );
}

function serversOf(systems: readonly System[]): EngineName[] {
  return [...new Set(systems.flatMap(({ engine, besides }) => [engine, besides ?? engine]))];
}

/** Who cannot take part, and why. */
function whoCannot(
  systems: readonly System[],
  missing: ReadonlyMap<EngineName, string>,
): LeftOut[] {
  const needPackages = systems.some(({ packages }) => packages.length > 0);
  const hindrance = needPackages ? tryToInstall() : null;
  return systems.flatMap((system) => {
    const reason =
      serversOf([system])
        .map((engine) => missing.get(engine))
        .find((each) => each !== undefined) ?? (system.role === "peer" ? hindrance : null);
    return reason === null ? [] : [{ system: keyOf(system), reason }];
  });
}

function tryToInstall(): string | null {
  try {
    installPeers();
    return null;
  } catch (error) {
    return `its packages cannot be installed: ${(error as Error).message}`;
  }
}

/** Asks one system, and takes it out of the run if it fails: everybody else goes on. */
async function ask(competitor: Competitor, order: Order, results: Results): Promise<void> {
  const { system } = competitor;
  if (!system.answers.includes(order.question) || results.isOut(system)) return;
  try {
    results.add(system, order, await competitor.ask(order));
  } catch (error) {
    results.leaveOut(system, (error as Error).message);
    competitor.end();
  }
}

async function warmUp(
  competitors: readonly Competitor[],
  run: Plan,
  results: Results,
): Promise<void> {
  const order = {
    jobs: Math.min(WARM_UP_JOBS, run.order.jobs),
    singles: Math.min(WARM_UP_SINGLES, run.order.singles),
    pickups: 1,
    bytes: run.sizes[0] ?? 10,
  };
  for (const competitor of competitors) {
    progress(`warming up  ${keyOf(competitor.system)}`);
    for (const question of run.questions.filter((each) => each !== "pickup")) {
      await ask(competitor, { ...order, question }, results);
    }
  }
  results.forgetFigures();
}

async function measure(
  competitors: readonly Competitor[],
  run: Plan,
  results: Results,
): Promise<void> {
  for (let round = 1; round <= run.rounds; round += 1) {
    for (const question of run.questions) {
      const sizes = question === "pickup" ? run.sizes.slice(0, 1) : run.sizes;
      for (const bytes of sizes) {
        results.begin(`round ${round}/${run.rounds}`);
        for (const competitor of competitors) {
          await ask(competitor, { ...run.order, question, bytes }, results);
        }
      }
    }
  }
}

async function main(): Promise<void> {
  const run = plan();
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const all = invited(run);
  await using servers = await getServers(serversOf(all));
  const leftOut = whoCannot(all, servers.missing);
  const systems = all.filter((system) => leftOut.every((out) => out.system !== keyOf(system)));
  const results = new Results(run, systems, leftOut);
  const competitors = systems.map((system) => new Competitor(system));
  try {
    await warmUp(competitors, run, results);
    await measure(competitors, run, results);
  } finally {
    for (const competitor of competitors) competitor.end();
  }
  const databases = await Promise.all(serversOf(systems).map(describeServer));
  results.print(machine, databases);
  if (run.json !== null) writeFileSync(run.json, results.json(machine, databases));
  if (results.incomplete) process.exitCode = 1;
}

await main();
