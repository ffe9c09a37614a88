/**
 * In a checkout, modules that import "holdfast" get src/, as the command itself does: no build is needed, and none can be outdated.
 *
 * A published package has no src/ and never loads this file.
 */
import { registerHooks } from "node:module";

const ROOT = new URL("../../", import.meta.url).href;

const INSTALLED = `${ROOT}node_modules/`;

const SOURCES: Readonly<Record<string, string>> = {
  holdfast: `${ROOT}src/index.ts`,
  "holdfast/workflows": `${ROOT}src/workflows/index.ts`,
  "holdfast/locks": `${ROOT}src/locks/index.ts`,
  "holdfast/ops": `${ROOT}src/app/ops.ts`,
  "holdfast/testing": `${ROOT}src/testing/index.ts`,
};

/** Only modules of the checkout: others have their own holdfast installed. */
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
