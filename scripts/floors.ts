/**
 * The house rules of src/ that no lint rule can check: who may import whom, where drivers and SQL
 * stand, what files are called, and that nobody reads the clock behind the runtime's back.
 *
 * Circles, file and function lengths, default exports and the other clocks are .oxlintrc.json's.
 */
import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { importsOf, tokenize, type Import, type Token } from "./tokens.ts";

/** A folder may import itself and every folder with a smaller number. */
const FLOORS: Readonly<Record<string, number>> = {
  core: 0,
  store: 1,
  locks: 1,
  config: 1,
  queue: 2,
  worker: 3,
  ops: 3,
  server: 4,
  verify: 4,
  testing: 4,
  cli: 5,
};

/** The one place that imports each driver: the rest of the code must not know which database it has. */
const DRIVER_HOMES: Readonly<Record<string, readonly string[]>> = {
  "node:sqlite": ["store/sqlite/", "verify/"],
  pg: ["store/postgres/", "verify/"],
  "pg-copy-streams": ["store/postgres/"],
  mysql2: ["store/mysql/", "verify/"],
  ioredis: ["locks/redis-lock.ts", "store/redis/"],
};

const WITHOUT_SQL = new Set(["queue", "worker"]);
/** The checker judges the product, so it shares no code with it: it imports its own files and nothing else. */
const ALONE = "verify/check/";
const SAYS_NOTHING = new Set([
  "util",
  "utils",
  "helper",
  "helpers",
  "manager",
  "managers",
  "common",
]);
/** The files that package.json exports: they gather what others define. */
const ENTRIES = new Set(["index.ts", "testing/index.ts"]);
const RUNTIME = "core/runtime.ts";

export interface Problem {
  /** Relative to the root folder, with forward slashes. */
  readonly file: string;
  readonly line: number;
  readonly sentence: string;
}

type Finding = Omit<Problem, "file">;

/** Checks every TypeScript file under `root`, the folder that holds core/, store/ and the others. */
export function checkFloors(root: string): Problem[] {
  const files = globSync("**/*.{ts,mts,cts}", { cwd: root }).map(withForwardSlashes).toSorted();
  return files.flatMap((file) =>
    checkFile(file, readFileSync(join(root, file), "utf8")).map((finding) => ({
      file,
      ...finding,
    })),
  );
}

function checkFile(file: string, source: string): Finding[] {
  const tokens = tokenize(source);
  return [
    ...checkPlace(file),
    ...checkName(file),
    ...importsOf(tokens).flatMap((imported) => checkImport(file, imported)),
    ...checkClock(file, tokens),
    ...checkExceptions(source),
  ];
}

function checkPlace(file: string): Finding[] {
  if (file === "index.ts" || folderOf(file) in FLOORS) return [];
  const floors = Object.keys(FLOORS).join(", ");
  return [atTop(`Only index.ts stands outside the folders ${floors}.`)];
}

function checkName(file: string): Finding[] {
  const findings: Finding[] = [];
  const word = file
    .replace(/\.\w+$/, "")
    .split(/[/.-]/)
    .find((part) => SAYS_NOTHING.has(part));
  if (word !== undefined)
    findings.push(atTop(`'${word}' does not say what is inside: name the thing it does.`));
  if (posix.basename(file) === "index.ts" && !ENTRIES.has(file)) {
    findings.push(atTop("No barrels inside folders: import the file that defines the name."));
  }
  return findings;
}

function checkImport(file: string, { specifier, line }: Import): Finding[] {
  const sentence = specifier.startsWith(".")
    ? forbidsFile(file, posix.normalize(posix.join(posix.dirname(file), specifier)))
    : forbidsPackage(file, specifier);
  return sentence === undefined ? [] : [{ line, sentence }];
}

function forbidsPackage(file: string, specifier: string): string | undefined {
  if (specifier === "holdfast" || specifier.startsWith("holdfast/")) {
    return "The package does not import itself by name: use the relative path.";
  }
  const driver = Object.keys(DRIVER_HOMES).find(
    (name) => specifier === name || specifier.startsWith(`${name}/`),
  );
  const homes = driver === undefined ? [""] : (DRIVER_HOMES[driver] ?? []);
  if (homes.some((home) => file.startsWith(home))) return undefined;
  return `Only ${homes.join(" and ")} imports the driver ${driver}.`;
}

function forbidsFile(file: string, target: string): string | undefined {
  if (target.startsWith("..")) return "Nothing in src/ imports what stands outside it.";
  if (file === "index.ts") return undefined;
  if (file.startsWith(ALONE) && !target.startsWith(ALONE)) {
    return `${ALONE} shares no code with what it judges: it does not import ${target}.`;
  }
  const [from, to] = [folderOf(file), folderOf(target)];
  if (WITHOUT_SQL.has(from) && target === "store/sql.ts") {
    return `${from}/ writes no SQL: give the store a method instead of importing store/sql.ts.`;
  }
  if (from === to) return undefined;
  if (!(to in FLOORS)) return `${target} is on no floor, so nothing imports it.`;
  if (floorOf(to) >= floorOf(from)) {
    return `${from}/ (floor ${floorOf(from)}) does not import ${to}/ (floor ${floorOf(to)}): only its own folder and lower floors.`;
  }
  if (target.split("/").length > 2) {
    return `${posix.dirname(target)}/ is private to ${to}/: import a file directly in ${to}/.`;
  }
  return undefined;
}

/** No lint rule knows `new Date()` from `new Date(at)`: the first reads the clock, the second does not. */
function checkClock(file: string, tokens: readonly Token[]): Finding[] {
  if (file === RUNTIME) return [];
  return tokens.flatMap(({ line }, at) => {
    if (!readsClock(tokens[at - 1], tokens.slice(at, at + 3))) return [];
    return [{ line, sentence: `Time is a parameter: only ${RUNTIME} reads the clock.` }];
  });
}

function readsClock(before: Token | undefined, [name, open, close]: readonly Token[]): boolean {
  if (name?.kind !== "word" || name.text !== "Date") return false;
  const called = open?.text === "(";
  if (before?.text === "new") return !called || close?.text === ")";
  return called && before?.text !== ".";
}

/** Whoever silences a rule says why, in the form the linter reads: `oxlint-disable-… rule -- reason`. */
function checkExceptions(source: string): Finding[] {
  return source.split("\n").flatMap((text, index) => {
    if (!/\b(?:ox|es)lint-disable/.test(text) || /\s--\s+\S/.test(text)) return [];
    return [{ line: index + 1, sentence: "A silenced lint rule gives its reason behind '--'." }];
  });
}

function atTop(sentence: string): Finding {
  return { line: 1, sentence };
}

/** The folder that has a floor: sub-folders belong to their parent's. */
function folderOf(file: string): string {
  const [folder = "", rest] = file.split("/", 2);
  return rest === undefined ? "" : folder;
}

function floorOf(folder: string): number {
  return FLOORS[folder] ?? Number.NaN;
}

function withForwardSlashes(path: string): string {
  return path.replaceAll("\\", "/");
}

if (import.meta.main) {
  const problems = checkFloors(join(import.meta.dirname, "../src"));
  for (const { file, line, sentence } of problems) console.error(`src/${file}:${line} ${sentence}`);
  if (problems.length > 0) process.exitCode = 1;
}
