/**
 * What tests start as a process of its own: the bundled package, if the test command has made one, as its users have it; else
 * the sources.
 */
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const { HOLDFAST_PACKAGE: folder } = process.env;

export const launcher = join(folder ?? ROOT, "bin/holdfast.js");
/** For modules of the checkout that import "holdfast". */
export const sourceLauncher = join(ROOT, "bin/holdfast.js");
export const library =
  folder === undefined ? join(ROOT, "src/index.ts") : join(folder, "dist/index.js");
export const workflowsLibrary =
  folder === undefined
    ? join(ROOT, "src/workflows/index.ts")
    : join(folder, "dist/workflows-index.js");
/** The module with the command's `main`. */
export const commandMain =
  folder === undefined ? join(ROOT, "src/cli/main.ts") : join(folder, "dist/cli-main.js");
