/** The jobs of a flow as a graph: who waits for whom. */
import type { JSX } from "preact";
import type { FlowJob } from "../api.gen.ts";
import * as f from "../format.ts";
import { layered } from "../layers.ts";
import { useRead } from "../live.ts";
import { Info, Panel, Trouble } from "../parts.tsx";
import { Edge, Node } from "./related.tsx";

/** Lines change only by adding jobs. */
const EDGES_EVERY_MS = 60_000;

const COLUMN = 180;
const ROW = 48;

export function FlowGraph({
  flow,
  jobs,
}: {
  readonly flow: string;
  readonly jobs: readonly FlowJob[];
}): JSX.Element {
  const from = useRead("flows/{id}/edges", { id: flow }, EDGES_EVERY_MS);
  const known = new Set(jobs.map(({ id }) => id));
  const all = (from.data?.edges ?? []).map(({ job, on }) => [on, job] as const);
  const edges = all.filter((edge) => edge.every((id) => known.has(id)));
  const outside = all.length - edges.length;
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
    <Panel
      title="Graph"
      {...(from.data === undefined || (outside === 0 && from.data.isAll)
        ? {}
        : { footer: <Info>{leftOut(outside, from.data.isAll)}</Info> })}
    >
      {from.error !== null && <Trouble error={from.error} reload={from.reload} />}
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
          {edges.map(([earlier, next]) => {
            const [a, b] = [place.get(earlier), place.get(next)];
            return a === undefined || b === undefined ? null : (
              <Edge key={`${earlier} ${next}`} x1={a.x + 132} y1={a.y} x2={b.x} y2={b.y} />
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

/** What the graph does not draw. */
function leftOut(outside: number, isAll: boolean): string {
  const parts = [
    ...(outside === 0
      ? []
      : [
          `${f.plural(outside, "line")} to jobs of other flows ${outside === 1 ? "is" : "are"} left out.`,
        ]),
    ...(isAll ? [] : ["There are more lines than are drawn."]),
  ];
  return parts.join(" ");
}
