/** Where do jobs wait, for how long, and what holds them? */
import type { JSX } from "preact";
import type { LimitInUse, Overview, OverviewQueue, SetQueueRequest } from "../api.gen.ts";
import { post } from "../client.ts";
import { Gauge, Spark } from "../charts.tsx";
import * as f from "../format.ts";
import { useKeys } from "../keys.ts";
import { type Data, useMay, useRead } from "../live.ts";
import { ask, chosen, reasonIn } from "../notices.ts";
import {
  Act,
  Ago,
  Bones,
  Btn,
  Crumbs,
  Empty,
  Head,
  Info,
  Moment,
  Note,
  Num,
  Panel,
  Shown,
  Trouble,
} from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to } from "../router.ts";
import { useRows } from "../rows.ts";
import { FailedLately, queueColumns } from "./overview-panels.tsx";
import { LanesPanel } from "./queue-lanes.tsx";
import { askPause, askResume } from "./verdict.tsx";
import { Why } from "./why.tsx";

export function QueuesPage(): JSX.Element {
  const { data, error, reload } = useRead("overview");
  const limits = useRead("limits");
  const rows = data?.queues ?? [];
  const cursor = useRows(rows.length);
  const here = rows[cursor.at];
  const { operator } = useMay();
  useKeys(operator && here !== undefined ? { p: () => toggle(here) } : {});
  if (data === undefined)
    return error === null ? (
      <Bones />
    ) : (
      <Trouble page="Queues and limits" error={error} reload={reload} />
    );
  return (
    <>
      <Head
        title="Queues and limits"
        say={sayAbout(data)}
        acts={<Act onClick={() => askLimit("", null)}>New limit…</Act>}
      />
      <div class="stack">
        {error !== null && <Trouble error={error} reload={reload} />}
        {rows
          .filter(({ paused }) => paused !== null)
          .map((queue) => (
            <PausedNote key={queue.queue} queue={queue} />
          ))}
        <Panel
          title="Queues"
          aside={
            data.countedAt === null ? undefined : (
              <>
                counted <Ago at={data.countedAt} word=" ago" />
              </>
            )
          }
        >
          {rows.length === 0 ? (
            <Empty title="No queue yet.">The first job of a queue makes it.</Empty>
          ) : (
            <QueueTable rows={rows} at={cursor.at} />
          )}
        </Panel>
        <LimitsPanel from={limits} queues={rows} />
      </div>
    </>
  );
}

function toggle(queue: OverviewQueue): void {
  if (queue.paused === null) askPause(queue.queue, queue.running);
  else askResume(queue.queue, queue.counts.pending);
}

function sayAbout({ queues, queuesLeftOut, figures }: Overview): string {
  const paused = queues.filter((queue) => queue.paused !== null).map(({ queue }) => queue);
  const full = queues
    .filter(({ concurrency, running }) => concurrency !== null && running >= concurrency)
    .map(({ queue }) => queue);
  const more = [
    ...(paused.length === 0
      ? []
      : [`${f.listed(paused)} ${paused.length === 1 ? "is" : "are"} paused`]),
    ...(full.length === 0
      ? []
      : [`${f.listed(full)} ${full.length === 1 ? "is" : "are"} at the limit`]),
  ];
  return `${f.plural(queues.length + queuesLeftOut, "queue")}, ${f.plural(figures.pending, "job")} pending.${more.length === 0 ? "" : ` ${more.join("; ")}.`}`;
}

function PausedNote({ queue }: { readonly queue: OverviewQueue }): JSX.Element {
  const { paused, counts } = queue;
  return (
    <Note
      tone="warn"
      right={<Act onClick={() => askResume(queue.queue, counts.pending)}>Resume…</Act>}
    >
      <strong>{queue.queue}</strong>: paused{" "}
      {paused !== null && (
        <>
          at <Moment at={paused.at} /> by {paused.by}
          {paused.reason !== null && `, “${paused.reason}”`}
        </>
      )}
      . {f.plural(counts.pending, "job")} {counts.pending === 1 ? "waits" : "wait"}, and nothing is
      lost.
    </Note>
  );
}

function QueueTable({
  rows,
  at,
}: {
  readonly rows: readonly OverviewQueue[];
  readonly at: number;
}): JSX.Element {
  return <Table at={at} rows={rows} keyOf={({ queue }) => queue} columns={COLUMNS} />;
}

const perSecond = (rate: number | null): string => (rate === null ? "–" : rate.toFixed(1));

const COLUMNS: readonly Column<OverviewQueue>[] = [
  ...queueColumns,
  {
    name: "In /s",
    hide: "md",
    align: "end",
    look: "dim",
    width: 64,
    cell: ({ inPerSecond }) => perSecond(inPerSecond),
  },
  {
    name: "Out /s",
    hide: "md",
    align: "end",
    look: "dim",
    width: 64,
    cell: ({ outPerSecond }) => perSecond(outPerSecond),
  },
  {
    name: "Ended, last hour",
    hide: "md",
    width: 120,
    cell: ({ spark }) => <Spark values={spark} />,
  },
  {
    name: "Retry",
    hide: "lg",
    align: "end",
    width: 64,
    cell: ({ counts }) => <Num value={counts.retry} />,
  },
  {
    name: "Failed, 1 h",
    hide: "md",
    align: "end",
    width: 96,
    cell: (queue) => <FailedLately queue={queue} />,
  },
  {
    name: "Action",
    heading: null,
    align: "end",
    width: 120,
    narrow: 100,
    cell: (queue) => (
      <Act
        {...(queue.paused === null ? { kind: "quiet" as const } : {})}
        onClick={() => toggle(queue)}
      >
        {queue.paused === null ? "Pause…" : "Resume…"}
      </Act>
    ),
  },
];

/** "At most 5 at once", "50 starts per second". */
function limitText({ concurrency, rate }: LimitInUse): string {
  const parts = [
    ...(concurrency === null ? [] : [`at most ${f.count(concurrency)} at once`]),
    ...(rate === null ? [] : [`${f.plural(rate.count, "start")} per ${perText(rate.periodMs)}`]),
  ];
  return parts.length === 0
    ? "no limit"
    : parts.join(", ").replace(/^./, (first) => first.toUpperCase());
}

function perText(ms: number): string {
  const names: Readonly<Record<number, string>> = {
    1_000: "second",
    60_000: "minute",
    3_600_000: "hour",
    86_400_000: "day",
  };
  return names[ms] ?? f.span(ms);
}

function forWhat({ kind, name }: LimitInUse): string {
  if (kind === "lanes") return "each lane of";
  return name === null ? "" : `${kind} ${name} in`;
}

function LimitsPanel({
  from,
  queues,
  of,
}: {
  readonly from: Data<{ limits: readonly LimitInUse[] }>;
  readonly queues: readonly OverviewQueue[];
  /** Only those of this queue. */
  readonly of?: string;
}): JSX.Element {
  const pending = new Map(queues.map(({ queue, counts }) => [queue, counts.pending]));
  return (
    <Panel
      title="Limits"
      aside="for all processes together"
      footer={
        <Info>
          A limit counts running jobs by their leases, so it holds across machines and after a
          crash.
        </Info>
      }
    >
      <Shown from={from} rows={2}>
        {(data) => {
          const limits = data.limits.filter(({ queue }) => of === undefined || queue === of);
          return limits.length === 0 ? (
            <Empty title="No limit is set.">
              A queue, a task or a lane can have a limit of jobs at once, and of starts per time.
            </Empty>
          ) : (
            <LimitTable limits={limits} pending={pending} />
          );
        }}
      </Shown>
    </Panel>
  );
}

function LimitTable({
  limits,
  pending,
}: {
  readonly limits: readonly LimitInUse[];
  readonly pending: ReadonlyMap<string, number>;
}): JSX.Element {
  return (
    <Table
      rows={limits}
      keyOf={({ queue, kind, name }) => `${queue} ${kind} ${name}`}
      columns={[
        {
          name: "Limit",
          look: "name",
          cell: (one) => (
            <>
              {limitText(one)}
              <span class="sub">
                {forWhat(one)} queue {one.queue}
              </span>
            </>
          ),
        },
        {
          name: "Of",
          hide: "sm",
          width: "36%",
          look: "dim",
          cell: (one) => (
            <>
              {forWhat(one)} queue <a href={to(["queues", one.queue])}>{one.queue}</a>
            </>
          ),
        },
        {
          name: "In use",
          hide: "sm",
          width: 168,
          narrow: 136,
          cell: (one) => <InUse limit={one} />,
        },
        {
          name: "Waiting",
          hide: "sm",
          align: "end",
          width: 96,
          narrow: 80,
          cell: ({ kind, queue }) => (
            <Num value={kind === "queue" ? (pending.get(queue) ?? 0) : null} />
          ),
        },
        {
          name: "Action",
          heading: null,
          align: "end",
          width: 112,
          narrow: 100,
          cell: (one) => (
            <Act kind="quiet" onClick={() => askLimit(one.queue, one)}>
              Change…
            </Act>
          ),
        },
      ]}
    />
  );
}

function InUse({ limit: { inUse, concurrency } }: { readonly limit: LimitInUse }): JSX.Element {
  if (concurrency === null) return <span class="dim">{f.count(inUse)}</span>;
  return (
    <div class="line">
      <span class="gaugew">
        <Gauge
          share={inUse / Math.max(1, concurrency)}
          look={inUse >= concurrency ? "g-fg" : "g-run"}
        />
      </span>
      <span class="sm dim nowrap">
        {inUse} of {concurrency}
      </span>
    </div>
  );
}

function askLimit(queue: string, given: LimitInUse | null): void {
  const rate = given?.rate ?? null;
  ask({
    title: given === null ? "New limit" : `Change the limit of ${queue}`,
    body: <p>An empty field means no limit.</p>,
    fields: [
      {
        name: "queue",
        label: "Queue",
        value: queue,
        required: true,
        ...(given === null ? { hint: "one with jobs, or one that gets its first job later" } : {}),
      },
      {
        name: "scope",
        label: "For",
        kind: "choice",
        value: given?.kind ?? "queue",
        choices: SCOPES,
      },
      {
        name: "name",
        label: "Lane or task",
        value: given?.name ?? "",
        hint: "only for one lane or one task",
      },
      {
        name: "concurrency",
        label: "At most at once",
        kind: "number",
        value: String(given?.concurrency ?? ""),
      },
      {
        name: "count",
        label: "Starts",
        kind: "number",
        value: rate === null ? "" : String(rate.count),
      },
      {
        name: "per",
        label: "per",
        value: rate === null ? "1s" : f.durationText(rate.periodMs),
        hint: "such as 1s, 10m, 1h",
      },
    ],
    reason: true,
    confirm: "Set the limit",
    run: (answers) => {
      const text = (name: string): string => String(answers[name] ?? "").trim();
      const limit = {
        concurrency: text("concurrency") === "" ? null : Number(text("concurrency")),
        rate: text("count") === "" ? null : { count: Number(text("count")), per: text("per") },
      };
      const bodies: Readonly<Record<LimitInUse["kind"], SetQueueRequest>> = {
        queue: limit,
        lanes: { eachLane: limit },
        lane: { lanes: { [text("name")]: limit } },
        task: { tasks: { [text("name")]: limit } },
      };
      return post("queues/{name}/settings", {
        name: text("queue"),
        ...bodies[chosen(answers["scope"], SCOPES)],
        ...reasonIn(answers),
      });
    },
  });
}

const SCOPES = [
  { value: "queue", text: "the whole queue" },
  { value: "lanes", text: "each lane of it" },
  { value: "lane", text: "one lane of it" },
  { value: "task", text: "one task in it" },
] as const;

export function QueuePage({ name }: { readonly name: string }): JSX.Element {
  const overview = useRead("overview");
  const settings = useRead("queues/{name}/settings", { name });
  const limits = useRead("limits");
  const why = useRead("queues/{name}/explanation", { name });
  const queue = overview.data?.queues.find((one) => one.queue === name);
  const { operator } = useMay();
  useKeys(operator && queue !== undefined ? { p: () => toggle(queue) } : {});
  return (
    <>
      <Crumbs>{[<a href={to("queues")}>Queues</a>, name]}</Crumbs>
      <Head
        title={name}
        say={why.data === undefined ? "" : <Why of={why.data} />}
        acts={
          <>
            <Btn href={to("jobs", { queue: name })}>Show its jobs</Btn>
            {queue !== undefined && (
              <Act
                hint="p"
                {...(queue.paused === null
                  ? { kind: "danger" as const }
                  : { kind: "primary" as const })}
                onClick={() => toggle(queue)}
              >
                {queue.paused === null ? "Pause…" : "Resume…"}
              </Act>
            )}
          </>
        }
      />
      <div class="stack">
        {queue?.paused !== null && queue !== undefined && <PausedNote queue={queue} />}
        {queue !== undefined && (
          <Panel title="Now">
            <QueueTable rows={[queue]} at={-1} />
          </Panel>
        )}
        <LanesPanel queue={name} />
        <Shown from={settings} rows={3}>
          {(data) => (
            <>
              <LimitsPanel from={limits} queues={queue === undefined ? [] : [queue]} of={name} />
              <Panel title="Order">
                <div class="body">
                  <dl class="facts">
                    <dt>Ageing</dt>
                    <dd>
                      {data.ageingMs === null
                        ? "none: a job of higher priority always goes first"
                        : `a job gains one priority every ${f.span(data.ageingMs)} of waiting`}
                    </dd>
                  </dl>
                </div>
              </Panel>
            </>
          )}
        </Shown>
      </div>
    </>
  );
}
