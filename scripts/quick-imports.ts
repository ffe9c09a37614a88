/**
 * Loaded by every process of the tests, to make it quicker.
 *
 * What Node looks up for each import of a source file is known beforehand. Starting a process takes two thirds of the time,
 * and the tests start a thousand. Programs of the tests are taken from their bundles, except where something is planted in
 * the sources.
 *
 * The test runner follows every promise, to name the test that an uncaught error belongs to. That takes up to half the time
 * of tests that await a lot. Without it, such an error still fails the file.
 */
import type * as AsyncHooks from "node:async_hooks";
import { existsSync } from "node:fs";
import { createRequire, registerHooks } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { HOLDFAST_TEST_PROGRAMS: folder } = process.env;
const root = pathToFileURL(join(import.meta.dirname, "/")).href.replace(/scripts\/$/, "");
const isPlanted = process.execArgv.includes("--import");

/** The bundle of a program, if the test command has made one; see scripts/test-programs.ts. */
function bundleOf(program: string): string | null {
  if (folder === undefined || isPlanted || !program.startsWith(`${root}test/`)) return null;
  const path = program.slice(root.length).replace(/\.ts$/, "");
  const bundle = join(folder, `${path.replaceAll("/", "-")}.js`);
  return existsSync(bundle) ? pathToFileURL(bundle).href : null;
}

const hooks = createRequire(import.meta.url)("node:async_hooks") as typeof AsyncHooks;
const { createHook } = hooks;
hooks.createHook = (callbacks) => {
  const isRunner = new Error("asked by").stack?.includes("internal/test_runner") === true;
  return createHook(isRunner ? { ...callbacks, trackPromises: false } : callbacks);
};

registerHooks({
  resolve(specifier, context, next) {
    if (context.parentURL === undefined) {
      const url = bundleOf(specifier);
      return url === null
        ? next(specifier, context)
        : { url, format: "module", shortCircuit: true };
    }
    const isSource = specifier.startsWith(".") && specifier.endsWith(".ts");
    if (!isSource) return next(specifier, context);
    const { href } = new URL(specifier, context.parentURL);
    return { url: href, format: "module-typescript", shortCircuit: true };
  },
});
