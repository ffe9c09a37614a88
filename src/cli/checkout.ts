/**
 * In a checkout, modules of the checkout that import "holdfast" get what stands in src/, as the command itself runs it: without a build, and never an
 * old one.
 *
 * A published package has no src/, and never comes here.
 */
import { registerHooks } from "node:module";

const ROOT = new URL("../../", import.meta.url).href;
const INSTALLED = `${ROOT}node_modules/`;

const SOURCES: Readonly<Record<string, string>> = {
  holdfast: `${ROOT}src/index.ts`,
  "holdfast/testing": `${ROOT}src/testing/index.ts`,
};

/** Whoever lies elsewhere has a holdfast of their own. */
export function importFromSources(): void {
  registerHooks({
    resolve(specifier, context, next) {
      const source = Object.hasOwn(SOURCES, specifier) ? SOURCES[specifier] : undefined;
      const { parentURL = "" } = context;
      const isOurs = parentURL.startsWith(ROOT) && !parentURL.startsWith(INSTALLED);
      return next(isOurs && source !== undefined ? source : specifier, context);
    },
  });
}
