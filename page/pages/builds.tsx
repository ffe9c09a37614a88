/** What did the deployment change? */
import type { JSX } from "preact";
import type { BuildBrief, BuildReport } from "../api.gen.ts";
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
  Moment,
  Panel,
  Shown,
  TaskLink,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to } from "../router.ts";
import { useRows } from "../rows.ts";
import { KindsPanel } from "./kind-table.tsx";
import { ChangeTag, figureColumns, Figures, outcomeColumns } from "./task-figures.tsx";
import { RangeSeg, useRange } from "./tasks.tsx";

const EVERY_MS = 15_000;

const COLUMNS: readonly Column<BuildBrief>[] = [
  { name: "Build", min: 128, cell: ({ build }) => <Build id={build} /> },
  {
    name: "First seen",
    align: "end",
    look: "dim",
    width: 104,
    cell: ({ firstAt }) => <Ago at={firstAt} word=" ago" />,
  },
  {
    name: "Last seen",
    align: "end",
    hide: "md",
    look: "dim",
    width: 104,
    cell: ({ lastAt }) => <Ago at={lastAt} word=" ago" />,
  },
  ...outcomeColumns<BuildBrief>(),
];

export function BuildsPage(): JSX.Element {
  const range = useRange();
  const builds = useRead("builds", { range }, EVERY_MS);
  const cursor = useRows(builds.data?.builds.length ?? 0);
  return (
    <>
      <Head
        title="Builds"
        say="Builds of workers, the newest first, with the attempts that ended."
        acts={
          <>
            <RangeSeg path={["builds"]} />
            <Btn href={to("tasks")}>Tasks</Btn>
          </>
        }
      />
      <section class="panel">
        <Shown from={builds}>
          {({ builds: rows }) =>
            rows.length === 0 ? (
              <Empty title="No build is known.">
                A worker's build is the commit of its repository, or BUILD_ID.
              </Empty>
            ) : (
              <Table columns={COLUMNS} rows={rows} keyOf={({ build }) => build} at={cursor.at} />
            )
          }
        </Shown>
      </section>
    </>
  );
}

export function BuildPage({ id }: { readonly id: string }): JSX.Element {
  const build = useRead("builds/{build}", { build: id }, EVERY_MS);
  return (
    <div class="stack">
      <Crumbs>{[<a href={to("builds")}>Builds</a>, <span class="mono clip">{id}</span>]}</Crumbs>
      <Shown from={build} page={id}>
        {(found) => <One build={found} />}
      </Shown>
    </div>
  );
}

function One({ build }: { readonly build: BuildReport }): JSX.Element {
  return (
    <>
      <Head
        title={build.build}
        say={<Say build={build} />}
        acts={
          <>
            <Btn href={to("jobs", { build: build.build })}>Jobs</Btn>
            <Btn href={to("jobs", { build: build.build, status: "failed" })}>Failed jobs</Btn>
          </>
        }
      />
      <Figures of={build} />
      <TasksPanel build={build} />
      <KindsPanel
        title="Errors in this build"
        of={{ build: build.build }}
        none="No open error was seen in this build."
        footer={<Info>Of the last week, the most frequent first.</Info>}
      />
    </>
  );
}

function Say({ build }: { readonly build: BuildReport }): JSX.Element {
  const changed = (is: string): number =>
    build.tasks.filter(({ change }) => change.is === is).length;
  const parts = [
    ...(changed("worse") === 0
      ? []
      : [`${f.plural(changed("worse"), "task is", "tasks are")} worse`]),
    ...(changed("better") === 0
      ? []
      : [`${f.plural(changed("better"), "task is", "tasks are")} better`]),
  ];
  return (
    <>
      First seen <Moment at={build.firstAt} />
      {build.before !== null && (
        <>
          , after <Build id={build.before} />
        </>
      )}
      . {parts.length === 0 ? "No task is clearly better or worse" : f.listed(parts)}.
    </>
  );
}

type BuildTask = BuildReport["tasks"][number];

const TASK_COLUMNS: readonly Column<BuildTask>[] = [
  {
    name: "Task",
    min: 128,
    cell: ({ task, change }) => (
      <>
        <TaskLink name={task} />
        <span class="under">{change.text}</span>
      </>
    ),
  },
  { name: "Change", width: 144, narrow: 120, cell: ({ change }) => <ChangeTag change={change} /> },
  ...figureColumns<BuildTask>(),
];

function TasksPanel({ build: { tasks } }: { readonly build: BuildReport }): JSX.Element {
  return (
    <Panel
      title="What it changed"
      footer={
        <Info>
          Each task against the build before that ran it, in the last 8 days. Times are accurate to
          a fifth.
        </Info>
      }
    >
      {tasks.length === 0 ? (
        <Empty title="No attempt of it has ended yet.">
          Attempts are counted once their minute is over.
        </Empty>
      ) : (
        <Table tall columns={TASK_COLUMNS} rows={tasks} keyOf={({ task }) => task} />
      )}
    </Panel>
  );
}
