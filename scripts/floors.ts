/**
 * The house rules of src/ and page/ that no lint rule can check: who may import whom, where drivers and SQL
 * stand, what files are called, and that nobody reads the clock behind the runtime's back. And the types that the dashboard's
 * page has of the API are those of the API.
 *
 * Circles, file and function lengths, default exports and the other clocks are .oxlintrc.json's.
 */
import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { importsOf, tokenize, type Import, type Token } from "./tokens.ts";

/**
 * The order of the folders, from the ground up. A folder imports itself and folders of lower rows, type imports included;
 * folders in one row do not know each other.
 */
const ORDER: readonly (readonly string[])[] = [
  ["core"],
  ["config"],
  ["database"],
  ["http-kernel", "terminal", "tracing"],
  ["operations"],
  ["audit"],
  ["jobs", "locks", "tokens"],
  ["steps", "flows", "reports", "registry", "stats", "bulk", "limits"],
  ["workflows", "isolation", "error-kinds", "schedules", "queues"],
  ["worker", "explain"],
  ["monitoring", "doctor", "copy"],
  ["alerts"],
  ["dashboard"],
  ["app"],
  ["testing", "verify"],
  ["cli"],
];

const FLOORS: ReadonlyMap<string, number> = new Map(
  ORDER.flatMap((row, floor) => row.map((folder) => [folder, floor] as const)),
);

/** The one place that imports each driver: the rest of the code must not know which database it has. */
const DRIVER_HOMES: Readonly<Record<string, readonly string[]>> = {
  "node:sqlite": ["database/sqlite/", "jobs/sqlite.ts", "verify/"],
  pg: ["database/postgres/", "verify/"],
  "pg-copy-streams": ["database/postgres/"],
  mysql2: ["database/mysql/", "verify/"],
  ioredis: ["locks/redis.ts", "database/redis/"],
};

/** The hot statements of a job and the doctor's questions are written for one engine each, and know it. */
const KNOWS_ENGINE = /^(?:jobs|doctor)\/(?<engine>sqlite|postgres|mysql)[\w-]*\.ts$/;
/** What decides and what shows asks a store. */
const WITHOUT_SQL =
  /^(?:worker|app|cli|terminal)\/|\/(?:[\w-]+-)?(?:routes|command|operations)\.ts$/;
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
const ENTRIES = new Set([
  "index.ts",
  "testing/index.ts",
  "workflows/index.ts",
  "flows/index.ts",
  "locks/index.ts",
  "schedules/index.ts",
  "app/ops.ts",
  "app/dashboard.ts",
]);
const RUNTIME = "core/runtime.ts";
/** The page of the dashboard shows text only: a string never becomes HTML. */
const MAKES_HTML = new Set([
  "dangerouslySetInnerHTML",
  "innerHTML",
  "outerHTML",
  "insertAdjacentHTML",
  "srcdoc",
  "DOMParser",
]);

export interface Problem {
  /** Relative to the root folder, with forward slashes. */
  readonly file: string;
  readonly line: number;
  readonly sentence: string;
}

type Finding = Omit<Problem, "file">;

/** Checks every TypeScript file under `root`, the folder that holds core/, jobs/ and the others. */
export function checkFloors(root: string): Problem[] {
  return checkAll(root, checkFile);
}

/** The page of the dashboard runs in a browser: it shares no code with the rest. */
export function checkPage(root: string): Problem[] {
  return checkAll(root, (file, source) => [
    ...checkName(file),
    ...checkText(source),
    ...checkExceptions(source),
    ...importsOf(tokenize(source)).flatMap(({ specifier, line }) => {
      const isOutside = specifier.startsWith(".")
        ? targetOf(file, specifier).startsWith("..")
        : !/^preact(?:\/|$)/.test(specifier);
      const sentence = `The page shares no code with the rest: it does not import ${specifier}.`;
      return isOutside ? [{ line, sentence }] : [];
    }),
  ]);
}

function checkAll(root: string, check: (file: string, source: string) => Finding[]): Problem[] {
  const files = globSync("**/*.{ts,tsx,mts,cts}", { cwd: root }).map(withForwardSlashes).toSorted();
  const sources = new Map(files.map((file) => [file, readFileSync(join(root, file), "utf8")]));
  const problems = files.flatMap((file) =>
    check(file, sources.get(file) ?? "").map((finding) => ({ file, ...finding })),
  );
  return [...problems, ...checkCircles(sources)];
}

/** The linter's rule about circles leaves type imports out: a reader has to follow those too. */
function checkCircles(sources: ReadonlyMap<string, string>): Problem[] {
  const importsIn = (file: string): string[] =>
    importsOf(tokenize(sources.get(file) ?? "")).flatMap(({ specifier }) => {
      const target = targetOf(file, specifier);
      return specifier.startsWith(".") && sources.has(target) ? [target] : [];
    });
  const left = new Map([...sources.keys()].map((file) => [file, new Set(importsIn(file))]));
  // A file whose imports are all known to be in no circle is in none itself. What is left at the end is.
  for (let before = -1; before !== left.size;) {
    before = left.size;
    for (const [file, targets] of left) {
      if (![...targets].some((target) => left.has(target) && target !== file)) left.delete(file);
    }
  }
  const circle = circleIn(left);
  if (circle.length === 0) return [];
  const sentence = `A circle of imports, types included: ${[...circle, circle[0]].join(" → ")}.`;
  return [{ file: circle[0] ?? "", line: 1, sentence }];
}

/** One circle, if every file imports another one of these. */
function circleIn(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const path: string[] = [];
  let file = graph.keys().next().value;
  while (file !== undefined && !path.includes(file)) {
    path.push(file);
    file = [...(graph.get(file) ?? [])].find((target) => graph.has(target));
  }
  return file === undefined ? [] : path.slice(path.indexOf(file));
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
  if (file === "index.ts" || FLOORS.has(folderOf(file))) return [];
  return [atTop(`Only index.ts stands outside the folders ${ORDER.flat().join(", ")}.`)];
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
  if (!specifier.startsWith(".")) {
    const sentence = forbidsPackage(file, specifier);
    return sentence === undefined ? [] : [{ line, sentence }];
  }
  const sentence = forbidsFile(file, targetOf(file, specifier));
  return sentence === undefined ? [] : [{ line, sentence }];
}

/** What a relative import names, from the root folder. */
function targetOf(file: string, specifier: string): string {
  return posix.normalize(posix.join(posix.dirname(file), specifier));
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
  if (WITHOUT_SQL.test(file) && target === "database/sql.ts") {
    return `${file} writes no SQL: give the feature's store a method instead of importing ${target}.`;
  }
  const [from, to] = [folderOf(file), folderOf(target)];
  if (from === to || ENTRIES.has(file)) return undefined;
  if (!FLOORS.has(to)) return `${target} is on no floor, so nothing imports it.`;
  if (floorOf(to) >= floorOf(from)) {
    return `${from}/ (floor ${floorOf(from)}) does not import ${to}/ (floor ${floorOf(to)}): only its own folder and lower floors.`;
  }
  const folder = posix.dirname(target);
  const engine = KNOWS_ENGINE.exec(file)?.groups?.["engine"];
  if (target.split("/").length > 2 && folder !== `database/${engine}`) {
    return `${folder}/ is private to ${to}/: import a file directly in ${to}/.`;
  }
  return undefined;
}

function checkText(source: string): Finding[] {
  return source.split("\n").flatMap((text, index) => {
    const word = text.split(/\W+/).find((one) => MAKES_HTML.has(one));
    if (word === undefined) return [];
    return [{ line: index + 1, sentence: `The page renders text only: no ${word}.` }];
  });
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
  return FLOORS.get(folder) ?? Number.NaN;
}

function withForwardSlashes(path: string): string {
  return path.replaceAll("\\", "/");
}

if (import.meta.main) {
  const root = join(import.meta.dirname, "..");
  const problems = [
    ...checkFloors(join(root, "src")).map((one) => ({ ...one, file: `src/${one.file}` })),
    ...checkPage(join(root, "page")).map((one) => ({ ...one, file: `page/${one.file}` })),
  ];
  for (const { file, line, sentence } of problems) console.error(`${file}:${line} ${sentence}`);
  // Loaded late: the tests of the floors need no API.
  const { apiTypesProblem } = await import("./api-types.ts");
  const outdated = await apiTypesProblem();
  if (outdated !== null) console.error(outdated);
  if (problems.length > 0 || outdated !== null) process.exitCode = 1;
}
