/**
 * The house rules of src/, verify/ and page/ that no lint rule can check: who may import whom, where drivers and SQL stand, what
 * files are called, and that only the runtime reads the clock. And the page's types of the API are those of the API.
 *
 * Circles, file and function lengths, default exports and the other clocks are .oxlintrc.json's; unused exports knip's.
 */
import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { type Node, parseSync, Visitor } from "oxc-parser";

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
  ["dashboard", "mcp"],
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
/** The folders beside src/. The torture kit uses what stands in src/, and only the shell loads it. */
const BESIDE = /^(?:verify|page)\//;
/** The page of the dashboard runs in a browser: it shares no code with the rest, and shows text only. */
const PAGE = "page/";
/** The one file that the page shares: the fields of jobs, which import nothing. */
const SHARED = "core/job-query.ts";
const PAGE_PACKAGE = /^preact(?:\/|$)/;
const MAKES_HTML = new Set([
  "dangerouslySetInnerHTML",
  "innerHTML",
  "outerHTML",
  "insertAdjacentHTML",
  "srcdoc",
  "DOMParser",
]);

const BANNED = /\b(?:whoever|somebody|nobody|signs? of life|undertaker|census|rollups?)\b/i;

export interface Problem {
  /** Relative to the root folder, with forward slashes. */
  readonly file: string;
  readonly line: number;
  readonly sentence: string;
}

type Finding = Omit<Problem, "file">;

/** What a file says that a rule is about. */
interface Facts {
  readonly imports: readonly { readonly specifier: string; readonly line: number }[];
  /** The lines that read the clock through Date. */
  readonly clocks: readonly number[];
}

/** Checks every TypeScript file in src/ and beside it. */
export function checkFloors(root: string): Problem[] {
  const files = globSync("{src,verify,page}/**/*.{ts,tsx,mts,cts}", { cwd: root });
  return files
    .map((file) => file.replaceAll("\\", "/"))
    .toSorted()
    .flatMap((file) =>
      checkFile(addressOf(file), readFileSync(join(root, file), "utf8")).map((finding) => ({
        file,
        ...finding,
      })),
    );
}

/** The path in src/, or in the workspace. */
function addressOf(path: string): string {
  return path.startsWith("src/") ? path.slice("src/".length) : path;
}

const isDate = (node: Node): boolean => node.type === "Identifier" && node.name === "Date";

function factsOf(file: string, source: string): Facts {
  const imports: { specifier: string; line: number }[] = [];
  const clocks: number[] = [];
  const lineOf = (node: { readonly start: number }): number =>
    source.slice(0, node.start).split("\n").length;
  const add = (node: Node | null): void => {
    const specifier = node === null ? undefined : textOf(node);
    if (node !== null && specifier !== undefined) imports.push({ specifier, line: lineOf(node) });
  };
  new Visitor({
    ImportDeclaration: ({ source: from }) => add(from),
    ExportNamedDeclaration: ({ source: from }) => add(from),
    ExportAllDeclaration: ({ source: from }) => add(from),
    ImportExpression: ({ source: from }) => add(from),
    TSImportType: ({ source: from }) => add(from),
    NewExpression(node) {
      if (isDate(node.callee) && node.arguments.length === 0) clocks.push(lineOf(node));
    },
    CallExpression(node) {
      if (isDate(node.callee)) clocks.push(lineOf(node));
      if (node.callee.type !== "MemberExpression") return;
      const { property } = node.callee;
      const isModule = property.type === "Identifier" && property.name === "getBuiltinModule";
      if (isModule) add(node.arguments[0] ?? null);
    },
  }).visit(parseSync(file, source).program);
  return { imports, clocks };
}

/** Of a string, with or without quotes of a template. */
function textOf(node: Node): string | undefined {
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  if (node.type !== "TemplateLiteral" || node.quasis.length !== 1) return undefined;
  return node.quasis[0]?.value.cooked ?? undefined;
}

function checkFile(file: string, source: string): Finding[] {
  const { imports, clocks } = factsOf(file, source);
  return [
    ...checkPlace(file),
    ...checkName(file),
    ...imports.flatMap(({ specifier, line }) => checkImport(file, specifier, line)),
    ...(file.startsWith(PAGE) ? checkText(source) : checkClock(file, clocks)),
    ...checkExceptions(source),
    ...checkWords(source),
  ];
}
function checkPlace(file: string): Finding[] {
  if (file === "index.ts" || file.startsWith(PAGE) || FLOORS.has(folderOf(file))) return [];
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

function checkImport(file: string, specifier: string, line: number): Finding[] {
  const sentence = specifier.startsWith(".")
    ? forbidsFile(file, targetOf(file, specifier))
    : forbidsPackage(file, specifier);
  return sentence === undefined ? [] : [{ line, sentence }];
}

/** Null: it stands in none of the folders. */
function targetOf(file: string, specifier: string): string | null {
  const from = BESIDE.test(file) ? file : `src/${file}`;
  const target = posix.join(posix.dirname(from), specifier);
  return target.startsWith("src/") || BESIDE.test(target) ? addressOf(target) : null;
}

function forbidsPackage(file: string, specifier: string): string | undefined {
  if (file.startsWith(PAGE) && !PAGE_PACKAGE.test(specifier)) return sharesNoCode(specifier);
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

function forbidsFile(file: string, target: string | null): string | undefined {
  if (target === null)
    return "Nothing imports what stands outside src/ and the workspaces beside it.";
  if (file === "index.ts") return undefined;
  if (file.startsWith(ALONE) && !target.startsWith(ALONE)) {
    return `${ALONE} shares no code with what it judges: it does not import ${target}.`;
  }
  if (WITHOUT_SQL.test(file) && target === "database/sql.ts") {
    return `${file} writes no SQL: give the feature's store a method instead of importing ${target}.`;
  }
  if (file.startsWith(PAGE) && (target.startsWith(PAGE) || target === SHARED)) return undefined;
  if (file.startsWith(PAGE) || target.startsWith(PAGE)) return sharesNoCode(target);
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

function sharesNoCode(target: string): string {
  return `${PAGE} and the rest share no code: no import leads to ${target}.`;
}

/** Everything on the page is text: a string never becomes HTML. */
function checkText(source: string): Finding[] {
  return source.split("\n").flatMap((text, index) => {
    const word = text.split(/\W+/).find((one) => MAKES_HTML.has(one));
    if (word === undefined) return [];
    return [{ line: index + 1, sentence: `The page renders text only: no ${word}.` }];
  });
}

/** No lint rule knows `new Date()` from `new Date(at)`: the first reads the clock, the second does not. */
function checkClock(file: string, clocks: readonly number[]): Finding[] {
  if (file === RUNTIME) return [];
  const sentence = `Time is a parameter: only ${RUNTIME} reads the clock.`;
  return clocks.map((line) => ({ line, sentence }));
}

/** The field, or plain English, has a better word for each. */
function checkWords(source: string): Finding[] {
  return source.split("\n").flatMap((text, index) => {
    const [word] = BANNED.exec(text) ?? [];
    if (word === undefined) return [];
    return [{ line: index + 1, sentence: `'${word}': name the actor, or use the field's term.` }];
  });
}

/** A silenced rule has its reason, in the form that the linter reads: `oxlint-disable-… rule -- reason`. */
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

if (import.meta.main) {
  const problems = checkFloors(join(import.meta.dirname, ".."));
  for (const { file, line, sentence } of problems) console.error(`${file}:${line} ${sentence}`);
  // Loaded late: the tests of the floors need no API.
  const { apiTypesProblem } = await import("./api-types.ts");
  const { operationPageProblems } = await import("./reference.ts");
  const outdated = [await apiTypesProblem(), ...(await operationPageProblems())];
  for (const one of outdated) if (one !== null) console.error(one);
  if (problems.length > 0 || outdated.some((one) => one !== null)) process.exitCode = 1;
}
