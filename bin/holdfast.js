#!/usr/bin/env node
// The launcher. Any Node from 12 on can read it, so that an old one gets a sentence and not a
// syntax error: no newer syntax here, and nothing of the package is loaded before the check.
import { existsSync, lstatSync, mkdirSync, realpathSync } from "fs";
import { homedir } from "os";
import { dirname, isAbsolute, join } from "path";
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
  const folder = cacheFolder();
  const { enableCompileCache } = await import("module");
  if (enableCompileCache && folder) enableCompileCache(folder);
  const { main } = await import(url.href);
  process.exitCode = await main(process.argv.slice(2));
}

/**
 * A folder that only this user can write to, or null. Node runs what it finds in its cache without
 * asking who wrote it, and by itself it takes a folder that all users of the machine share.
 */
function cacheFolder() {
  try {
    const named = process.env["XDG_CACHE_HOME"];
    const base = named && isAbsolute(named) ? named : join(homedir(), ".cache");
    if (!isAbsolute(base) || !isSafe(existingPart(base))) return null;
    mkdirSync(base, { recursive: true, mode: 0o700 });
    // Without links in it, so that what was checked is what is used.
    const folder = join(realpathSync(base), "holdfast");
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    const { uid, mode } = lstatSync(folder);
    const isPrivate = uid === process.geteuid() && (mode & 0o077) === 0;
    return isPrivate && isSafe(folder) ? folder : null;
  } catch {
    return null; // no home, one that is read-only, or a system without users
  }
}

/** Nobody but this user and root can put another folder in the place of this one or of those above it. */
function isSafe(folder) {
  const owners = new Set([0, process.geteuid()]);
  for (let each = folder; ; each = dirname(each)) {
    const stats = lstatSync(each);
    if (!stats.isDirectory()) return false;
    // In a folder with the sticky bit, such as /tmp, others cannot replace what is not theirs.
    const isShared = (stats.mode & 0o022) !== 0 && (stats.mode & 0o1000) === 0;
    if (isShared || !owners.has(stats.uid)) return false;
    if (each === dirname(each)) return true;
  }
}

function existingPart(folder) {
  return existsSync(folder) ? realpathSync(folder) : existingPart(dirname(folder));
}

function isThere(url) {
  return existsSync(fileURLToPath(url));
}

function refuse(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exitCode = 1;
}

launch();
