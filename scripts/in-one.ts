/** Runs the test files it is given in one process, which loads the sources once: `node scripts/in-one.ts file …`. */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

for (const file of process.argv.slice(2)) await import(pathToFileURL(resolve(file)).href);
