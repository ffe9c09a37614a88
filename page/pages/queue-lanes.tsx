/** Which customer eats the queue? Its lanes, each with what waits, and how to hold one back. */
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import type { Lane, Lanes } from "../api.gen.ts";
import { Gauge } from "../charts.tsx";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { useMay, useRead } from "../live.ts";
import { ask, reasonIn } from "../notices.ts";
import { Act, Ago, Empty, Info, Lasting, Num, Panel, Shown, Tag } from "../parts.tsx";
import { to } from "../router.ts";
import { type Column, Table } from "../table.tsx";
import "./queue-lanes.css";

export function LanesPanel({ queue }: { readonly queue: string }): JSX.Element {
  const lanes = useRead("queues/{name}/lanes", { name: queue });
  const { data } = lanes;
  return (
    <Panel
      title="Lanes"
      aside={data === undefined ? undefined : <Summary of={data} />}
      footer={
        <Info>
          A lane is what jobs are enqueued in, often a customer. Lanes take turns, each by its
          weight.
        </Info>
      }
    >
      <Shown from={lanes} rows={3}>
        {(shown) =>
          shown.lanes.length === 0 ? (
            <Empty title="No job of this queue waits or runs." />
          ) : (
            <LaneTable queue={queue} of={shown} />
          )
        }
      </Shown>
    </Panel>
  );
}

/** "acme has 114 of 120 pending jobs; counted 4 s ago". */
function Summary({ of: { lanes, total, countedAt, isComplete } }: { readonly of: Lanes }) {
  const [first] = lanes;
  const most = first !== undefined && first.pending > 0 && total.lanes > 1 ? first : null;
  return (
    <>
      {most !== null &&
        `${most.lane ?? "no lane"} has ${atLeast(most)} of ${atLeast(total)} pending jobs · `}
      {!isComplete && "too many jobs to count all lanes · "}
      counted <Ago at={countedAt} word=" ago" />
    </>
  );
}

/** "10,000+". */
function atLeast({ pending, isMore }: Pick<Lane, "pending" | "isMore">): string {
  return `${f.count(pending)}${isMore ? "+" : ""}`;
}

function LaneTable({ queue, of }: { readonly queue: string; readonly of: Lanes }): JSX.Element {
  const { operator } = useMay();
  const rows = useSteadyOrder(of.lanes, keyOf);
  return <Table rows={rows} keyOf={keyOf} columns={columnsOf(queue, of, operator)} />;
}

function keyOf({ lane }: Lane): string {
  return lane === null ? "" : `lane ${lane}`;
}

/** The order in which rows came first, and new ones below: no row moves under the pointer. */
function useSteadyOrder<Row>(rows: readonly Row[], key: (row: Row) => string): readonly Row[] {
  const places = useRef(new Map<string, number>());
  for (const row of rows) {
    if (!places.current.has(key(row))) places.current.set(key(row), places.current.size);
  }
  const placeOf = (row: Row): number => places.current.get(key(row)) ?? 0;
  return rows.toSorted((a, b) => placeOf(a) - placeOf(b));
}

function columnsOf(
  queue: string,
  { total }: Lanes,
  operator: boolean,
): readonly (Column<Lane> | false)[] {
  return [
    { name: "Lane", min: 128, cell: (one) => <LaneName queue={queue} of={one} /> },
    {
      name: "Share",
      hide: "sm",
      width: 128,
      narrow: 96,
      cell: ({ pending }) => (
        <Gauge
          share={total.pending === 0 ? 0 : pending / total.pending}
          look="g-run"
          label={`${f.percent(total.pending === 0 ? 0 : pending / total.pending)} % of what waits`}
        />
      ),
    },
    {
      name: "Pending",
      align: "end",
      width: 88,
      narrow: 72,
      cell: (one) => <span class={one.pending === 0 ? "faint" : ""}>{atLeast(one)}</span>,
    },
    {
      name: "Oldest",
      hide: "sm",
      align: "end",
      width: 96,
      narrow: 80,
      cell: ({ oldestPendingAt: since }) =>
        since === null ? <span class="faint">–</span> : <Lasting since={since} />,
    },
    {
      name: "Running",
      hide: "sm",
      align: "end",
      width: 80,
      narrow: 72,
      cell: ({ running }) => <Num value={running} />,
    },
    {
      name: "Starts/min",
      hide: "md",
      align: "end",
      width: 96,
      cell: ({ startsPerMinute }) => <Num value={startsPerMinute} />,
    },
    {
      name: "Weight",
      hide: "md",
      align: "end",
      width: 72,
      cell: (one) => <Weight queue={queue} of={one} />,
    },
    operator && {
      name: "Action",
      heading: null,
      align: "end",
      width: 120,
      narrow: 104,
      cell: (one) => <LaneAct queue={queue} of={one} />,
    },
  ];
}

interface LaneProps {
  readonly queue: string;
  readonly of: Lane;
}

function LaneName({ queue, of: { lane, paused } }: LaneProps): JSX.Element {
  if (lane === null) return <span class="dim">no lane</span>;
  return (
    <span class="line lanename">
      <a class="name clip" href={to("jobs", { queue, lane })}>
        {lane}
      </a>
      {paused !== null && (
        <Tag
          tone="warn"
          title={`by ${paused.by}${paused.reason === null ? "" : `, “${paused.reason}”`}`}
        >
          paused
        </Tag>
      )}
    </span>
  );
}

function Weight({ queue, of: { lane, weight } }: LaneProps): JSX.Element {
  const { operator } = useMay();
  if (lane === null || !operator) return <span class="dim">{weight}×</span>;
  return (
    <button
      type="button"
      class="btn quiet"
      title={`Change the weight of ${lane}`}
      onClick={() => askWeight(queue, lane, weight)}
    >
      {weight}×
    </button>
  );
}

function LaneAct({ queue, of: { lane, pending, paused } }: LaneProps): JSX.Element | null {
  if (lane === null) return null;
  return paused === null ? (
    <Act kind="quiet" onClick={() => askPauseLane(queue, lane)}>
      Pause…
    </Act>
  ) : (
    <Act onClick={() => askResumeLane(queue, lane, pending)}>Resume…</Act>
  );
}

function askPauseLane(queue: string, lane: string): void {
  ask({
    title: `Pause lane ${lane} of queue ${queue}?`,
    body: (
      <p>
        What runs ends normally. No worker takes another job of this lane until it is resumed; other
        lanes go on.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: `Pause ${lane}`,
    run: (answers) => post("queues/{name}/pause", { name: queue, lane, ...reasonIn(answers) }),
  });
}

/** `pending` is null where it is not known. */
export function askResumeLane(queue: string, lane: string, pending: number | null): void {
  ask({
    title: `Resume lane ${lane} of queue ${queue}?`,
    body: (
      <p>
        {pending === null || pending === 0
          ? "Workers take its jobs again."
          : `${f.plural(pending, "job")} can start at once.`}
      </p>
    ),
    reason: true,
    confirm: `Resume ${lane}`,
    run: (answers) => post("queues/{name}/resume", { name: queue, lane, ...reasonIn(answers) }),
  });
}

function askWeight(queue: string, lane: string, weight: number): void {
  ask({
    title: `Weight of lane ${lane}`,
    body: <p>With 2, it gets twice as many turns as a lane with 1.</p>,
    fields: [{ name: "weight", label: "Weight", kind: "number", value: String(weight) }],
    reason: true,
    confirm: "Set the weight",
    run: (answers) =>
      post("queues/{name}/settings", {
        name: queue,
        lanes: { [lane]: { weight: Number(answers["weight"]) } },
        ...reasonIn(answers),
      }),
  });
}
