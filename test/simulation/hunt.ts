/**
 * `npm run mutants`: plants each bug in a process of its own and runs seeds until the simulation finds it.
 *
 * With --one it is that process: it prints what it found as a line of JSON. With --first it tries that seed before all.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs } from "node:util";
import { foundAt, mutants, type Mutant } from "./mutants.ts";

/** The hunt for a mutant ends after this many seeds. */
const SEEDS_MAX = 2_000;
const AT_ONCE = 2;

export interface Caught {
  readonly mutant: string;
  /** Null: it was not. */
  readonly by: string | null;
  readonly problem: string;
  /** How many were run. */
  readonly seeds: number;
  readonly seconds: number;
}

export interface HuntOptions {
  /** Begins where each was found before. */
  readonly inHurry?: boolean;
  readonly hear?: (caught: Caught) => void;
}

/** Two at a time, in their order. */
export async function hunt(
  hunted: readonly Mutant[],
  { inHurry = false, hear = () => {} }: HuntOptions = {},
): Promise<Caught[]> {
  const results: Caught[] = [];
  const next = hunted.entries();
  const work = async (): Promise<void> => {
    for (const [index, mutant] of next) {
      const caught = await huntOne(mutant, inHurry ? (foundAt[mutant.name] ?? 1) : 1);
      results[index] = caught;
      hear(caught);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

async function huntOne({ name }: Mutant, first: number): Promise<Caught> {
  const plant = join(import.meta.dirname, "plant.ts");
  const args = ["--import", plant, import.meta.filename, "--one", "--first", String(first)];
  const child = spawn(process.execPath, args, {
    env: {
      NODE_COMPILE_CACHE: join(tmpdir(), "holdfast-mutants"),
      ...process.env,
      HOLDFAST_MUTANT: name,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close");
  const [out, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  const line = out.trim().split("\n").at(-1) ?? "";
  if (child.exitCode !== 0 || line === "")
    throw new Error(`The mutant '${name}' did not run: ${errors}`);
  return { mutant: name, ...(JSON.parse(line) as Omit<Caught, "mutant">) };
}

/** In the process that has the bug. */
async function searchHere(firstSeed: number): Promise<void> {
  // Only here: the other programs need none of it.
  const { Database } = await import("./database.ts");
  const { simulate } = await import("./simulate.ts");
  const { unplanted } = await import("./plant.ts");
  if (unplanted().length > 0) throw new Error(`Never loaded: ${unplanted().join(", ")}`);
  Error.stackTraceLimit = 0;
  const startedAt = performance.now();
  const database = await Database.open();
  const found = (by: string | null, problem: string, seeds: number): void => {
    const seconds = (performance.now() - startedAt) / 1_000;
    console.log(JSON.stringify({ by, problem, seeds, seconds }));
    process.exit(0);
  };
  process.on("uncaughtException", (error) => found("it broke", String(error), 0));
  const all = Array.from({ length: SEEDS_MAX }, (_, index) => index + 1);
  const seeds = [firstSeed, ...all.filter((seed) => seed !== firstSeed)];
  for (const [index, seed] of seeds.entries()) {
    const { violations } = await simulate(database, seed);
    const [first] = violations;
    if (first !== undefined) found(first.invariant, first.problem, index + 1);
  }
  found(null, "", SEEDS_MAX);
}

export function tableOf(results: readonly Caught[]): string {
  const rows = results.map(({ mutant, by, seeds, seconds }) => {
    const words = by === null ? `**not caught** in ${seeds}` : String(seeds);
    return `| ${mutant} | ${by ?? "–"} | ${words} | ${seconds.toFixed(1)} |`;
  });
  return ["| planted | caught by | seeds | seconds |", "|---|---|---|---|", ...rows].join("\n");
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      one: { type: "boolean", default: false },
      first: { type: "string", default: "1" },
      only: { type: "string" },
    },
  });
  if (values.one) return searchHere(Number(values.first));
  const chosen = mutants.filter(({ name }) => name.includes(values.only ?? ""));
  const startedAt = performance.now();
  const hear = ({ mutant, by, seeds, problem }: Caught): void => {
    console.log(`${by === null ? "NOT CAUGHT" : "caught"} after ${seeds} seeds: ${mutant}`);
    if (by !== null) console.log(`  ${by}: ${problem.slice(0, 200)}`);
  };
  const results = await hunt(chosen, { hear });
  console.log(`\n${tableOf(results)}\n\n${((performance.now() - startedAt) / 1_000).toFixed(1)} s`);
  if (results.some(({ by }) => by === null)) process.exitCode = 1;
}

if (import.meta.main) await main();
