/** The panels of the overview: queues, failures, alerts, workers, the canary. */
import type { JSX } from "preact";
import { Slots, Spark } from "../charts.tsx";
import * as f from "../format.ts";
import { Glyph, Icon } from "../icons.tsx";
import { serverNow } from "../live.ts";
import { Ago, Btn, JobLink, Lasting, Num, Panel, Tag } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to } from "../router.ts";
import { AlertSubject } from "./alert-row.tsx";
import type {
  Alert,
  Canary,
  JobSummary,
  Overview,
  OverviewQueue,
  OverviewWorker,
} from "../api.gen.ts";
import { isLate } from "./situations.ts";
import "./overview-panels.css";

/** What overview and queues tell of each queue. */
export const queueColumns: readonly Column<OverviewQueue>[] = [
  { name: "Queue", min: 168, cell: (queue) => <QueueName queue={queue} /> },
  {
    name: "Slots in use",
    hide: "sm",
    width: 136,
    cell: (queue) => (
      <Slots used={queue.running} of={slotsOf(queue)} paused={queue.paused !== null} />
    ),
  },
  {
    name: "Pending",
    align: "end",
    width: 80,
    narrow: 72,
    cell: ({ queue, counts }) =>
      counts.pending === 0 ? (
        <span class="faint">0</span>
      ) : (
        <a href={to("jobs", { status: "pending", queue })}>{f.count(counts.pending)}</a>
      ),
  },
  {
    name: "Oldest",
    hide: "sm",
    align: "end",
    width: 96,
    look: (queue) => (isLate(queue, serverNow()) ? "retry strong" : ""),
    cell: (queue) =>
      isWaitedFor(queue) ? <Lasting since={queue.oldestPendingAt} /> : <span class="faint">–</span>,
  },
];

function slotsOf({ slots, concurrency }: OverviewQueue): number {
  return concurrency === null ? slots : Math.min(concurrency, slots);
}

function isWaitedFor(queue: OverviewQueue): queue is OverviewQueue & { oldestPendingAt: number } {
  return queue.counts.pending > 0 && queue.oldestPendingAt !== null;
}

function QueueName({ queue }: { readonly queue: OverviewQueue }): JSX.Element {
  const { paused } = queue;
  return (
    <>
      <span class="line">
        <a class="name clip" href={to(["queues", queue.queue])}>
          {queue.queue}
        </a>
        {paused !== null && (
          <span class="hide-sm">
            <Tag
              tone="warn"
              title={`by ${paused.by}${paused.reason === null ? "" : `, “${paused.reason}”`}`}
            >
              paused
            </Tag>
          </span>
        )}
      </span>
      <span class="sub">
        {paused !== null && "paused · "}
        {queue.running} of {slotsOf(queue)}
        {isWaitedFor(queue) && (
          <>
            {" · "}
            <Lasting since={queue.oldestPendingAt} />
          </>
        )}
      </span>
    </>
  );
}

/** Jobs that failed in the last hour. */
export function FailedLately({ queue }: { readonly queue: OverviewQueue }): JSX.Element {
  if (queue.failedHour === 0) return <span class="faint">0</span>;
  return (
    <a
      class="failed"
      href={to("jobs", { status: "failed", queue: queue.queue, endedSince: "1h" })}
      title="in the last hour"
    >
      {f.count(queue.failedHour)}
    </a>
  );
}

const COLUMNS: readonly Column<OverviewQueue>[] = [
  ...queueColumns,
  {
    name: "Ended, last hour",
    hide: "lg",
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
  { name: "Failed", align: "end", width: 72, cell: (queue) => <FailedLately queue={queue} /> },
];

export function QueuesPanel({
  overview: { queues, queuesLeftOut },
}: {
  readonly overview: Overview;
}): JSX.Element {
  return (
    <Panel
      title="Queues"
      aside={leftOut(queuesLeftOut)}
      right={
        <Btn kind="quiet" push href={to("queues")}>
          Queues and limits
        </Btn>
      }
    >
      {queues.length === 0 ? (
        <p class="body dim">None yet. The first job of a queue makes it.</p>
      ) : (
        <Table rows={queues} keyOf={({ queue }) => queue} columns={COLUMNS} />
      )}
    </Panel>
  );
}

/** A list that is cut says so. */
function leftOut(queues: number): string | undefined {
  return queues === 0 ? undefined : `${f.count(queues)} more are not listed`;
}

/** "CarrierTimeout: no answer": what an error says in a row. */
export function errorLine({ lastError }: Pick<JobSummary, "lastError">): string {
  return lastError === null ? "" : `${lastError.name}: ${lastError.message}`;
}

const FAILED_COLUMNS: readonly Column<JobSummary>[] = [
  {
    name: "Task",
    cell: (job) => (
      <>
        <span class="name">
          <JobLink id={job.id}>{job.task}</JobLink>
        </span>
        <span class="sub">{errorLine(job)}</span>
      </>
    ),
  },
  {
    name: "Key",
    hide: "sm",
    look: "mono dim",
    width: "20%",
    cell: ({ key, id }) => key ?? f.shortId(id),
  },
  { name: "Error", hide: "sm", look: "dim", width: "40%", cell: errorLine },
  {
    name: "When",
    align: "end",
    look: "dim",
    width: 80,
    cell: ({ finishedAt }) => finishedAt !== null && <Ago at={finishedAt} />,
  },
];

export function FailedPanel({ jobs }: { readonly jobs: readonly JobSummary[] }): JSX.Element {
  return (
    <Panel
      title="Failed lately"
      right={
        <Btn kind="quiet" push href={to("errors")}>
          Grouped
        </Btn>
      }
    >
      {jobs.length === 0 ? (
        <p class="body dim">
          No job has failed. A job that fails for good appears here, with its error.
        </p>
      ) : (
        <Table rows={jobs} keyOf={({ id }) => id} columns={FAILED_COLUMNS} />
      )}
    </Panel>
  );
}

function AlertLine({ alert }: { readonly alert: Alert }): JSX.Element {
  return (
    <li>
      <span
        class={
          alert.severity === "critical" ? "failed" : alert.severity === "warning" ? "retry" : "dim"
        }
      >
        <Icon name={alert.severity === "info" ? "info" : "warning"} />
      </span>
      <div class="grow">
        <strong>{alert.rule}</strong> <AlertSubject alert={alert} />
        <p class="sm dim wraps">{alert.message}</p>
      </div>
      <span class="sm faint nowrap">
        <Ago at={alert.sinceAt} />
      </span>
    </li>
  );
}

export function AlertsPanel({
  overview: { at, alerts, alertsOpen },
}: {
  readonly overview: Overview;
}): JSX.Element {
  const { critical, warning, info, silenced } = alertsOpen;
  const open = critical + warning + info;
  const shown = alerts.filter(({ silencedUntil: until }) => until === null || until <= at);
  const counts = [
    ...(open === 0 ? [] : [`${f.count(open)} open`]),
    ...(silenced === 0 ? [] : [`${f.count(silenced)} silenced`]),
  ];
  return (
    <Panel
      title="Alerts"
      aside={counts.length === 0 ? undefined : counts.join(", ")}
      right={
        <Btn kind="quiet" push href={to("alerts")}>
          All
        </Btn>
      }
    >
      {shown.length === 0 ? (
        <p class="body dim">None is open.</p>
      ) : (
        <ul class="rows">
          {shown.slice(0, 5).map((alert) => (
            <AlertLine key={alert.id} alert={alert} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

const STRIP_MAX = 8;

function Strip({
  type,
  workers,
}: {
  readonly type: string;
  readonly workers: readonly OverviewWorker[];
}): JSX.Element {
  const shown = workers.slice(0, STRIP_MAX);
  const used = workers.reduce((sum, { running }) => sum + running, 0);
  const of = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const paused = workers.every(({ desiredState }) => desiredState === "pause");
  return (
    <div class="line">
      <a class="wname clip" href={to("workers", { type })} title={type}>
        {type}
      </a>
      <svg
        class="strip"
        role="img"
        aria-label={`${type}: ${shown.map(({ running }) => running).join(", ")} of ${shown[0]?.concurrency ?? 0}`}
      >
        {shown.map(({ id, running, concurrency, desiredState }, at) => {
          const high =
            concurrency === 0 ? 0 : Math.round((Math.min(running, concurrency) / concurrency) * 20);
          return (
            <g key={id}>
              <rect class="g-bg" x={at * 12} width="9" height="20" rx="2" />
              {high > 0 && (
                <rect
                  class={desiredState === "run" ? "g-run" : "g-warn"}
                  x={at * 12}
                  y={20 - high}
                  width="9"
                  height={high}
                  rx="1.5"
                />
              )}
            </g>
          );
        })}
      </svg>
      <span class="push sm dim nowrap">
        {paused ? <Tag tone="warn">paused</Tag> : `${f.count(used)} of ${f.count(of)}`}
      </span>
    </div>
  );
}

export function WorkersPanel({
  overview: { workers, figures },
}: {
  readonly overview: Overview;
}): JSX.Element {
  const types = [...Map.groupBy(workers, ({ type }) => type)];
  return (
    <Panel
      title="Workers"
      right={
        <Btn kind="quiet" push href={to("workers")}>
          {f.count(figures.workers)} alive
        </Btn>
      }
    >
      <div class="body stack tight">
        {types.length === 0 && (
          <p class="dim">
            None runs. Start one: <code>holdfast work --tasks tasks.ts</code>
          </p>
        )}
        {types.map(([type, group]) => (
          <Strip key={type} type={type} workers={group} />
        ))}
      </div>
    </Panel>
  );
}

export function CanaryPanel({
  canaries,
}: {
  readonly canaries: readonly Canary[];
}): JSX.Element | null {
  if (canaries.length === 0) return null;
  const late = canaries.filter(({ pickupMs }) => pickupMs === null);
  const slowest = Math.max(0, ...canaries.map(({ pickupMs }) => pickupMs ?? 0));
  return (
    <Panel
      title="Canary"
      right={
        <span class={late.length === 0 ? "st done push" : "st retry push"}>
          <Glyph status={late.length === 0 ? "done" : "waiting"} bare />
          {late.length === 0 ? f.span(slowest) : `${late.length} out`}
        </span>
      }
    >
      <div class="body">
        <p class="sm dim">
          {late.length === 0
            ? `A small job goes through each queue now and then. The last of ${f.plural(canaries.length, "queue")} was picked up in ${f.span(slowest)} at most.`
            : `Not picked up yet: ${f.listed(late.map(({ queue }) => queue))}.`}
        </p>
      </div>
    </Panel>
  );
}
