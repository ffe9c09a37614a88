/** The package as it is published: JavaScript, in a folder from which the drivers are found. */
import { execFileSync } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const FOLDER = join(ROOT, "node_modules/.cache/holdfast-bench");
const COMPILER = join(ROOT, "node_modules/typescript/bin/tsc");
const COMPILE_MS_MAX = 60_000;

/** Compiles the sources as they stand, and returns the folder. */
export function compilePackage(): string {
  return compileInto(FOLDER);
}

/** The whole package, command and all. Returns the launcher. */
export function compileCommand(): string {
  const folder = join(ROOT, "node_modules/.cache/holdfast-bench-command");
  compileInto(join(folder, "dist"));
  for (const name of ["bin", "package.json"]) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  return join(folder, "bin/holdfast.js");
}

function compileInto(folder: string): string {
  const flags = ["--project", "tsconfig.build.json", "--outDir", folder, "--sourceMap", "false"];
  const quiet = ["--inlineSources", "false", "--declaration", "false"];
  execFileSync(process.execPath, [COMPILER, ...flags, ...quiet], {
    cwd: ROOT,
    stdio: ["ignore", "inherit", "inherit"],
    timeout: COMPILE_MS_MAX,
  });
  return folder;
}
