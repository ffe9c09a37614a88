/** The jobs around a job: what it waits for, what waits for it, what it called. */
import type { JSX } from "preact";
import type { JobStory, Status } from "../api.gen.ts";
import * as f from "../format.ts";
import { DiagramLabel } from "../diagram-label.tsx";
import { Glyph, wordOf } from "../icons.tsx";
import { Btn, Panel } from "../parts.tsx";
import { to } from "../router.ts";
import "../diagram.css";

const BOX = { width: 132, height: 34, gap: 10 };
const COLUMN = 164;
const SHOWN_MAX = 6;

/** A job beside another one; of a job that was pruned, only the id is known. */
interface Neighbour {
  readonly id: string;
  readonly name?: string | null;
  readonly task: string | null;
  readonly status: Status | null;
}

interface Column {
  readonly title: string;
  readonly jobs: readonly Neighbour[];
  readonly more: number;
}

function column(title: string, jobs: readonly Neighbour[]): Column {
  return { title, jobs: jobs.slice(0, SHOWN_MAX), more: Math.max(0, jobs.length - SHOWN_MAX) };
}

export function Related({ story }: { readonly story: JobStory }): JSX.Element | null {
  const { job, dependencies, dependents, called, callers, flow } = story;
  const before = column("waits for", [...callers, ...dependencies]);
  const after = column("then", [...called, ...dependents]);
  if (before.jobs.length === 0 && after.jobs.length === 0 && flow === null) return null;
  const here = { id: job.id, task: job.task, status: job.status };
  const columns = [before, { title: "this", jobs: [here], more: 0 }, after].filter(
    ({ jobs }) => jobs.length > 0,
  );
  const rows = Math.max(...columns.map(({ jobs }) => jobs.length));
  const height = rows * (BOX.height + BOX.gap) + BOX.gap;
  const middle = (count: number, at: number): number =>
    height / 2 + (at - (count - 1) / 2) * (BOX.height + BOX.gap);
  const width = columns.length * COLUMN - (COLUMN - BOX.width) + 4;
  return (
    <Panel
      title="Related"
      right={
        flow === null ? undefined : (
          <Btn kind="quiet" push href={to(["flows", flow])}>
            The flow
          </Btn>
        )
      }
    >
      {columns.length > 1 && (
        <div class="flow small">
          <svg viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Jobs around this one">
            {columns.slice(0, -1).map(({ jobs }, left) => {
              const next = columns[left + 1]?.jobs ?? [];
              return jobs.flatMap((one, i) =>
                next.map((other, k) => (
                  <Edge
                    key={`${one.id} ${other.id}`}
                    x1={left * COLUMN + BOX.width + 2}
                    y1={middle(jobs.length, i)}
                    x2={(left + 1) * COLUMN + 2}
                    y2={middle(next.length, k)}
                  />
                )),
              );
            })}
            {columns.map(({ jobs }, at) =>
              jobs.map((one, row) => (
                <Node
                  key={one.id}
                  one={one}
                  x={at * COLUMN + 2}
                  y={middle(jobs.length, row)}
                  here={one.id === job.id}
                />
              )),
            )}
          </svg>
        </div>
      )}
      {(before.more > 0 || after.more > 0) && (
        <footer>
          <span>{f.plural(before.more + after.more, "more job")} not shown.</span>
        </footer>
      )}
    </Panel>
  );
}

export function Edge({
  x1,
  y1,
  x2,
  y2,
}: {
  readonly x1: number;
  readonly y1: number;
  readonly x2: number;
  readonly y2: number;
}): JSX.Element {
  const mid = (x1 + x2) / 2;
  return (
    <g>
      <path class="e" d={`M${x1} ${y1}C${mid} ${y1} ${mid} ${y2} ${x2 - 6} ${y2}`} />
      <path class="e-h" d={`M${x2 - 7} ${y2 - 3.5}L${x2} ${y2}L${x2 - 7} ${y2 + 3.5}Z`} />
    </g>
  );
}

export function Node({
  one,
  x,
  y,
  here = false,
}: {
  readonly one: Neighbour;
  readonly x: number;
  readonly y: number;
  readonly here?: boolean;
}): JSX.Element {
  const name = one.name ?? one.task ?? one.id;
  return (
    <a href={to(["jobs", one.id])} aria-label={`${name}, ${wordOf(one.status ?? "unknown")}`}>
      <title>{`${name}: ${wordOf(one.status ?? "unknown")}`}</title>
      <rect
        class={here ? "n-box here" : "n-box"}
        x={x}
        y={y - BOX.height / 2}
        width={BOX.width}
        height={BOX.height}
        rx="6"
      />
      <svg x={x + 10} y={y - 6} width="12" height="12">
        <Glyph status={one.status ?? "pending"} />
      </svg>
      <DiagramLabel
        x={x + 28}
        y={y - BOX.height / 2}
        width={BOX.width - 34}
        height={BOX.height}
        look="n-t"
      >
        {name}
      </DiagramLabel>
    </a>
  );
}
