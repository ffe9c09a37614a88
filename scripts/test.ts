/**
 * Runs the test files, group after group: `node scripts/test.ts [group …] [--without group …]`.
 *
 * Without a name all groups run. `test/types` is not among them: it is compiled, never run.
 */
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { endChildrenWithUs, runNode } from "./child.ts";

/** Nobody waits longer than this for all tests together; a hanging one is ended with its children. */
const ALL_TESTS_LIMIT_MS = 30 * 60_000;

/** How many test files of a group run at once. Races and crashes want the cores for themselves. */
const CONCURRENCY: Readonly<Record<string, number>> = {
  unit: availableParallelism(),
  conformance: 2,
  model: 1,
  worker: 2,
  races: 1,
  crash: 1,
  cli: 2,
  package: 1,
};

export interface Planned {
  readonly group: string;
  readonly files: readonly string[];
}

/** A request that cannot be carried out; its message is all the user needs. */
export class PlanError extends Error {}

/** Decides what to run, and refuses to leave out silently what somebody wrote or asked for. */
export function plan(root: string, args: readonly string[]): Planned[] {
  const { positionals, values } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { without: { type: "string", multiple: true, default: [] } },
  });
  for (const name of [...positionals, ...values.without]) refuseUnknown(name);
  refuseStrays(root);
  const named = positionals.length > 0;
  const groups = named ? positionals : Object.keys(CONCURRENCY);
  const planned = groups
    .filter((group) => !values.without.includes(group))
    .map((group) => ({ group, files: testFiles(root, group) }));
  const empty = planned.filter(({ files }) => files.length === 0).map(({ group }) => group);
  if (named && empty.length > 0) throw new PlanError(`No test file in: ${empty.join(", ")}.`);
  return planned;
}

function refuseUnknown(name: string): void {
  if (name in CONCURRENCY) return;
  const known = Object.keys(CONCURRENCY).join(", ");
  throw new PlanError(`No test group is called '${name}'. There are: ${known}.`);
}

/** A test file outside the groups would never run, and nobody would notice. */
function refuseStrays(root: string): void {
  const groups = new Set([...Object.keys(CONCURRENCY), "types"]);
  const stray = globSync("test/**/*.test.ts", { cwd: root }).filter(
    (file) => !groups.has(file.split(/[/\\]/)[1] ?? ""),
  );
  if (stray.length === 0) return;
  throw new PlanError(`These belong to no group of scripts/test.ts: ${stray.join(", ")}.`);
}

function testFiles(root: string, group: string): string[] {
  return globSync(`test/${group}/**/*.test.ts`, { cwd: root }).toSorted();
}

async function runGroup({ group, files }: Planned): Promise<boolean> {
  if (files.length === 0) {
    console.log(`\n${group}: no test files yet`);
    return true;
  }
  const concurrency = CONCURRENCY[group] ?? 1;
  console.log(`\n${group}: ${files.length} files, ${concurrency} at once\n  ${files.join("\n  ")}`);
  const flags = ["--test", "--test-reporter=spec", `--test-concurrency=${concurrency}`];
  const { code, ms } = await runNode([...flags, ...files], { output: "show" });
  console.log(`${group}: ${code === 0 ? "passed" : "FAILED"} in ${(ms / 1_000).toFixed(1)} s`);
  return code === 0;
}

async function main(): Promise<void> {
  process.chdir(`${import.meta.dirname}/..`);
  endChildrenWithUs({ limit: "ALL_TESTS_LIMIT_MS", limitMs: ALL_TESTS_LIMIT_MS });
  const failed: string[] = [];
  for (const planned of plan(".", process.argv.slice(2))) {
    if (!(await runGroup(planned))) failed.push(planned.group);
  }
  if (failed.length === 0) return;
  console.error(`\nFailed: ${failed.join(", ")}`);
  process.exitCode = 1;
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    if (!(error instanceof PlanError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  });
}
