/** Did the last run work, and when is the next? */
import type { JSX } from "preact";
import type { ListedSchedule, Schedule, ScheduleRun } from "../api.gen.ts";
import * as f from "../format.ts";
import { Glyph } from "../icons.tsx";
import { useKeys } from "../keys.ts";
import { useMay, useRead } from "../live.ts";
import { Act, Ago, Empty, Head, Moment, Shown, State, Tag, TaskLink, Until } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to } from "../router.ts";
import { useRows } from "../rows.ts";
import { runNow, toggle } from "./schedule-acts.ts";
import { ScheduleCalendar } from "./schedule-calendar.tsx";
import { askNew } from "./schedule-form.tsx";
import "./schedules.css";

const RUNS = 24;

export function SchedulesPage(): JSX.Element {
  const from = useRead("schedules", { limit: 200, runs: RUNS });
  const rows = from.data?.schedules ?? [];
  const cursor = useRows(rows.length);
  const here = rows[cursor.at];
  const { operator } = useMay();
  useKeys(
    operator && here !== undefined
      ? { r: () => void runNow(here), p: () => void toggle(here) }
      : {},
  );
  return (
    <>
      <Head
        title="Schedules"
        say={from.data === undefined ? "" : sayAbout(rows)}
        acts={
          <Act kind="primary" onClick={() => askNew()}>
            New schedule…
          </Act>
        }
      />
      <Shown from={from}>
        {() =>
          rows.length === 0 ? (
            <section class="panel">
              <Empty title="No schedule yet.">
                “Every night at 02:30” is one line of code, or a form here.
              </Empty>
            </section>
          ) : (
            <div class="stack">
              <ScheduleTable rows={rows} at={cursor.at} />
              <ScheduleCalendar />
            </div>
          )
        }
      </Shown>
    </>
  );
}

function sayAbout(all: readonly Schedule[]): JSX.Element {
  const paused = all.filter(({ pausedAt }) => pausedAt !== null).length;
  const broken = all.filter(({ error }) => error !== null);
  const [next] = all
    .filter(({ nextAt, pausedAt }) => nextAt !== null && pausedAt === null)
    .toSorted((a, b) => (a.nextAt ?? 0) - (b.nextAt ?? 0));
  return (
    <>
      {f.plural(all.length, "schedule")}
      {paused > 0 && `, ${paused} paused`}.
      {broken.length > 0 && ` ${f.listed(broken.map(({ name }) => name))} could not be enqueued.`}
      {next !== undefined && next.nextAt !== null && (
        <>
          {" "}
          Next: <b>{next.name}</b> <Until at={next.nextAt} />.
        </>
      )}
    </>
  );
}

function ScheduleTable({
  rows,
  at,
}: {
  readonly rows: readonly ListedSchedule[];
  readonly at: number;
}): JSX.Element {
  return (
    <section class="panel" aria-label="All schedules">
      <Table tall at={at} columns={COLUMNS} rows={rows} keyOf={({ name }) => name} />
    </section>
  );
}

const COLUMNS: readonly Column<ListedSchedule>[] = [
  { name: "Schedule", min: 136, cell: (schedule) => <Name schedule={schedule} /> },
  {
    name: "When",
    hide: "sm",
    width: "17%",
    narrow: "20%",
    min: 136,
    cell: ({ words, cron }) => (
      <>
        {words}
        <span class="under mono">{cron ?? ""}</span>
      </>
    ),
  },
  {
    name: "Task",
    hide: "lg",
    look: "dim",
    width: "14%",
    cell: ({ task }) => <TaskLink name={task} />,
  },
  {
    name: `Last ${RUNS} runs`,
    hide: "md",
    width: 146,
    cell: ({ runs = [] }) => <Runs runs={runs} />,
  },
  {
    name: "Last",
    width: 112,
    cell: ({ runs: [last] = [] }) =>
      last === undefined ? <span class="faint">never</span> : <LastRun run={last} />,
  },
  {
    name: "Next",
    hide: "sm",
    width: 128,
    narrow: 112,
    cell: (schedule) => <Next schedule={schedule} />,
  },
  {
    name: "Action",
    heading: null,
    align: "end",
    width: 184,
    narrow: 88,
    cell: (schedule) => (
      <span class="line acts-r">
        <Act kind="quiet" hide="md" onClick={() => runNow(schedule)}>
          Run now
        </Act>
        <Act kind="quiet" onClick={() => toggle(schedule)}>
          {schedule.pausedAt === null ? "Pause" : "Resume"}
        </Act>
      </span>
    ),
  },
];

function Name({ schedule }: { readonly schedule: ListedSchedule }): JSX.Element {
  const { name, words, pausedAt, nextAt } = schedule;
  return (
    <>
      <span class="line">
        <a class="name clip" href={to(["schedules", name])}>
          {name}
        </a>
        {pausedAt !== null && (
          <span class="hide-sm">
            <Tag tone="warn">paused</Tag>
          </span>
        )}
      </span>
      <span class="sub">
        {pausedAt !== null && "paused · "}
        {words}
        {pausedAt === null && nextAt !== null && (
          <>
            , <Until at={nextAt} />
          </>
        )}
      </span>
    </>
  );
}

function Next({
  schedule: { pausedAt, nextAt },
}: {
  readonly schedule: ListedSchedule;
}): JSX.Element {
  if (pausedAt !== null || nextAt === null) return <span class="faint">–</span>;
  return (
    <>
      <Until at={nextAt} />
      <span class="under">
        <Moment at={nextAt} />
      </span>
    </>
  );
}

function LastRun({ run }: { readonly run: ScheduleRun }): JSX.Element {
  const { at, status } = run;
  if (run.outcome === "skipped")
    return (
      <span class="dim">
        skipped, <Ago at={at} word=" ago" />
      </span>
    );
  if (status === null || status === "done") {
    return (
      <span class="st">
        {status !== null && <Glyph status="done" />}
        <span class="dim plainw">
          <Ago at={at} word=" ago" />
        </span>
      </span>
    );
  }
  return <State status={status} />;
}

const BAR: Readonly<Record<string, readonly [string, number]>> = {
  done: ["b-done", 12],
  failed: ["b-failed", 16],
  expired: ["b-failed", 16],
  processing: ["b-running", 16],
};

/** One small bar for each run, the newest at the right. */
function Runs({ runs }: { readonly runs: readonly ScheduleRun[] }): JSX.Element {
  const shown = runs.slice(0, RUNS).toReversed();
  return (
    <svg class="runs" role="img" aria-label={`Last ${shown.length} runs`}>
      {shown.map((run, at) => {
        const [look, high] =
          run.outcome === "skipped"
            ? (["b-band", 4] as const)
            : (BAR[run.status ?? "done"] ?? (["b-pending", 6] as const));
        return (
          <rect
            key={`${run.tick} ${run.manual}`}
            class={look}
            x={at * 5}
            y={16 - high}
            width="3"
            height={high}
          />
        );
      })}
    </svg>
  );
}
