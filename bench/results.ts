/** What was measured, figure by figure and round by round, and the one table that is made of it. */
import {
  bytes as inBytes,
  median,
  milliseconds,
  perSecond,
  printTable,
  progress,
  ratio,
  times,
  whole,
} from "./figures.ts";
import type { Machine } from "./machine.ts";
import { versionOf } from "./peers.ts";
import type { Figures, Metric, Order } from "./questions/question.ts";
import type { EngineName } from "./places.ts";
import { keyOf, type System } from "./systems/system.ts";

export interface LeftOut {
  readonly system: string;
  readonly reason: string;
}

export interface Terms {
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly order: Omit<Order, "question" | "bytes">;
}

const METRICS: readonly Metric[] = ["one by one", "in bulk", "drain", "pickup p50", "pickup p99"];

/** A cell without a figure. */
const NOTHING = "–";

const TITLES: Readonly<Record<EngineName, string>> = {
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  mariadb: "MariaDB",
  redis: "Redis",
};

/** Whom of ours a system on an engine is compared with, the first that takes part. */
const RIVALS: Readonly<Record<EngineName, readonly EngineName[]>> = {
  sqlite: ["sqlite"],
  postgres: ["postgres"],
  mariadb: ["mariadb"],
  redis: ["postgres", "mariadb", "sqlite"],
};

export class Results {
  readonly #terms: Terms;
  readonly #systems: readonly System[];
  readonly #leftOut: LeftOut[];
  readonly #figures = new Map<string, number[]>();
  #where = "warming up";

  constructor(terms: Terms, systems: readonly System[], leftOut: readonly LeftOut[]) {
    this.#terms = terms;
    this.#systems = systems;
    this.#leftOut = [...leftOut];
  }

  get incomplete(): boolean {
    return this.#leftOut.length > 0;
  }

  begin(where: string): void {
    this.#where = where;
  }

  add(system: System, { bytes }: Order, figures: Figures): void {
    for (const [metric, figure] of Object.entries(figures) as [Metric, number][]) {
      const place = placeOf(system, metric, bytes);
      this.#figures.set(place, [...(this.#figures.get(place) ?? []), figure]);
      const what = `${metric} ${inBytes(bytes)}`.padEnd(18);
      progress(`${this.#where}  ${what} ${keyOf(system).padEnd(28)} ${written(metric, figure)}`);
    }
  }

  forgetFigures(): void {
    this.#figures.clear();
  }

  isOut(system: System): boolean {
    return this.#leftOut.some((each) => each.system === keyOf(system));
  }

  leaveOut(system: System, reason: string): void {
    progress(`LEFT OUT from here on: ${keyOf(system)}, because ${reason}`);
    this.#leftOut.push({ system: keyOf(system), reason });
  }

  print(machine: Machine, databases: readonly string[]): void {
    const { order, rounds } = this.#terms;
    console.log(
      `\n${whole(order.jobs)} no-op jobs drained and enqueued in bulk, ${whole(order.singles)} one by one; ` +
        `medians of ${rounds} ${rounds === 1 ? "round" : "rounds"} taken in turn.\nIn brackets, how many times as good ours is: ` +
        "the median of the ratios of each round, to Holdfast on the same database (BullMQ: on PostgreSQL).\n",
    );
    const measured = METRICS.filter((metric) => this.#isMeasured(metric));
    printTable(["system", "payload", ...measured], this.#rows(measured));
    console.log(`\nMachine: ${machine.words}.`);
    for (const database of databases) console.log(`Database: ${database}.`);
    for (const system of this.#systems) console.log(`${title(system)}: ${toldOf(system)}.`);
    for (const { system, reason } of this.#leftOut) console.log(`LEFT OUT: ${system}: ${reason}`);
    if (!machine.quiet) console.log("THE MACHINE WAS NOT QUIET: see above.");
  }

  json(machine: Machine, databases: readonly string[]): string {
    const systems = this.#systems.map((system) => ({
      system: keyOf(system),
      told: toldOf(system),
      figures: Object.fromEntries(
        this.#terms.sizes.flatMap((size) =>
          METRICS.flatMap((metric) => {
            const rounds = this.#rounds(system, metric, size);
            return rounds.length === 0 ? [] : [[`${metric}, ${inBytes(size)}`, rounds] as const];
          }),
        ),
      ),
    }));
    const at = new Date().toISOString();
    const all = { at, machine, databases, ...this.#terms, systems, leftOut: this.#leftOut };
    return `${JSON.stringify(all, null, 2)}\n`;
  }

  #isMeasured(metric: Metric): boolean {
    const all = this.#systems.flatMap((system) =>
      this.#terms.sizes.flatMap((size) => this.#rounds(system, metric, size)),
    );
    return all.length > 0;
  }

  #rows(metrics: readonly Metric[]): string[][] {
    const rows = this.#systems.flatMap((system) =>
      this.#terms.sizes.map((size) => [
        system.role === "ours" ? `**${title(system)}**` : title(system),
        inBytes(size),
        ...metrics.map((metric) => this.#cell(system, metric, size)),
      ]),
    );
    return rows.filter(([, , ...cells]) => cells.some((cell) => cell !== NOTHING));
  }

  #cell(system: System, metric: Metric, size: number): string {
    const theirs = this.#rounds(system, metric, size);
    if (theirs.length === 0) return NOTHING;
    const figure = written(metric, median(theirs));
    const rival = this.#rivalOf(system);
    if (rival === null) return figure;
    const ours = this.#rounds(rival, metric, size);
    const factor = isRate(metric) ? ratio(ours, theirs) : ratio(theirs, ours);
    return Number.isNaN(factor) ? figure : `${figure} (${times(factor)})`;
  }

  #rivalOf(system: System): System | null {
    if (system.role === "ours") return null;
    const ours = RIVALS[system.engine].flatMap((engine) =>
      this.#systems.filter((each) => each.role === "ours" && each.engine === engine),
    );
    return ours[0] ?? null;
  }

  #rounds(system: System, metric: Metric, size: number): readonly number[] {
    return this.#figures.get(placeOf(system, metric, size)) ?? [];
  }
}

function placeOf(system: System, metric: Metric, size: number): string {
  return `${keyOf(system)}, ${metric}, ${size}`;
}

function title({ name, engine }: System): string {
  return `${name} on ${TITLES[engine]}`;
}

function toldOf({ packages, settings }: System): string {
  const versions = packages.map(versionOf).join(" on ");
  return versions === "" ? settings : `${versions}; ${settings}`;
}

function isRate(metric: Metric): boolean {
  return !metric.startsWith("pickup");
}

function written(metric: Metric, figure: number): string {
  return isRate(metric) ? perSecond(figure) : milliseconds(figure);
}
