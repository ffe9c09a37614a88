/** Metrics in the Prometheus text format, version 0.0.4. */
import { type MetricFacts, type MetricName, metrics } from "./metric-list.ts";

type Labels = Readonly<Record<string, string>>;

/** A histogram in seconds, with cumulative counts. */
export interface Counted {
  cumulative(): { readonly bound: number; readonly count: number }[];
  readonly sum: number;
  readonly count: number;
}

export class MetricText {
  readonly #samples = new Map<MetricName, string[]>();

  add(name: MetricName, value: number, labels: Labels = {}): void {
    this.#line(name, `${name}${labelled(labels)} ${written(value)}`);
  }

  addBuckets(name: MetricName, buckets: Counted, labels: Labels = {}): void {
    for (const { bound, count } of buckets.cumulative()) {
      const le = written(bound);
      this.#line(name, `${name}_bucket${labelled({ ...labels, le })} ${count}`);
    }
    this.#line(name, `${name}_sum${labelled(labels)} ${written(buckets.sum)}`);
    this.#line(name, `${name}_count${labelled(labels)} ${buckets.count}`);
  }

  /** In the order of the list; metrics without samples are left out. */
  toString(): string {
    const families = Object.entries<MetricFacts>(metrics).flatMap(([name, { type, help }]) => {
      const lines = this.#samples.get(name as MetricName);
      if (lines === undefined) return [];
      return [`# HELP ${name} ${escapedHelp(help)}`, `# TYPE ${name} ${type}`, ...lines];
    });
    return `${families.join("\n")}\n`;
  }

  #line(name: MetricName, line: string): void {
    const lines = this.#samples.get(name);
    if (lines === undefined) this.#samples.set(name, [line]);
    else lines.push(line);
  }
}

function labelled(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escapedHelp(text: string): string {
  return text.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
}

function escaped(text: string): string {
  return escapedHelp(text).replaceAll('"', String.raw`\"`);
}

function written(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}

/**
 * The label of all names beyond a limit. Names come from users: without a limit, a queue for every customer would mean a
 * time series for each.
 */
export const OTHER = "other";

export function cappedLabel(
  max: number,
  name: string,
  known: ReadonlyMap<string, unknown>,
): string {
  return known.has(name) || known.size < max ? name : OTHER;
}

/** Sums values by name; names beyond the limit are summed under `other`. */
export function cappedSum(
  max: number,
  rows: Iterable<readonly [name: string, value: number]>,
  add: (a: number, b: number) => number = (a, b) => a + b,
): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, value] of rows) {
    const label = cappedLabel(max, name, sums);
    sums.set(label, add(sums.get(label) ?? 0, value));
  }
  return sums;
}
