/**
 * How long jobs waited until a worker started them, by minute and queue, and how long they ran, by hour and task.
 *
 * Every worker writes what changed every five seconds, as whole rows of its own, so a write may be lost or repeated. The
 * process that folds a minute adds up the rows of all workers.
 */
import { Histogram } from "../core/histogram.ts";
import { isReserved, OTHER_QUEUES } from "../core/name.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { mergedTimes, quantilesOf } from "./spans.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Less than the lag of folding, so that a minute is complete when it is folded. */
const FLUSH_EVERY_MS = 5_000;

/** Queues and tasks of one worker in a minute or an hour; all others count together. */
const NAMES_MAX = 100;

/** Beyond this, the oldest unwritten rows are dropped. */
const UNWRITTEN_MAX = 500;

/** `pickup`: `name` is a queue and `at` a minute. `run`: a task, and an hour. */
export interface TimesRow {
  readonly kind: "pickup" | "run";
  readonly at: number;
  readonly name: string;
  /** The worker that wrote it. */
  readonly source: string;
  /** A histogram; see core/histogram.ts. */
  readonly times: string;
}

interface Cell extends Omit<TimesRow, "times" | "source"> {
  readonly histogram: Histogram;
}

interface TimesParts {
  readonly put: (rows: readonly TimesRow[]) => Promise<void>;
  readonly runtime: Runtime;
  readonly source: () => string;
}

/** Measures one worker. */
export class WorkerTimes {
  readonly #parts: TimesParts;
  readonly #cells = { pickup: new Map<string, Cell>(), run: new Map<string, Cell>() };
  readonly #since = { pickup: 0, run: 0 };
  readonly #unwritten = new Set<Cell>();
  #timer: Timer | null = null;
  #writing: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(parts: TimesParts) {
    this.#parts = parts;
  }

  claimed(): void {}

  started({ queue }: { readonly queue: string }, waitedMs: number | null): void {
    if (waitedMs === null || isReserved(queue)) return;
    this.#cell("pickup", queue, MINUTE_MS).add(waitedMs);
  }

  /** Failed attempts end early, and suspended ones end somewhere: only those that end a job say how long it takes. */
  ended(
    { task, queue }: { readonly task: string; readonly queue: string },
    outcome: string,
    tookMs: number,
  ): void {
    if (outcome === "done" && !isReserved(queue)) this.#cell("run", task, HOUR_MS).add(tookMs);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#flush();
  }

  /** Called for every job. */
  #cell(kind: TimesRow["kind"], name: string, stepMs: number): Histogram {
    const now = this.#parts.runtime.now();
    const at = now - (now % stepMs);
    const cells = this.#cells[kind];
    if (at !== this.#since[kind]) cells.clear();
    this.#since[kind] = at;
    const cell = cells.get(name) ?? this.#addCell(kind, name, at);
    if (!this.#unwritten.has(cell)) this.#note(cell);
    return cell.histogram;
  }

  #addCell(kind: TimesRow["kind"], given: string, at: number): Cell {
    const cells = this.#cells[kind];
    const name = cells.size < NAMES_MAX ? given : OTHER_QUEUES;
    const cell = cells.get(name) ?? { kind, at, name, histogram: new Histogram() };
    cells.set(name, cell);
    return cell;
  }

  #note(cell: Cell): void {
    this.#unwritten.add(cell);
    const [oldest] = this.#unwritten;
    if (this.#unwritten.size > UNWRITTEN_MAX && oldest !== undefined)
      this.#unwritten.delete(oldest);
    if (this.#isStopped) return;
    const flush = (): void => void this.#flush();
    this.#timer ??= this.#parts.runtime.timer(FLUSH_EVERY_MS, flush, "background");
  }

  #flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  async #write(): Promise<void> {
    const cells = [...this.#unwritten];
    if (cells.length === 0) return;
    this.#unwritten.clear();
    const source = this.#parts.source();
    try {
      await this.#parts.put(
        cells.map(({ histogram, ...cell }) => ({ ...cell, source, times: histogram.toText() })),
      );
    } catch {
      // Statistics may be late.
      for (const cell of cells) this.#note(cell);
    }
  }
}

// The rows that workers write about how long jobs waited and ran.

/** Newest rows of a task that are read: a day of eight workers. */
const ROWS_MAX = 200;

/** Fewer runs do not show what is usual. */
const RUNS_MIN = 5;

export interface Usual {
  /** Four of five runs are between these. */
  readonly lowMs: number;
  readonly highMs: number;
  /** How many runs that is from. */
  readonly count: number;
}

const KINDS = {
  pickup: { table: sql`holdfast.pickup_stat`, at: "minute", name: "queue", times: "waits" },
  run: { table: sql`holdfast.task_stat`, at: "hour", name: "task", times: "runs" },
} as const;

export async function putTimes(engine: Engine, rows: readonly TimesRow[]): Promise<void> {
  for (const { kind, at, name, source, times } of rows) {
    const { table, ...columns } = KINDS[kind];
    const isPickup = kind === "pickup";
    await engine.put({
      table,
      columns: [columns.at, columns.name, "source", columns.times],
      values: sql`${at}, ${name}, ${source}, ${times}`,
      key: [columns.at, columns.name, "source"],
      set: isPickup ? sql`waits = ${times}` : sql`runs = ${times}`,
      where: isPickup
        ? sql`was.minute = ${at} and was.queue = ${name} and was.source = ${source}`
        : sql`was.hour = ${at} and was.task = ${name} and was.source = ${source}`,
      returning: sql`source`,
      durable: false,
    });
  }
}

export async function usualTimes(engine: Engine, task: string): Promise<Usual | null> {
  const rows = await engine.all<{ runs: string }>(sql`
    select runs
      from holdfast.task_stat
     where task = ${task}
     order by hour desc
     limit ${ROWS_MAX}`);
  const merged = mergedTimes(rows.map(({ runs }) => runs));
  if (merged === null) return null;
  const counts = Object.values(JSON.parse(merged) as Record<string, number>);
  const count = counts.reduce((sum, n) => sum + n, 0);
  const [lowMs, highMs] = quantilesOf(merged, [0.1, 0.9]);
  if (lowMs === undefined || highMs === undefined || count < RUNS_MIN) return null;
  return { lowMs, highMs, count };
}
