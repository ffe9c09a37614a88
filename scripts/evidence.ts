/**
 * What a long run proved, written down: docs/evidence/long-run.md, with the commit, the seed and the counts.
 *
 * The counts are what the tests themselves report as diagnostics; nothing here knows a battery by name.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { arch, availableParallelism, platform } from "node:os";

const FILE = "docs/evidence/long-run.md";

/** A group reports thousands of lines; these many of its diagnostics are kept. */
const LINES_MAX = 200;

export interface GroupRun {
  readonly group: string;
  readonly code: number;
  readonly ms: number;
  readonly output: string;
  /** The files that failed at first and passed alone. */
  readonly again?: readonly string[];
}

/** The totals that Node's test runner prints at the end of a report. */
const TOTALS = new Set(["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo"]);

interface Report {
  readonly totals: ReadonlyMap<string, number>;
  readonly diagnostics: readonly string[];
}

export function readReport(output: string): Report {
  const lines = [...output.matchAll(/^\s*ℹ (.*)$/gm)].map(([, line = ""]) => line.trim());
  const totals = new Map<string, number>();
  const diagnostics: string[] = [];
  for (const line of lines) {
    const [name = "", count = ""] = line.split(" ");
    if (TOTALS.has(name)) totals.set(name, Number(count));
    else if (name !== "duration_ms") diagnostics.push(line);
  }
  return { totals, diagnostics: diagnostics.slice(0, LINES_MAX) };
}

interface Evidence {
  /** A row of the table, by group. */
  readonly rows: ReadonlyMap<string, string>;
  /** What its tests counted, by group. */
  readonly details: ReadonlyMap<string, string>;
}

/** The page as it is. Groups that do not run again stay on it. */
export function readEvidence(page: string): Evidence {
  const [top = "", ...sections] = page.split(/^## /m);
  const rows = top.matchAll(/^\| ([\w-]+) \| \d.*$/gm);
  return {
    rows: new Map([...rows].map(([row, group = ""]) => [group, row])),
    details: new Map(sections.map((text) => [text.split("\n", 1)[0] ?? "", `## ${text}`])),
  };
}

export function evidenceOf(
  runs: readonly GroupRun[],
  { commit, seed, before }: { commit: string; seed: string; before: Evidence },
): string {
  const rows = new Map(before.rows);
  const details = new Map(before.details);
  for (const run of runs) {
    const { group, code, ms, again = [] } = run;
    const { totals, diagnostics } = readReport(run.output);
    const count = (name: string): number => totals.get(name) ?? 0;
    const cells = [group, count("pass"), count("fail"), count("skipped"), Math.round(ms / 1_000)];
    const later =
      again.length > 0 ? `passed; ${again.join(", ")} the second time, alone` : "passed";
    const result = code === 0 ? later : "**failed**";
    rows.set(group, `| ${[...cells, commit, seed, result].join(" | ")} |`);
    details.delete(group);
    if (diagnostics.length === 0) continue;
    details.set(group, `## ${group}\n\n\`\`\`\n${diagnostics.join("\n")}\n\`\`\`\n`);
  }
  return [
    "# The long run\n",
    "`npm run test:long` writes this page: every battery in full, with the counts that its tests report. A run of some groups",
    "(`npm run test:long -- crash`) replaces their rows.\n",
    `- Node ${process.version}, ${platform()} ${arch()}, ${availableParallelism()} cores, LONG=${process.env["LONG"] ?? 1}`,
    "",
    "| group | passed | failed | skipped | seconds | commit | seed | |",
    "|---|---|---|---|---|---|---|---|",
    ...rows.values(),
    "",
    ...details.values(),
  ].join("\n");
}

/** `isWhole`: every group ran, and nothing of an earlier run stays. */
export function writeEvidence(runs: readonly GroupRun[], { isWhole }: { isWhole: boolean }): void {
  const head = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const changed = execFileSync("git", ["status", "--porcelain"], { encoding: "utf8" }) !== "";
  const date = new Date().toISOString().slice(0, 10);
  const commit = `${head}${changed ? " and changes" : ""}, ${date}`;
  const seed = process.env["HOLDFAST_SEED"] ?? "";
  const before = readEvidence(isWhole ? "" : readFileSync(FILE, "utf8"));
  writeFileSync(FILE, evidenceOf(runs, { commit, seed, before }));
  console.log(`\nWritten: ${FILE}`);
}
