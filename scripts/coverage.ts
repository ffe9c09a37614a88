/**
 * How much of src/ the tests run: `npm run coverage -- [group …] [--long]`.
 *
 * Node writes what V8 counted when a process or thread ends (NODE_V8_COVERAGE). It is folded together while the tests run,
 * because hundreds of processes write megabytes each. The tests run the sources themselves, with their types blanked, so the
 * offsets fit. What a process did that was killed is not counted.
 */
import { globSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { endChildrenWithUs, runNode } from "./child.ts";

const ROOT = resolve(import.meta.dirname, "..");
const SRC = `${pathToFileURL(join(ROOT, "src")).href}/`;
const PAGE = join(ROOT, "docs/evidence/coverage.md");

const LIMIT_MS = 4 * 3_600_000;
const FOLD_EVERY_MS = 2_000;
/** Files of the report that are told by name, those with the most lines that no test runs. */
const LISTED_MAX = 25;

interface Range {
  readonly startOffset: number;
  readonly endOffset: number;
  readonly count: number;
}

interface Script {
  readonly url: string;
  readonly functions: readonly { readonly ranges: readonly Range[] }[];
}

interface Seen {
  readonly text: string;
  /** 1 where a character was run by any process. */
  readonly run: Uint8Array;
  /** Where functions and branches begin. */
  readonly branches: Map<string, number>;
}

interface Figures {
  readonly file: string;
  readonly lines: number;
  readonly linesRun: number;
  readonly branches: number;
  readonly branchesRun: number;
}

/** The code of the page runs in a browser, which is not asked. */
function sources(): Map<string, Seen> {
  const files = globSync("src/**/*.ts", { cwd: ROOT, exclude: ["src/dashboard/page/**"] });
  return new Map(
    files.toSorted().map((file) => {
      const text = stripTypeScriptTypes(readFileSync(join(ROOT, file), "utf8"));
      return [file, { text, run: new Uint8Array(text.length), branches: new Map() }];
    }),
  );
}

function fold(all: ReadonlyMap<string, Seen>, scripts: readonly Script[]): void {
  for (const { url, functions } of scripts) {
    if (!url.startsWith(SRC)) continue;
    const file = fileURLToPath(url).slice(ROOT.length + 1);
    const seen = all.get(file);
    if (seen !== undefined) foldScript(seen, functions);
  }
}

function foldScript(seen: Seen, functions: Script["functions"]): void {
  const ranges = functions.flatMap((one) => one.ranges);
  // The outer ones first: what is inside is counted by itself.
  const sorted = ranges.toSorted(
    (a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset,
  );
  const run = new Uint8Array(seen.run.length);
  for (const { startOffset, endOffset, count } of sorted) {
    run.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    if (startOffset > 0) seen.branches.set(`${startOffset}-${endOffset}`, startOffset);
  }
  for (let at = 0; at < run.length; at += 1) if (run[at] === 1) seen.run[at] = 1;
}

/** A file that is still being written is read the next time. */
function foldFolder(all: ReadonlyMap<string, Seen>, folder: string): number {
  let folded = 0;
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    try {
      const { result } = JSON.parse(readFileSync(path, "utf8")) as { result: Script[] };
      fold(all, result);
    } catch (error) {
      if (error instanceof SyntaxError) continue;
      throw error;
    }
    rmSync(path);
    folded += 1;
  }
  return folded;
}

const COMMENT = /^\s*(?:\/\/|\/\*|\*)/;

function figuresOf(file: string, { text, run, branches }: Seen): Figures {
  let [at, lines, linesRun] = [0, 0, 0];
  for (const line of text.split("\n")) {
    // Brackets alone on a line, comments, and types are no code.
    if (/[\w$"'`]/.test(line) && !COMMENT.test(line)) {
      lines += 1;
      if (run.subarray(at, at + line.length).includes(1)) linesRun += 1;
    }
    at += line.length + 1;
  }
  const branchesRun = [...branches.values()].filter((start) => run[start] === 1).length;
  return { file, lines, linesRun, branches: branches.size, branchesRun };
}

function percent(part: number, whole: number): string {
  return whole === 0 ? "–" : `${((100 * part) / whole).toFixed(1)} %`;
}

function rowOf(name: string, figures: readonly Figures[]): string {
  const sum = (of: (one: Figures) => number): number =>
    figures.reduce((all, one) => all + of(one), 0);
  const [lines, linesRun] = [sum((one) => one.lines), sum((one) => one.linesRun)];
  const [branches, branchesRun] = [sum((one) => one.branches), sum((one) => one.branchesRun)];
  const cells = [name, lines, percent(linesRun, lines), branches, percent(branchesRun, branches)];
  return `| ${cells.join(" | ")} |`;
}

function pageOf(
  figures: readonly Figures[],
  { what, code }: { what: string; code: number },
): string {
  const folders = Map.groupBy(figures, ({ file }) => file.split("/").slice(1, -1)[0] ?? "");
  const missed = figures
    .toSorted((a, b) => b.lines - b.linesRun - (a.lines - a.linesRun))
    .slice(0, LISTED_MAX);
  const head = ["| | lines | run | branches | taken |", "|---|---|---|---|---|"];
  return `# How much of the code the tests run

\`npm run coverage${what}\`, ${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}${code === 0 ? "" : "; some tests failed"}.
V8 counts in every process and thread of the tests; what a process did that was killed is missing. A line counts if it has
code, not types or brackets only. Branches are the functions and blocks that V8 tells apart; of a file that no test loads it tells none, so the share of
branches is of the files that were loaded. The code of the dashboard's page runs in a browser and is not counted.

${[...head, rowOf("**all of src/**", figures)].join("\n")}
${[...folders].map(([folder, some]) => rowOf(folder === "" ? "src/" : `${folder}/`, some)).join("\n")}

The files with the most lines that no test ran:

${[...head, ...missed.map((one) => rowOf(one.file, [one]))].join("\n")}
`;
}

async function main(): Promise<void> {
  process.chdir(ROOT);
  endChildrenWithUs({ limit: "LIMIT_MS", limitMs: LIMIT_MS });
  const args = process.argv.slice(2);
  const folder = mkdtempSync(join(tmpdir(), "holdfast-coverage-"));
  const all = sources();
  process.env["HOLDFAST_COVERAGE"] = folder;
  let processes = 0;
  const folding = setInterval(() => (processes += foldFolder(all, folder)), FOLD_EVERY_MS);
  const { code } = await runNode(["scripts/test.ts", ...args], { output: "show" });
  clearInterval(folding);
  processes += foldFolder(all, folder);
  rmSync(folder, { recursive: true });
  const figures = [...all]
    .map(([file, seen]) => figuresOf(file, seen))
    .filter(({ lines }) => lines > 0);
  const what = args.length === 0 ? "" : ` -- ${args.join(" ")}`;
  writeFileSync(PAGE, pageOf(figures, { what, code }));
  console.log(`\n${processes} processes and threads; see ${PAGE}`);
  console.log(rowOf("src/", figures));
  process.exit(code);
}

await main();
