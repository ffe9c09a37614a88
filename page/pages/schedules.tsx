/** Did the last run work, and when is the next? */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import {
  createScheduleRequestDefaults,
  type EditScheduleRequest,
  type ListedSchedule,
  type Schedule,
  type ScheduleDetails,
  type ScheduleRun,
} from "../api.gen.ts";
import { get, post } from "../client.ts";
import * as f from "../format.ts";
import { Glyph } from "../icons.tsx";
import { JsonPanel } from "../json.tsx";
import { useKeys } from "../keys.ts";
import { refresh, useMay, useRead } from "../live.ts";
import { type Answers, ask, chosen, type Field, reasonIn, toast } from "../notices.ts";
import {
  Act,
  Ago,
  Btn,
  Crumbs,
  Empty,
  Head,
  JobLink,
  Moment,
  Note,
  Panel,
  Shown,
  State,
  Tag,
  TaskLink,
  Until,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { go, to } from "../router.ts";
import { useRows } from "../rows.ts";
import { parsed } from "./json-text.ts";
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
            <ScheduleTable rows={rows} at={cursor.at} />
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

async function runNow(schedule: Schedule): Promise<void> {
  const { name } = schedule;
  const { job } = await post("schedules/{name}/run", { name });
  refresh();
  toast(`One job of ${name} is enqueued.`, { href: to(["jobs", job]), link: "Open it" });
}

/** It can be taken back, so it happens at once. */
async function toggle(schedule: Schedule): Promise<void> {
  const { name, pausedAt } = schedule;
  const [action, back] =
    pausedAt === null ? (["pause", "resume"] as const) : (["resume", "pause"] as const);
  await post(`schedules/{name}/${action}`, { name });
  refresh();
  toast(action === "pause" ? `${name} is paused.` : `${name} runs again.`, {
    undo: () => post(`schedules/{name}/${back}`, { name }),
  });
}

const OVERLAPS = [
  { value: "allow", text: "run both" },
  { value: "skip", text: "leave this run out" },
  { value: "queue", text: "run it afterwards" },
] as const;

const MISSED = [
  { value: "once", text: "make up for one" },
  { value: "skip", text: "leave them out" },
] as const;

function fieldsOf(schedule: Schedule | null): Field[] {
  const every = schedule?.everyMs ?? null;
  return [
    ...(schedule === null
      ? [
          { name: "name", label: "Name", required: true },
          { name: "task", label: "Task", required: true },
        ]
      : []),
    {
      name: "cron",
      label: "Cron",
      value: schedule?.cron ?? "",
      hint: "such as 30 2 * * * for every day at 02:30",
    },
    {
      name: "every",
      label: "or every",
      value: every === null ? "" : `${every}ms`,
      hint: "such as 5m, 1h, 1d",
    },
    {
      name: "timeZone",
      label: "Time zone",
      value: schedule?.timeZone ?? (schedule === null ? f.zoneName() : ""),
    },
    {
      name: "input",
      label: "Payload (JSON)",
      kind: "area" as const,
      value: JSON.stringify(schedule?.input ?? null, null, 2),
    },
    {
      name: "overlap",
      label: "If the one before still runs",
      kind: "choice" as const,
      value: schedule?.overlap ?? createScheduleRequestDefaults.overlap,
      choices: OVERLAPS,
    },
    {
      name: "missed",
      label: "If runs were missed",
      kind: "choice" as const,
      value: typeof schedule?.missed === "string" ? schedule.missed : "once",
      choices: MISSED,
    },
  ];
}

function bodyOf(answers: Answers): EditScheduleRequest {
  const text = (name: string): string => String(answers[name] ?? "").trim();
  const cron = text("cron");
  return {
    ...(cron === ""
      ? { every: text("every") }
      : { cron, ...(text("timeZone") === "" ? {} : { timeZone: text("timeZone") }) }),
    input: parsed(text("input")),
    overlap: chosen(answers["overlap"], OVERLAPS),
    missed: chosen(answers["missed"], MISSED),
    ...reasonIn(answers),
  };
}

function askNew(): void {
  ask({
    title: "New schedule",
    wide: true,
    fields: fieldsOf(null),
    reason: true,
    confirm: "Create it",
    run: async (answers) => {
      await post("schedules", {
        name: String(answers["name"]).trim(),
        task: String(answers["task"]).trim(),
        ...bodyOf(answers),
      });
      toast("The schedule is created.");
    },
  });
}

function askEdit(schedule: Schedule): void {
  ask({
    title: `Change ${schedule.name}`,
    wide: true,
    fields: fieldsOf(schedule),
    reason: true,
    confirm: "Change it",
    run: (answers) =>
      post("schedules/{name}/edit", {
        name: schedule.name,
        ...bodyOf(answers),
        revision: schedule.revision,
      }),
  });
}

function askDelete(schedule: Schedule): void {
  ask({
    title: `Delete ${schedule.name}?`,
    body: (
      <p>
        It runs no more. The jobs it has enqueued stay.
        {schedule.declaredBy !== null &&
          ` Build ${schedule.declaredBy} declares it in code: it would come back with the next start unless the code changes.`}
      </p>
    ),
    fields:
      schedule.declaredBy === null
        ? []
        : [{ name: "force", label: "Delete it although code declares it", kind: "check" }],
    reason: true,
    danger: true,
    confirm: "Delete it",
    run: async (answers) => {
      await post("schedules/{name}/delete", {
        name: schedule.name,
        ...(answers["force"] === true ? { force: true } : {}),
        ...reasonIn(answers),
      });
      go(to("schedules"));
      toast(`${schedule.name} is deleted.`);
    },
  });
}

export function SchedulePage({ name }: { readonly name: string }): JSX.Element {
  const from = useRead("schedules/{name}", { name });
  return (
    <>
      <Crumbs>{[<a href={to("schedules")}>Schedules</a>, name]}</Crumbs>
      <Shown from={from} page={name}>
        {(schedule) => <OneSchedule schedule={schedule} />}
      </Shown>
    </>
  );
}

function missedText({ missed, overlap }: Schedule): string {
  const made =
    missed === "skip"
      ? "Missed runs are left out."
      : missed === "once"
        ? "Missed runs are made up for once."
        : `Up to ${missed.all} missed runs are made up for.`;
  const words = {
    allow: "If the one before still runs, both run.",
    skip: "If the one before still runs, the next is left out.",
    queue: "If the one before still runs, the next waits for it.",
  };
  return `${made} ${words[overlap]}`;
}

function OneSchedule({ schedule }: { readonly schedule: ScheduleDetails }): JSX.Element {
  const { data } = useRead("schedules/{name}/runs", { name: schedule.name, limit: 50 });
  const { operator } = useMay();
  const isPaused = schedule.pausedAt !== null;
  useKeys(operator ? { r: () => void runNow(schedule), p: () => void toggle(schedule) } : {});
  return (
    <>
      <Head
        title={schedule.name}
        tag={isPaused ? <Tag tone="warn">paused</Tag> : undefined}
        say={
          <>
            {schedule.words}, <TaskLink name={schedule.task} />. {missedText(schedule)}
          </>
        }
        acts={
          <>
            <Act kind="primary" hint="r" onClick={() => runNow(schedule)}>
              Run now
            </Act>
            <Act hint="p" onClick={() => toggle(schedule)}>
              {isPaused ? "Resume" : "Pause"}
            </Act>
            <Act onClick={() => askEdit(schedule)}>Change…</Act>
            <Act kind="danger" onClick={() => askDelete(schedule)}>
              Delete…
            </Act>
          </>
        }
      />
      <div class="cols-side">
        <div class="stack">
          {schedule.error !== null && (
            <Note tone="bad">The last tick could not be enqueued: {schedule.error}</Note>
          )}
          <Panel
            title="Runs"
            aside={schedule.missedCount > 0 ? `${schedule.missedCount} missed` : undefined}
          >
            {data === undefined || data.runs.length === 0 ? (
              <p class="body dim">None yet.</p>
            ) : (
              <RunTable runs={data.runs} />
            )}
          </Panel>
        </div>
        <div class="stack">
          <Panel title="Next" aside={schedule.timeZone ?? f.zoneName()}>
            <ol class="rows">
              {schedule.nextRuns.map((at) => (
                <li key={at}>
                  <span class="grow">
                    {f.dayOf(at)}, {f.timeOfDay(at)}
                  </span>
                  <span class="sm faint">
                    <Until at={at} />
                  </span>
                </li>
              ))}
            </ol>
            {isPaused && <p class="body dim">Paused: none of these runs until it is resumed.</p>}
          </Panel>
          <Preview schedule={schedule} />
          <JsonPanel title="Payload" value={schedule.input} none="None." />
        </div>
      </div>
    </>
  );
}

/** Tries another timing without storing it. */
function Preview({ schedule }: { readonly schedule: Schedule }): JSX.Element {
  const [cron, setCron] = useState(schedule.cron ?? "");
  const [told, setTold] = useState("");
  const look = async (): Promise<void> => {
    const timeZone = schedule.timeZone ?? f.zoneName();
    const { words, nextRuns } = await get("schedule-preview", { cron, timeZone });
    const [next] = nextRuns;
    setTold(`${words}${next === undefined ? "" : `; next ${f.dayOf(next)}, ${f.timeOfDay(next)}`}`);
  };
  return (
    <Panel title="Try a timing">
      <div class="body stack tight">
        <div class="field">
          <label for="preview">Cron</label>
          <input
            id="preview"
            type="text"
            list={undefined}
            class="mono"
            value={cron}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setCron(event.currentTarget.value)}
          />
        </div>
        <div class="line">
          <Btn onClick={look}>In words</Btn>
          <span class="sm dim" role="status">
            {told}
          </span>
        </div>
      </div>
    </Panel>
  );
}

function RunTable({ runs }: { readonly runs: readonly ScheduleRun[] }): JSX.Element {
  return (
    <Table
      rows={runs}
      keyOf={({ tick, manual }) => `${tick} ${manual}`}
      columns={[
        {
          name: "For",
          cell: ({ tick, manual }) => (
            <>
              <Moment at={tick} /> {manual && <Tag>by hand</Tag>}
            </>
          ),
        },
        {
          name: "What became of it",
          cell: ({ status, outcome }) =>
            status === null ? <span class="dim">{outcome}</span> : <State status={status} />,
        },
        { name: "Job", hide: "sm", cell: ({ job }) => job !== null && <JobLink id={job} /> },
      ]}
    />
  );
}
