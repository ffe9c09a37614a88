/** Where do items pile up; and for an item: what may be done now? */
import type { JSX } from "preact";
import type { CountItemsResponse, ItemSummary, Workflow } from "../api.gen.ts";
import * as f from "../format.ts";
import { useRead } from "../live.ts";
import { layered, type Placed } from "../layers.ts";
import { Ago, Btn, Crumbs, Empty, Head, Panel, Seg, Shown, Tag } from "../parts.tsx";
import { type Column, Table } from "../table.tsx";
import { to, usePlace } from "../router.ts";
import { useRows } from "../rows.ts";
import "../diagram.css";

type StateOf = Workflow["states"][number];
type StateCount = CountItemsResponse["states"][number];

export function WorkflowsPage(): JSX.Element {
  const from = useRead("workflows", {}, 15_000);
  const rows = from.data?.workflows ?? [];
  const cursor = useRows(rows.length);
  return (
    <>
      <Head
        title="Workflows"
        say="Declared state machines. The database itself refuses a state or a move that is not declared."
      />
      <Shown from={from}>
        {() => (
          <section class="panel" aria-label="Workflows">
            {rows.length === 0 ? (
              <Empty title="None is declared.">
                <code>defineWorkflow</code> declares states and moves; items go through them, each
                move with who and why.
              </Empty>
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ name }) => name} columns={COLUMNS} />
            )}
          </section>
        )}
      </Shown>
    </>
  );
}

const COLUMNS: readonly Column<Workflow>[] = [
  {
    name: "Workflow",
    cell: ({ name, parent }) => (
      <>
        <a class="name" href={to(["workflows", name])}>
          {name}
        </a>
        {parent !== null && <span class="dim"> of {parent}</span>}
      </>
    ),
  },
  {
    name: "States",
    hide: "sm",
    width: "45%",
    look: "dim",
    cell: ({ states }) => states.map(({ name }) => name).join(", "),
  },
  { name: "Version", align: "end", width: 88, cell: ({ version }) => version },
  {
    name: "Declared",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 112,
    cell: ({ declaredAt }) => <Ago at={declaredAt} word=" ago" />,
  },
];

export function WorkflowPage({ name }: { readonly name: string }): JSX.Element {
  const from = useRead("workflows/{name}", { name }, 15_000);
  const counts = useRead("workflows/{name}/counts", { name });
  const status = usePlace().query.get("status");
  return (
    <>
      <Crumbs>{[<a href={to("workflows")}>Workflows</a>, name]}</Crumbs>
      <Shown from={from} page={name}>
        {({ workflow }) => (
          <>
            <Head
              title={workflow.name}
              tag={<Tag>version {workflow.version}</Tag>}
              say={sayAbout(workflow, counts.data?.states ?? [])}
            />
            <div class="stack">
              <Diagram workflow={workflow} counts={counts.data?.states ?? []} here={status} />
              <Items workflow={workflow} status={status} />
            </div>
          </>
        )}
      </Shown>
    </>
  );
}

function sayAbout({ states }: Workflow, counts: readonly StateCount[]): string {
  const total = counts.reduce((sum, { items }) => sum + items, 0);
  const open = counts
    .filter(
      (one) => one.items > 0 && states.some(({ name, isFinal }) => name === one.name && !isFinal),
    )
    .toSorted((a, b) => b.items - a.items)[0];
  if (counts.length === 0) return `${f.plural(states.length, "state")}.`;
  return `${f.plural(total, "item")}.${open === undefined ? "" : ` Most of those that are not finished are ${open.name}: ${f.count(open.items)}.`}`;
}

const BOX = { width: 132, height: 76 };
const COLUMN = 220;
const ROW = 128;

function Diagram({
  workflow,
  counts,
  here,
}: {
  readonly workflow: Workflow;
  readonly counts: readonly StateCount[];
  readonly here: string | null;
}): JSX.Element {
  const { states, moves } = workflow;
  // From the initial state on; what is reached along a longer way stands further right.
  const initial = new Set(states.filter(({ isInitial }) => isInitial).map(({ name }) => name));
  const forward = moves
    .filter((move) => !initial.has(move.to))
    .map((move) => [move.from, move.to] as const);
  const placed = layered(states, ({ name }) => name, forward);
  const columns = Math.max(...placed.map(({ column }) => column)) + 1;
  const rows = Math.max(...placed.map(({ row }) => row)) + 1;
  const at = new Map(placed.map((one) => [one.node.name, one]));
  return (
    <Panel
      title="States"
      aside={counts.length === 0 ? undefined : "with how many items are in each"}
    >
      <div class="flow hide-sm" tabIndex={0} role="region" aria-label="Diagram, scrolls sideways">
        <svg
          class="sized"
          viewBox={`0 0 ${(columns - 1) * COLUMN + BOX.width + 16} ${(rows - 1) * ROW + BOX.height + 56}`}
          width={(columns - 1) * COLUMN + BOX.width + 16}
          height={(rows - 1) * ROW + BOX.height + 56}
          role="group"
          aria-label={`The states of ${workflow.name}`}
        >
          {[...Map.groupBy(moves, (move) => `${move.from} ${move.to}`).values()].map((same) => {
            const [move] = same;
            const [from, next] = [at.get(move?.from ?? ""), at.get(move?.to ?? "")];
            return from === undefined || next === undefined ? null : (
              <MoveEdge
                key={`${move?.from} ${move?.to}`}
                from={from}
                next={next}
                text={same.map(({ name }) => name).join(", ")}
              />
            );
          })}
          {placed.map((one) => (
            <StateBox
              key={one.node.name}
              one={one}
              count={counts.find(({ name }) => name === one.node.name)}
              workflow={workflow.name}
              here={one.node.name === here}
            />
          ))}
        </svg>
      </div>
      <ul class="rows only-sm column">
        {states.map((state) => {
          const count = counts.find(({ name }) => name === state.name);
          return (
            <li key={state.name}>
              <div class="grow">
                <a
                  class="name strong"
                  href={to(["workflows", workflow.name], { status: state.name })}
                >
                  {state.name}
                </a>
                {state.isFinal && <p class="sm faint">final</p>}
              </div>
              <span>{count === undefined ? "" : f.count(count.items)}</span>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

function boxAt({ column, row }: Placed<StateOf>): { readonly x: number; readonly y: number } {
  return { x: column * COLUMN + 8, y: row * ROW + 20 };
}

/** Straight on within a row; otherwise down or up from the middle, then along the other row. Back: around below. */
function MoveEdge({
  from,
  next,
  text,
}: {
  readonly from: Placed<StateOf>;
  readonly next: Placed<StateOf>;
  readonly text: string;
}): JSX.Element {
  const [a, b] = [boxAt(from), boxAt(next)];
  const across = next.column - from.column;
  if (across <= 0) return <BackEdge a={a} b={b} text={text} />;
  const [x1, x2, ay] = [a.x + BOX.width, b.x, a.y + BOX.height / 2];
  if (next.row === from.row && across === 1) {
    return (
      <Arrow
        path={`M${x1} ${ay}H${x2 - 6}`}
        x={x2}
        y={ay}
        text={text}
        at={[(x1 + x2) / 2, ay - 8]}
        middle
      />
    );
  }
  // Ways of different lengths end beside each other.
  const by = b.y + BOX.height / 2 + (across - 1) * 14;
  const isSameRow = next.row === from.row;
  const isDown = next.row > from.row || isSameRow;
  const [cx, start] = [a.x + BOX.width / 2 + 20, isDown ? a.y + BOX.height : a.y];
  if (isSameRow) {
    const low = start + 22;
    const end = b.x + BOX.width / 2 - 20;
    return (
      <g>
        <path class="e" d={`M${cx} ${start}V${low}H${end}V${start + 6}`} />
        <path class="e-h" d={`M${end - 3.5} ${start + 7}h7l-3.5-7Z`} />
        <text class="e-t" x={cx + 8} y={low - 6}>
          {text}
        </text>
      </g>
    );
  }
  return (
    <Arrow
      path={`M${cx} ${start}V${by}H${x2 - 6}`}
      x={x2}
      y={by}
      text={text}
      at={[cx + 8, isDown ? start + 20 : start - 12]}
    />
  );
}

function Arrow({
  path,
  x,
  y,
  text,
  at,
  middle = false,
}: {
  readonly path: string;
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly at: readonly [number, number];
  readonly middle?: boolean;
}): JSX.Element {
  return (
    <g>
      <path class="e" d={path} />
      <path class="e-h" d={`M${x - 7} ${y - 3.5}L${x} ${y}L${x - 7} ${y + 3.5}Z`} />
      <text class="e-t" x={at[0]} y={at[1]} text-anchor={middle ? "middle" : "start"}>
        {text}
      </text>
    </g>
  );
}

interface Point {
  readonly x: number;
  readonly y: number;
}

function BackEdge({
  a,
  b,
  text,
}: {
  readonly a: Point;
  readonly b: Point;
  readonly text: string;
}): JSX.Element {
  const bottom = Math.max(a.y, b.y) + BOX.height;
  const [x1, x2] = [a.x + BOX.width / 2 + 14, b.x + BOX.width / 2 - 14];
  const low = bottom + 30;
  return (
    <g>
      <path class="e" d={`M${x1} ${a.y + BOX.height}V${low}H${x2}V${b.y + BOX.height + 6}`} />
      <path class="e-h" d={`M${x2 - 3.5} ${b.y + BOX.height + 7}h7l-3.5-7Z`} />
      <text class="e-t" x={(x1 + x2) / 2} y={low - 6} text-anchor="middle">
        {text}
      </text>
    </g>
  );
}

function StateBox({
  one,
  count,
  workflow,
  here,
}: {
  readonly one: Placed<StateOf>;
  readonly count: StateCount | undefined;
  readonly workflow: string;
  readonly here: boolean;
}): JSX.Element {
  const { x, y } = boxAt(one);
  const { name, isFinal, isInitial } = one.node;
  return (
    <a href={to(["workflows", workflow], { status: name })}>
      <rect
        class={`n-box${isFinal ? " final" : ""}${here ? " here" : ""}`}
        x={x}
        y={y}
        width={BOX.width}
        height={BOX.height}
        rx="8"
      />
      <text class="n-t" x={x + 12} y={y + 21}>
        {name.length > 17 ? `${name.slice(0, 16)}…` : name}
      </text>
      {count !== undefined && (
        <text class="n-c" x={x + 12} y={y + 45}>
          {f.count(count.items)}
          {count.isMore ? "+" : ""}
        </text>
      )}
      <text class="n-s" x={x + 12} y={y + 64}>
        {isFinal ? "final" : isInitial ? "begins here" : ""}
      </text>
    </a>
  );
}

function Items({
  workflow,
  status,
}: {
  readonly workflow: Workflow;
  readonly status: string | null;
}): JSX.Element {
  const { query } = usePlace();
  const before = query.get("before");
  const from = useRead("items", {
    workflow: workflow.name,
    limit: 50,
    ...(status === null ? {} : { status }),
    ...(before === null ? {} : { before }),
  });
  const rows = from.data?.items ?? [];
  const cursor = useRows(rows.length);
  const choices = [
    { text: "All", href: to(["workflows", workflow.name]), current: status === null },
    ...workflow.states.slice(0, 8).map(({ name }) => ({
      text: name,
      href: to(["workflows", workflow.name], { status: name }),
      current: status === name,
    })),
  ];
  return (
    <>
      <Panel
        title="Items"
        right={
          <span class="push scroll">
            <Seg label="State" choices={choices} />
          </span>
        }
      >
        <Shown from={from}>
          {() =>
            rows.length === 0 ? (
              <Empty title={status === null ? "No item yet." : `No item is ${status}.`} />
            ) : (
              <Table at={cursor.at} rows={rows} keyOf={({ id }) => id} columns={ITEM_COLUMNS} />
            )
          }
        </Shown>
      </Panel>
      {(from.data?.next ?? null) !== null && (
        <nav class="line pager" aria-label="Pages of items">
          <Btn href={to(["workflows", workflow.name], { status, before: from.data?.next ?? null })}>
            Older
          </Btn>
        </nav>
      )}
    </>
  );
}

const ITEM_COLUMNS: readonly Column<ItemSummary>[] = [
  {
    name: "Item",
    cell: ({ id, identifier }) => (
      <a class="name" href={to(["items", id])}>
        {identifier}
      </a>
    ),
  },
  { name: "State", cell: ({ status }) => <Tag>{status}</Tag> },
  { name: "Tenant", hide: "sm", look: "dim", cell: ({ tenant }) => tenant },
  {
    name: "Revision",
    hide: "sm",
    align: "end",
    look: "dim",
    width: 96,
    cell: ({ revision }) => revision,
  },
  {
    name: "In it for",
    align: "end",
    look: "dim",
    width: 88,
    cell: ({ enteredAt }) => <Ago at={enteredAt} />,
  },
];
