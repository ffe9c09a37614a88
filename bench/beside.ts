/**
 * Is this checkout as fast as another one of the same project? `npm run bench:beside -- <folder>`
 *
 * The other one, usually of an older commit with its packages installed, answers the same questions in turn with this one;
 * a ratio is the median of the ratios of each round.
 *
 * Environment: as of compare.ts; ROUNDS (5), JOBS (50,000), SINGLES (1,000), SIZE=10.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { numberFrom, wordsFrom } from "./environment.ts";
import { median, perSecond, printTable, progress, ratio } from "./figures.ts";
import { SQL_ENGINES } from "./fill.ts";
import { lookAtMachine, sayHowQuiet } from "./machine.ts";
import { getServers } from "./servers.ts";

const ROUNDS = numberFrom("ROUNDS", 5);
const QUESTIONS = ["enqueue", "drain"];

/** Figures of one round, by engine and metric. */
type Figures = Map<string, number>;

const here = resolve(import.meta.dirname, "..");
const [, , other] = process.argv;
if (other === undefined) {
  console.error("Name the folder of the other checkout: npm run bench:beside -- ../old");
  process.exit(2);
}

function measure(checkout: string): Figures {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-beside-"));
  const results = join(folder, "results.json");
  const env = { JOBS: "50000", SINGLES: "1000", SIZE: "10", ...process.env };
  try {
    const args = ["bench/compare.ts", ...QUESTIONS, "--json", results];
    execFileSync(join(checkout, "node_modules/.bin/node"), args, {
      cwd: checkout,
      env: { ...env, ROUNDS: "1", PEER: "none" },
      stdio: ["ignore", "ignore", "ignore"],
    });
    return figuresIn(JSON.parse(readFileSync(results, "utf8")) as Results);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Results {
  readonly systems: readonly {
    readonly system: string;
    readonly figures: Readonly<Record<string, readonly number[]>>;
  }[];
}

function figuresIn({ systems }: Results): Figures {
  const ours = systems.filter(({ system }) => system.startsWith("holdfast on "));
  return new Map(
    ours.flatMap(({ system, figures }) =>
      Object.entries(figures).map(([metric, [figure = Number.NaN]]) => [
        `${system}: ${metric}`,
        figure,
      ]),
    ),
  );
}

async function main(folder: string): Promise<void> {
  const machine = await lookAtMachine();
  sayHowQuiet(machine);
  await using servers = await getServers(wordsFrom("ENGINES", SQL_ENGINES));
  for (const reason of servers.missing.values()) console.log(`LEFT OUT: ${reason}`);
  const rounds: { readonly new: Figures; readonly old: Figures }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    // Each goes first in every other round.
    const first = round % 2 === 0 ? measure(here) : measure(folder);
    const second = round % 2 === 0 ? measure(folder) : measure(here);
    rounds.push(round % 2 === 0 ? { new: first, old: second } : { new: second, old: first });
    progress(`round ${round + 1} of ${ROUNDS}`);
  }
  const metrics = [...(rounds[0]?.new.keys() ?? [])];
  const rows = metrics.map((metric) => {
    const ours = rounds.map((round) => round.new.get(metric) ?? Number.NaN);
    const theirs = rounds.map((round) => round.old.get(metric) ?? Number.NaN);
    const each = ours.map((figure, at) => (figure / (theirs[at] ?? Number.NaN)).toFixed(2));
    return [
      metric,
      perSecond(median(theirs)),
      perSecond(median(ours)),
      ratio(ours, theirs).toFixed(3),
      each.join(" "),
    ];
  });
  printTable(["figure", "other", "this", "ratio", "rounds"], rows);
  console.log(`\nMachine: ${machine.words}.`);
  if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
}

await main(resolve(other));
