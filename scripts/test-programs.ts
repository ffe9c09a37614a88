/**
 * The programs that tests start as processes of their own, bundled: such a process starts in half the time, and a run starts
 * hundreds. scripts/quick-imports.ts puts them in the place of their sources.
 */
import { globSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "./build.ts";

const ROOT = join(import.meta.dirname, "..");

/** Not among them is one that shows where its own errors come from: in a bundle all comes from one file. */
const PROGRAMS = [
  "test/crash/{victim,complete-victim,order-victim}.ts",
  "test/http/server-process.ts",
  "test/locks/contender.ts",
  "test/ops/fold-victim.ts",
  "test/races/{flow-child,schedule-child,store-claimer,store-mover}.ts",
  "test/races/worker-{adversarial,frozen,tasks,zombie}-child.ts",
  "test/registry/{leader,racer}.ts",
  "test/support/store-process.ts",
  "test/worker/signals-child.ts",
  "test/workflow-races/{holder,racer,steady}.ts",
];

export async function bundlePrograms(folder: string): Promise<void> {
  const found = PROGRAMS.map((pattern) => globSync(pattern, { cwd: ROOT }));
  const lost = PROGRAMS.filter((_, index) => found[index]?.length === 0);
  if (lost.length > 0) throw new Error(`No program of the tests is at ${lost.join(", ")}.`);
  await bundle(found.flat(), folder);
}
