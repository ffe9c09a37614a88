/**
 * Runs the test files, in groups: `node scripts/test.ts [group …] [--without group …] [--check] [--long]
 * [--coverage]`.
 *
 * Without a name all groups run. `test/types` is not among them: it is compiled, never run. Many tests wait for a lease to
 * end or a process to start, so three groups run at a time: while one waits, another computes. With --check, `npm run check`
 * comes first, beside the groups that wait for nothing. Installing and starting the servers goes on meanwhile.
 *
 * The long batteries run as samples with a fresh seed, which is printed and repeated with HOLDFAST_SEED. With --long they run
 * in full, and docs/evidence/long-run.md says what they counted. With --coverage, docs/evidence/coverage.md says how much of
 * src/ ran.
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";
import { assemble } from "./build.ts";
import { endChildrenWithUs, runNode, stopAll } from "./child.ts";
import { Coverage } from "./coverage.ts";
import { writeEvidence, type GroupRun } from "./evidence.ts";
import { memoryFolder } from "./memory.ts";
import { inCi, notTested, type Demand, type Missing } from "./services/choice.ts";
import { SERVERS, type Need } from "./services/names.ts";
import { Supply } from "./services/supply.ts";
import { bundlePrograms } from "./test-programs.ts";

/** A run that takes longer hangs: it is ended with its children. */
const ALL_TESTS_LIMIT_MS = 30 * 60_000;
const LONG_TESTS_LIMIT_MS = 3 * 3_600_000;

/** A file that hangs fails its group, and the others still run. The longest group takes three minutes, or twenty. */
const GROUP_LIMIT_MS = 10 * 60_000;
const LONG_GROUP_LIMIT_MS = 60 * 60_000;

const SEEDS = 2 ** 31;

/** Of a group that failed, this much is told again at the end, where it is read. */
const FAILURE_CHARS_MAX = 6_000;

/** More test files than this do not fail because the machine was busy. */
const AGAIN_FILES_MAX = 5;

/** Groups under way at once, besides those that run on what is left of the cores. */
const LANES = 3;

interface Group {
  /** How many test files run at once. */
  readonly atOnce: number;
  /** What all its tests share; see scripts/services. */
  readonly needs?: readonly Need[];
  /** Its tests also start servers of their own, to kill them. */
  readonly killsServers?: boolean;
  /** Nothing in it depends on how fast it is: it runs beside the others, on what they leave of the cores. */
  readonly beside?: boolean;
  /** Its files share one process, which loads the sources once. */
  readonly inOne?: boolean;
  /** Its processes use all cores by themselves, but wait for leases too: it comes when no group is left that it makes late. */
  readonly crowded?: boolean;
  /** It says how long something may take: it comes after the others. */
  readonly timed?: boolean;
  /** With every seed, another nth of its files runs. A long run, and one of this group alone, has all. */
  readonly share?: number;
  /** It looks for races: a failure that does not come again counts. Files of other groups that fail are run once more, alone. */
  readonly strict?: boolean;
}

/** In the order in which they begin. Those that take long stand first, so that no lane is left with one of them at the end. */
const GROUPS: Readonly<Record<string, Group>> = {
  unit: { atOnce: 1, inOne: true },
  conformance: { atOnce: 2, needs: SERVERS, strict: true },
  golden: { atOnce: 1, inOne: true },
  dashboard: { atOnce: 1, needs: [...SERVERS, "chromium"], inOne: true },
  servers: { atOnce: 3, needs: SERVERS, killsServers: true },
  http: { atOnce: 1, needs: [...SERVERS, "promtool"], inOne: true },
  cli: { atOnce: 1, needs: SERVERS, inOne: true },
  simulation: { atOnce: 1, beside: true, strict: true },
  isolation: { atOnce: 1, needs: ["postgres", "isolationtester"], beside: true, strict: true },
  worker: { atOnce: 1, needs: SERVERS, inOne: true },
  package: { atOnce: 1, needs: ["postgres"] },
  races: { atOnce: 2, needs: SERVERS, strict: true, share: 2 },
  ops: { atOnce: 1, needs: SERVERS, inOne: true },
  deploy: { atOnce: 1 },
  within: { atOnce: 1, needs: SERVERS, inOne: true },
  model: { atOnce: 2, needs: SERVERS, strict: true },
  crash: { atOnce: 1, needs: SERVERS, strict: true },
  workflows: { atOnce: 1, needs: SERVERS, inOne: true },
  verify: { atOnce: 2, needs: SERVERS, killsServers: true, crowded: true, strict: true },
  "workflow-races": {
    atOnce: 2,
    needs: SERVERS,
    killsServers: true,
    crowded: true,
    strict: true,
    share: 2,
  },
  registry: { atOnce: 2, needs: SERVERS, timed: true, share: 2 },
  locks: { atOnce: 2, needs: SERVERS, killsServers: true, timed: true, share: 2 },
};

export interface Planned {
  readonly group: string;
  readonly files: readonly string[];
}

/** A request that cannot be carried out; its message is all the user needs. */
export class PlanError extends Error {}

/** Decides what to run, and refuses to leave out silently a file or a group that was asked for. */
export function plan(root: string, args: readonly string[]): Planned[] {
  const { positionals, values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      without: { type: "string", multiple: true, default: [] },
      check: { type: "boolean", default: false },
      long: { type: "boolean", default: false },
      coverage: { type: "boolean", default: false },
    },
  });
  for (const name of [...positionals, ...values.without]) refuseUnknown(name);
  refuseStrays(root);
  const named = positionals.length > 0;
  const groups = named ? positionals : Object.keys(GROUPS);
  const planned = groups
    .filter((group) => !values.without.includes(group))
    .map((group) => ({ group, files: testFiles(root, group) }));
  const empty = planned.filter(({ files }) => files.length === 0).map(({ group }) => group);
  if (named && empty.length > 0) throw new PlanError(`No test file in: ${empty.join(", ")}.`);
  return planned;
}

function refuseUnknown(name: string): void {
  if (name in GROUPS) return;
  const known = Object.keys(GROUPS).join(", ");
  throw new PlanError(`No test group is called '${name}'. There are: ${known}.`);
}

/** A test file outside the groups would never run, unnoticed. */
function refuseStrays(root: string): void {
  const groups = new Set([...Object.keys(GROUPS), "types"]);
  const stray = globSync("test/**/*.test.ts", { cwd: root }).filter(
    (file) => !groups.has(file.split(/[/\\]/)[1] ?? ""),
  );
  if (stray.length === 0) return;
  throw new PlanError(`These belong to no group of scripts/test.ts: ${stray.join(", ")}.`);
}

function testFiles(root: string, group: string): string[] {
  return globSync(`test/${group}/**/*.test.ts`, { cwd: root }).toSorted();
}

/** The files of a group whose turn it is. An odd or even seed chooses the server: each file meets both. */
export function drawn({ group, files }: Planned, seed: number): readonly string[] {
  const { share = 1 } = GROUPS[group] ?? {};
  const first = Math.floor(seed / 2);
  return files.filter((_, index) => (index + first) % share === 0);
}

/** The servers that these groups need. A group without a file needs none. */
export function demandOf(planned: readonly Planned[]): Demand {
  const groups = planned
    .filter(({ files }) => files.length > 0)
    .flatMap(({ group }) => GROUPS[group] ?? []);
  return {
    shared: [...new Set(groups.flatMap(({ needs }) => needs ?? []))],
    own: groups.some(({ killsServers }) => killsServers) ? SERVERS : [],
  };
}

/** Gets the servers, and says what cannot be tested for want of the others. */
async function supplyFor(planned: readonly Planned[]): Promise<Supply | null> {
  const demand = demandOf(planned);
  if (demand.shared.length === 0) return null;
  const surroundings = { env: process.env, say: console.log, durable: false };
  const supply = await Supply.for(demand, surroundings);
  Object.assign(process.env, supply.env);
  if (supply.missing.length > 0) console.error(notTested(supply.missing));
  refuseGaps(supply.missing, process.env);
  return supply;
}

/** A build machine that leaves something out would say that all is well. */
export function refuseGaps(missing: readonly Missing[], env: NodeJS.ProcessEnv): void {
  if (missing.length === 0 || !inCi(env)) return;
  throw new PlanError("With CI=true nothing may be left untested: see above.");
}

/** Where a report tells all tests that failed; the last of what was said, if it never came to that. */
export function failuresIn(report: string): string {
  const at = report.lastIndexOf("\n✖ failing tests:");
  return report.slice(at === -1 ? -FAILURE_CHARS_MAX : at).slice(0, FAILURE_CHARS_MAX);
}

/** The test files with a failure, by the places that a report names: those files, or modules that they share. */
export function failedFilesIn(report: string, importers: (module: string) => string[]): string[] {
  const failures = report.slice(report.lastIndexOf("\n✖ failing tests:"));
  const places = [...failures.matchAll(/^test at (\S+?\.ts):/gm)].map(([, file = ""]) => file);
  const files = places.flatMap((file) => (file.endsWith(".test.ts") ? [file] : importers(file)));
  return [...new Set(files)];
}

function importersIn(group: string): (module: string) => string[] {
  return (module) => {
    const ending = `/${basename(module)}";`;
    return testFiles(".", group).filter((file) => readFileSync(file, "utf8").includes(ending));
  };
}

/**
 * Some tests wait for a lease or a process, and a busy machine is late for them. What they look for happens every time, so
 * a second run without anything beside it decides; it is said which files needed one.
 */
async function runAgain(runs: readonly GroupRun[]): Promise<GroupRun[]> {
  const failed = runs.filter(({ code, group }) => code !== 0 && GROUPS[group]?.strict !== true);
  const files = failed.map(({ output, group }) => failedFilesIn(output, importersIn(group)));
  if (files.flat().length > AGAIN_FILES_MAX) return [...runs];
  const passed = new Map<string, string[]>();
  for (const [index, { group }] of failed.entries()) {
    const own = files[index] ?? [];
    if (own.length === 0) continue;
    console.log(`\n${group}: once more, alone: ${own.join(", ")}`);
    const again = await runNode(["--test", "--test-concurrency=1", ...own], { output: "show" });
    if (again.code === 0) passed.set(group, own);
  }
  return runs.map((run) => {
    const again = passed.get(run.group);
    return again === undefined ? run : { ...run, code: 0, again };
  });
}

/**
 * A program that loads all files of a group. Node's own way to run them in one process sets its hooks before
 * quick-imports.ts can turn them off.
 */
function entryOf(group: string, files: readonly string[]): string {
  const entry = resolve(`node_modules/.cache/holdfast-groups/${group}.js`);
  mkdirSync(dirname(entry), { recursive: true });
  const imports = files.map((file) => `await import(${JSON.stringify(pathToFileURL(file).href)});`);
  writeFileSync(entry, `${imports.join("\n")}\n`);
  return entry;
}

/** A lone group shows what it does; of several, each tells it when it is over. Null: it has no tests. */
async function runGroup({ group, files }: Planned, alone: boolean): Promise<GroupRun | null> {
  if (files.length === 0) {
    console.log(`\n${group}: no test files yet`);
    return null;
  }
  const { atOnce, beside = false, inOne = false } = GROUPS[group] ?? { atOnce: 1 };
  const title = `\n${group}: ${files.length} files, ${atOnce} at once\n  ${files.join("\n  ")}`;
  console.log(alone ? title : `${group}: started`);
  const limitMs = process.env["LONG"] === "1" ? LONG_GROUP_LIMIT_MS : GROUP_LIMIT_MS;
  const kind = { output: alone ? "show" : "keep", beside, limitMs } as const;
  const args = inOne
    ? ["--test-reporter=spec", entryOf(group, files)]
    : ["--test", "--test-reporter=spec", `--test-concurrency=${atOnce}`, ...files];
  const { code, ms, output } = await runNode(args, kind);
  if (!alone) console.log(`${title}\n${output}`);
  console.log(`${group}: ${code === 0 ? "passed" : "FAILED"} in ${(ms / 1_000).toFixed(1)} s`);
  return { group, code, ms, output };
}

/** A group that needs a server begins when all servers are ready. */
async function runAll(
  all: readonly Planned[],
  { alone, ready, checked }: { alone: boolean; ready: Promise<unknown>; checked: Promise<unknown> },
): Promise<GroupRun[]> {
  const runs: GroupRun[] = [];
  const inTurn = async (groups: Iterable<Planned>): Promise<void> => {
    for (const planned of groups) {
      if (GROUPS[planned.group]?.needs !== undefined) await ready;
      const run = await runGroup(planned, alone);
      if (run !== null) runs.push(run);
    }
  };
  const inLanes = async (groups: readonly Planned[]): Promise<void> => {
    const left = groups.values();
    await Promise.all(Array.from({ length: LANES }, () => inTurn(left)));
  };
  const kept = (kind: "beside" | "crowded" | "timed"): Planned[] =>
    all.filter(({ group }) => GROUPS[group]?.[kind] === true);
  const [beside, crowded, timed] = [kept("beside"), kept("crowded"), kept("timed")];
  const others = all.filter((planned) => ![...beside, ...crowded, ...timed].includes(planned));
  const inOrder = async (): Promise<void> => {
    await checked;
    await inLanes(others);
    await inLanes(crowded);
    await inLanes(timed);
  };
  await Promise.all([inTurn(beside), inOrder()]);
  return runs;
}

async function isChecked(): Promise<boolean> {
  return (await runNode(["scripts/check.ts"], { output: "show" })).code === 0;
}

async function main(): Promise<void> {
  process.chdir(`${import.meta.dirname}/..`);
  const isLong = process.argv.includes("--long");
  endChildrenWithUs(
    isLong
      ? { limit: "LONG_TESTS_LIMIT_MS", limitMs: LONG_TESTS_LIMIT_MS }
      : { limit: "ALL_TESTS_LIMIT_MS", limitMs: ALL_TESTS_LIMIT_MS },
  );
  if (isLong) process.env["LONG"] ??= "1";
  process.env["HOLDFAST_SEED"] ??= String(Date.now() % SEEDS);
  // Hundreds of processes load the same files: compiled once, each starts in a quarter of the time.
  process.env["NODE_COMPILE_CACHE"] ??= resolve("node_modules/.cache/compiled");
  const imports = pathToFileURL(resolve("scripts/quick-imports.ts")).href;
  process.env["NODE_OPTIONS"] = `${process.env["NODE_OPTIONS"] ?? ""} --import=${imports}`;
  const planned = plan(".", process.argv.slice(2));
  const isWhole = isLong || planned.length === 1;
  const seed = Number(process.env["HOLDFAST_SEED"]);
  const all = isWhole ? planned : planned.map((one) => ({ ...one, files: drawn(one, seed) }));
  const memory = memoryFolder();
  if (memory !== null) process.env["TMPDIR"] = memory;
  const removeMemory = (): void => {
    if (memory !== null) rmSync(memory, { recursive: true, force: true, maxRetries: 3 });
  };
  const coverage = process.argv.includes("--coverage") ? new Coverage() : null;
  Object.assign(process.env, coverage?.env);
  const ready = supplyFor(all);
  ready.catch(() => {}); // told when it is awaited
  // What is bundled has other offsets than the sources.
  if (coverage === null && all.some(({ group }) => group !== "unit")) {
    const folder = resolve("node_modules/.cache/holdfast-package");
    const programs = join(folder, "programs");
    await Promise.all([assemble(folder), bundlePrograms(programs)]);
    process.env["HOLDFAST_PACKAGE"] = folder;
    process.env["HOLDFAST_TEST_PROGRAMS"] = programs;
  }
  console.log(`Seed ${process.env["HOLDFAST_SEED"]}: HOLDFAST_SEED=… runs the same samples again.`);
  const checked = process.argv.includes("--check") ? isChecked() : Promise.resolve(true);
  void checked.then((isGood) => {
    if (isGood) return;
    console.error("The tests were stopped: npm run check failed.");
    removeMemory();
    void stopAll(1);
  });
  const isAlone = all.length === 1 && !isLong;
  const firstRuns = await runAll(all, { alone: isAlone, ready, checked });
  const supply = await ready;
  const runs = await runAgain(firstRuns);
  await supply?.[Symbol.asyncDispose]();
  const extent = isLong ? "everything in full" : "the samples of `npm test`";
  coverage?.report(runs, { how: `${extent}, seed ${seed}` });
  removeMemory();
  // Once more where it is read: above it scrolled away.
  if (supply !== null && supply.missing.length > 0) console.error(notTested(supply.missing));
  if (isLong) writeEvidence(runs, { isWhole: runs.length === Object.keys(GROUPS).length });
  for (const { group, output, again } of runs) {
    if (again === undefined) continue;
    console.error(`\n${group} passed the second time only:${failuresIn(output)}`);
  }
  const failed = runs.filter(({ code }) => code !== 0);
  if (failed.length === 0) return;
  for (const { group, output } of failed) {
    console.error(`\nWhy ${group} failed:${failuresIn(output)}`);
  }
  console.error(`\nFailed: ${failed.map(({ group }) => group).join(", ")}`);
  process.exitCode = 1;
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    if (!(error instanceof PlanError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  });
}
