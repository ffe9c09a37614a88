#!/usr/bin/env node
// The launcher. Any Node from 12 on can read it, so that an old one gets a sentence and not a
// syntax error: no newer syntax here, and nothing of the package is loaded before the check.
import { existsSync } from "fs";
import { fileURLToPath } from "url";

const NEEDED_MAJOR = 24;

// A checkout has src/ and runs as it stands, even beside an older build. A published package has
// only dist/.
const MAINS = ["../src/cli/main.ts", "../dist/cli/main.js"];

function launch() {
  const version = process.versions.node;
  if (Number(version.split(".")[0]) < NEEDED_MAJOR) {
    return refuse(
      `holdfast needs Node ${NEEDED_MAJOR} or newer, and this is Node ${version}: ` +
        "install a newer one from https://nodejs.org and run the command again.",
    );
  }
  const main = MAINS.map((path) => new URL(path, import.meta.url)).find(isThere);
  if (!main) {
    return refuse(
      "holdfast is incomplete, there is neither src/cli/main.ts nor dist/cli/main.js: " +
        "run 'npm run build' in a checkout, or install the package again.",
    );
  }
  start(main).catch((error) => refuse(error instanceof Error ? error.stack : String(error)));
}

// These run for long, and may be at rest for most of it.
const SERVICES = new Set(["start", "work", "serve"]);

async function start(url) {
  if (SERVICES.has(process.argv[2])) {
    const { beThrifty } = await import(url.href.replace(/main(?=\.[jt]s$)/, "thrift"));
    beThrifty();
  }
  // Compiled code is kept between starts: a command answers in half the time.
  const { enableCompileCache } = await import("module");
  if (enableCompileCache) enableCompileCache();
  const { main } = await import(url.href);
  process.exitCode = await main(process.argv.slice(2));
}

function isThere(url) {
  return existsSync(fileURLToPath(url));
}

function refuse(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exitCode = 1;
}

launch();
