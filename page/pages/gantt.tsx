/** The life of a job: its state on top, then its attempts, each with its steps. */
import type { JSX } from "preact";
import * as f from "../format.ts";
import { useNow } from "../live.ts";
import { type Children, Panel, Until } from "../parts.tsx";
import type { Attempt, JobStory, Step } from "../api.gen.ts";
import {
  type Lane,
  lanesOf,
  type StepBar,
  type Stretch,
  type Timeline,
  timelineOf,
} from "./timeline.ts";
import "./gantt.css";

const LEGEND: readonly (readonly [string, string])[] = [
  ["b-running", "runs"],
  ["b-done", "kept"],
  ["b-failed", "failed"],
  ["b-waiting b-soft", "waits"],
  ["b-retry b-soft", "backs off"],
  ["b-band", "usual time"],
];

/** Steps that are drawn of one attempt. */
const STEPS_MAX = 50;

function pct(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

/** A job that took a moment needs its milliseconds. */
function clockOf({ from, to }: Timeline): (at: number) => string {
  return to - from < 10_000 ? f.withMillis : f.timeOfDay;
}

export function Gantt({ story }: { readonly story: JobStory }): JSX.Element {
  const now = useNow();
  const { job, attempts, steps, usual } = story;
  const line = timelineOf(job, attempts, now);
  const lanes = lanesOf(attempts, steps, now);
  const starts = line.stretches.filter(({ kind }) => kind === "running").map(({ x }) => x);
  const isLive = job.finishedAt === null;
  const hidden = Math.max(0, (attempts[0]?.epoch ?? 1) - 1);
  return (
    <Panel
      title="What happened"
      right={
        <div class="legend">
          {LEGEND.map(([look, text]) => (
            <span key={text}>
              <svg width="8" height="8" aria-hidden="true">
                <rect class={look} width="8" height="8" rx="1" />
              </svg>
              {text}
            </span>
          ))}
        </div>
      }
    >
      <div class="gantt" role="group" aria-label="What the job did">
        <AxisRow line={line} isLive={isLive} />
        <Bar
          starts={starts}
          first
          label={<strong>State</strong>}
          took={f.span(Math.max(0, line.to - job.enqueuedAt))}
        >
          {line.stretches.map((one) => (
            <StateBar key={one.from} one={one} />
          ))}
        </Bar>
        {lanes.map((lane) => (
          <LaneRows
            key={lane.attempt.epoch}
            line={line}
            starts={starts}
            lane={lane}
            usual={usual}
            now={now}
          />
        ))}
        {job.status === "retry" && job.dueAt !== null && (
          <Bar
            starts={starts}
            first
            label={
              <>
                <strong>Attempt {job.attempts + 1}</strong>
                <Kind text="not yet" />
              </>
            }
            took={
              <span class="retry">
                <Until at={job.dueAt} />
              </span>
            }
          >
            <line class="g-now" x1="99%" x2="99%" y1="0" y2="31" />
          </Bar>
        )}
      </div>
      {hidden > 0 && (
        <p class="body dim">
          The newest {f.plural(attempts.length, "attempt")}. {f.plural(hidden, "earlier one")}{" "}
          {hidden === 1 ? "is" : "are"} not drawn.
        </p>
      )}
      {attempts.length === 0 && (
        <p class="body dim">
          {isLive
            ? "No attempt yet. Each one appears here with its worker, its steps and how long they took."
            : "It ended before its first attempt."}
        </p>
      )}
    </Panel>
  );
}

function Kind({ text }: { readonly text: string }): JSX.Element {
  return <span class="faint sm kind">{text}</span>;
}

function AxisRow({
  line,
  isLive,
}: {
  readonly line: Timeline;
  readonly isLive: boolean;
}): JSX.Element {
  const starts = line.stretches
    .filter(({ kind }) => kind === "running")
    .map(({ from, x }) => ({ at: from, x }));
  const clock = clockOf(line);
  const shown = [{ at: line.from, x: 0 }, ...starts].filter(
    ({ x }, index, all) =>
      index === 0 ||
      (x - (all[0]?.x ?? 0) > 0.16 && x < (line.to - line.from < 10_000 ? 0.66 : 0.76)),
  );
  const spaced = shown.filter(
    ({ x }, index) => index === 0 || x - (shown[index - 1]?.x ?? 0) > 0.14,
  );
  return (
    <>
      <div class="g-l g-ax">
        {line.stretches.some(({ folded }) => folded) && (
          <>
            Folded at <span class="fold-i">//</span>
          </>
        )}
      </div>
      <div class="g-b g-ax">
        <svg aria-hidden="true">
          {spaced.map(({ at, x }) => (
            <text key={at} class={x === 0 ? "g-t" : "g-t hide-sm"} x={pct(x)} y="18">
              {clock(at)}
            </text>
          ))}
          <text class="g-t" x="99%" y="18" text-anchor="end">
            {isLive ? "now " : ""}
            {clock(line.to)}
          </text>
        </svg>
      </div>
      <div class="g-d g-ax">Took</div>
    </>
  );
}

interface BarProps {
  readonly label: Children;
  readonly took: Children;
  readonly starts: readonly number[];
  readonly first?: boolean;
  readonly children: Children;
}

function Bar({ label, took, starts, first = false, children }: BarProps): JSX.Element {
  const place = first ? "first" : "";
  return (
    <>
      <div class={first ? "g-l first" : "g-l in"}>{label}</div>
      <div class={`g-b ${place}`}>
        <svg aria-hidden="true">
          {starts.slice(1).map((x) => (
            <line key={x} class="g-guide" x1={pct(x)} x2={pct(x)} y1="0" y2="32" />
          ))}
          {children}
        </svg>
      </div>
      <div class={`g-d ${place}`}>{took}</div>
    </>
  );
}

function lookOf(kind: Stretch["kind"]): string {
  if (kind === "waiting") return "b b-waiting b-soft";
  if (kind === "retry") return "b b-retry b-soft";
  if (kind === "scheduled") return "b b-scheduled b-soft";
  return kind === "running" ? "b b-running" : "b b-pending";
}

const STATE_WORDS: Readonly<Record<string, string>> = {
  retry: "backed off",
  waiting: "waited",
  pending: "was pending",
  scheduled: "was scheduled",
  running: "ran",
};

function StateBar({ one }: { readonly one: Stretch }): JSX.Element {
  const { x, width, kind, folded, from, to } = one;
  return (
    <g>
      <title>{`${f.timeOfDay(from)}: ${STATE_WORDS[kind] ?? kind} for ${f.span(to - from)}`}</title>
      <rect
        class={lookOf(kind)}
        x={pct(x)}
        y="9"
        width={pct(Math.max(0.002, width - 0.002))}
        height="10"
      />
      {folded && <FoldMark x={x + width / 2} />}
    </g>
  );
}

function FoldMark({ x }: { readonly x: number }): JSX.Element {
  return (
    <svg x={pct(x)} y="14" overflow="visible">
      <path class="b-fold" d="M-5 9-1-9H5L1 9Z" />
      <path class="fold-l" d="M-5 8-1.5-8M1.5 8 5-8" />
    </svg>
  );
}

const OUTCOMES: Readonly<Record<Attempt["outcome"], string>> = {
  running: "runs",
  done: "done",
  retry: "failed",
  failed: "failed",
  suspended: "suspended",
  released: "handed back",
  crashed: "its worker died",
  cancelled: "cancelled",
};

function LaneRows({
  lane,
  line,
  starts,
  usual,
  now,
}: {
  readonly lane: Lane;
  readonly line: Timeline;
  readonly starts: readonly number[];
  readonly usual: JobStory["usual"];
  readonly now: number;
}): JSX.Element {
  const { attempt, steps, wentOn } = lane;
  const end = attempt.endedAt ?? now;
  const [x, right] = [line.share(attempt.startedAt), line.share(end)];
  const tookMs = Math.max(0, end - attempt.startedAt);
  const left = Math.max(0, steps.length - STEPS_MAX);
  const isSlow = usual !== null && tookMs > usual.highMs * 1.5 && tookMs > 100;
  const band =
    usual === null ? 0 : Math.min(1 - x, (right - x) * (usual.highMs / Math.max(1, tookMs)));
  const took =
    isSlow && usual !== null ? (
      <span class="retry">
        {f.span(tookMs)}
        <span class="hide-md">
          , usually {f.span(usual.lowMs)}–{f.span(usual.highMs)}
        </span>
      </span>
    ) : (
      f.span(tookMs)
    );
  return (
    <>
      <Bar
        starts={starts}
        first
        took={took}
        label={
          <>
            <strong title={`on ${attempt.worker}, claim ${attempt.epoch}`}>
              Attempt {attempt.attempt}
            </strong>
            <Kind
              text={wentOn ? `${OUTCOMES[attempt.outcome]}, went on` : OUTCOMES[attempt.outcome]}
            />
          </>
        }
      >
        {band > 0 && <rect class="b b-band" x={pct(x)} y="4" width={pct(band)} height="20" />}
        <rect
          class={attempt.endedAt === null ? "b b-running" : "b b-att"}
          x={pct(x)}
          y="11"
          width={pct(Math.max(0.003, right - x))}
          height="6"
        />
      </Bar>
      {left > 0 && (
        <Bar starts={starts} took="" label={<Kind text={f.plural(left, "earlier step")} />}>
          {null}
        </Bar>
      )}
      {steps.slice(-STEPS_MAX).map((bar) => (
        <StepRow
          key={`${bar.step.name} ${bar.step.occurrence}`}
          bar={bar}
          line={line}
          starts={starts}
        />
      ))}
    </>
  );
}

function stepLook({ kind, status }: Step): string {
  if (status === "failed") return "b b-failed";
  if (status === "doubt") return "b b-retry";
  if (kind === "sleep" || kind === "event" || kind === "call") return "b b-waiting b-soft";
  return status === "begun" ? "b b-running" : "b b-done";
}

function StepRow({
  bar,
  line,
  starts,
}: {
  readonly bar: StepBar;
  readonly line: Timeline;
  readonly starts: readonly number[];
}): JSX.Element {
  const { step, from, to } = bar;
  const [x, right] = [line.share(from), line.share(to)];
  const name = step.occurrence > 1 ? `${step.name} ${step.occurrence}` : step.name;
  const isFolded = line.stretches.some((one) => one.folded && one.from < to && one.to > from);
  return (
    <Bar
      starts={starts}
      took={
        step.status === "doubt" ? (
          <span class="retry">in doubt</span>
        ) : (
          f.span(Math.max(0, to - from))
        )
      }
      label={
        <>
          <span class="clip" title={name}>
            {name}
          </span>
          <Kind text={step.kind} />
        </>
      }
    >
      <rect
        class={stepLook(step)}
        x={pct(x)}
        y="9"
        width={pct(Math.max(0.004, right - x))}
        height="10"
      />
      {isFolded && right - x > 0.04 && <FoldMark x={(x + right) / 2} />}
    </Bar>
  );
}
