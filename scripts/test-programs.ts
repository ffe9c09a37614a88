/**
 * The programs that tests start as processes of their own, one file each: such a process starts in half the time, and a run
 * starts hundreds. scripts/quick-imports.ts puts them in the place of their sources.
 */
import { globSync, rmSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { bundledName } from "../src/core/files.ts";
import { copyData } from "./build.ts";

const ROOT = join(import.meta.dirname, "..");

/** Not among them is one that shows where its own errors come from: in a bundle all comes from one file. */
const PROGRAMS = [
  "test/crash/{victim,complete-victim,order-victim}.ts",
  "test/http/server-process.ts",
  "test/locks/contender.ts",
  "test/ops/fold-victim.ts",
  "test/races/{store-claimer,store-mover}.ts",
  "test/races/worker-{adversarial,frozen,tasks,zombie}-child.ts",
  "test/registry/{leader,racer}.ts",
  "test/support/store-process.ts",
  "test/worker/signals-child.ts",
  "test/workflow-races/{holder,racer,steady}.ts",
];

/** Beside each of them, as in the package. */
const THREAD = "worker/lease-renewer-thread";

/** What they have in common with the test that starts them, or what their users bring. */
const DRIVERS = ["pg", "mysql2", "ioredis", "@opentelemetry/api"];

const REQUIRE =
  'import { createRequire as requireOf } from "node:module"; const require = requireOf(import.meta.url);';

export async function bundlePrograms(folder: string): Promise<void> {
  const found = PROGRAMS.map((pattern) => globSync(pattern, { cwd: ROOT }));
  const lost = PROGRAMS.filter((_, index) => found[index]?.length === 0);
  if (lost.length > 0) throw new Error(`No program of the tests is at ${lost.join(", ")}.`);
  rmSync(folder, { recursive: true, force: true });
  const programs = found.flat().map((path) => ({ in: path, out: programName(path) }));
  await build({
    absWorkingDir: ROOT,
    entryPoints: [...programs, { in: `src/${THREAD}.ts`, out: bundledName(THREAD) }],
    outdir: folder,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "esnext",
    external: DRIVERS.flatMap((name) => [name, `${name}/*`]),
    banner: { js: REQUIRE },
    logLevel: "warning",
  });
  copyData(folder);
}

function programName(path: string): string {
  return bundledName(path.replace(/\.ts$/, ""));
}
