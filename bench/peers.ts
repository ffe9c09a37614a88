/** The peers' packages: installed on demand beside the bench, never among the package's own dependencies. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const FOLDER = join(import.meta.dirname, ".peers");
const INSTALL_MS_MAX = 180_000;

/** The newest of each when the figures were last taken. */
const PACKAGES: Readonly<Record<string, string>> = {
  plainjob: "0.0.14",
  "better-sqlite3": "13.0.3",
  "graphile-worker": "0.18.0",
  "pg-boss": "12.38.0",
  bullmq: "6.7.0",
  ioredis: "6.0.0",
  pg: "8.23.1",
};

/** pg-boss asks for a version of this one, for calendars, that not every registry has. */
const OVERRIDES = { "rrule-temporal": ">=2.2.7" };

export function installPeers(): void {
  const wanted = JSON.stringify(
    { private: true, type: "module", dependencies: PACKAGES, overrides: OVERRIDES },
    null,
    2,
  );
  if (isInstalled(wanted)) return;
  process.stderr.write(`installing ${Object.keys(PACKAGES).join(", ")} into bench/.peers\n`);
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), wanted);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], {
    cwd: FOLDER,
    stdio: ["ignore", "ignore", "inherit"],
    timeout: INSTALL_MS_MAX,
  });
}

function isInstalled(wanted: string): boolean {
  const file = join(FOLDER, "package.json");
  if (!existsSync(file) || readFileSync(file, "utf8") !== wanted) return false;
  return Object.keys(PACKAGES).every((name) => existsSync(join(FOLDER, "node_modules", name)));
}

/** What a package exports, whichever kind of module it is. */
export async function loadPeer<T>(name: string): Promise<T> {
  const { resolve } = createRequire(join(FOLDER, "package.json"));
  const module = (await import(pathToFileURL(resolve(name)).href)) as { default?: T };
  return module.default ?? (module as T);
}

/** Such as "pg-boss 12.38.0". */
export function versionOf(name: string): string {
  const text = readFileSync(join(FOLDER, "node_modules", name, "package.json"), "utf8");
  return `${name} ${(JSON.parse(text) as { version: string }).version}`;
}
