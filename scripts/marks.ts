/**
 * The size of the code base, as a small table: `node scripts/marks.ts`. A figure may fall and never rise. A change that
 * lowers a figure lowers its mark here too.
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
  "files in src/": 315,
  "lines in src/": 53_700,
  "lines of the core": 14_651,
  "lines of the longest file": 500,
  "files with one importer": 105,
  "names exported by index.ts": 45,
  "banned words in src/": 0,
  "banned words in the guide": 2,
};

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

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

/** Files that exactly one other imports, types included. */
function withOneImporter(sources: readonly Source[]): number {
  const importers = new Map<string, Set<string>>();
  for (const { path, text } of sources) {
    for (const { specifier } of importsOf(tokenize(text))) {
      if (!specifier.startsWith(".")) continue;
      const target = posix.join(posix.dirname(path), specifier);
      importers.set(target, (importers.get(target) ?? new Set()).add(path));
    }
  }
  return [...importers.values()].filter(({ size }) => size === 1).length;
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
  const index = src.find(({ path }) => path === "index.ts")?.text ?? "";
  const guide = [...read("**/*.md", "docs/guide"), ...read("README.md", ".")];
  return {
    "files in src/": src.length,
    "lines in src/": sum(src.map(lines)),
    "lines of the core": sum(src.filter(({ path }) => CORE.test(path)).map(lines)),
    "lines of the longest file": Math.max(...src.map(lines)),
    "files with one importer": withOneImporter(src),
    "names exported by index.ts": exportedNames(index),
    "banned words in src/": banned(src),
    "banned words in the guide": banned(guide),
  };
}

if (import.meta.main) {
  for (const [name, found] of Object.entries(measure())) {
    const mark = MARKS[name] ?? 0;
    const isOver = found > mark;
    console.log(`${isOver ? "OVER" : "    "} ${name.padEnd(28)} ${found} of ${mark}`);
    if (isOver) process.exitCode = 1;
  }
}
