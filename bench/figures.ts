/** From what was measured to what is printed: medians, quantiles, ratios, a table. */

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const above = sorted[Math.floor(middle)] ?? Number.NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + above) / 2 : above;
}

/** The value that this share of all values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** The median of the ratios of each round: what disturbed a round disturbed both. */
export function ratio(ours: readonly number[], theirs: readonly number[]): number {
  const rounds = ours.map((figure, round) => figure / (theirs[round] ?? Number.NaN));
  return median(rounds.filter((each) => Number.isFinite(each)));
}

export function whole(number: number): string {
  return Math.round(number).toLocaleString("en");
}

export function perSecond(rate: number): string {
  return `${whole(rate)}/s`;
}

/** Three digits: enough to compare, too few to pretend. */
export function milliseconds(ms: number): string {
  if (ms >= 100) return `${whole(ms)} ms`;
  return `${ms.toFixed(ms >= 10 ? 1 : 2)} ms`;
}

export function times(factor: number): string {
  if (factor >= 100) return `${whole(factor)} ×`;
  return `${factor.toFixed(factor >= 10 ? 1 : 2)} ×`;
}

export function bytes(size: number): string {
  return size >= 1_000 ? `${size / 1_000} kB` : `${size} B`;
}

/** Markdown, with columns that stand under one another on a terminal too. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => (row[column] ?? "").length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (cells[column] ?? "").padEnd(width)).join(" | ")} |`;
  console.log(line(head));
  console.log(line(widths.map((width) => "-".repeat(width))));
  for (const row of rows) console.log(line(row));
}

export function progress(line: string): void {
  process.stderr.write(`  ${line}\n`);
}
