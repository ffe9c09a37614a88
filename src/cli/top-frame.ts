/** One frame of `holdfast top`: a pure function from stats to lines that fit the screen. */
import { listAlerts } from "../alerts/history.ts";
import type { Holdfast } from "../app/holdfast.ts";
import { severities, type Severity } from "../database/check.ts";
import { type Status, statuses } from "../core/job.ts";
import type { JobSummary } from "../jobs/jobs.ts";
import type { QueueStats } from "../jobs/store.ts";
import { versionText } from "../registry/table.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import {
  type Cell,
  type Column,
  count,
  cut,
  printable,
  relative,
  span,
  statusPaint,
  table,
  widthOf,
} from "../terminal/table.ts";
import type { Colors } from "../terminal/terminal.ts";

export const panels = ["queues", "workers", "failures"] as const;
type Panel = (typeof panels)[number];
export const orders = ["pending", "failed", "name"] as const;

/** What the user has selected. */
export interface View {
  readonly focus: Panel;
  /** The selected row of each panel, and the first visible line of an opened job. */
  readonly scroll: Readonly<Record<Panel | "job", number>>;
  readonly order: (typeof orders)[number];
  /** The result of the last action, or a question; null: the keys are shown. */
  readonly message: string | null;
}

export const START: View = {
  focus: "queues",
  scroll: { queues: 0, workers: 0, failures: 0, job: 0 },
  order: "pending",
  message: null,
};

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  readonly colors: Colors;
}

const BARS = "▁▂▃▄▅▆▇█";
const ALERTS_MAX = 3;
const KEYS = "q quit  ←→ panel  ↑↓ move  s sort";
const JOB_KEYS = "  ⏎ open  r retry";

/** At most `rows` lines, none wider than `columns`. */
export function frame(stats: Stats, view: View, screen: Screen): string[] {
  const head = header(stats, screen);
  const tables = tablesOf(stats, view, screen);
  const room = screen.rows - head.length - 1;
  const heights = share(room, tables, view.focus);
  const body = tables.flatMap(({ panel, title, lines: content }, index) =>
    panelLines(title, content, {
      height: heights[index] ?? 0,
      scroll: view.scroll[panel],
      focused: panel === view.focus,
      screen,
    }),
  );
  return [...head, ...body.slice(0, Math.max(0, room)), footer(view, screen)].slice(0, screen.rows);
}

function footer({ focus, message }: View, { colors, columns }: Screen): string {
  if (message !== null) return cut(message, columns);
  return colors.dim(cut(focus === "failures" ? `${KEYS}${JOB_KEYS}` : KEYS, columns));
}

/** One opened job, full screen. */
export function jobFrame(content: readonly string[], view: View, screen: Screen): string[] {
  const room = Math.max(1, screen.rows - 2);
  const from = Math.max(0, Math.min(view.scroll.job, content.length - room));
  const keys = "esc back  ↑↓ scroll  r retry  q quit";
  const last = view.message ?? screen.colors.dim(cut(keys, screen.columns));
  const shown = content.slice(from, from + room).map((line) => cut(line, screen.columns));
  return [...shown, "", last];
}

/** A snapshot: it cannot be scrolled, so it contains everything. */
export function still(stats: Stats, screen: Screen): string[] {
  const body = tablesOf(stats, START, screen).flatMap(({ title, lines: content }) =>
    panelLines(title, content, { height: content.length + 2, scroll: 0, focused: false, screen }),
  );
  return [...header(stats, screen), ...body.slice(0, -1)];
}

function header(stats: Stats, screen: Screen): string[] {
  const { colors, columns } = screen;
  const { database, at, workers, rates, alerts } = stats;
  const since = Math.min(...workers.map(({ startedAt }) => startedAt));
  const up = workers.length === 0 ? "no worker" : `up ${span(Math.max(0, at - since))}`;
  const clock = new Date(at).toTimeString().slice(0, 8);
  const right = `${up}  ${clock}`;
  const name = cut(`holdfast  ${printable(database)}`, Math.max(8, columns - widthOf(right) - 2));
  const gap = " ".repeat(Math.max(2, columns - widthOf(name) - widthOf(right)));
  const raised = alerts.slice(0, ALERTS_MAX).map(({ severity, message }) => {
    const paint = severity === "critical" ? colors.red : colors.yellow;
    return paint(cut(`! ${printable(message)}`, columns));
  });
  return [
    `${colors.bold(name)}${gap}${colors.dim(right)}`,
    totals(stats, screen),
    ...(rates.length === 0 ? [] : [rateLine(rates, screen)]),
    ...raised,
    "",
  ];
}

/** `pending 12  processing 3  done 1,204  failed 2`: as many as fit. */
function totals({ queues }: Stats, { colors, columns }: Screen): string {
  const always = new Set<Status>(["pending", "processing", "done", "failed"]);
  let left = columns;
  const parts = statuses.flatMap((status) => {
    const number = queues.reduce((sum, { counts }) => sum + counts[status], 0);
    if (number === 0 && !always.has(status)) return [];
    const text = `${status} ${count(number)}`;
    left -= text.length + 2;
    if (left < -2) return [];
    return [number === 0 ? colors.dim(text) : statusPaint(colors, status)(text)];
  });
  return parts.join("  ");
}

/** A rate needs two counts; before that the line is omitted. */
function rateLine(rates: readonly number[], { colors, columns }: Screen): string {
  const last = rates.at(-1) ?? 0;
  const words = `${last < 10 ? last.toFixed(1) : count(Math.round(last))}/s`;
  const label = `${words.padStart(8)} ended  `;
  const room = Math.max(0, columns - label.length);
  return `${label}${colors.green(sparkline(rates.slice(-room)))}`;
}

/** The highest rate is a full block, zero the lowest line. */
export function sparkline(rates: readonly number[]): string {
  const most = Math.max(...rates, 0);
  return rates
    .map((rate) => BARS[most === 0 ? 0 : Math.round((rate / most) * (BARS.length - 1))])
    .join("");
}

interface PanelTable {
  readonly panel: Panel;
  readonly title: string;
  /** The titles of the columns first. */
  readonly lines: readonly string[];
}

function tablesOf(stats: Stats, view: View, screen: Screen): PanelTable[] {
  const { queues, workers, failures, countedMsAgo } = stats;
  const age = countedMsAgo < 5_000 ? "" : `, counted ${span(countedMsAgo)} ago`;
  return [
    {
      panel: "queues",
      title: `Queues (${queues.length}${age})`,
      lines: queueLines(stats, view, screen),
    },
    { panel: "workers", title: `Workers (${workers.length})`, lines: workerLines(stats, screen) },
    {
      panel: "failures",
      title: failures.length === 0 ? "No failures" : "Recent failures",
      lines: failureLines(stats, view, screen),
    },
  ];
}

function queueLines({ queues, at }: Stats, { order }: View, screen: Screen): string[] {
  const sorted = queues.toSorted((one, other) => compare(one, other, order));
  const shown = ["pending", "processing", "retry", "done", "failed"] as const;
  const right = shown.map((status): Column => ({ title: status.toUpperCase(), align: "right" }));
  return lines(
    screen,
    [{ title: "QUEUE", flexible: true }, ...right, { title: "OLDEST", align: "right" }],
    sorted.map(({ queue, counts, oldestPendingAt }) => [
      queue,
      ...shown.map((status): Cell => ({
        text: count(counts[status]),
        paint: counts[status] === 0 ? screen.colors.dim : statusPaint(screen.colors, status),
      })),
      oldestPendingAt === null ? "" : span(Math.max(0, at - oldestPendingAt)),
    ]),
  );
}

function compare(one: QueueStats, other: QueueStats, order: View["order"]): number {
  const byName = one.queue < other.queue ? -1 : 1;
  if (order === "name") return byName;
  return other.counts[order] - one.counts[order] || byName;
}

function workerLines({ workers }: Stats, screen: Screen): string[] {
  const columns: Column[] = [
    { title: "WORKER", flexible: true },
    { title: "HOST", flexible: true },
    { title: "STATUS" },
    { title: "JOBS", align: "right" },
    { title: "VERSION", flexible: true },
    { title: "SEEN", align: "right" },
    { title: "MB", align: "right" },
  ];
  return lines(
    screen,
    columns,
    workers.map((worker) => [
      worker.id,
      worker.hostname,
      stateOf(worker),
      // Counted now: the worker's own count is as old as its last heartbeat.
      count(worker.leases),
      versionText(worker),
      span(worker.silentMs),
      count(Math.round(worker.memoryBytes / 1e6)),
    ]),
  );
}

function stateOf({ liveness, status, desiredState }: WorkerRecord): string {
  if (liveness === "stale" || liveness === "hung") return liveness;
  return desiredState === "run" ? status : `${status}, ${desiredState}`;
}

function failureLines({ failures, at }: Stats, view: View, screen: Screen): string[] {
  const chosen = view.focus === "failures" ? view.scroll.failures : -1;
  const columns: Column[] = [
    { title: "" },
    { title: "WHEN" },
    { title: "TASK", flexible: true },
    { title: "JOB" },
    { title: "ERROR", flexible: true },
  ];
  return lines(
    screen,
    columns,
    failures.map(({ finishedAt, task, short, lastError }, index) => [
      index === chosen ? "›" : " ",
      finishedAt === null ? "" : relative(finishedAt, at),
      task,
      short,
      { text: lastError?.message.split("\n")[0] ?? "", paint: screen.colors.red },
    ]),
  );
}

function lines(
  { columns: width, colors }: Screen,
  columns: Column[],
  rows: (string | Cell)[][],
): string[] {
  if (rows.length === 0) return [];
  return table({ columns, rows, width, paintTitle: colors.dim });
}

/** A panel needs its title, its column titles and its rows. The focused panel gets the remaining lines first. */
function share(room: number, tables: readonly PanelTable[], focus: Panel): number[] {
  const wanted = tables.map((each) => each.lines.length + 2);
  const least = tables.map((each) => Math.min(each.lines.length + 2, 4));
  let left = room - least.reduce((sum, height) => sum + height, 0);
  const heights = [...least];
  const inOrder = tables
    .map((_, index) => index)
    .toSorted(
      (one, other) => Number(tables[other]?.panel === focus) - Number(tables[one]?.panel === focus),
    );
  for (const index of inOrder) {
    const more = Math.max(0, Math.min(left, (wanted[index] ?? 0) - (heights[index] ?? 0)));
    heights[index] = (heights[index] ?? 0) + more;
    left -= more;
  }
  return heights;
}

interface PanelView {
  readonly height: number;
  readonly scroll: number;
  readonly focused: boolean;
  readonly screen: Screen;
}

function panelLines(
  title: string,
  content: readonly string[],
  { height, scroll, focused, screen }: PanelView,
): string[] {
  const { colors, columns } = screen;
  const mark = focused ? "▸ " : "  ";
  const [titles, ...rows] = content;
  const room = Math.max(0, height - 3);
  const from = Math.max(0, Math.min(scroll, rows.length - room));
  const hidden = rows.length - room;
  const more =
    hidden > 0 ? `  ${count(from + 1)}–${count(from + room)} of ${count(rows.length)}` : "";
  const head = cut(`${mark}${title}${more}`, columns);
  return [
    focused ? colors.bold(head) : head,
    ...(titles === undefined ? [] : [titles]),
    ...rows.slice(from, from + room),
    "",
  ];
}

// The stats that `holdfast top` shows, gathered with few queries.
//
// Counting rows is expensive, so it takes at most a hundredth of the time. The rest are a few rows read by an index.

const COUNT_EVERY_MS = 1_000;

/** Counting takes at most one part in this many of the time. */
const COUNT_SHARE = 100;
const RATES_MAX = 120;
const WORKERS_MAX = 100;
const FAILURES_MAX = 20;
const ALERTS_READ_MAX = 20;
const COUNTS_MS_MAX = 120_000;
const COUNTED_MAX = 50_000;

export interface Failure extends JobSummary {
  /** An unambiguous prefix of its id. */
  readonly short: string;
}

export interface Stats {
  readonly database: string;
  /** By this host's clock. */
  readonly at: number;
  readonly queues: readonly QueueStats[];
  /** How long ago the queues were counted. */
  readonly countedMsAgo: number;
  /** Finished jobs per second, oldest first. */
  readonly rates: readonly number[];
  readonly workers: readonly WorkerRecord[];
  readonly failures: readonly Failure[];
  /** The worst first. */
  readonly alerts: readonly { readonly severity: Severity; readonly message: string }[];
}

export class Observer {
  readonly #holdfast: Holdfast;
  readonly #rates: number[] = [];
  #queues: readonly QueueStats[] = [];
  #countedAt = Number.NEGATIVE_INFINITY;
  #nextCountAt = Number.NEGATIVE_INFINITY;
  #ended: number | null = null;

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast;
  }

  async look(): Promise<Stats> {
    const { workers, runtime, store } = this.#holdfast;
    await this.#count();
    const [alive, failures, alerts] = await Promise.all([
      workers.list({ limit: WORKERS_MAX }),
      failuresOf(this.#holdfast),
      alertsOf(this.#holdfast),
    ]);
    return {
      database: store.db.name,
      at: runtime.now(),
      queues: this.#queues,
      countedMsAgo: Math.max(0, runtime.monotonic() - this.#countedAt),
      rates: [...this.#rates],
      workers: alive,
      failures,
      alerts,
    };
  }

  /** Counts if it is time to, and records how many jobs ended since the last count. */
  async #count(): Promise<void> {
    const { runtime } = this.#holdfast;
    const before = runtime.monotonic();
    if (before < this.#nextCountAt) return;
    this.#queues = await depths(this.#holdfast);
    const now = runtime.monotonic();
    const ended = this.#queues.reduce(
      (sum, { counts }) => sum + counts.done + counts.failed + counts.cancelled + counts.expired,
      0,
    );
    if (this.#ended !== null) {
      const seconds = (now - this.#countedAt) / 1_000;
      // Jobs pruned in the meantime are missing from the count.
      this.#rates.push(Math.max(0, ended - this.#ended) / seconds);
      if (this.#rates.length > RATES_MAX) this.#rates.shift();
    }
    this.#ended = ended;
    this.#countedAt = now;
    this.#nextCountAt = now + Math.max(COUNT_EVERY_MS / 2, (now - before) * COUNT_SHARE);
  }
}

async function failuresOf({ jobs }: Holdfast): Promise<Failure[]> {
  const failed = await jobs.list({ status: "failed", limit: FAILURES_MAX });
  const short = await jobs.shortIds(failed.map(({ id }) => id));
  return failed.map((job) => ({ ...job, short: short.get(job.id) ?? job.id }));
}

/** For a large number of jobs, the monitor's count is good enough. */
async function depths(holdfast: Holdfast): Promise<readonly QueueStats[]> {
  const counted = await holdfast.metrics.counts();
  if (counted === null || counted.ageMs > COUNTS_MS_MAX) return holdfast.stats();
  const jobs = counted.queues.flatMap(({ counts }) => Object.values(counts));
  const isLarge = jobs.reduce((sum, some) => sum + some, 0) > COUNTED_MAX;
  return isLarge ? counted.queues : holdfast.stats();
}

async function alertsOf({ store }: Holdfast): Promise<Stats["alerts"]> {
  const raised = await listAlerts(store.alerts, { which: "raised", limit: ALERTS_READ_MAX });
  return raised
    .map(({ severity, message }) => ({ severity, message }))
    .toSorted((a, b) => severities.indexOf(b.severity) - severities.indexOf(a.severity));
}
