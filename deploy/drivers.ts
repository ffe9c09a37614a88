/**
 * Makes the drivers that an image shall have ordinary dependencies: `node drivers.ts pg ioredis`, beside a package.json.
 *
 * They are optional peers of the package, so `npm ci --omit=dev` leaves them out. Their versions are those that the tests
 * run on, which the lock file knows: nothing is resolved anew.
 */
import { readFileSync, writeFileSync } from "node:fs";

const FILE = "package.json";

interface Manifest {
  readonly dependencies: Record<string, string | undefined>;
  readonly devDependencies: Record<string, string | undefined>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** Null: they were chosen. */
function choose(drivers: readonly string[]): string | null {
  const manifest = JSON.parse(readFileSync(FILE, "utf8")) as Manifest;
  const known = Object.keys(manifest.peerDependencies);
  const unknown = drivers.filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    return `No driver is called ${unknown.join(", ")}. There are: ${known.join(", ")}.`;
  }
  for (const name of drivers) {
    manifest.dependencies[name] = manifest.devDependencies[name];
    manifest.devDependencies[name] = undefined;
  }
  writeFileSync(FILE, `${JSON.stringify(manifest, null, 2)}\n`);
  return null;
}

const problem = choose(process.argv.slice(2));
if (problem !== null) {
  console.error(problem);
  process.exitCode = 1;
}
