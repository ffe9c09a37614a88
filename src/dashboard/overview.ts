/**
 * The overview: how the service is, in one request that counts nothing.
 *
 * All viewers of a process share one look a second. What changes slowly is read less often.
 */
import { type Alert, isSilenced } from "../alerts/alert.ts";
import { listAlerts } from "../alerts/history.ts";
import type { AlertsStore } from "../alerts/store.ts";
import { Cached } from "../core/wait.ts";
import { type FinalStatus, finalStatuses, type Status, statuses } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { JobSummary } from "../jobs/jobs.ts";
import type { QueueStats } from "../jobs/store.ts";
import type { CanaryReport } from "../monitoring/canary.ts";
import type { Running } from "../queues/limits.ts";
import type { QueueRecord } from "../queues/store.ts";
import type { WorkersStore } from "../registry/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import type { MinuteStats, Series, SeriesPoint } from "../stats/spans.ts";
import type { StatsStore } from "../stats/store.ts";
import type { OverviewQueue, OverviewView, OverviewWorker } from "./shapes.ts";
import { statusOf } from "./status.ts";
import type { DashboardStore } from "./store.ts";

const MINUTE_MS = 60_000;
const MINUTE_S = 60;
const HOUR_MS = 3_600_000;

/** How long each part is cached, and how long a request waits for it. */
const NOW_MS = 1_000;
const MINUTES_MS = 5_000;
const DAY_MS = 60_000;
const WAIT_MS = 5_000;

/** Points of a sparkline: the last hour in steps of two minutes. */
const SPARK_STEP_MS = 2 * MINUTE_MS;
const SPARK_POINTS = HOUR_MS / SPARK_STEP_MS;

const QUEUES_SHOWN_MAX = 200;
const WORKERS_SHOWN_MAX = 200;
const ALERTS_SHOWN_MAX = 20;

/** So many are read to be counted. */
const WORKERS_MAX = 2_000;
const ALERTS_MAX = 1_000;

const FAILED_MAX = 6;

const unended = statuses.filter((status) => !finalStatuses.includes(status as FinalStatus));

/** What it needs of a Holdfast. */
export interface OverviewSource {
  readonly runtime: Runtime;
  readonly jobs: {
    list(filter: { status: "failed"; limit: number }): Promise<readonly JobSummary[]>;
  };
  readonly store: {
    readonly db: { clock(): Promise<number> };
    readonly stats: Pick<StatsStore, "series" | "minutes">;
    readonly dashboard: Pick<DashboardStore, "running">;
    readonly queues: { list(): Promise<readonly QueueRecord[]> };
    readonly workers: Pick<WorkersStore, "list" | "outsideQueues">;
    readonly alerts: AlertsStore;
    readonly errorKinds: { counts(): Promise<{ readonly open: number; readonly new: number }> };
  };
}

interface OverviewParts {
  readonly source: OverviewSource;
  readonly counts: () => Promise<{
    readonly countedAt: number;
    readonly queues: readonly QueueStats[];
  }>;
  readonly canaries: () => readonly CanaryReport[];
}

export class Overview {
  readonly #parts: OverviewParts;
  readonly #now: Cached<OverviewView>;
  readonly #minutes: Cached<readonly MinuteStats[]>;
  readonly #hour: Cached<Series>;
  readonly #recent: Cached<Series>;
  readonly #day: Cached<Series>;

  constructor(parts: OverviewParts) {
    this.#parts = parts;
    const { runtime, store } = parts.source;
    const cached = <T>(forMs: number, ask: () => Promise<T>): Cached<T> =>
      new Cached({ runtime, forMs, waitMs: WAIT_MS, ask });
    this.#now = cached(NOW_MS, () => this.look());
    this.#hour = cached(MINUTES_MS, () => store.stats.series({ range: "1h" }));
    this.#recent = cached(MINUTES_MS, () => store.stats.series({ range: "4h" }));
    this.#day = cached(DAY_MS, () => store.stats.series({ range: "24h" }));
    const hour = { forMs: HOUR_MS + MINUTE_MS, limit: SPARK_POINTS * QUEUES_SHOWN_MAX * 2 };
    this.#minutes = cached(MINUTES_MS, () => store.stats.minutes(hour));
  }

  /** Null: the database took too long. */
  get(): Promise<OverviewView | null> {
    return this.#now.get();
  }

  /** Asks the database. */
  async look(): Promise<OverviewView> {
    const { source, counts, canaries } = this.#parts;
    const { store, jobs } = source;
    const [counted, running, settings, workers, outside, alerts, failed, kinds] = await Promise.all(
      [
        counts(),
        store.dashboard.running(),
        store.queues.list(),
        store.workers.list({ alive: true, limit: WORKERS_MAX }),
        store.workers.outsideQueues(),
        listAlerts(store.alerts, { limit: ALERTS_MAX }),
        jobs.list({ status: "failed", limit: FAILED_MAX }),
        store.errorKinds.counts(),
      ],
    );
    const minutes = (await this.#minutes.get()) ?? [];
    const now = await store.db.clock();
    const { queues } = counted;
    const rows = queueRows({ queues, settings, running, workers, outside, minutes, now });
    const past = {
      hour: await this.#hour.get(),
      recent: await this.#recent.get(),
      day: await this.#day.get(),
    };
    const situation = {
      at: now,
      countedAt: counted.countedAt,
      figures: {
        ...speed(past, now),
        ...workerFigures(workers),
        running: sum(running.map(({ jobs: n }) => n)),
        pending: sum(queues.map(({ counts: by }) => by.pending)),
        errorKinds: kinds.open,
        errorKindsNew: kinds.new,
      },
      queues: rows,
      workers,
      alerts,
      canaries: canaries(),
      isEmpty: failed.length === 0 && queues.every(({ counts: by }) => isNone(by)),
      pausedAll: arePaused(rows),
    };
    return {
      ...situation,
      status: statusOf(situation),
      queues: rows.slice(0, QUEUES_SHOWN_MAX).toSorted((a, b) => (a.queue < b.queue ? -1 : 1)),
      queuesLeftOut: Math.max(0, rows.length - QUEUES_SHOWN_MAX),
      workers: workers.slice(0, WORKERS_SHOWN_MAX).map(workerOf),
      alerts: alerts.slice(0, ALERTS_SHOWN_MAX),
      alertsOpen: alertsOpen(alerts, now),
      failed,
    };
  }
}

function isNone(counts: Readonly<Record<Status, number>>): boolean {
  return statuses.every((status) => counts[status] === 0);
}

/** Whether no queue can start a job. A queue that has only ended jobs and no worker is not paused with the others. */
function arePaused(rows: readonly OverviewQueue[]): boolean {
  const idle = rows.filter((row) => !row.served && unended.every((one) => row.counts[one] === 0));
  const paused = rows.filter((row) => row.paused !== null);
  return paused.length > 0 && new Set([...idle, ...paused]).size === rows.length;
}

function workerOf(worker: WorkerRecord): OverviewWorker {
  const {
    id,
    type,
    leases: running,
    concurrency,
    status,
    desiredState,
    liveness,
    version,
  } = worker;
  return { id, type, running, concurrency, status, desiredState, liveness, version };
}

type AlertsOpen = OverviewView["alertsOpen"];

function alertsOpen(alerts: readonly Alert[], now: number): AlertsOpen {
  const open = { critical: 0, warning: 0, info: 0, silenced: 0 };
  for (const alert of alerts) open[isSilenced(alert, now) ? "silenced" : alert.severity] += 1;
  return open;
}

/** A worker that does not answer has no slot. */
function answers({ liveness }: WorkerRecord): boolean {
  return liveness === "alive";
}

function workerFigures(workers: readonly WorkerRecord[]) {
  const live = workers.filter(answers);
  return {
    slots: sum(live.map(({ concurrency }) => concurrency)),
    workers: live.length,
    builds: [...new Set(live.map(({ version }) => version))].toSorted(),
  };
}

function ended({
  done,
  failed,
  cancelled,
  expired,
}: Omit<MinuteStats, "queue" | "minute">): number {
  return done + failed + cancelled + expired;
}

/** The overview counts the jobs that were recovered within this time. */
const RECOVERED_MS = 5 * MINUTE_MS;

/** The last minute, against what is usual: four of five quarters of an hour of the last day. */
function speed(
  { hour: minutes, recent, day }: Readonly<Record<"hour" | "recent" | "day", Series | null>>,
  now: number,
) {
  const points = minutes?.points ?? [];
  const picked = points.slice(-2).findLast(({ pickupP99Ms }) => pickupP99Ms !== null);
  const perSecond = (day?.points ?? [])
    .map((point) => ended(point) / ((day?.stepMs ?? MINUTE_MS) / 1_000))
    .toSorted((a, b) => a - b);
  const isKnown = perSecond.length >= 4 && perSecond.some((rate) => rate > 0);
  const at = (part: number): number | null =>
    isKnown ? rounded(perSecond[Math.floor(part * (perSecond.length - 1))] ?? 0) : null;
  const to = recent?.to ?? 0;
  const between = (fromMs: number, untilMs: number): SeriesPoint[] =>
    (recent?.points ?? []).filter((point) => point.at >= to - fromMs && point.at < to - untilMs);
  const hour = between(HOUR_MS, 0);
  const lately = points.filter((point) => point.at > now - RECOVERED_MS);
  return {
    endedPerSecond: ratePerSecond(
      points.map((point) => ({ minute: point.at, jobs: ended(point) })),
      now,
    ),
    usualLow: at(0.1),
    usualHigh: at(0.9),
    succeeded: share(hour),
    succeededBefore: share(between(2 * HOUR_MS, HOUR_MS)),
    pickupP50Ms: picked?.pickupP50Ms ?? null,
    pickupP99Ms: picked?.pickupP99Ms ?? null,
    failedHour: sum(hour.map(({ failed }) => failed)),
    recovered: sum(lately.map(({ crashed }) => crashed)),
  };
}

/** Over the last 60 seconds: all of the minute that is not over, and as much of the one before as is missing. */
function ratePerSecond(
  minutes: readonly { readonly minute: number; readonly jobs: number }[],
  now: number,
): number {
  const open = Math.floor(now / MINUTE_MS) * MINUTE_MS;
  const jobsIn = (minute: number): number =>
    sum(minutes.filter((one) => one.minute === minute).map(({ jobs }) => jobs));
  const missing = 1 - (now - open) / MINUTE_MS;
  return rounded((jobsIn(open) + jobsIn(open - MINUTE_MS) * missing) / MINUTE_S);
}

function share(points: readonly SeriesPoint[]): number | null {
  const done = sum(points.map((point) => point.done));
  const failed = sum(points.map((point) => point.failed));
  return done + failed === 0 ? null : done / (done + failed);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

interface QueueParts {
  readonly queues: readonly QueueStats[];
  readonly settings: readonly QueueRecord[];
  readonly running: readonly Running[];
  readonly workers: readonly WorkerRecord[];
  readonly outside: readonly string[];
  readonly minutes: readonly MinuteStats[];
  readonly now: number;
}

/** Every queue that has jobs, settings or a worker; those with the most work first, until they are cut. */
function queueRows({
  queues,
  settings,
  running,
  workers,
  outside,
  minutes,
  now,
}: QueueParts): OverviewQueue[] {
  const counted = new Map(queues.map((queue) => [queue.queue, queue]));
  const known = new Map(settings.map((queue) => [queue.name, queue]));
  const byQueue = Map.groupBy(minutes, ({ queue }) => queue);
  const names = new Set([
    ...counted.keys(),
    ...known.keys(),
    ...workers.flatMap((one) => one.queues),
    ...outside,
  ]);
  const nextMinute = Math.floor(now / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
  const rows = [...names].map((queue): OverviewQueue => {
    const theirs = byQueue.get(queue) ?? [];
    const rate = (of: (row: MinuteStats) => number): number =>
      ratePerSecond(
        theirs.map((row) => ({ minute: row.minute, jobs: of(row) })),
        now,
      );
    const setting = known.get(queue);
    const here = workers.filter((one) => answers(one) && one.queues.includes(queue));
    return {
      queue,
      counts: counted.get(queue)?.counts ?? NO_COUNTS,
      oldestPendingAt: counted.get(queue)?.oldestPendingAt ?? null,
      paused: pauseOf(setting),
      running: sum(running.filter((one) => one.queue === queue).map(({ jobs }) => jobs)),
      slots: sum(here.map(({ concurrency }) => concurrency)),
      served: outside.includes(queue) || here.some(({ desiredState }) => desiredState === "run"),
      concurrency: setting?.rules.find(({ kind }) => kind === "queue")?.concurrency ?? null,
      inPerSecond: rate(({ arrived }) => arrived),
      outPerSecond: rate(ended),
      failedHour: sum(theirs.map(({ failed }) => failed)),
      spark: sparkOf(theirs, nextMinute),
    };
  });
  return rows.toSorted((a, b) => weight(b) - weight(a) || (a.queue < b.queue ? -1 : 1));
}

function weight({ counts }: OverviewQueue): number {
  return statuses.reduce((all, status) => all + counts[status], 0);
}

const NO_COUNTS = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<
  Status,
  number
>;

function pauseOf(queue: QueueRecord | undefined): OverviewQueue["paused"] {
  return queue?.paused ?? null;
}

function sparkOf(rows: readonly MinuteStats[], to: number): number[] {
  const spark = Array.from({ length: SPARK_POINTS }, () => 0);
  for (const row of rows) {
    const at = Math.floor((row.minute - (to - HOUR_MS)) / SPARK_STEP_MS);
    if (at >= 0 && at < SPARK_POINTS) spark[at] = (spark[at] ?? 0) + ended(row);
  }
  return spark;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
