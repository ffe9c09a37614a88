/** Flows and batches: jobs that wait for each other, as a graph that follows what runs. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Flow, FlowDetails, FlowJob } from "../api.gen.ts";
import { get, post } from "../client.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { layered } from "../layers.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import {
  Act,
  Ago,
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
import { type Column, Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import { Edge, Node } from "./related.tsx";

const KINDS = ["flow", "batch"] as const;

/** Beyond this the graph is a list. */
const GRAPH_MAX = 40;
const PAGE = 200;

const LOOK = {
  running: "processing",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
} as const;

export function FlowsPage(): JSX.Element {
  const { query } = usePlace();
  const kind = KINDS.find((one) => one === query.get("kind"));
  const from = useRead("flows", { limit: 100, ...(kind === undefined ? {} : { kind }) });
  const rows = from.data?.flows ?? [];
  const cursor = useRows(rows.length);
  return (
    <>
      <Head
        title="Flows and batches"
        say="Jobs that wait for other jobs: a flow is a graph, a batch is many jobs and one that runs when all have ended."
        acts={
          <Seg
            label="Which"
            choices={[
              { text: "All", href: to("flows"), current: kind === undefined },
              { text: "Flows", href: to("flows", { kind: "flow" }), current: kind === "flow" },
              { text: "Batches", href: to("flows", { kind: "batch" }), current: kind === "batch" },
            ]}
          />
        }
      />
      <Shown from={from}>
        {() => (
          <section class="panel" aria-label="Flows and batches">
            {rows.length === 0 ? (
              <Empty title="None yet.">
                <code>holdfast.flows.enqueue("report", (flow) =&gt; …)</code> makes one, all jobs or
                none.
              </Empty>
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ id }) => id} columns={COLUMNS} />
            )}
          </section>
        )}
      </Shown>
    </>
  );
}

const COLUMNS: readonly Column<Flow>[] = [
  {
    name: "Name",
    cell: ({ id, name, kind }) => (
      <>
        <a class="name" href={to(["flows", id])}>
          {name}
        </a>
        <span class="sub">{kind}</span>
      </>
    ),
  },
  { name: "Kind", hide: "sm", look: "dim", width: 96, cell: ({ kind }) => kind },
  {
    name: "State",
    width: 120,
    narrow: 104,
    cell: ({ status }) => <State status={LOOK[status]} word={status} />,
  },
  {
    name: "Jobs",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 152,
    cell: ({ done, total }) => `${f.count(done)} of ${f.count(total)}`,
  },
  {
    name: "Created",
    align: "end",
    look: "dim",
    width: 88,
    narrow: 72,
    cell: ({ createdAt }) => <Ago at={createdAt} />,
  },
];

export function FlowPage({ id }: { readonly id: string }): JSX.Element {
  const from = useRead("flows/{id}", { id, limit: PAGE });
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

function OneFlow({ flow }: { readonly flow: FlowDetails }): JSX.Element {
  const { jobs } = flow;
  const share = (count: number): string => `${(count / Math.max(1, flow.total)) * 100}%`;
  const canRetry = flow.failed + flow.cancelled > 0;
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
        say={`${f.count(flow.done)} of ${f.plural(flow.total, "job")} done${flow.failed > 0 ? `, ${f.count(flow.failed)} failed` : ""}${flow.cancelled > 0 ? `, ${f.count(flow.cancelled)} cancelled` : ""}${flow.live > 0 ? `, ${f.count(flow.live)} to go` : ""}.`}
        acts={
          <>
            {canRetry && (
              <Act kind="primary" onClick={() => askFlow(flow, "retry")}>
                Retry {f.count(flow.failed + flow.cancelled)}…
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
            <svg
              class="gauge tallg"
              role="img"
              aria-label={`${flow.done} of ${flow.total} done, ${flow.failed} failed`}
            >
              <rect class="g-bg" width="100%" height="8" rx="2" />
              <rect class="b-done" width={share(flow.done)} height="8" rx="2" />
              <rect class="b-failed" x={share(flow.done)} width={share(flow.failed)} height="8" />
            </svg>
          </div>
        </Panel>
        {jobs.length > 0 && jobs.length <= GRAPH_MAX && <Graph jobs={jobs} />}
        <Panel title="Jobs" aside={jobs.length === PAGE ? `the first ${PAGE}` : undefined}>
          <Table at={-1} rows={jobs} keyOf={(job) => job.id} columns={JOB_COLUMNS} />
        </Panel>
      </div>
    </>
  );
}

const JOB_COLUMNS: readonly Column<FlowJob>[] = [
  { name: "State", width: 120, narrow: 104, cell: ({ status }) => <State status={status} /> },
  {
    name: "Job",
    cell: ({ id, name, task }) => (
      <span class="name">
        <JobLink id={id}>{name ?? task}</JobLink>
      </span>
    ),
  },
  { name: "Task", hide: "sm", look: "dim", cell: ({ task }) => task },
  { name: "Queue", hide: "sm", look: "dim", cell: ({ queue }) => queue },
  {
    name: "Waits for",
    align: "end",
    width: 96,
    narrow: 80,
    cell: ({ missing }) => <Num value={missing} />,
  },
];

/** Who waits for whom, asked once: it does not change, except by adding jobs. */
function useEdges(jobs: readonly FlowJob[]): readonly (readonly [string, string])[] {
  const [edges, setEdges] = useState<readonly (readonly [string, string])[]>([]);
  const ids = jobs.map(({ id }) => id).join(" ");
  useEffect(() => {
    const asking = new AbortController();
    const edgesOf = async (id: string): Promise<(readonly [string, string])[]> => {
      const { signal } = asking;
      const wanted = { id, limit: 100 };
      const { dependencies } = await get("jobs/{id}/dependencies", wanted, { signal });
      return dependencies.map((one) => [one.id, id] as const);
    };
    Promise.all(
      ids
        .split(" ")
        .filter((id) => id !== "")
        .map(edgesOf),
    )
      .then((all) => setEdges(all.flat()))
      .catch(() => setEdges([]));
    return () => asking.abort();
  }, [ids]);
  return edges;
}

const COLUMN = 180;
const ROW = 48;

function Graph({ jobs }: { readonly jobs: readonly FlowJob[] }): JSX.Element {
  const edges = useEdges(jobs);
  const placed = layered(jobs, ({ id }) => id, edges);
  const columns = Math.max(...placed.map(({ column }) => column)) + 1;
  const high = Math.max(...placed.map(({ row }) => row)) + 1;
  const inColumn = Map.groupBy(placed, ({ column }) => column);
  const place = new Map(
    placed.map(({ node, column, row }) => {
      const count = inColumn.get(column)?.length ?? 1;
      return [
        node.id,
        { x: column * COLUMN + 2, y: ((high - count) / 2 + row + 0.5) * ROW },
      ] as const;
    }),
  );
  return (
    <Panel title="Graph">
      <div
        class="flow small scroll"
        tabIndex={0}
        role="region"
        aria-label="Graph of the jobs, scrolls sideways"
      >
        <svg
          class="sized"
          viewBox={`0 0 ${columns * COLUMN - 44} ${high * ROW}`}
          width={columns * COLUMN - 44}
          height={high * ROW}
          role="group"
          aria-label="Jobs of this flow"
        >
          {edges.map(([from, next]) => {
            const [a, b] = [place.get(from), place.get(next)];
            return a === undefined || b === undefined ? null : (
              <Edge key={`${from} ${next}`} x1={a.x + 132} y1={a.y} x2={b.x} y2={b.y} />
            );
          })}
          {placed.map(({ node }) => {
            const at = place.get(node.id);
            return at === undefined ? null : <Node key={node.id} one={node} x={at.x} y={at.y} />;
          })}
        </svg>
      </div>
    </Panel>
  );
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
