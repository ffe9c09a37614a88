/**
 * How much of src/ the tests run: `npm run coverage -- [group …] [--long]`, which is `scripts/test.ts --coverage`.
 *
 * Node writes what V8 counted when a process or thread ends (NODE_V8_COVERAGE). It is folded together while the tests run,
 * because hundreds of processes write megabytes each. The tests run the sources themselves, with their types blanked, so the
 * offsets fit. What a process did that was killed is not counted.
 */
import { execFileSync } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = resolve(import.meta.dirname, "..");
const PAGE = "docs/evidence/coverage.md";

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

export interface Figures {
  readonly file: string;
  readonly lines: number;
  readonly linesRun: number;
  readonly branches: number;
  readonly branchesRun: number;
}

/** A group of tests that ran. */
interface Ran {
  readonly group: string;
  readonly code: number;
}

export class Coverage {
  readonly #root: string;
  readonly #sources: ReadonlyMap<string, Seen>;
  readonly #folder: string;
  readonly #folding: NodeJS.Timeout;
  #processes = 0;

  constructor(root = ROOT) {
    this.#root = root;
    this.#sources = sourcesOf(root);
    this.#folder = mkdtempSync(join(tmpdir(), "holdfast-coverage-"));
    this.#folding = setInterval(() => this.#fold(), FOLD_EVERY_MS);
  }

  /** What processes need to be told. Of a function that comes from a compile cache, V8 counts less. */
  get env(): Record<string, string> {
    return { NODE_V8_COVERAGE: this.#folder, NODE_DISABLE_COMPILE_CACHE: "1" };
  }

  /** When all processes have ended. */
  end(): Figures[] {
    clearInterval(this.#folding);
    this.#fold();
    rmSync(this.#folder, { recursive: true });
    return [...this.#sources]
      .map(([file, seen]) => figuresOf(file, seen))
      .filter(({ lines }) => lines > 0);
  }

  /** Writes the page of evidence, and prints the sum. */
  report(ran: readonly Ran[], { how }: { how: string }): void {
    const figures = this.end();
    writeFileSync(join(this.#root, PAGE), pageOf(figures, ran, how));
    console.log(`\nWritten: ${PAGE}, from ${this.#processes} processes and threads`);
    console.log([...HEAD, rowOf("src/", figures)].join("\n"));
  }

  /** A file that is still being written is read the next time. */
  #fold(): void {
    mkdirSync(this.#folder, { recursive: true });
    for (const name of readdirSync(this.#folder)) {
      const path = join(this.#folder, name);
      try {
        const { result } = JSON.parse(readFileSync(path, "utf8")) as { result: Script[] };
        this.#foldAll(result);
      } catch (error) {
        if (error instanceof SyntaxError) continue;
        throw error;
      }
      rmSync(path);
      this.#processes += 1;
    }
  }

  #foldAll(scripts: readonly Script[]): void {
    const folder = `${pathToFileURL(join(this.#root, "src")).href}/`;
    for (const { url, functions } of scripts) {
      if (!url.startsWith(folder)) continue;
      const seen = this.#sources.get(fileURLToPath(url).slice(this.#root.length + 1));
      if (seen !== undefined) foldScript(seen, functions, url);
    }
  }
}

function sourcesOf(root: string): Map<string, Seen> {
  const files = globSync("src/**/*.ts", { cwd: root });
  return new Map(
    files.toSorted().map((file) => {
      const text = stripTypeScriptTypes(readFileSync(join(root, file), "utf8"));
      return [file, { text, run: new Uint8Array(text.length), branches: new Map() }];
    }),
  );
}

/** What Node adds to a source whose types it has blanked. */
const nameAfter = (url: string): string => `\n\n//# sourceURL=${url}`;

function foldScript(seen: Seen, functions: Script["functions"], url: string): void {
  const ranges = functions.flatMap((one) => one.ranges);
  // The outer ones first: what is inside is counted by itself.
  const sorted = ranges.toSorted(
    (a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset,
  );
  // A process with a planted bug runs another text, whose offsets do not fit.
  if (sorted[0]?.endOffset !== seen.text.length + nameAfter(url).length) return;
  const run = new Uint8Array(seen.run.length);
  for (const { startOffset, endOffset, count } of sorted) {
    run.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    if (startOffset > 0) seen.branches.set(`${startOffset}-${endOffset}`, startOffset);
  }
  for (let at = 0; at < run.length; at += 1) if (run[at] === 1) seen.run[at] = 1;
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

const HEAD = ["| | lines | run | branches | taken |", "|---|---|---|---|---|"];

function rowOf(name: string, figures: readonly Figures[]): string {
  const sum = (of: (one: Figures) => number): number =>
    figures.reduce((all, one) => all + of(one), 0);
  const [lines, linesRun] = [sum((one) => one.lines), sum((one) => one.linesRun)];
  const [branches, branchesRun] = [sum((one) => one.branches), sum((one) => one.branchesRun)];
  const cells = [name, lines, percent(linesRun, lines), branches, percent(branchesRun, branches)];
  return `| ${cells.join(" | ")} |`;
}

function pageOf(figures: readonly Figures[], ran: readonly Ran[], how: string): string {
  const folders = Map.groupBy(figures, ({ file }) => file.split("/").slice(1, -1)[0] ?? "");
  const missed = figures
    .toSorted((a, b) => b.lines - b.linesRun - (a.lines - a.linesRun))
    .slice(0, LISTED_MAX);
  const failed = ran.filter(({ code }) => code !== 0).map(({ group }) => group);
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  return `# How much of the code the tests run

\`npm run coverage\`, commit ${commit}, ${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}: ${how}.
Groups: ${ran.map(({ group }) => group).join(", ")}.${failed.length === 0 ? "" : ` Some tests failed in: ${failed.join(", ")}.`}

V8 counts in every process and thread of the tests; what a process did that was killed is missing, and so are the tests of the
built package. A line counts if it has code, not types or brackets only. Branches are the functions and blocks that V8 tells
apart; of a file that no test loads it tells none, so the share of branches is of the files that were loaded. The code of the
dashboard's page runs in a browser and is not counted.

${[...HEAD, rowOf("**all of src/**", figures)].join("\n")}
${[...folders].map(([folder, some]) => rowOf(folder === "" ? "src/" : `${folder}/`, some)).join("\n")}

The files with the most lines that no test ran:

${[...HEAD, ...missed.map((one) => rowOf(one.file, [one]))].join("\n")}
`;
}
