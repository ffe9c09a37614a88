/** What the benches share: scratch folders, rounds taken in turn, medians, a table, the machine in a line. */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

export function scratchFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Contestant {
  readonly name: string;
  /** Does the work once in an empty folder and returns jobs a second. */
  readonly round: (folder: string) => Promise<number>;
}

/** Every contestant once, then every contestant again: noise on the machine meets all of them alike. */
export async function compete(
  contestants: readonly Contestant[],
  rounds: number,
): Promise<number[][]> {
  const rates = contestants.map((): number[] => []);
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, { name, round: run }] of contestants.entries()) {
      using folder = scratchFolder();
      const rate = await run(folder.path);
      rates[index]?.push(rate);
      process.stderr.write(`  round ${round}/${rounds}  ${name}: ${perSecond(rate)}\n`);
    }
  }
  return rates;
}

/** The median of the ratios of each round: what disturbed a round disturbed both. */
export function ratio(ours: readonly number[], theirs: readonly number[]): number {
  return median(ours.map((rate, round) => rate / (theirs[round] ?? Number.NaN)));
}

export function copies(payload: string, count: number): string[] {
  return Array.from({ length: count }, () => payload);
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function perSecond(rate: number): string {
  return `${Math.round(rate).toLocaleString("en")}/s`;
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  console.log(line(head));
  console.log(line(head.map(() => "---")));
  for (const row of rows) console.log(line(row));
}

export function machine(): string {
  const { version } = new DatabaseSync(":memory:")
    .prepare("select sqlite_version() as version")
    .get() as { version: string };
  const memory = Math.round(totalmem() / 2 ** 30);
  const today = new Date().toISOString().slice(0, 10);
  return (
    `${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), ${memory} GiB, ${process.platform} ` +
    `${process.arch}, Node ${process.versions.node}, SQLite ${version}, synchronous=FULL, ${today}`
  );
}
