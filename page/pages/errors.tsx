/** Which error is new, since which build, and how many jobs does it hold up? */
import type { JSX } from "preact";
import type { ErrorKind, GetErrorResponse, ListErrorsResponse } from "../api.gen.ts";
import { post } from "../client.ts";
import { Spark } from "../charts.tsx";
import * as f from "../format.ts";
import { useKeys } from "../keys.ts";
import { Icon } from "../icons.tsx";
import { serverNow, useRead } from "../live.ts";
import { ask, reasonIn } from "../notices.ts";
import {
  Act,
  Ago,
  Bones,
  Btn,
  Build,
  Empty,
  Head,
  Moment,
  Panel,
  Seg,
  Shown,
  Tag,
  TaskLink,
  Trouble,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { go, setQuery, to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { askAll } from "./job-actions.tsx";
import { Stack } from "./job-error.tsx";
import { atOf } from "./job-query.ts";
import { FailedNow, titleOf } from "./kind-table.tsx";
import { TimeFilter } from "./time-filter.tsx";
import "./errors.css";

type State = ErrorKind["state"];

function cameBack({ cameBackAt, state }: ErrorKind): boolean {
  return cameBackAt !== null && state === "open";
}

const STATES: readonly State[] = ["open", "resolved", "muted"];

export function ErrorsPage(): JSX.Element {
  const { query } = usePlace();
  const given = query.get("state");
  const state = STATES.find((one) => one === given) ?? "open";
  const asked = askedIn(query);
  const { data, error, reload } = useRead("errors", { state, ...asked }, EVERY_MS);
  const groups = data?.groups ?? [];
  const wanted = query.get("group");
  const chosen = wanted ?? groups[0]?.id;
  const cursor = useRows(groups.length);
  const here = groups[cursor.at];
  useKeys(here === undefined ? {} : { Enter: () => setQuery({ group: here.id }, "replace") });
  if (data === undefined)
    return error === null ? <Bones /> : <Trouble page="Errors" error={error} reload={reload} />;
  return (
    <>
      <Head
        title="Errors"
        say={isNarrowed(asked) ? sayWithin(data) : sayAbout(data, state)}
        acts={
          <>
            <Seg
              label="Which"
              choices={STATES.map((one) => ({
                text: `${one.replace(/^./, (first) => first.toUpperCase())} ${f.count(data.counts[one])}`,
                href: to("errors", { state: one === "open" ? null : one, ...asked }),
                current: one === state,
              }))}
            />
            <TimeFilter list="errors" query={query} />
          </>
        }
      />
      <Narrowed query={query} />
      {error !== null && <Trouble error={error} reload={reload} />}
      {groups.length === 0 && wanted === null ? (
        <section class="panel">
          <Empty
            title={
              isNarrowed(asked)
                ? "No kind of error matches."
                : state === "open"
                  ? "No error is open."
                  : `None is ${state}.`
            }
          >
            {state === "open"
              ? "When attempts fail, their errors are grouped here by kind once their minute is over, with the build in which each was first seen."
              : undefined}
          </Empty>
        </section>
      ) : (
        <div class="cols-side wideside">
          <GroupTable asked={asked} chosen={chosen} at={cursor.at} data={data} />
          {chosen !== undefined && <Detail key={chosen} id={chosen} asked={asked} />}
        </div>
      )}
    </>
  );
}

/** Kinds change when a minute is over. */
const EVERY_MS = 15_000;

/** What the list is narrowed to, as the API names it. */
type Asked = { readonly [F in (typeof FIELDS)[number]]?: string };

const FIELDS = ["task", "build", "since", "until"] as const;

function askedIn(query: URLSearchParams): Asked {
  return Object.fromEntries(
    FIELDS.flatMap((name) => {
      const value = query.get(name) ?? "";
      return value === "" ? [] : [[name, value]];
    }),
  );
}

function isNarrowed(asked: Asked): boolean {
  return Object.keys(asked).length > 0;
}

/** A time as people read it: "1h" is an hour before now. */
function timeText(value: string): string {
  const at = atOf(value);
  return at === null ? `${value} ago` : f.moment(at, serverNow());
}

function Narrowed({ query }: { readonly query: URLSearchParams }): JSX.Element | null {
  const asked = askedIn(query);
  if (!isNarrowed(asked)) return null;
  const without = (name: string): string => {
    const next = new URLSearchParams(query);
    next.delete(name);
    return to("errors", next);
  };
  return (
    <div class="line wrap narrowed">
      {FIELDS.filter((name) => asked[name] !== undefined).map((name) => (
        <span class="chip" key={name}>
          <span>{name}</span>
          <b>{name === "since" || name === "until" ? timeText(asked[name] ?? "") : asked[name]}</b>
          <button type="button" title="Remove" onClick={() => go(without(name))}>
            <Icon name="close" />
            <span class="sr">Remove {name}</span>
          </button>
        </span>
      ))}
    </div>
  );
}

/** What failed in the time or the build: the kinds of the list. */
function sayWithin({ groups }: ListErrorsResponse): string {
  const sum = (of: "failed" | "retried"): number =>
    groups.reduce((all, group) => all + (group.within ?? group)[of], 0);
  const [failed, retried] = [sum("failed"), sum("retried")];
  return `${f.plural(failed, "job")} failed and ${f.plural(retried, "attempt")} ${retried === 1 ? "was" : "were"} retried, with ${f.plural(groups.length, "kind")} of error.`;
}

function sayAbout({ groups }: ListErrorsResponse, state: State): string {
  if (state !== "open") return f.plural(groups.length, "kind");
  const fresh = groups.filter(({ isNew }) => isNew);
  const back = groups.filter(cameBack);
  const build = fresh[0]?.firstBuild ?? null;
  const parts = [
    f.plural(groups.length, "open kind"),
    ...(fresh.length === 0
      ? []
      : [
          `${fresh.length} ${fresh.length === 1 ? "is" : "are"} new${build === null ? "" : ` since build ${build}`}`,
        ]),
    ...(back.length === 0
      ? []
      : [`${back.length} came back after ${back.length === 1 ? "it was" : "they were"} resolved`]),
  ];
  return `${parts.join("; ")}.`;
}

/** Ever, or in the time or the build that is asked for. */
function columnsFor(asked: Asked): readonly Column<ErrorKind>[] {
  const isOfPart = ["since", "until", "build"].some((name) => name in asked);
  const [trend, now, ...others] = COLUMNS;
  const counts: readonly Column<ErrorKind>[] = [
    {
      name: isOfPart ? "Then" : "Ever",
      hide: "sm",
      align: "end",
      look: "dim",
      width: 72,
      cell: ({ within, failed }) => f.count(within?.failed ?? failed),
    },
    {
      name: "Retried",
      hide: "lg",
      align: "end",
      look: "dim",
      width: 72,
      cell: ({ within, retried }) => f.count(within?.retried ?? retried),
    },
  ];
  const error: Column<ErrorKind> = {
    name: "Error",
    min: 168,
    cell: (group) => <Kind group={group} asked={asked} />,
  };
  return [error, trend, now, ...counts, ...others].filter((column) => column !== undefined);
}

const COLUMNS: readonly Column<ErrorKind>[] = [
  {
    name: "Last 24 h",
    hide: "sm",
    width: 120,
    cell: (group) => <Spark values={group.trend} bad={group.isNew || cameBack(group)} />,
  },
  {
    name: "Failed now",
    align: "end",
    width: 88,
    look: ({ failedNow }) => (failedNow === 0 ? "faint" : "strong"),
    cell: (group) => <FailedNow group={group} />,
  },
  {
    name: "Last",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 72,
    cell: ({ lastAt }) => <Ago at={lastAt} />,
  },
  {
    name: "Since",
    hide: "lg",
    width: 104,
    cell: ({ firstBuild }) => firstBuild !== null && <Build id={firstBuild} />,
  },
];

function Kind({ group, asked }: { readonly group: ErrorKind; readonly asked: Asked }): JSX.Element {
  return (
    <>
      <span class="line">
        <a
          class="name clip"
          href={to("errors", {
            ...asked,
            group: group.id,
            state: group.state === "open" ? null : group.state,
          })}
        >
          {titleOf(group)}
        </a>
        {group.isNew && <Tag tone="bad">new</Tag>}
        {cameBack(group) && <Tag tone="warn">came back</Tag>}
      </span>
      <span class="under">{group.message}</span>
      <span class="under">{group.task}</span>
    </>
  );
}

function GroupTable({
  asked,
  chosen,
  at,
  data,
}: {
  readonly asked: Asked;
  readonly chosen: string | undefined;
  readonly at: number;
  readonly data: ListErrorsResponse;
}): JSX.Element {
  const { groups } = data;
  return (
    <section class="panel">
      <Table
        tall
        label="Kinds of errors"
        at={at}
        select={{ many: false, isSelected: ({ id }) => id === chosen }}
        rows={groups}
        keyOf={({ id }) => id}
        columns={columnsFor(asked)}
      />
      {!data.isAll && (
        <footer>
          <span>
            The {f.count(groups.length)} that were seen {isNarrowed(asked) ? "most often" : "last"}.
          </span>
        </footer>
      )}
    </section>
  );
}

/** A kind that was asked for by its id may be none of the list. */
function Detail({ id, asked }: { readonly id: string; readonly asked: Asked }): JSX.Element {
  const kind = useRead("errors/{id}", { id }, EVERY_MS);
  return (
    <div>
      <Shown from={kind} rows={3}>
        {(found) => <One found={found} asked={asked} />}
      </Shown>
    </div>
  );
}

/** A job that had it: its attempt, and the step that failed. */
function Example({
  job,
  at,
}: {
  readonly job: string;
  readonly at: GetErrorResponse["first"];
}): JSX.Element {
  return (
    <>
      <a class="mono" href={to(["jobs", job], { attempt: at?.epoch })}>
        {f.shortId(job)}
      </a>
      {at !== null && at.step !== null && `, step ${at.step}`}
    </>
  );
}

function One({
  found,
  asked,
}: {
  readonly found: GetErrorResponse;
  readonly asked: Asked;
}): JSX.Element {
  const { group, stack } = found;
  const { sample, first } = group;
  return (
    <div class="stack">
      <Panel
        title={titleOf(group)}
        right={
          group.isNew ? (
            <Tag tone="bad">new</Tag>
          ) : cameBack(group) ? (
            <Tag tone="warn">came back</Tag>
          ) : undefined
        }
      >
        <div class="body stack tight">
          <p class="wraps">{group.message}</p>
          <Spark wide values={group.trend} bad={group.isNew || cameBack(group)} />
          <dl class="facts">
            <dt>Task</dt>
            <dd>
              <TaskLink name={group.task} />
            </dd>
            <dt>First seen</dt>
            <dd>
              <Moment at={group.firstAt} />{" "}
              {group.firstBuild !== null && <Build id={group.firstBuild} />} in job{" "}
              <Example job={first.job} at={found.first} />
            </dd>
            <dt>Last seen</dt>
            <dd>
              <Moment at={group.lastAt} /> in job <Example job={sample.job} at={found.newest} />
            </dd>
            <dt>Failed now</dt>
            <dd>
              <FailedNow group={group} />
            </dd>
            {group.builds.length > 0 && (
              <>
                <dt>Builds</dt>
                <dd class="line wrap">
                  {group.builds.length === 1 && "only"}
                  {group.builds.slice(0, 8).map((build) => (
                    <Build key={build} id={build} />
                  ))}
                </dd>
              </>
            )}
            <dt>Ever</dt>
            <dd>
              {f.plural(group.failed, "job")} failed, {f.plural(group.retried, "attempt")} retried
            </dd>
            <dt>Search</dt>
            <dd>
              jobs with this error:{" "}
              <a class="u" href={to("jobs", { status: "failed", kind: group.id })}>
                failed now
              </a>
              ,{" "}
              <a class="u" href={to("jobs", { status: "retry", kind: group.id })}>
                in retry now
              </a>
            </dd>
            {group.state !== "open" && group.changedAt !== null && (
              <>
                <dt>{group.state === "muted" ? "Muted" : "Resolved"}</dt>
                <dd>
                  <Moment at={group.changedAt} /> by {group.changedBy}
                  {group.resolvedIn !== null && (
                    <>
                      {" "}
                      in <Build id={group.resolvedIn} />
                    </>
                  )}
                </dd>
              </>
            )}
          </dl>
          <Buttons group={group} asked={asked} />
        </div>
      </Panel>
      <Panel
        title="Newest stack"
        right={
          <Btn kind="quiet" push href={to(["jobs", sample.job], { attempt: found.newest?.epoch })}>
            Open the job
          </Btn>
        }
      >
        <Stack
          error={{
            name: group.name,
            message: sample.message,
            ...(stack === null ? {} : { stack }),
          }}
        />
      </Panel>
    </div>
  );
}

/** Of a time, jobs that ended in it; of a build, those that it ran. */
function Buttons({
  group,
  asked: { build, since, until },
}: {
  readonly group: ErrorKind;
  readonly asked: Asked;
}): JSX.Element {
  const of = {
    status: ["failed"] as const,
    kind: group.id,
    ...(build === undefined ? {} : { build }),
  };
  const times = {
    ...(since === undefined ? {} : { endedSince: since }),
    ...(until === undefined ? {} : { endedUntil: until }),
  };
  const { data: failed } = useRead("jobs/count", { ...of, ...times });
  const retry = (): Promise<void> => {
    const [endedSince, endedUntil] = [atOf(since ?? null), atOf(until ?? null)];
    return askAll("retry", {
      ...of,
      ...(endedSince === null ? {} : { endedSince }),
      ...(endedUntil === null ? {} : { endedUntil }),
    });
  };
  return (
    <div class="line wrap">
      {failed !== undefined && failed.count > 0 && (
        <Act kind="primary" onClick={retry}>
          Retry {f.count(failed.count)}
          {failed.isComplete ? "" : "+"}…
        </Act>
      )}
      {group.state === "open" ? (
        <>
          <Act onClick={() => askResolve(group)}>Resolve…</Act>
          <Act kind="quiet" onClick={() => askState(group, "mute")}>
            Mute…
          </Act>
        </>
      ) : (
        <Act onClick={() => askState(group, "reopen")}>Reopen…</Act>
      )}
    </div>
  );
}

function askResolve(group: ErrorKind): void {
  ask({
    title: `Resolve ${group.name}?`,
    body: (
      <p>
        It leaves this list. If it is seen again, in the build you name or a later one, it comes
        back and says so.
      </p>
    ),
    fields: [{ name: "inBuild", label: "Resolved in build", hint: "empty: now, in every build" }],
    reason: true,
    confirm: "Resolve it",
    run: (answers) => {
      const build = String(answers["inBuild"] ?? "").trim();
      return post("errors/{id}/resolve", {
        id: group.id,
        ...reasonIn(answers),
        ...(build === "" ? {} : { inBuild: build }),
      });
    },
  });
}

function askState(group: ErrorKind, action: "mute" | "reopen"): void {
  ask({
    title: action === "mute" ? `Mute ${group.name}?` : `Reopen ${group.name}?`,
    body: (
      <p>
        {action === "mute"
          ? "It leaves this list and does not come back by itself. Its jobs are counted as before."
          : "It stands among the open ones again."}
      </p>
    ),
    reason: true,
    confirm: action === "mute" ? "Mute it" : "Reopen it",
    run: (answers) => post(`errors/{id}/${action}`, { id: group.id, ...reasonIn(answers) }),
  });
}
