/** One flow or batch: what became of its jobs, which one failed, and which only followed. */
import type { JSX } from "preact";
import type { Flow, FlowDetails, FlowJob } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { wordOf } from "../icons.tsx";
import { useRead } from "../live.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import {
  Act,
  Btn,
  type Children,
  Crumbs,
  Empty,
  Head,
  JobLink,
  Num,
  Panel,
  Seg,
  Shown,
  State,
  Tag,
} from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import { type Column, Table } from "../table.tsx";
import { FlowGraph } from "./flow-graph.tsx";

/** Beyond this the graph is a list. */
const GRAPH_MAX = 40;
const PAGE = 200;

export const LOOK = {
  running: "processing",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
} as const;

export function FlowPage({ id }: { readonly id: string }): JSX.Element {
  const from = useRead("flows/{id}", { id, limit: GRAPH_MAX });
  return (
    <>
      <Crumbs>
        {[<a href={to("flows")}>Flows</a>, <span class="mono dim">{f.shortId(id)}</span>]}
      </Crumbs>
      <Shown from={from} page="Flow">
        {(flow) => <OneFlow flow={flow} />}
      </Shown>
    </>
  );
}

/** Jobs that ended and are not done. */
function unsuccessful({ total, done, live, pruned }: Flow): number {
  return total - done - live - pruned;
}

function OneFlow({ flow }: { readonly flow: FlowDetails }): JSX.Element {
  const { id, jobs, total } = flow;
  const bad = unsuccessful(flow);
  const failed = useRead(
    "flows/{id}/jobs",
    bad === 0 ? null : { id, state: "failed", limit: PAGE },
  );
  const because = failed.data === undefined ? null : becauseOf(failed.data.jobs);
  return (
    <>
      <Head
        title={flow.name}
        tag={
          <>
            <Tag>{flow.kind}</Tag>
            <State badge status={LOOK[flow.status]} word={flow.status} />
          </>
        }
        say={
          <>
            {progressOf(flow)}
            {because !== null && <> {because}</>}
          </>
        }
        acts={
          <>
            {bad > 0 && (
              <Act kind="primary" onClick={() => askFlow(flow, "retry")}>
                Retry {f.count(bad)}…
              </Act>
            )}
            {flow.live > 0 && (
              <Act kind="danger" onClick={() => askFlow(flow, "cancel")}>
                Cancel…
              </Act>
            )}
          </>
        }
      />
      <div class="stack">
        <Panel title="Progress">
          <div class="body">
            <Gauge flow={flow} />
          </div>
        </Panel>
        {jobs.length > 0 && total <= GRAPH_MAX && <FlowGraph flow={id} jobs={jobs} />}
        <Jobs flow={flow} />
      </div>
    </>
  );
}

/** "3 of 6 jobs done, 1 failed, 2 cancelled, 4 to go." */
function progressOf(flow: Flow): string {
  const { done, total, failed, cancelled, live } = flow;
  const expired = unsuccessful(flow) - failed - cancelled;
  const parts = [
    `${f.count(done)} of ${f.plural(total, "job")} done`,
    ...(failed > 0 ? [`${f.count(failed)} failed`] : []),
    ...(cancelled > 0 ? [`${f.count(cancelled)} cancelled`] : []),
    ...(expired > 0 ? [`${f.count(expired)} expired`] : []),
    ...(live > 0 ? [`${f.count(live)} to go`] : []),
  ];
  return `${parts.join(", ")}.`;
}

/** "fetch west failed, 2 jobs follow it." */
function becauseOf(failed: readonly FlowJob[]): Children {
  const roots = failed.filter(({ endedBy }) => endedBy === null);
  const [first] = roots;
  const follow = failed.length - roots.length;
  if (first === undefined) return null;
  const more = failed.length === PAGE ? "at least " : "";
  const tail = `${more}${f.plural(follow, "job")} ${follow === 1 ? "follows" : "follow"} ${roots.length === 1 ? "it" : "them"}`;
  return (
    <>
      <JobLink id={first.id}>{nameOf(first)}</JobLink>
      {roots.length > 1 && ` and ${more}${f.plural(roots.length - 1, "other")}`}{" "}
      {roots.length > 1 ? "ended badly" : wordOf(first.status)}
      {follow > 0 && `, ${tail}`}.
    </>
  );
}

function nameOf({ name, task }: Pick<FlowJob, "name" | "task">): string {
  return name ?? task;
}

function Gauge({ flow }: { readonly flow: Flow }): JSX.Element {
  const { done, total } = flow;
  const bad = unsuccessful(flow);
  const share = (count: number): string => `${(count / Math.max(1, total)) * 100}%`;
  return (
    <svg
      class="gauge tallg"
      role="img"
      aria-label={`${done} of ${total} done, ${bad} failed or cancelled`}
    >
      <rect class="g-bg" width="100%" height="8" rx="2" />
      <rect class="b-done" width={share(done)} height="8" rx="2" />
      <rect class="b-failed" x={share(done)} width={share(bad)} height="8" />
    </svg>
  );
}

// Its jobs: of a batch, those that failed come first.

const STATES = ["all", "failed", "live", "done"] as const;

function Jobs({ flow }: { readonly flow: FlowDetails }): JSX.Element {
  const { query } = usePlace();
  const { id, kind, live, done } = flow;
  const bad = unsuccessful(flow);
  const first = kind === "batch" && bad > 0 ? "failed" : "all";
  const state = STATES.find((one) => one === query.get("state")) ?? first;
  const after = query.get("after");
  const from = useRead("flows/{id}/jobs", {
    id,
    ...(state === "all" ? {} : { state }),
    limit: PAGE,
    ...(after === null ? {} : { after }),
  });
  const texts = {
    all: "All",
    failed: `Failed ${f.count(bad)}`,
    live: `To go ${f.count(live)}`,
    done: `Done ${f.count(done)}`,
  };
  const choices = STATES.map((one) => ({
    text: texts[one],
    href: to(["flows", id], { state: one }),
    current: one === state,
  }));
  const last = from.data?.jobs.length === PAGE ? from.data.jobs.at(-1)?.id : undefined;
  return (
    <>
      <Panel title="Jobs" right={<Seg push label="Which jobs" choices={choices} />}>
        <Shown from={from}>
          {({ jobs }) =>
            jobs.length === 0 ? (
              <Empty title="None." />
            ) : (
              <Table rows={jobs} keyOf={(job) => job.id} columns={columnsOf(jobs)} />
            )
          }
        </Shown>
      </Panel>
      {(after !== null || last !== undefined) && (
        <nav class="line pager" aria-label="Pages of jobs">
          {after !== null && <Btn href={to(["flows", id], { state })}>First</Btn>}
          {last !== undefined && (
            <Btn href={to(["flows", id], { state, after: last })}>Next {PAGE}</Btn>
          )}
        </nav>
      )}
    </>
  );
}

function columnsOf(jobs: readonly FlowJob[]): readonly (Column<FlowJob> | false)[] {
  const names = new Map(jobs.map((job) => [job.id, nameOf(job)]));
  const why = ({ endedBy, error }: FlowJob): Children =>
    endedBy === null ? (
      error
    ) : (
      <>
        follows <JobLink id={endedBy}>{names.get(endedBy) ?? f.shortId(endedBy)}</JobLink>
      </>
    );
  return [
    { name: "State", width: 120, narrow: 104, cell: ({ status }) => <State status={status} /> },
    {
      name: "Job",
      cell: (job) => (
        <>
          <span class="name">
            <JobLink id={job.id}>{nameOf(job)}</JobLink>
          </span>
          <span class="sub">{why(job)}</span>
        </>
      ),
    },
    jobs.some(({ endedBy, error }) => endedBy !== null || error !== null) && {
      name: "Because",
      hide: "sm",
      width: "34%",
      look: "dim",
      cell: why,
    },
    { name: "Task", hide: "md", look: "dim", cell: ({ task }) => task },
    { name: "Queue", hide: "md", look: "dim", cell: ({ queue }) => queue },
    {
      name: "Waits for",
      align: "end",
      width: 96,
      narrow: 80,
      cell: ({ missing }) => <Num value={missing} />,
    },
  ];
}

function askFlow(flow: Flow, action: "retry" | "cancel"): void {
  const isRetry = action === "retry";
  ask({
    title: isRetry
      ? `Retry the failed jobs of ${flow.name}?`
      : `Cancel what is left of ${flow.name}?`,
    body: (
      <p>
        {isRetry
          ? "The jobs that ended because of them wait for them again."
          : `${f.plural(flow.live, "job")} ${flow.live === 1 ? "has" : "have"} not ended. Those that run are told to stop.`}
      </p>
    ),
    reason: true,
    danger: !isRetry,
    confirm: isRetry ? "Retry them" : `Cancel ${f.plural(flow.live, "job")}`,
    run: async (answers) => {
      await post(`flows/{id}/${action}`, { id: flow.id, ...reasonIn(answers) });
      toast(isRetry ? "The flow goes on." : "The flow is cancelled.");
    },
  });
}
