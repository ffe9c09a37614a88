/**
 * What a long run proved, written down: docs/evidence/long-run.md, with the commit, the seed and the counts.
 *
 * The counts are what the tests themselves report as diagnostics; nothing here knows a battery by name.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
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

export function evidenceOf(runs: readonly GroupRun[], facts: readonly string[]): string {
  const reports = runs.map((run) => ({ ...run, ...readReport(run.output) }));
  const rows = reports.map(({ group, code, ms, totals, again = [] }) => {
    const count = (name: string): number => totals.get(name) ?? 0;
    const cells = [group, count("pass"), count("fail"), count("skipped"), Math.round(ms / 1_000)];
    const later =
      again.length > 0 ? `passed; ${again.join(", ")} the second time, alone` : "passed";
    return `| ${[...cells, code === 0 ? later : "**failed**"].join(" | ")} |`;
  });
  const details = reports
    .filter(({ diagnostics }) => diagnostics.length > 0)
    .map(({ group, diagnostics }) => `## ${group}\n\n\`\`\`\n${diagnostics.join("\n")}\n\`\`\`\n`);
  return [
    "# The long run\n",
    "`npm run test:long` writes this page: every battery in full, with the counts its tests report.\n",
    ...facts.map((fact) => `- ${fact}`),
    "",
    "| group | passed | failed | skipped | seconds | |",
    "|---|---|---|---|---|---|",
    ...rows,
    "",
    ...details,
  ].join("\n");
}

export function writeEvidence(runs: readonly GroupRun[]): void {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const changed = execFileSync("git", ["status", "--porcelain"], { encoding: "utf8" }) !== "";
  const facts = [
    `commit ${commit}${changed ? ", with changes that are not committed" : ""}, ${new Date().toISOString().slice(0, 10)}`,
    `seed ${process.env["HOLDFAST_SEED"]}, LONG=${process.env["LONG"]}`,
    `Node ${process.version}, ${platform()} ${arch()}, ${availableParallelism()} cores`,
  ];
  writeFileSync(FILE, evidenceOf(runs, facts));
  console.log(`\nWritten: ${FILE}`);
}
