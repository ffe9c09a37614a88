/** What tasks and builds show alike: their figures, as large ones and as cells of a table, and what a deployment changed. */
import type { JSX } from "preact";
import type { BuildChange, Task, TaskBrief, Times } from "../api.gen.ts";
import { Figure } from "../figure.tsx";
import * as f from "../format.ts";
import { Note, Num, Tag } from "../parts.tsx";
import type { Column } from "../table.tsx";

type Outcomes = Omit<TaskBrief, "task">;

export type Figured = Outcomes & Pick<Task, "runs" | "pickups">;

/** "8 %", "0.4 %". */
export function shareText(share: number | null): string {
  if (share === null) return "–";
  const percent = share * 100;
  return `${percent !== 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

export function Figures({ of }: { readonly of: Figured }): JSX.Element {
  const { attempts, done, failed, retried, crashed, cancelled, expired, failedShare, runs } = of;
  const others = [
    ...(cancelled === 0 ? [] : [`${f.count(cancelled)} cancelled`]),
    ...(expired === 0 ? [] : [`${f.count(expired)} expired`]),
  ];
  return (
    <dl class="figs">
      <Figure
        name="Attempts"
        value={f.count(attempts)}
        more={[`${f.count(done)} done`, ...others].join(", ")}
      />
      <Figure
        name="Failing"
        value={failedShare === null ? "–" : shareText(failedShare).replace(" %", "")}
        {...(failedShare === null ? {} : { unit: "%" })}
        more="of attempts"
      />
      <Figure
        name="Failed for good"
        value={f.count(failed)}
        more={`${f.count(retried)} retried, ${f.count(crashed)} crashed`}
      />
      <Duration
        name="Run p50"
        ms={runs?.p50Ms}
        more={runs === null ? "unknown" : f.plural(runs.count, "run")}
      />
      <Duration name="Run p95" ms={runs?.p95Ms} more={after("p99", runs?.p99Ms)} />
      <Duration name="Pickup p95" ms={of.pickups?.p95Ms} more={after("p99", of.pickups?.p99Ms)} />
    </dl>
  );
}

function after(name: string, ms: number | undefined): string {
  return ms === undefined ? "unknown" : `${name} ${f.span(ms)}`;
}

function Duration({
  name,
  ms,
  more,
}: {
  readonly name: string;
  readonly ms: number | undefined;
  readonly more: string;
}): JSX.Element {
  if (ms === undefined) return <Figure name={name} value="–" more={more} />;
  const [value, unit] = f.spanParts(ms);
  return <Figure name={name} value={value} unit={unit} more={more} />;
}

/** What became of attempts. */
export function outcomeColumns<Row extends Outcomes>(): readonly Column<Row>[] {
  return [
    {
      name: "Attempts",
      align: "end",
      hide: "sm",
      look: "dim",
      width: 88,
      cell: (row) => f.count(row.attempts),
    },
    {
      name: "Failing",
      align: "end",
      width: 80,
      look: ({ failedShare }) => (failedShare === null || failedShare === 0 ? "faint" : "strong"),
      cell: ({ failedShare }) => shareText(failedShare),
    },
    {
      name: "Failed",
      align: "end",
      hide: "sm",
      width: 80,
      cell: ({ failed }) => <Num value={failed} />,
    },
    {
      name: "Retried",
      align: "end",
      hide: "md",
      width: 80,
      cell: ({ retried }) => <Num value={retried} />,
    },
    {
      name: "Crashed",
      align: "end",
      hide: "md",
      width: 80,
      cell: ({ crashed }) => <Num value={crashed} />,
    },
  ];
}

/** How attempts went, and how long they took. */
export function figureColumns<Row extends Figured>(): readonly Column<Row>[] {
  const [attempts, failing] = outcomeColumns<Row>();
  return [
    ...[attempts, failing].filter((column) => column !== undefined),
    {
      name: "Run p50",
      align: "end",
      hide: "sm",
      look: "dim",
      width: 80,
      cell: ({ runs }) => spanOf(runs, "p50Ms"),
    },
    {
      name: "p95",
      align: "end",
      hide: "sm",
      look: "dim",
      width: 80,
      cell: ({ runs }) => spanOf(runs, "p95Ms"),
    },
    {
      name: "Pickup p95",
      align: "end",
      hide: "lg",
      look: "dim",
      width: 96,
      cell: ({ pickups }) => spanOf(pickups, "p95Ms"),
    },
  ];
}

function spanOf(times: Times | null, which: "p50Ms" | "p95Ms"): string {
  return times === null ? "–" : f.span(times[which]);
}

const TONES = { worse: "bad", better: "plain", same: "plain", unknown: "plain" } as const;

export function ChangeTag({ change }: { readonly change: BuildChange }): JSX.Element {
  return (
    <Tag tone={TONES[change.is]} title={change.text}>
      {change.is === "unknown" ? "too little to tell" : change.is}
    </Tag>
  );
}

export function ChangeNote({
  change,
}: {
  readonly change: BuildChange | null;
}): JSX.Element | null {
  if (change === null) return null;
  return change.is === "worse" ? <Note tone="bad">{change.text}</Note> : <Note>{change.text}</Note>;
}
