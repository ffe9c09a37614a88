/**
 * The build of the application: the short hash of its git commit, else BUILD_ID, else a name with the start time of the
 * process. It is read once from files, so git need not be installed.
 */
import { readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { HoldfastError } from "./errors.ts";
import type { Runtime } from "./runtime.ts";

const SHORT = 7;
const SHA = /^[0-9a-f]{40,64}$/;
/** A commit, in full or abbreviated. */
const HASH = /^[0-9a-f]{7,64}$/;
/** Folders above the working directory that may hold the repository. */
const PARENTS_MAX = 32;
const LENGTH_MAX = 128;
const UNKNOWN = /^build-\d+$/;

let known: string | null = null;
let library: string | null = null;

export function appVersion(runtime: Runtime, env: NodeJS.ProcessEnv = process.env): string {
  known ??= gitVersion(process.cwd()) ?? buildId(env) ?? `build-${Math.floor(runtime.now())}`;
  return known;
}

/** The same as in bin/holdfast.js, which checks it before it loads anything. */
const NODE_NEEDED = 24;

class NodeTooOldError extends HoldfastError {
  constructor(found: string) {
    super(
      "NODE_TOO_OLD",
      `holdfast requires Node ${NODE_NEEDED} or newer; this is Node ${found}. Install a newer version from https://nodejs.org.`,
    );
  }
}

/** The library was copied into a bundle, where it does not find its own files. */
export class BundledError extends HoldfastError {
  constructor(cause?: unknown) {
    super(
      "BUNDLED",
      "Holdfast cannot run from a bundle, because it reads files of its own and starts threads: mark 'holdfast' as external " +
        '(esbuild: --external:holdfast; Next.js: serverExternalPackages: ["holdfast"]).',
      cause,
    );
  }
}

/** An older Node would fail later, with an unclear error. Throws NodeTooOldError. */
export function checkNode(found: string = process.versions.node): void {
  if (Number(found.split(".")[0]) < NODE_NEEDED) throw new NodeTooOldError(found);
}

export function libraryVersion(): string {
  library ??= (JSON.parse(read(packageFile("package.json"))) as { version: string }).version;
  return library;
}

/** False for a version made of the start time, which does not identify a build. */
export function isKnownVersion(version: string): boolean {
  return !UNKNOWN.test(version);
}

/**
 * Whether two versions name the same build: they are equal, or both are hashes of a commit and one is a prefix of the other.
 * Numbers such as 1234567 and 12345678 are different builds.
 */
export function isSameBuild(a: string, b: string): boolean {
  if (a === b) return true;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (!HASH.test(short) || !HASH.test(long) || !long.startsWith(short)) return false;
  return SHA.test(long) || /[a-f]/.test(short);
}

/** Groups by build, in the order of first occurrence. A build has the shortest of its versions. */
export function byBuild<T extends { readonly version: string }>(
  all: readonly T[],
): { readonly version: string; readonly some: readonly T[] }[] {
  const builds: { version: string; some: T[] }[] = [];
  for (const one of all) {
    const build = builds.find(({ version }) => isSameBuild(version, one.version));
    if (build === undefined) builds.push({ version: one.version, some: [one] });
    else {
      build.some.push(one);
      if (one.version.length < build.version.length) build.version = one.version;
    }
  }
  return builds;
}

/** A hash of a commit is shortened, as from git. */
function buildId(env: NodeJS.ProcessEnv): string | null {
  const given = env["BUILD_ID"]?.trim() ?? "";
  if (SHA.test(given)) return given.slice(0, SHORT);
  return given === "" ? null : given.slice(0, LENGTH_MAX);
}

function gitVersion(from: string): string | null {
  try {
    const folder = gitFolder(resolve(from));
    return folder === null ? null : (commitOf(folder)?.slice(0, SHORT) ?? null);
  } catch {
    return null; // the repository is unreadable
  }
}

function gitFolder(from: string): string | null {
  let folder = from;
  for (let parents = 0; parents < PARENTS_MAX; parents += 1) {
    const found = join(folder, ".git");
    const stats = statSync(found, { throwIfNoEntry: false });
    if (stats?.isDirectory() === true) return found;
    // In a worktree or a submodule, a file has the path.
    if (stats?.isFile() === true) return resolve(folder, read(found).replace(/^gitdir:\s*/, ""));
    if (dirname(folder) === folder) return null;
    folder = dirname(folder);
  }
  return null;
}

function commitOf(folder: string): string | null {
  const head = read(join(folder, "HEAD"));
  if (SHA.test(head)) return head;
  const ref = /^ref: (refs\/.+)$/.exec(head)?.[1];
  if (ref === undefined) return null;
  const shared = exists(join(folder, "commondir"))
    ? resolve(folder, read(join(folder, "commondir")))
    : folder;
  for (const place of [folder, shared]) {
    if (exists(join(place, ref))) return valid(read(join(place, ref)));
  }
  return packed(shared, ref);
}

function packed(folder: string, ref: string): string | null {
  const file = join(folder, "packed-refs");
  if (!exists(file)) return null;
  const line = read(file)
    .split("\n")
    .find((each) => each.endsWith(` ${ref}`));
  return valid(line?.split(" ")[0] ?? "");
}

function valid(sha: string): string | null {
  return SHA.test(sha) ? sha : null;
}

function exists(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

function read(file: string | URL): string {
  return readFileSync(file, "utf8").trim();
}

// Where the package's own files are: in a checkout the sources, in the published package bundles in one folder.

/** Undefined in a bundle in the format of CommonJS, which has no `import.meta`. */
const here = import.meta.url as string | undefined;

export const isCheckout = here?.endsWith(".ts") === true;

/** The folder with all modules of the package. Null: it is unknown in a bundle. */
const packageCode = here === undefined ? null : folderOf(fileURLToPath(here));

function folderOf(file: string): string {
  return isCheckout ? dirname(dirname(file)) : dirname(file);
}

/** A file beside the modules, by its path from their folder, such as "database/migrations". */
export function codeFile(path: string): string {
  if (packageCode === null) throw new BundledError();
  return join(packageCode, path);
}

/** A file of the package by its path from the root, such as "package.json". */
export function packageFile(path: string): URL {
  return pathToFileURL(codeFile(join("..", path)));
}

/** A module that starts a thread or a process, by its path from src/, such as "worker/lease-renewer-thread". */
export function programFile(path: string): URL {
  return pathToFileURL(codeFile(isCheckout ? `${path}.ts` : `${bundledName(path)}.js`));
}

/** The name of a module in the folder of the published package, which also has those of the workspaces beside src/. */
export function bundledName(path: string): string {
  return path.replace(/^\.\.\//, "").replaceAll("/", "-");
}

const CODE_ON_THE_COMMAND_LINE = new Set(["-e", "--eval", "-p", "--print", "-pe"]);

/** Whether this argument of Node, or its value, passes code on the command line. A thread or process that runs a file refuses it. */
export function isForCode(argument: string, index: number, given: readonly string[]): boolean {
  return (
    argument.startsWith("--input-type") ||
    CODE_ON_THE_COMMAND_LINE.has(argument) ||
    CODE_ON_THE_COMMAND_LINE.has(given[index - 1] ?? "")
  );
}
