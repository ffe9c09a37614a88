/**
 * The size of the code base, as a small table: `node scripts/marks.ts`. A figure that rises needs a reason beside its mark. A
 * change that lowers a figure lowers its mark here too.
 */
import { globSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { importsOf, tokenize } from "./tokens.ts";

const ROOT = join(import.meta.dirname, "..");

/** The way of a job through the code, without what is written for one database. */
const CORE = /^(core|worker)\/|^database\/[^/]+\.ts$|^jobs\/(?!sqlite|postgres|mysql)/;
/** The field, or plain English, has a better word for each. */
const BANNED = /\b(whoever|somebody|nobody|signs? of life|undertaker|census|rollups?)\b/gi;

const MARKS: Readonly<Record<string, number>> = {
  "walk: an enqueue": 10,
  "walk: a job's way": 14,
  "walk: a worker's life": 10,
  "walk: a move of an item": 13,
  "walk: POST /jobs": 9,
  // Raised for bounded lists, online indexes, confirmed look-ups, grants and the ranked findings of the overview.
  "files in src/": 345,
  // Comments: every exported name and every member of a public type has one, which editors show and docs/guide/api.md prints.
  // Raised also for the heartbeat of isolated processes and for names that no worker knows.
  "lines in src/": 82_500,
  "lines of the core": 19_600,
  "lines of the page": 12_830,
  "lines of code in the longest file": 480,
  // Two of them are loaded on demand, for help and completion.
  "files with one importer": 103,
  "names exported by index.ts": 45,
  "banned words in src/": 0,
  "banned words in the guide": 0,
};

/**
 * Walks through the code: the files that a reader opens to follow one request, in the plain case on PostgreSQL, down to the
 * driver. A file that only answers a question on the way, such as whether the application traces, does not count.
 */
const WALKS: Readonly<Record<string, string>> = {
  "an enqueue":
    "app/holdfast jobs/enqueue core/task core/json core/id jobs/sql-jobs database/database jobs/postgres " +
    "jobs/postgres-statements database/postgres/session",
  "a job's way":
    "worker/poll-cycle worker/claimer jobs/sql-jobs database/database jobs/postgres jobs/postgres-statements " +
    "database/postgres/session worker/attempts worker/failure worker/attempt steps/context worker/reporter jobs/settle jobs/rows",
  "a worker's life":
    "worker/worker worker/session worker/registration registry/heartbeat registry/store " +
    "worker/lease-renewer worker/lease-renewer-host worker/lease-renewer-thread worker/reaper worker/maintenance",
  "a move of an item":
    "workflows/workflows workflows/options workflows/store locks/locks locks/acquisition locks/store locks/lock locks/stats " +
    "database/database workflows/changes workflows/plan workflows/item-record workflows/history",
  "POST /jobs":
    "http-kernel/server http-kernel/app http-kernel/guards http-kernel/auth tokens/store http-kernel/limits " +
    "http-kernel/body http-kernel/route http-kernel/idempotency",
};

/** What a caller and the implementation that it is given both import. */
const CONTRACTS = ["jobs/store.ts", "database/engine.ts"];

/** It gives features what they are written against. */
const COMPOSER = "app/holdfast.ts";

interface Source {
  readonly path: string;
  readonly text: string;
}

function read(pattern: string, folder: string): Source[] {
  const cwd = join(ROOT, folder);
  const paths = globSync(pattern, { cwd }).map((path) => path.replaceAll("\\", "/"));
  return paths.map((path) => ({ path, text: readFileSync(join(cwd, path), "utf8") }));
}

function lines({ text }: Source): number {
  return text.split("\n").length - 1;
}

/** Without comments, which document what is public: a limit must not cost them. */
function linesOfCode({ path, text }: Source): number {
  return lines({ path, text: text.replaceAll(/^\s*(?:\/\*[^]*?\*\/|\/\/.*)\n/gm, "") });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

/** The files that import each file, types included. */
function importersOf(sources: readonly Source[]): ReadonlyMap<string, ReadonlySet<string>> {
  const importers = new Map<string, Set<string>>();
  for (const { path, text } of sources) {
    for (const { specifier } of importsOf(tokenize(text))) {
      if (!specifier.startsWith(".")) continue;
      const target = posix.join(posix.dirname(path), specifier);
      importers.set(target, (importers.get(target) ?? new Set()).add(path));
    }
  }
  return importers;
}

/** The length of each walk. A walk along which no import leads to the next file is no walk. */
function walks(importers: ReadonlyMap<string, ReadonlySet<string>>): Record<string, number> {
  const imports = (one: string, other: string): boolean => importers.get(other)?.has(one) === true;
  const joins = (one: string, other: string): boolean =>
    imports(one, other) ||
    imports(other, one) ||
    CONTRACTS.some((contract) => imports(one, contract) && imports(other, contract)) ||
    (imports(COMPOSER, one) && imports(COMPOSER, other));
  const lengths = Object.entries(WALKS).map(([name, walk]) => {
    const files = walk.split(" ").map((path) => `${path}.ts`);
    const lost = files.filter(
      (file, index) => index > 0 && !files.slice(0, index).some((before) => joins(before, file)),
    );
    if (lost.length > 0) throw new Error(`${name}: no import leads to ${lost.join(", ")}.`);
    return [`walk: ${name}`, files.length];
  });
  return Object.fromEntries(lengths) as Record<string, number>;
}

function exportedNames(index: string): number {
  const lists = [...index.matchAll(/export (?:type )?\{([^}]*)\}/g)].map(([, names = ""]) => names);
  return lists.flatMap((names) => names.split(",")).filter((name) => name.trim() !== "").length;
}

function banned(sources: readonly Source[]): number {
  return sum(sources.map(({ text }) => [...text.matchAll(BANNED)].length));
}

export function measure(): Record<string, number> {
  const src = read("**/*.ts", "src");
  const page = read("**/!(*.gen).{ts,tsx}", "page");
  const index = src.find(({ path }) => path === "index.ts")?.text ?? "";
  const importers = importersOf(src);
  const guide = [...read("**/*.md", "docs/guide"), ...read("README.md", ".")];
  return {
    ...walks(importers),
    "files in src/": src.length,
    "lines in src/": sum(src.map(lines)),
    "lines of the core": sum(src.filter(({ path }) => CORE.test(path)).map(lines)),
    "lines of the page": sum(page.map(lines)),
    "lines of code in the longest file": Math.max(...src.map(linesOfCode)),
    "files with one importer": [...importers.values()].filter(({ size }) => size === 1).length,
    "names exported by index.ts": exportedNames(index),
    "banned words in src/": banned([...src, ...page]),
    "banned words in the guide": banned(guide),
  };
}

if (import.meta.main) {
  for (const [name, found] of Object.entries(measure())) {
    const mark = MARKS[name] ?? 0;
    const isOver = found > mark;
    console.log(`${isOver ? "OVER" : "    "} ${name.padEnd(34)} ${found} of ${mark}`);
    if (isOver) process.exitCode = 1;
  }
}
