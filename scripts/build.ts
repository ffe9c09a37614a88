/**
 * Makes the package: `node scripts/build.ts [--out folder]`.
 *
 * Every entry point becomes one file, and what several of them share becomes files between them, all in one folder: a process
 * reads a few files when it starts, and not every module. Names and lines stay readable, because stacks name them.
 */
import { execFileSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { bundledName } from "../src/core/files.ts";

const ROOT = join(import.meta.dirname, "..");

/** What an application imports, what the launcher starts, and what is started as a thread or a process of its own. */
const ENTRIES = [
  "index",
  "workflows/index",
  "locks/index",
  "app/ops",
  "testing/index",
  "cli/main",
  "cli/example-tasks",
  "verify/producer-process",
  "verify/worker-process",
  "worker/lease-renewer-thread",
];

/** Files that the library reads, at the same path beside the modules. */
const DATA = ["database/migrations"];

/** Bundles the sources as they stand into a folder. */
export async function bundleInto(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: ENTRIES.map((path) => ({ in: `src/${path}.ts`, out: bundledName(path) })),
    outdir: folder,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    // Nothing is translated down, `await using` neither: what is published is what was tested.
    target: "esnext",
    packages: "external",
    logLevel: "warning",
  });
  copyData(folder);
}

/** Puts what bundled modules read beside them. */
export function copyData(folder: string): void {
  for (const path of DATA) {
    cpSync(join(ROOT, "src", path), join(folder, path), {
      recursive: true,
      filter: (file) => !file.endsWith(".ts"),
    });
  }
}

/** The package in a folder of its own, without its types. Returns the launcher. */
export async function assemble(folder: string): Promise<string> {
  await bundleInto(join(folder, "dist"));
  for (const name of ["bin", "package.json"]) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return join(folder, "bin/holdfast.js");
}

function declareInto(folder: string): void {
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  const args = ["--project", "tsconfig.build.json", "--outDir", join(folder, "types")];
  execFileSync(process.execPath, [compiler, ...args], { cwd: ROOT, stdio: "inherit" });
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { out: { type: "string", default: join(ROOT, "dist") } },
  });
  await bundleInto(values.out);
  declareInto(values.out);
}
