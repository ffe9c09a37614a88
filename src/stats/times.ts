/**
 * How long jobs waited until a worker started them, by minute and queue, and how long they ran, by hour and task.
 *
 * Every worker writes what changed every five seconds, as whole rows of its own, so a write may be lost or repeated. The
 * process that folds a minute adds up the rows of all workers.
 */
import { Histogram } from "../core/histogram.ts";
import { bareName, isReserved, OTHER_QUEUES } from "../core/name.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Engine } from "../database/engine.ts";
import { sql, type Sql } from "../database/sql.ts";
import { mergedTimes, quantilesOf } from "./spans.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Less than the lag of folding, so that a minute is complete when it is folded. */
const FLUSH_EVERY_MS = 5_000;

/** Queues and tasks of one worker in a minute or an hour; all others count together. */
const NAMES_MAX = 100;

/** Beyond this, the oldest unwritten rows are dropped. */
const UNWRITTEN_MAX = 500;

/** `pickup`: `name` is a queue and `at` a minute. `run`: a task without its version, and an hour. */
export interface TimesRow {
  readonly kind: "pickup" | "run";
  readonly at: number;
  readonly name: string;
  /** The worker that wrote it, and its build. */
  readonly source: string;
  readonly build: string;
  /** Histograms; see core/histogram.ts. Those of a queue have no runs. */
  readonly runs: string;
  readonly waits: string;
}

interface Cell extends Pick<TimesRow, "kind" | "at" | "name"> {
  readonly runs: Histogram;
  readonly waits: Histogram;
}

interface TimesParts {
  readonly put: (rows: readonly TimesRow[]) => Promise<void>;
  readonly runtime: Runtime;
  readonly source: () => string;
  readonly build: string;
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

  started(
    { task, queue }: { readonly task: string; readonly queue: string },
    waitedMs: number | null,
  ): void {
    if (waitedMs === null || isReserved(queue)) return;
    this.#cell("pickup", queue, MINUTE_MS).waits.add(waitedMs);
    this.#cell("run", bareName(task), HOUR_MS).waits.add(waitedMs);
  }

  /** Failed attempts end early, and suspended ones end somewhere: only those that end a job say how long it takes. */
  ended(
    { task, queue }: { readonly task: string; readonly queue: string },
    outcome: string,
    tookMs: number,
  ): void {
    if (outcome !== "done" || isReserved(queue)) return;
    this.#cell("run", bareName(task), HOUR_MS).runs.add(tookMs);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#flush();
  }

  /** Called for every job. */
  #cell(kind: TimesRow["kind"], name: string, stepMs: number): Cell {
    const now = this.#parts.runtime.now();
    const at = now - (now % stepMs);
    const cells = this.#cells[kind];
    if (at !== this.#since[kind]) cells.clear();
    this.#since[kind] = at;
    const cell = cells.get(name) ?? this.#addCell(kind, name, at);
    if (!this.#unwritten.has(cell)) this.#note(cell);
    return cell;
  }

  #addCell(kind: TimesRow["kind"], given: string, at: number): Cell {
    const cells = this.#cells[kind];
    const name = cells.size < NAMES_MAX ? given : OTHER_QUEUES;
    const none = { runs: new Histogram(), waits: new Histogram() };
    const cell = cells.get(name) ?? { kind, at, name, ...none };
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
    const by = { source: this.#parts.source(), build: this.#parts.build };
    try {
      await this.#parts.put(
        cells.map(({ runs, waits, ...cell }) => ({
          ...cell,
          ...by,
          runs: runs.toText(),
          waits: waits.toText(),
        })),
      );
    } catch {
      // Statistics may be late.
      for (const cell of cells) this.#note(cell);
    }
  }
}

// The rows that workers write about how long jobs waited and ran.

/** Newest rows of a task that are read, of the open hour and of those before. */
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

export async function putTimes(engine: Engine, rows: readonly TimesRow[]): Promise<void> {
  for (const { kind, at, name, source, build, runs, waits } of rows) {
    const of = { returning: sql`source`, durable: false } as const;
    await (kind === "pickup"
      ? engine.put({
          ...of,
          table: sql`holdfast.pickup_stat`,
          columns: ["minute", "queue", "source", "waits"],
          values: sql`${at}, ${name}, ${source}, ${waits}`,
          key: ["minute", "queue", "source"],
          set: sql`waits = ${waits}`,
          where: sql`was.minute = ${at} and was.queue = ${name} and was.source = ${source}`,
        })
      : engine.put({
          ...of,
          table: sql`holdfast.task_stat`,
          columns: ["hour", "task", "source", "build", "runs", "waits"],
          values: sql`${at}, ${name}, ${source}, ${build}, ${runs}, ${waits}`,
          key: ["hour", "task", "source"],
          set: sql`runs = ${runs}, waits = ${waits}`,
          where: sql`was.hour = ${at} and was.task = ${name} and was.source = ${source}`,
        }));
  }
}

export async function usualTimes(engine: Engine, task: string): Promise<Usual | null> {
  const newest = (table: Sql): Promise<{ runs: string }[]> =>
    engine.all<{ runs: string }>(sql`
      select runs
        from ${table}
       where task = ${bareName(task)}
         and runs is not null
       order by hour desc
       limit ${ROWS_MAX}`);
  const rows = [
    ...(await newest(sql`holdfast.task_stat`)),
    ...(await newest(sql`holdfast.task_total`)),
  ];
  const merged = mergedTimes(rows.map(({ runs }) => runs));
  if (merged === null) return null;
  const counts = Object.values(JSON.parse(merged) as Record<string, number>);
  const count = counts.reduce((sum, n) => sum + n, 0);
  const [lowMs, highMs] = quantilesOf(merged, [0.1, 0.9]);
  if (lowMs === undefined || highMs === undefined || count < RUNS_MIN) return null;
  return { lowMs, highMs, count };
}
