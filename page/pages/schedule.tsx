/** One schedule: when it runs, and what became of its runs. */
import type { JSX } from "preact";
import type { Schedule, ScheduleDetails, ScheduleRun } from "../api.gen.ts";
import * as f from "../format.ts";
import { JsonPanel } from "../json.tsx";
import { useKeys } from "../keys.ts";
import { useMay, useRead } from "../live.ts";
import {
  Act,
  Crumbs,
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
import { to } from "../router.ts";
import { Table } from "../table.tsx";
import { runNow, toggle } from "./schedule-acts.ts";
import { askDelete, askEdit } from "./schedule-form.tsx";

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
  const isElsewhere = schedule.timeZone !== null && schedule.timeZone !== f.zoneName();
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
          <Panel title="Next" aside={f.zoneName()}>
            <ol class="rows">
              {schedule.nextRuns.map((at) => (
                <li key={at}>
                  <div class="grow">
                    {f.dayOf(at)}, {f.timeOfDay(at)}
                    {isElsewhere && (
                      <p class="sm dim">
                        {f.inZone(at, schedule.timeZone ?? "UTC")} {schedule.timeZone}
                      </p>
                    )}
                  </div>
                  <span class="sm faint">
                    <Until at={at} />
                  </span>
                </li>
              ))}
            </ol>
            {schedule.clock !== null && <p class="body dim">{schedule.clock}</p>}
            {isPaused && <p class="body dim">Paused: none of these runs until it is resumed.</p>}
          </Panel>
          <JsonPanel title="Payload" value={schedule.input} none="None." />
        </div>
      </div>
    </>
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
