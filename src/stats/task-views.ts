/** A task, or a build, as operations show it: what became of its jobs, how long they took, and what a deployment changed. */
import { versionsOf } from "../core/name.ts";
import type { Engine } from "../database/engine.ts";
import { readNow } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { type BuildSeen, buildsSeen } from "./builds.ts";
import { attemptsOf, type Change, changeOf, type Times } from "./compare.ts";
import { histogramOf, mergedTimes, quantilesOf } from "./spans.ts";
import {
  addTotals,
  NO_BUILD,
  NO_OUTCOMES,
  type Outcomes,
  type TaskTotal,
  taskSums,
  taskTotals,
} from "./task-totals.ts";

const HOUR_MS = 3_600_000;

/** By name: how far back. */
export const TASK_RANGES = { "24h": 24 * HOUR_MS, "7d": 7 * 24 * HOUR_MS } as const;

export type TaskRange = keyof typeof TASK_RANGES;

/** Builds of one task, and tasks of one build, that are shown. */
const SHOWN_MAX = 100;

/** Builds before one that are looked through for each of its tasks. */
const BEFORE_MAX = 5;

export interface TaskFigures extends Outcomes {
  /** Attempts that ended, and the share of them that failed, was retried or crashed; null: there were none. */
  readonly attempts: number;
  readonly failedShare: number | null;
  /** How long jobs that are done ran; null: unknown. */
  readonly runs: Times | null;
  /** How long jobs waited to be started; null: unknown. */
  readonly pickups: Times | null;
}

export interface TaskHour extends TaskFigures {
  readonly at: number;
}

export interface BuildFigures extends TaskFigures {
  readonly build: string;
  /** Null: no worker of it was seen lately. */
  readonly firstAt: number | null;
}

export interface TaskView extends TaskFigures {
  readonly task: string;
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
  /** Oldest first. An hour in which nothing ended is missing. */
  readonly hours: readonly TaskHour[];
  /** Of the range, the newest first. */
  readonly builds: readonly BuildFigures[];
  /** Of the newest build against the one before, over all that is kept; null: no build is known. */
  readonly change: Change | null;
}

export interface BuildTask extends TaskFigures {
  readonly task: string;
  readonly change: Change;
}

export interface BuildView extends TaskFigures {
  readonly build: string;
  readonly firstAt: number;
  readonly lastAt: number;
  /** The build that was first seen before it; null: none is known. */
  readonly before: string | null;
  /** Those that became worse first. */
  readonly tasks: readonly BuildTask[];
}

export interface TaskBrief extends Outcomes {
  readonly task: string;
  readonly attempts: number;
  readonly failedShare: number | null;
}

export interface BuildBrief extends Outcomes {
  readonly build: string;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly attempts: number;
  readonly failedShare: number | null;
}

type Summed = Omit<TaskTotal, "hour" | "task" | "build">;

function summed(rows: readonly TaskTotal[]): Summed {
  const none: TaskTotal = {
    hour: 0,
    task: "",
    build: "",
    ...NO_OUTCOMES,
    runs: null,
    waits: null,
  };
  const counts = rows.reduce(
    (all, row) => addTotals(all, { ...row, runs: null, waits: null }),
    none,
  );
  const { hour: _hour, task: _task, build: _build, ...sums } = counts;
  return {
    ...sums,
    runs: mergedTimes(rows.map(({ runs }) => runs)),
    waits: mergedTimes(rows.map(({ waits }) => waits)),
  };
}

function figuresOf(rows: readonly TaskTotal[]): TaskFigures {
  const { runs, waits, ...outcomes } = summed(rows);
  return { ...outcomes, ...attemptsOf(outcomes), runs: timesOf(runs), pickups: timesOf(waits) };
}

function timesOf(text: string | null): Times | null {
  const [p50Ms, p95Ms, p99Ms] = quantilesOf(text, [0.5, 0.95, 0.99]);
  if (text === null || p50Ms === undefined || p95Ms === undefined || p99Ms === undefined)
    return null;
  return { count: histogramOf(text).total, p50Ms, p95Ms, p99Ms };
}

/** Whether a worker said that it has the task, in any version. */
async function isKnown(engine: Engine, task: string): Promise<boolean> {
  const { after, before } = versionsOf(task) ?? { after: task, before: task };
  const rows = await engine.all(sql`
    select name from holdfast.task where name = ${task}
     union all
    select name from holdfast.task where name > ${after} and name < ${before}
     limit 1`);
  return rows.length > 0;
}

/** Null: no job of it has ended, as far as is kept, and no worker knows it. */
export async function taskView(
  engine: Engine,
  task: string,
  range: TaskRange,
): Promise<TaskView | null> {
  const now = await readNow(engine);
  const to = Math.floor(now / HOUR_MS) * HOUR_MS + HOUR_MS;
  const from = to - TASK_RANGES[range];
  const kept = await taskTotals(engine, { task, since: 0 });
  if (kept.length === 0 && !(await isKnown(engine, task))) return null;
  const rows = kept.filter(({ hour }) => hour >= from);
  const seen = await buildsSeen(engine);
  const hours = [...Map.groupBy(rows, ({ hour }) => hour)];
  return {
    task,
    from,
    to,
    stepMs: HOUR_MS,
    ...figuresOf(rows),
    hours: hours.map(([at, some]) => ({ at, ...figuresOf(some) })).toSorted((a, b) => a.at - b.at),
    builds: byBuild(rows, seen).slice(0, SHOWN_MAX),
    change: latestChange(byBuild(kept, seen)),
  };
}

/** The newest first; those that are not known any more last. */
function byBuild(rows: readonly TaskTotal[], seen: readonly BuildSeen[]): BuildFigures[] {
  const firstAt = new Map(seen.map((one) => [one.build, one.firstAt]));
  const named = rows.filter(({ build }) => build !== NO_BUILD);
  return [...Map.groupBy(named, ({ build }) => build)]
    .map(([build, some]) => ({ build, firstAt: firstAt.get(build) ?? null, ...figuresOf(some) }))
    .toSorted((a, b) => (b.firstAt ?? 0) - (a.firstAt ?? 0));
}

function latestChange([newest, before]: readonly BuildFigures[]): Change | null {
  if (newest === undefined) return null;
  return changeOf(compared(newest), before === undefined ? null : compared(before));
}

function compared(figures: TaskFigures & { readonly build: string }) {
  return { build: figures.build, outcomes: figures, runs: figures.runs };
}

/** Null: no worker of this build was ever seen, as far as is kept. */
export async function buildView(engine: Engine, build: string): Promise<BuildView | null> {
  const seen = await buildsSeen(engine);
  const at = seen.findIndex((one) => one.build === build);
  const [found, ...older] = at === -1 ? [] : seen.slice(at);
  if (found === undefined) return null;
  const before = older.slice(0, BEFORE_MAX).map((one) => one.build);
  const rows = await taskTotals(engine, { builds: [build, ...before], since: 0 });
  const own = rows.filter((row) => row.build === build);
  const byTask = Map.groupBy(rows, ({ task }) => task);
  const tasks = [...Map.groupBy(own, ({ task }) => task)].map(([task, some]): BuildTask => {
    const last = byBuild(byTask.get(task) ?? [], seen).find((one) => one.build !== build);
    const figures = figuresOf(some);
    const change = changeOf(
      compared({ ...figures, build }),
      last === undefined ? null : compared(last),
    );
    return { task, ...figures, change };
  });
  return {
    build,
    firstAt: found.firstAt,
    lastAt: found.lastAt,
    before: before[0] ?? null,
    ...figuresOf(own),
    tasks: tasks
      .filter(({ attempts }) => attempts > 0)
      .toSorted(worstFirst)
      .slice(0, SHOWN_MAX),
  };
}

const ORDER = ["worse", "better", "same", "unknown"] as const;

function worstFirst(a: BuildTask, b: BuildTask): number {
  return ORDER.indexOf(a.change.is) - ORDER.indexOf(b.change.is) || b.attempts - a.attempts;
}

/** The tasks of which jobs ended lately, those with the most attempts first. */
export async function taskList(engine: Engine, range: TaskRange): Promise<TaskBrief[]> {
  const since = (await readNow(engine)) - TASK_RANGES[range];
  const sums = await taskSums(engine, { since, by: "task" });
  return sums.map(({ name, ...outcomes }) => ({
    task: name,
    ...outcomes,
    ...attemptsOf(outcomes),
  }));
}

/** The newest first. */
export async function buildList(engine: Engine, range: TaskRange): Promise<BuildBrief[]> {
  const since = (await readNow(engine)) - TASK_RANGES[range];
  const sums = await taskSums(engine, { since, by: "build" });
  const byName = new Map(sums.map(({ name, ...outcomes }) => [name, outcomes]));
  return (await buildsSeen(engine)).map((seen) => {
    const outcomes = byName.get(seen.build) ?? NO_OUTCOMES;
    return { ...seen, ...outcomes, ...attemptsOf(outcomes) };
  });
}
