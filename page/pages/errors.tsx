/** Which error is new, since which build, and how many jobs does it hold up? */
import type { JSX } from "preact";
import type { ErrorKind, ListErrorsResponse } from "../api.gen.ts";
import { post } from "../client.ts";
import { Spark } from "../charts.tsx";
import * as f from "../format.ts";
import { useKeys } from "../keys.ts";
import { useRead } from "../live.ts";
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
  Tag,
  Trouble,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { setQuery, to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { askAll } from "./job-actions.tsx";
import { Stack } from "./job-error.tsx";
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
  const { data, error, reload } = useRead("errors", { state });
  const groups = data?.groups ?? [];
  const wanted = query.get("group");
  const chosen = groups.find(({ id }) => id === wanted) ?? groups[0];
  const cursor = useRows(groups.length);
  const here = groups[cursor.at];
  useKeys(here === undefined ? {} : { Enter: () => setQuery({ group: here.id }, "replace") });
  if (data === undefined)
    return error === null ? <Bones /> : <Trouble page="Errors" error={error} reload={reload} />;
  return (
    <>
      <Head
        title="Errors"
        say={sayAbout(data, state)}
        acts={
          <Seg
            label="Which"
            choices={STATES.map((one) => ({
              text: `${one.replace(/^./, (first) => first.toUpperCase())} ${f.count(data.counts[one])}`,
              href: to("errors", { state: one === "open" ? null : one }),
              current: one === state,
            }))}
          />
        }
      />
      {error !== null && <Trouble error={error} reload={reload} />}
      {groups.length === 0 ? (
        <section class="panel">
          <Empty title={state === "open" ? "No error is open." : `None is ${state}.`}>
            {state === "open"
              ? "When attempts fail, their errors are grouped here by kind once their minute is over, with the build in which each was first seen."
              : undefined}
          </Empty>
        </section>
      ) : (
        <div class="cols-side wideside">
          <GroupTable groups={groups} chosen={chosen} at={cursor.at} data={data} />
          {chosen !== undefined && <Detail group={chosen} />}
        </div>
      )}
    </>
  );
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

const COLUMNS: readonly Column<ErrorKind>[] = [
  { name: "Error", min: 200, cell: (group) => <Kind group={group} /> },
  {
    name: "Last 24 h",
    hide: "sm",
    width: 120,
    cell: (group) => <Spark values={group.trend} bad={group.isNew || cameBack(group)} />,
  },
  {
    name: "Failed ever",
    align: "end",
    width: 88,
    look: ({ failed }) => (failed === 0 ? "faint" : "strong"),
    cell: ({ failed }) => f.count(failed),
  },
  {
    name: "Retried",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 72,
    cell: ({ retried }) => f.count(retried),
  },
  {
    name: "Last",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 64,
    sorted: "descending",
    cell: ({ lastAt }) => <Ago at={lastAt} />,
  },
  {
    name: "Since",
    hide: "lg",
    width: 104,
    cell: ({ firstBuild }) => firstBuild !== null && <Build id={firstBuild} />,
  },
];

function Kind({ group }: { readonly group: ErrorKind }): JSX.Element {
  return (
    <>
      <span class="line">
        <a
          class="name clip"
          href={to("errors", {
            group: group.id,
            state: group.state === "open" ? null : group.state,
          })}
        >
          {group.name}
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
  groups,
  chosen,
  at,
  data,
}: {
  readonly groups: readonly ErrorKind[];
  readonly chosen: ErrorKind | undefined;
  readonly at: number;
  readonly data: ListErrorsResponse;
}): JSX.Element {
  return (
    <section class="panel">
      <Table
        tall
        label="Kinds of errors"
        at={at}
        select={{ many: false, isSelected: (group) => group === chosen }}
        rows={groups}
        keyOf={({ id }) => id}
        columns={COLUMNS}
      />
      {!data.isAll && (
        <footer>
          <span>The {f.count(groups.length)} that were seen last.</span>
        </footer>
      )}
    </section>
  );
}

function Detail({ group }: { readonly group: ErrorKind }): JSX.Element {
  const { sample } = group;
  const { data } = useRead("errors/{id}", { id: group.id }, 15_000);
  const stack = data?.stack ?? null;
  return (
    <div class="stack">
      <Panel
        title={group.name}
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
            <dt>First seen</dt>
            <dd>
              <Moment at={group.firstAt} />{" "}
              {group.firstBuild !== null && <Build id={group.firstBuild} />}
            </dd>
            <dt>Last seen</dt>
            <dd>
              <Moment at={group.lastAt} />
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
          <Buttons group={group} />
        </div>
      </Panel>
      <Panel
        title="Newest stack"
        right={
          <Btn kind="quiet" push href={to(["jobs", sample.job])}>
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

function Buttons({ group }: { readonly group: ErrorKind }): JSX.Element {
  const filter = { status: ["failed"] as const, kind: group.id };
  const { data: failed } = useRead("jobs/count", filter);
  return (
    <div class="line wrap">
      {failed !== undefined && failed.count > 0 && (
        <Act kind="primary" onClick={() => askAll("retry", filter)}>
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
