#!/usr/bin/env node
// The launcher. Any Node from 12 on can parse it, so an old version prints a sentence instead of a
// syntax error: no newer syntax here, and nothing of the package is loaded before the check.
import { existsSync, lstatSync, mkdirSync, realpathSync } from "fs";
import { homedir } from "os";
import { dirname, isAbsolute, join } from "path";
import { fileURLToPath } from "url";

const NEEDED_MAJOR = 24;

// A checkout has src/ and runs from it, even if an older build exists. A published package has only
// dist/.
const MAINS = ["../src/cli/main.ts", "../dist/cli-main.js"];

function launch() {
  const version = process.versions.node;
  if (Number(version.split(".")[0]) < NEEDED_MAJOR) {
    return refuse(
      `holdfast requires Node ${NEEDED_MAJOR} or newer; this is Node ${version}. ` +
        "Install a newer version from https://nodejs.org and run the command again.",
    );
  }
  const main = MAINS.map((path) => new URL(path, import.meta.url)).find(isThere);
  if (!main) {
    return refuse(
      "The holdfast package is incomplete: neither src/cli/main.ts nor dist/cli-main.js exists. " +
        "Run 'npm run build' in a checkout, or reinstall the package.",
    );
  }
  start(main).catch((error) => refuse(error instanceof Error ? error.stack : String(error)));
}

async function start(url) {
  // Compiled code is cached between starts, which halves the time a command takes.
  const folder = cacheFolder();
  const { enableCompileCache } = await import("module");
  if (enableCompileCache && folder) enableCompileCache(folder);
  const { main } = await import(url.href);
  process.exitCode = await main(process.argv.slice(2));
}

/**
 * A folder that only this user can write to, or null. Node runs what it finds in its cache without
 * checking who wrote it, and its default folder is shared by all users of the machine.
 */
function cacheFolder() {
  try {
    const named = process.env["XDG_CACHE_HOME"];
    const base = named && isAbsolute(named) ? named : join(homedir(), ".cache");
    if (!isAbsolute(base) || !isSafe(existingPart(base))) return null;
    mkdirSync(base, { recursive: true, mode: 0o700 });
    // Links are resolved first, so that the checked folder is the one that is used.
    const folder = join(realpathSync(base), "holdfast");
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    const { uid, mode } = lstatSync(folder);
    const isPrivate = uid === process.geteuid() && (mode & 0o077) === 0;
    return isPrivate && isSafe(folder) ? folder : null;
  } catch {
    return null; // no home folder, a read-only one, or a system without user ids
  }
}

/** Only this user and root can replace this folder or one of its parents. */
function isSafe(folder) {
  const owners = new Set([0, process.geteuid()]);
  for (let each = folder; ; each = dirname(each)) {
    const stats = lstatSync(each);
    if (!stats.isDirectory()) return false;
    // In a folder with the sticky bit, such as /tmp, users cannot replace each other's files.
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
