/** Is all well? If not: what, since when, who did it, and the one button. */
import type { JSX } from "preact";
import { Chart, type SeriesLine } from "../charts.tsx";
import { linear, logarithmic } from "../chart-math.ts";
import { Figure } from "../figure.tsx";
import * as f from "../format.ts";
import { isLost, live, serverNow, useNow, useRead } from "../live.ts";
import { Act, Bones, Copy, Info, Panel, Seg, Trouble } from "../parts.tsx";
import { to, usePlace } from "../router.ts";
import { useStore } from "../store.ts";
import type { Overview, OverviewQueue, Series, SeriesPoint } from "../api.gen.ts";
import {
  AlertsPanel,
  CanaryPanel,
  FailedPanel,
  QueuesPanel,
  WorkersPanel,
} from "./overview-panels.tsx";
import { isLate, pausedTogether } from "./situations.ts";
import { endedIn } from "./tasks.tsx";
import { askPauseAll, askResumeAll, VerdictView, verdictOf } from "./verdict.tsx";
import "./overview.css";

const RANGES = [
  ["15m", "15 min", "The last 15 minutes"],
  ["1h", "1 h", "The last hour"],
  ["24h", "24 h", "The last 24 hours"],
  ["7d", "7 d", "The last 7 days"],
] as const;

const SERIES_EVERY_MS = 5_000;

export function OverviewPage(): JSX.Element {
  const { query } = usePlace();
  const [range] = RANGES.find(([name]) => name === query.get("range")) ?? RANGES[1];
  const { data, error, reload } = useRead("overview");
  const series = useRead("series", { range }, SERIES_EVERY_MS);
  if (data === undefined)
    return error === null ? (
      <Bones rows={8} />
    ) : (
      <Trouble page="Overview" error={error} reload={reload} />
    );
  return (
    <div class="stack">
      {error !== null && <Trouble error={error} reload={reload} />}
      <Verdict overview={data} />
      {data.isEmpty ? <FirstSteps /> : <Figures overview={data} />}
      <RangeHead range={range} queues={data.queues} />
      {series.data === undefined ? (
        <Bones rows={6} />
      ) : (
        <Charts series={series.data} range={range} />
      )}
      <section class="cols-side">
        <div class="stack">
          <QueuesPanel overview={data} />
          <FailedPanel jobs={data.failed} />
        </div>
        <div class="stack">
          <AlertsPanel overview={data} />
          <WorkersPanel overview={data} />
          <CanaryPanel canaries={data.canaries} />
        </div>
      </section>
      <PauseAll queues={data.queues} small />
    </div>
  );
}

function Verdict({ overview }: { readonly overview: Overview }): JSX.Element {
  useNow();
  const state = useStore(live);
  const verdict = verdictOf(overview);
  if (!isLost(state, Date.now())) return <VerdictView {...verdict} />;
  return (
    <VerdictView
      look="v-none"
      title="It is not known how things are right now."
      text={`At ${f.timeOfDay(state.heardAt)}: ${verdict.title} Nothing can be changed from here until the connection is back.`}
    />
  );
}

function Figures({ overview: { figures, queues } }: { readonly overview: Overview }): JSX.Element {
  const {
    usualLow,
    usualHigh,
    succeeded,
    succeededBefore,
    pickupP50Ms,
    pickupP99Ms,
    errorKinds,
    errorKindsNew,
  } = figures;
  const [pickup, unit] = pickupP99Ms === null ? ["–", undefined] : f.spanParts(pickupP99Ms);
  const deepest = queues.toSorted((a, b) => b.counts.pending - a.counts.pending)[0];
  const deep = deepest?.counts.pending ?? 0;
  const builds = figures.builds.length;
  const rate = figures.endedPerSecond;
  return (
    <dl class="figs">
      <Figure
        name="Ended"
        value={rate === null ? "–" : rate >= 100 ? f.count(Math.round(rate)) : rate.toFixed(1)}
        unit="/s"
        more={
          usualLow === null || usualHigh === null
            ? "in the last minute"
            : `usually ${usualLow.toFixed(usualHigh < 10 ? 1 : 0)}–${usualHigh.toFixed(usualHigh < 10 ? 1 : 0)}`
        }
      />
      <Figure
        name="Succeeded"
        value={succeeded === null ? "–" : f.percent(succeeded)}
        {...(succeeded === null ? {} : { unit: "%" })}
        more={
          succeededBefore === null
            ? "in the last hour"
            : `${f.percent(succeededBefore)} % the hour before`
        }
      />
      <Figure
        name="Pickup p99"
        value={pickup}
        {...(unit === undefined ? {} : { unit })}
        more={pickupP50Ms === null ? "nothing started lately" : `p50 ${f.span(pickupP50Ms)}`}
      />
      <Figure
        name="Pending"
        value={f.count(figures.pending)}
        warn={deepest !== undefined && isLate(deepest, serverNow())}
        more={
          deep === 0 || deepest === undefined ? (
            "nothing waits"
          ) : (
            <a href={to("jobs", { status: "pending", queue: deepest.queue })}>
              {f.count(deep)} of them in {deepest.queue}
            </a>
          )
        }
      />
      <Figure
        name="Running"
        value={f.count(figures.running)}
        unit={`of ${f.count(figures.slots)}`}
        more={
          <>
            {f.plural(figures.workers, "worker")},{" "}
            <a href={to("builds")}>{f.plural(builds, "build")}</a>
          </>
        }
      />
      <Figure
        name="Failed, last hour"
        value={f.count(figures.failedHour)}
        more={
          <a href={to("errors", { since: "1h" })}>
            {errorKinds === null
              ? "by kind"
              : `${f.plural(errorKinds, "kind")}${(errorKindsNew ?? 0) > 0 ? `, ${errorKindsNew} new` : ""}`}
          </a>
        }
      />
    </dl>
  );
}

function RangeHead({
  range,
  queues,
}: {
  readonly range: string;
  readonly queues: readonly OverviewQueue[];
}): JSX.Element {
  const title = RANGES.find(([name]) => name === range)?.[2] ?? "Lately";
  return (
    <div class="line wrap rangehead">
      <h2>{title}</h2>
      <span class="sm faint hide-sm">{f.dayOf(serverNow())}</span>
      <Seg
        push
        label="Range"
        choices={RANGES.map(([name, text]) => ({
          text,
          href: to("", { range: name }),
          current: name === range,
        }))}
      />
      <PauseAll queues={queues} />
    </div>
  );
}

function PauseAll({
  queues,
  small = false,
}: {
  readonly queues: readonly OverviewQueue[];
  readonly small?: boolean;
}): JSX.Element {
  const hide = small ? {} : { hide: "sm" as const };
  const buttons = (
    <>
      {pausedTogether(queues).length > 0 && (
        <Act icon="play" {...hide} onClick={() => askResumeAll(queues)}>
          Resume everything…
        </Act>
      )}
      {queues.some(({ paused }) => paused === null) && (
        <Act kind="danger" icon="pause" {...hide} onClick={() => askPauseAll(queues)}>
          Pause everything…
        </Act>
      )}
    </>
  );
  return small ? <div class="only-sm pauseall">{buttons}</div> : buttons;
}

const ENDED: readonly SeriesLine<SeriesPoint>[] = [
  { name: "done", draw: "bar", look: "f-done", key: "f-done", value: ({ done }) => done },
  {
    name: "retried",
    draw: "bar",
    look: "f-retry",
    key: "f-retry",
    value: ({ retried }) => retried,
  },
  {
    name: "failed",
    draw: "bar",
    look: "f-failed",
    key: "f-failed",
    value: ({ failed, expired }) => failed + expired,
  },
];
const PICKUP: readonly SeriesLine<SeriesPoint>[] = [
  { name: "p99", draw: "line", look: "l-2", key: "k-2", value: ({ pickupP99Ms }) => pickupP99Ms },
  { name: "p50", draw: "line", look: "l-1", key: "k-1", value: ({ pickupP50Ms }) => pickupP50Ms },
];
const PENDING: readonly SeriesLine<SeriesPoint>[] = [
  { name: "all queues", draw: "area", look: "l-1", key: "k-1", value: ({ pending }) => pending },
];
const FAILED: readonly SeriesLine<SeriesPoint>[] = [
  { name: "failed", draw: "bar", look: "f-failed", key: "f-failed", value: ({ failed }) => failed },
];

/** "per minute", "per 15 min". */
function perStep(stepMs: number): string {
  if (stepMs === 60_000) return "per minute";
  return stepMs === 3_600_000 ? "per hour" : `per ${f.span(stepMs)}`;
}

function Charts({
  series,
  range,
}: {
  readonly series: Series;
  readonly range: string;
}): JSX.Element {
  const { points, marks, from, to: end, stepMs, openAt } = series;
  const common = { from, to: end, stepMs, openAt, points, marks };
  const sum = (of: (point: SeriesPoint) => number): number =>
    points.reduce((all, point) => all + of(point), 0);
  const done = sum((point) => point.done);
  const failed = sum((point) => point.failed);
  const p99s = points.flatMap(({ pickupP99Ms }) => (pickupP99Ms === null ? [] : [pickupP99Ms]));
  const deepest = Math.max(0, ...points.map(({ pending }) => pending ?? 0));
  const about = RANGES.find(([name]) => name === range)?.[2].toLowerCase() ?? "lately";
  return (
    <section class="cols-2" aria-label="Charts">
      <Chart
        {...common}
        title={`Ended ${perStep(stepMs)}`}
        label={`Jobs that ended in ${about}, by outcome: ${f.count(done)} done, ${f.count(failed)} failed.`}
        lines={ENDED}
        scale={linear}
        write={f.count}
        worded
        empty="No job has ended in this time. Deploys and crashes are marked here."
        jobsOf={(at, until) => to("jobs", endedIn(at, until))}
      />
      <Chart
        {...common}
        title="Pickup"
        label={
          p99s.length === 0
            ? "Pickup latency: no job started."
            : `Pickup latency, logarithmic. p99 at most ${f.span(Math.max(...p99s))}.`
        }
        lines={PICKUP}
        scale={logarithmic}
        write={f.span}
        empty="No job has started in this time."
        jobsOf={(at, until) =>
          to("jobs", {
            startedSince: new Date(at).toISOString(),
            startedUntil: new Date(until).toISOString(),
          })
        }
      />
      <Chart
        {...common}
        title="Pending"
        label={`Pending jobs in ${about}: at most ${f.count(deepest)}.`}
        lines={PENDING}
        scale={linear}
        write={f.count}
        empty="Nothing has waited in this time."
      />
      <Chart
        {...common}
        title="Failed for good"
        label={`Jobs that failed for good in ${about}: ${f.count(failed)}.`}
        lines={FAILED}
        scale={linear}
        write={f.count}
        empty="No job has failed in this time."
        jobsOf={(at, until) => to("jobs", { status: "failed", ...endedIn(at, until) })}
      />
    </section>
  );
}

const CODE = `const job = await holdfast.enqueue(ship,
  { id: "42", cents: 1999 },
  { key: "order-42" });
const { tracking } = await job.result();`;

function shell(): string {
  return `curl -X POST ${new URL("api/v1/jobs", document.baseURI).href} \\
  -H 'content-type: application/json' \\
  -d '{"task":"order.ship",
       "input":{"id":"42","cents":1999}}'`;
}

function FirstSteps(): JSX.Element {
  return (
    <div class="cols-2">
      <Panel title="From your code" right={<Copy text={CODE} />}>
        <pre class="code" tabIndex={0}>
          {CODE}
        </pre>
      </Panel>
      <Panel
        title="From a shell"
        right={<Copy text={shell()} />}
        footer={<Info>A key such as order-42 keeps the same job from being enqueued twice.</Info>}
      >
        <pre class="code" tabIndex={0}>
          {shell()}
        </pre>
      </Panel>
    </div>
  );
}
