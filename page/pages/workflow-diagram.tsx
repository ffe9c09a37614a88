/** The states of a workflow and the moves between them. */
import type { JSX } from "preact";
import type { CountItemsResponse, Workflow } from "../api.gen.ts";
import { DiagramLabel } from "../diagram-label.tsx";
import * as f from "../format.ts";
import { layered, type Placed } from "../layers.ts";
import { Panel } from "../parts.tsx";
import { to } from "../router.ts";
import { BOX, boxAt, LABEL_HEIGHT, type Route, routesOf, sizeOf } from "../routes.ts";
import "../diagram.css";

type StateOf = Workflow["states"][number];
type StateCount = CountItemsResponse["states"][number];

export function Diagram({
  workflow,
  counts,
  here,
}: {
  readonly workflow: Workflow;
  readonly counts: readonly StateCount[];
  readonly here: string | null;
}): JSX.Element {
  const placed = placedStates(workflow);
  const columns = Math.max(...placed.map(({ column }) => column)) + 1;
  const rows = Math.max(...placed.map(({ row }) => row)) + 1;
  const { width, height } = sizeOf(columns, rows);
  const lines = linesOf(workflow, placed);
  const routes = routesOf(lines);
  return (
    <Panel
      title="States"
      aside={counts.length === 0 ? undefined : "with how many items are in each"}
    >
      <div class="flow hide-sm" tabIndex={0} role="region" aria-label="Diagram, scrolls sideways">
        <svg
          class="sized"
          viewBox={`0 0 ${width} ${height}`}
          width={width}
          height={height}
          role="group"
          aria-label={`The states of ${workflow.name}`}
        >
          {routes.map((route, at) => (
            <Arrow key={lines[at]?.key} route={route} text={lines[at]?.text ?? ""} />
          ))}
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
      <StateList workflow={workflow} counts={counts} />
    </Panel>
  );
}

/** From the initial state on; what is reached along a longer way stands further right. */
function placedStates({ states, moves }: Workflow): Placed<StateOf>[] {
  const initial = new Set(states.filter(({ isInitial }) => isInitial).map(({ name }) => name));
  const forward = moves
    .filter((move) => !initial.has(move.to))
    .map((move) => [move.from, move.to] as const);
  return layered(states, ({ name }) => name, forward);
}

/** One line for all moves from one state to another. */
function linesOf({ moves }: Workflow, placed: readonly Placed<StateOf>[]) {
  const at = new Map(placed.map((one) => [one.node.name, one]));
  return [...Map.groupBy(moves, (move) => `${move.from} ${move.to}`)].flatMap(([key, same]) => {
    const [move] = same;
    const [from, next] = [at.get(move?.from ?? ""), at.get(move?.to ?? "")];
    if (from === undefined || next === undefined) return [];
    return [{ key, from, to: next, text: same.map(({ name }) => name).join(", ") }];
  });
}

/** The head of an arrow, at the end of its last piece. */
function headOf({ points }: Route): string {
  const [before, end] = points.slice(-2);
  if (before === undefined || end === undefined) return "";
  const { x, y } = end;
  if (before.y === y) return `M${x - 7} ${y - 3.5}L${x} ${y}L${x - 7} ${y + 3.5}Z`;
  const tail = before.y > y ? y + 7 : y - 7;
  return `M${x - 3.5} ${tail}L${x} ${y}L${x + 3.5} ${tail}Z`;
}

function Arrow({ route, text }: { readonly route: Route; readonly text: string }): JSX.Element {
  const { points, label } = route;
  return (
    <g>
      <path class="e" d={`M${points.map(({ x, y }) => `${x} ${y}`).join("L")}`} />
      <path class="e-h" d={headOf(route)} />
      <DiagramLabel {...label} height={LABEL_HEIGHT} look="e-t">
        {text}
      </DiagramLabel>
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
      <DiagramLabel x={x + 12} y={y + 6} width={BOX.width - 24} height={20} look="n-t">
        {name}
      </DiagramLabel>
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

/** The same on a phone. */
function StateList({
  workflow,
  counts,
}: {
  readonly workflow: Workflow;
  readonly counts: readonly StateCount[];
}): JSX.Element {
  return (
    <ul class="rows only-sm column">
      {workflow.states.map((state) => {
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
  );
}
