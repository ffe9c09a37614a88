/** The verbs of tasks and builds: how the jobs of a task fare, and what a deployment changed. */
import { HoldfastError } from "../core/errors.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, right, tableOf } from "../operations/show.ts";
import { type Cell, count, counted, span } from "../terminal/table.ts";
import type { Colors, Terminal } from "../terminal/terminal.ts";
import type { Times } from "./compare.ts";
import type { Outcomes as Counts } from "./task-totals.ts";
import {
  type BuildBrief,
  type BuildFigures,
  type BuildTask,
  type BuildView,
  TASK_RANGES,
  type TaskBrief,
  type TaskFigures,
  type TaskRange,
} from "./task-views.ts";
import type { StatsStore } from "./store.ts";

interface TasksApp {
  readonly store: {
    readonly stats: Pick<StatsStore, "tasks" | "task" | "builds" | "build">;
    readonly db: { clock(): Promise<number> };
  };
}

class TaskNotFoundError extends HoldfastError {
  constructor(task: string) {
    super(
      "TASK_NOT_FOUND",
      `No worker knows the task '${task}', and no job of it ended in the last 8 days. List tasks with 'holdfast tasks'.`,
    );
  }
}

class BuildNotFoundError extends HoldfastError {
  constructor(build: string) {
    super(
      "BUILD_NOT_FOUND",
      `No worker ran the build '${build}'. List builds with 'holdfast builds'.`,
    );
  }
}

const outcomes = {
  done: s.count,
  failed: s.count.about("Jobs that failed for good."),
  cancelled: s.count,
  expired: s.count,
  retried: s.count.about("Attempts that failed and were followed by another."),
  crashed: s.count.about("Attempts whose worker died."),
  attempts: s.count.about("Attempts that ended well or badly."),
  failedShare: s.number().nullable().about("Of the attempts, 0 to 1; null: there were none."),
};

const times = s
  .object({ count: s.count, p50Ms: s.number(), p95Ms: s.number(), p99Ms: s.number() })
  .named("Times", "Durations in milliseconds, accurate to a fifth.");

const figures = {
  ...outcomes,
  runs: times.nullable().about("How long jobs that are done ran; null: unknown."),
  pickups: times.nullable().about("How long jobs waited to be started; null: unknown."),
};

const change = s
  .object({
    build: s.text(),
    before: s.text().nullable(),
    is: s.choice(["worse", "better", "same", "unknown"]),
    text: s.text().about("In words. Unknown: the numbers are too small to tell."),
  })
  .named("BuildChange", "What a build changed, against the one before it.");

const seen = { build: s.text(), firstAt: s.instant, lastAt: s.instant };

const task = s
  .object({
    task: s.text(),
    from: s.instant,
    to: s.instant,
    stepMs: s.integer(),
    ...figures,
    hours: s
      .list(s.object({ at: s.instant, ...figures }))
      .about("Oldest first; hours in which nothing ended are missing."),
    builds: s
      .list(s.object({ build: s.text(), firstAt: s.instant.nullable(), ...figures }))
      .about("Newest first."),
    change: change.nullable().about("Of the newest build; null: no build is known."),
  })
  .named("Task", "How the jobs of a task fare.");

const build = s
  .object({
    ...seen,
    before: s.text().nullable().about("The build that was first seen before it."),
    ...figures,
    tasks: s
      .list(s.object({ task: s.text(), ...figures, change }))
      .about("Those that became worse first."),
  })
  .named("BuildReport", "What a build changed, task by task.");

const RANGES = Object.keys(TASK_RANGES) as TaskRange[];

const range = s.choice(RANGES).optional().about("How far back. Default 24h.");
const rangeFlag = { range: { about: "how far back", initial: "24h" } };

const operation = operationsOf<TasksApp>("tasks");

export const taskOperations = {
  list: operation({
    name: "taskStats",
    summary: "How the jobs of each task fare",
    access: "viewer",
    input: { range },
    returns:
      "Tasks of which jobs ended, those with the most attempts first; whole hours, up to the last minute.",
    result: s.object({
      tasks: s.list(s.object({ task: s.text(), ...outcomes }).named("TaskBrief")),
    }),
    run: async ({ store }, { range: wanted = "24h" }) => ({
      tasks: await store.stats.tasks(wanted),
    }),
    http: { method: "GET", path: "/api/v1/stats/tasks" },
    cli: {
      command: "tasks list",
      about: "list tasks with how their jobs fare",
      flags: rangeFlag,
      examples: ["tasks list --range 7d"],
      show: listOf({
        rows: ({ tasks }) => tasks,
        columns: briefly<TaskBrief>("TASK", (one) => one.task),
        none: ({ range: wanted }) => `No job ended in the last ${wanted ?? ""}.`,
        unit: "task",
      }),
    },
    agent: "Which tasks fail: attempts, failures and their share, by task.",
  }),

  show: operation({
    name: "getTask",
    summary: "How the jobs of a task fare: failures, durations and waits, by hour and by build",
    access: "viewer",
    input: { task: s.name, range },
    returns: "Figures up to the last minute, and what the newest build changed.",
    result: task,
    run: async ({ store }, { task: name, range: wanted = "24h" }) => {
      const found = await store.stats.task(name, wanted);
      if (found === null) throw new TaskNotFoundError(name);
      return found;
    },
    http: { method: "GET", path: "/api/v1/tasks/{task}" },
    cli: {
      command: "tasks show",
      about: "show failures, durations and waits of a task, by build",
      arguments: { task: "the task, without a version" },
      flags: rangeFlag,
      examples: ["tasks show mail.send", "tasks show mail.send --range 7d --json"],
      show: async (found, { app, terminal }) => {
        const now = await app.store.db.clock();
        const builds: Columns<BuildFigures> = [
          flexible("BUILD", (one) => one.build),
          right("SEEN", ({ firstAt }) => (firstAt === null ? "" : `${span(now - firstAt)} ago`)),
          ...figureColumns<BuildFigures>(),
        ];
        return [
          terminal.colors.bold(found.task),
          ...summary(found),
          ...(found.change === null ? [] : ["", paintedChange(found.change, terminal.colors)]),
          ...below(builds, found.builds, terminal),
          "",
          terminal.colors.dim(`Its errors: holdfast errors --task ${found.task}`),
        ];
      },
    },
    agent:
      "How the jobs of one task fare: failures, durations, waits, by hour and build, and whether the newest build made it worse.",
  }),
};

export const buildOperations = {
  list: operation({
    name: "listBuilds",
    summary: "List builds of workers, newest first, with how their jobs fare",
    access: "viewer",
    input: { range },
    returns: "At most 200. A version made of a process's start time names no build.",
    result: s.object({
      builds: s.list(s.object({ ...seen, ...outcomes }).named("BuildBrief")),
    }),
    run: async ({ store }, { range: wanted = "24h" }) => ({
      builds: await store.stats.builds(wanted),
    }),
    http: { method: "GET", path: "/api/v1/builds" },
    cli: {
      command: "builds list",
      about: "list builds of workers, newest first",
      flags: rangeFlag,
      examples: ["builds list"],
      show: listOf({
        rows: ({ builds }) => builds,
        columns: briefly<BuildBrief>("BUILD", (one) => one.build),
        none: "No worker with a known build was seen.",
        unit: "build",
      }),
    },
  }),

  show: operation({
    name: "getBuild",
    summary: "What a build changed, task by task",
    access: "viewer",
    input: { build: s.name },
    returns: "Its figures of the last 8 days, each task against the build before that ran it.",
    result: build,
    run: async ({ store }, { build: name }) => {
      const found = await store.stats.build(name);
      if (found === null) throw new BuildNotFoundError(name);
      return found;
    },
    http: { method: "GET", path: "/api/v1/builds/{build}" },
    cli: {
      command: "builds show",
      about: "show what a build changed, task by task",
      arguments: { build: "the build" },
      examples: ["builds show d4e5f6a"],
      show: async (found, { app, terminal }) =>
        showBuild(found, await app.store.db.clock(), terminal),
    },
    agent:
      "What a deployment changed: each task of the build against the build before, worst first.",
  }),
};

export const taskCommands = {
  name: "tasks",
  about: "show how the jobs of each task fare",
  parts: Object.values(taskOperations),
};

export const buildCommands = {
  name: "builds",
  about: "show which builds ran, and what each changed",
  parts: Object.values(buildOperations),
};

function showBuild(found: BuildView, now: number, terminal: Terminal): string[] {
  const { bold, dim } = terminal.colors;
  const before = found.before === null ? "" : `, after build ${found.before}`;
  const tasks: Columns<BuildTask> = [
    flexible("TASK", (one) => one.task),
    ...figureColumns<BuildTask>(),
    flexible("CHANGE", ({ change: { is } }, { colors }) => paintedIs(is, colors)),
  ];
  return [
    bold(found.build),
    dim(`First seen ${span(now - found.firstAt)} ago${before}.`),
    ...summary(found),
    ...below(tasks, found.tasks, terminal),
    ...found.tasks
      .filter(({ change: { is } }) => is === "worse" || is === "better")
      .flatMap((one) => ["", `${one.task}: ${one.change.text}`]),
  ];
}

function below<Row>(columns: Columns<Row>, rows: readonly Row[], terminal: Terminal): string[] {
  return rows.length === 0 ? [] : ["", ...tableOf(columns, rows, terminal)];
}

function summary({
  attempts,
  done,
  failed,
  retried,
  crashed,
  runs,
  pickups,
}: TaskFigures): string[] {
  return [
    `${counted(attempts, "attempt")}: ${done} done, ${failed} failed for good, ${retried} retried, ${crashed} crashed`,
    `ran ${said(runs)}; waited ${said(pickups)}`,
  ];
}

function said(found: Times | null): string {
  if (found === null) return "for an unknown time";
  return `p50 ${brief(found.p50Ms)}, p95 ${brief(found.p95Ms)}, p99 ${brief(found.p99Ms)}`;
}

type Outcomes = Counts & {
  readonly attempts: number;
  readonly failedShare: number | null;
};

function shareColumns<Row extends Outcomes>(): Columns<Row> {
  return [
    right("ATTEMPTS", ({ attempts }) => count(attempts)),
    right("FAILED", ({ failed }, { colors }) => painted(failed, colors)),
    right("RETRIED", ({ retried }) => count(retried)),
    right("CRASHED", ({ crashed }, { colors }) => painted(crashed, colors)),
    right("FAILING", ({ failedShare: share }) =>
      share === null ? "" : `${(share * 100).toFixed(1)} %`,
    ),
  ];
}

function briefly<Row extends Outcomes>(title: string, name: (row: Row) => string): Columns<Row> {
  return [flexible(title, name), ...shareColumns<Row>()];
}

function figureColumns<Row extends TaskFigures>(): Columns<Row> {
  return [
    ...shareColumns<Row>(),
    right("RUN P50", ({ runs }) => brief(runs?.p50Ms)),
    right("P95", ({ runs }) => brief(runs?.p95Ms)),
    right("PICKUP P95", ({ pickups }) => brief(pickups?.p95Ms)),
  ];
}

function painted(value: number, { red }: Colors): string | Cell {
  return value === 0 ? "0" : { text: count(value), paint: red };
}

function paintedIs(is: string, colors: Colors): string | Cell {
  if (is === "worse") return { text: is, paint: colors.red };
  return is === "better" ? { text: is, paint: colors.green } : is;
}

function paintedChange(
  { is, text }: { readonly is: string; readonly text: string },
  { red, green }: Colors,
): string {
  if (is === "worse") return red(text);
  return is === "better" ? green(text) : text;
}

/** "0.4ms", "12ms", "3s". */
function brief(ms: number | undefined): string {
  if (ms === undefined) return "";
  return ms < 10 ? `${ms.toFixed(1)}ms` : span(ms);
}
