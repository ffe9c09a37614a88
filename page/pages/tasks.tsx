/** Which tasks fail or are slow, since when, and since which build? */
import type { JSX } from "preact";
import type { Mark, Task, TaskBrief } from "../api.gen.ts";
import { Chart, type SeriesLine } from "../charts.tsx";
import { linear, logarithmic } from "../chart-math.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import {
  Ago,
  Btn,
  Build,
  Crumbs,
  Empty,
  Head,
  Info,
  Panel,
  Seg,
  Shown,
  TaskLink,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { KindsPanel } from "./kind-table.tsx";
import { ChangeNote, figureColumns, Figures, outcomeColumns, shareText } from "./task-figures.tsx";

/** Totals change once a minute. */
const EVERY_MS = 15_000;

const RANGES = [
  ["24h", "24 h"],
  ["7d", "7 d"],
] as const;

type Range = (typeof RANGES)[number][0];

export function useRange(): Range {
  const { query } = usePlace();
  return query.get("range") === "7d" ? "7d" : "24h";
}

export function RangeSeg({ path }: { readonly path: readonly string[] }): JSX.Element {
  const range = useRange();
  return (
    <Seg
      label="Range"
      choices={RANGES.map(([name, text]) => ({
        text,
        href: to(path, { range: name === "24h" ? null : name }),
        current: name === range,
      }))}
    />
  );
}

const COLUMNS: readonly Column<TaskBrief>[] = [
  { name: "Task", min: 160, cell: ({ task }) => <TaskLink name={task} /> },
  ...outcomeColumns<TaskBrief>(),
];

export function TasksPage(): JSX.Element {
  const range = useRange();
  const tasks = useRead("stats/tasks", { range }, EVERY_MS);
  const cursor = useRows(tasks.data?.tasks.length ?? 0);
  return (
    <>
      <Head
        title="Tasks"
        say="Attempts that ended, by task; up to the last minute."
        acts={
          <>
            <RangeSeg path={["tasks"]} />
            <Btn href={to("builds")}>Builds</Btn>
          </>
        }
      />
      <section class="panel">
        <Shown from={tasks}>
          {({ tasks: rows }) =>
            rows.length === 0 ? (
              <Empty title="No job has ended in this time.">
                Jobs are counted by task once their minute is over.
              </Empty>
            ) : (
              <Table columns={COLUMNS} rows={rows} keyOf={({ task }) => task} at={cursor.at} />
            )
          }
        </Shown>
      </section>
    </>
  );
}

export function TaskPage({ name }: { readonly name: string }): JSX.Element {
  const range = useRange();
  const task = useRead("tasks/{task}", { task: name, range }, EVERY_MS);
  return (
    <div class="stack">
      <Crumbs>{[<a href={to("tasks")}>Tasks</a>, <span class="clip">{name}</span>]}</Crumbs>
      <Shown from={task} page={name}>
        {(found) => <One task={found} range={range} />}
      </Shown>
    </div>
  );
}

function One({ task, range }: { readonly task: Task; readonly range: Range }): JSX.Element {
  return (
    <>
      <Head
        title={task.task}
        say={sayAbout(task, range)}
        acts={
          <>
            <RangeSeg path={["tasks", task.task]} />
            <Btn href={to("jobs", { task: task.task })}>Jobs</Btn>
            <Btn href={to("jobs", { task: task.task, status: "failed" })}>Failed jobs</Btn>
          </>
        }
      />
      <ChangeNote change={task.change} />
      <Figures of={task} />
      <Charts task={task} />
      <BuildsPanel task={task} />
      <KindsPanel title="Errors" of={{ task: task.task }} none="No error of it is open." />
    </>
  );
}

function sayAbout({ attempts, failedShare }: Task, range: Range): string {
  const when = range === "24h" ? "in the last 24 hours" : "in the last 7 days";
  if (attempts === 0) return `No attempt has ended ${when}.`;
  return `${f.plural(attempts, "attempt")} ended ${when}, ${shareText(failedShare)} of them badly.`;
}

type Hour = Task["hours"][number];

const ENDED: readonly SeriesLine<Hour>[] = [
  { name: "done", draw: "bar", look: "f-done", key: "f-done", value: ({ done }) => done },
  {
    name: "retried",
    draw: "bar",
    look: "f-retry",
    key: "f-retry",
    value: ({ retried, crashed }) => retried + crashed,
  },
  { name: "failed", draw: "bar", look: "f-failed", key: "f-failed", value: ({ failed }) => failed },
];

const RUNS: readonly SeriesLine<Hour>[] = [
  { name: "p95", draw: "line", look: "l-2", key: "k-2", value: ({ runs }) => runs?.p95Ms ?? null },
  { name: "p50", draw: "line", look: "l-1", key: "k-1", value: ({ runs }) => runs?.p50Ms ?? null },
];

function Charts({ task }: { readonly task: Task }): JSX.Element {
  const { hours, from, to: end, stepMs } = task;
  const common = {
    from,
    to: end,
    stepMs,
    openAt: end - stepMs,
    points: hours,
    marks: marksOf(task),
  };
  const p95s = hours.flatMap(({ runs }) => runs?.p95Ms ?? []);
  return (
    <section class="cols-2" aria-label="Charts">
      <Chart
        {...common}
        title="Ended per hour"
        label={`Attempts by outcome: ${f.count(task.done)} done, ${f.count(task.failed)} failed for good, ${f.count(task.retried + task.crashed)} retried.`}
        lines={ENDED}
        scale={linear}
        write={f.count}
        worded
        empty="No attempt has ended in this time."
        jobsOf={(at, until) => to("jobs", { task: task.task, ...endedIn(at, until) })}
      />
      <Chart
        {...common}
        title="Run time"
        label={
          p95s.length === 0
            ? "Run time: no job is done."
            : `Run time, logarithmic. p95 at most ${f.span(Math.max(...p95s))}.`
        }
        lines={RUNS}
        scale={logarithmic}
        write={f.span}
        empty="No job is done in this time."
        jobsOf={(at, until) =>
          to("jobs", { task: task.task, status: "done", ...endedIn(at, until) })
        }
      />
    </section>
  );
}

/** The fields of the filter of jobs. */
export function endedIn(at: number, until: number): Record<"endedSince" | "endedUntil", string> {
  return { endedSince: new Date(at).toISOString(), endedUntil: new Date(until).toISOString() };
}

function marksOf({ builds, from }: Task): Mark[] {
  return builds.flatMap(({ build, firstAt }) =>
    firstAt === null || firstAt < from
      ? []
      : [{ at: firstAt, kind: "deploy", text: build, detail: `build ${build}`, worker: null }],
  );
}

const BUILD_COLUMNS: readonly Column<Task["builds"][number]>[] = [
  { name: "Build", min: 128, cell: ({ build }) => <Build id={build} /> },
  {
    name: "Seen",
    align: "end",
    hide: "sm",
    look: "dim",
    width: 72,
    cell: ({ firstAt }) => firstAt !== null && <Ago at={firstAt} />,
  },
  ...figureColumns<Task["builds"][number]>(),
];

function BuildsPanel({ task: { builds } }: { readonly task: Task }): JSX.Element {
  return (
    <Panel
      title="By build"
      footer={
        <Info>
          Times are accurate to a fifth. Attempts by workers without a build are left out.
        </Info>
      }
    >
      {builds.length === 0 ? (
        <Empty title="No build ran it in this time." />
      ) : (
        <Table columns={BUILD_COLUMNS} rows={builds} keyOf={({ build }) => build} />
      )}
    </Panel>
  );
}
