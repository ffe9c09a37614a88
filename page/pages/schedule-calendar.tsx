/** What all schedules run in the next week, day by day. */
import type { JSX } from "preact";
import type { Result } from "../client.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { Info, Panel, Shown } from "../parts.tsx";
import { to } from "../router.ts";

const EVERY_MS = 60_000;
const DAYS = 7;
/** Runs of a day that are listed; the count tells of the others. */
const RUNS_MAX = 8;
const DENSE_MAX = 8;

type Calendar = Result<"schedule-calendar">;

interface Run {
  readonly at: number;
  readonly name: string;
}

export function ScheduleCalendar(): JSX.Element {
  const from = useRead("schedule-calendar", { days: DAYS }, EVERY_MS);
  return (
    <Panel
      title="Next 7 days"
      aside={f.zoneName()}
      {...(from.data?.isAll === false
        ? { footer: <Info>Only the first {from.data.schedules.length} schedules, by name.</Info> }
        : {})}
    >
      <Shown from={from} rows={2}>
        {(calendar) => <Week calendar={calendar} />}
      </Shown>
    </Panel>
  );
}

function Week({ calendar }: { readonly calendar: Calendar }): JSX.Element {
  const { from, schedules } = calendar;
  const runs = schedules
    .flatMap(({ name, ticks }) => ticks.map((at): Run => ({ at, name })))
    .toSorted((a, b) => a.at - b.at || (a.name < b.name ? -1 : 1));
  const byDay = Map.groupBy(runs, ({ at }) => f.dayOf(at));
  const dense = schedules.filter(({ isDense }) => isDense);
  return (
    <>
      <ol class="week">
        {daysFrom(from).map((day) => (
          <Day key={day} day={day} runs={byDay.get(day) ?? []} />
        ))}
      </ol>
      {dense.length > 0 && (
        <p class="body sm dim">
          Often:{" "}
          {dense.slice(0, DENSE_MAX).map(({ name, words }, at) => (
            <span key={name}>
              {at > 0 && "; "}
              <a href={to(["schedules", name])}>{name}</a> {words.charAt(0).toLowerCase()}
              {words.slice(1)}
            </span>
          ))}
          {dense.length > DENSE_MAX && ` and ${dense.length - DENSE_MAX} more`}.
        </p>
      )}
    </>
  );
}

/** Today and the days after it. By their dates: a day with a change of the clock has no 24 hours. */
function daysFrom(at: number): string[] {
  const today = new Date(at);
  return Array.from({ length: DAYS + 1 }, (_, day) =>
    f.dayOf(new Date(today.getFullYear(), today.getMonth(), today.getDate() + day, 12).getTime()),
  );
}

function Day({ day, runs }: { readonly day: string; readonly runs: readonly Run[] }): JSX.Element {
  const more = runs.length - RUNS_MAX;
  return (
    <li>
      <h3>{day}</h3>
      {runs.length === 0 && <span class="faint">–</span>}
      <ul>
        {runs.slice(0, RUNS_MAX).map(({ at, name }) => (
          <li key={`${at} ${name}`}>
            <a href={to(["schedules", name])} title={`${name}, ${f.exact(at)}`}>
              <span class="dim">{f.hourMinute(at)}</span> {name}
            </a>
          </li>
        ))}
        {more > 0 && <li class="faint">and {f.count(more)} more</li>}
      </ul>
    </li>
  );
}
