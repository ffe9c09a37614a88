/**
 * How long does an examination take when much is stored? `npm run bench:doctor`
 *
 * Jobs that finished, and some that live, then every check but the deep ones, several times over. The slowest are told by name.
 *
 * Environment: ROWS (1,000,000), LIVE (10,000), ROUNDS (5), ENGINES=sqlite,postgres,mariadb.
 */
import { openHoldfast } from "../src/index.ts";
import { Doctor, type Diagnosis } from "../src/doctor/doctor.ts";
import { numberFrom, wordsFrom } from "./environment.ts";
import { median, milliseconds, printTable, progress, whole } from "./figures.ts";
import { fill, SQL_ENGINES, type SqlEngine } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { scratchPlace } from "./places.ts";
import { describeServer, getServers } from "./servers.ts";

const ROWS = numberFrom("ROWS", 1_000_000);
const LIVE = numberFrom("LIVE", 10_000);
const ROUNDS = numberFrom("ROUNDS", 5);
const SLOWEST = 3;
/** What an examination may take of SQLite and PostgreSQL with a million jobs. */
const AIM_MS = 2_000;

async function measure(engine: SqlEngine): Promise<string[]> {
  await using place = await scratchPlace(engine);
  await using holdfast = await openHoldfast(place.url);
  progress(`${engine}: filling`);
  await fill(engine, place, { state: "finished", rows: ROWS });
  await fill(engine, place, { state: "pending", rows: LIVE });
  await fill(engine, place, { state: "scheduled", rows: LIVE });
  const doctor = new Doctor(holdfast);
  const [full, quick]: [Diagnosis[], Diagnosis[]] = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    full.push(await doctor.examine());
    quick.push(await doctor.examine({ quick: true }));
    progress(`${engine}: ${milliseconds(full.at(-1)?.tookMs ?? 0)}`);
  }
  refuseFindings(full);
  const all = median(full.map(({ tookMs }) => tookMs));
  return [
    engine,
    String(full[0]?.checks.length),
    milliseconds(all),
    milliseconds(median(quick.map(({ tookMs }) => tookMs))),
    slowest(full),
    engine === "mariadb" ? "–" : all < AIM_MS ? "reached" : "NOT REACHED",
  ];
}

/** The findings must be the jobs that no worker runs, and the workers of the attempts, which the bench made up. */
function refuseFindings(looks: readonly Diagnosis[]): void {
  const expected = new Set(["job-unclaimable", "worker-id-format"]);
  for (const { check, problem } of looks.flatMap(({ findings }) => findings)) {
    if (!expected.has(check)) throw new Error(`${check}: ${problem}`);
  }
}

function slowest(looks: readonly Diagnosis[]): string {
  const names = looks[0]?.checks.map(({ name }) => name) ?? [];
  return names
    .map((name) => {
      const times = looks.map(
        ({ checks }) => checks.find((check) => check.name === name)?.tookMs ?? 0,
      );
      return { name, ms: median(times) };
    })
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, SLOWEST)
    .map(({ name, ms }) => `${name} ${milliseconds(ms)}`)
    .join(", ");
}

async function main(): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  const wanted = wordsFrom("ENGINES", SQL_ENGINES);
  await using servers = await getServers(wanted);
  const engines = wanted.filter((engine) => !servers.missing.has(engine));
  const rows: string[][] = [];
  for (const engine of engines) rows.push(await measure(engine));
  console.log(
    `\nAn examination of ${whole(ROWS)} finished, ${whole(LIVE)} pending and ${whole(LIVE)} scheduled jobs, ` +
      `medians of ${whole(ROUNDS)}.\n`,
  );
  const aim = `under ${milliseconds(AIM_MS)}`;
  printTable(["engine", "checks", "all", "quick ones", "the slowest", aim], rows);
  console.log(`\nMachine: ${machine.words}.`);
  for (const engine of engines) console.log(`Database: ${await describeServer(engine)}.`);
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

await main();
