/** One sentence about how things are, and why; the evidence stands below it. */
import type { JSX } from "preact";
import type { Overview, OverviewQueue, StatusFinding } from "../api.gen.ts";
import { post } from "../client.ts";
import * as f from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { serverNow } from "../live.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import { Act, Btn, type Children } from "../parts.tsx";
import { to } from "../router.ts";
import { pausedTogether } from "./situations.ts";
import "./verdict.css";

type Look = "v-ok" | "v-warn" | "v-bad" | "v-none";

interface Verdict {
  readonly look: Look;
  readonly title: string;
  readonly text: Children;
  /** What else is wrong. */
  readonly also?: Children;
  readonly acts?: Children;
}

const ICONS: Readonly<Record<Look, IconName>> = {
  "v-ok": "good",
  "v-warn": "warning",
  "v-bad": "warning",
  "v-none": "info",
};

export function VerdictView({ look, title, text, also, acts }: Verdict): JSX.Element {
  return (
    <section class={`verdict ${look}`} aria-label="How things are">
      <Icon name={ICONS[look]} />
      <div>
        <h1>{title}</h1>
        <p>{text}</p>
        {also}
      </div>
      {acts !== undefined && <div class="acts">{acts}</div>}
    </section>
  );
}

/** The worst finding, at length; the others in a few words. */
export function verdictOf(overview: Overview): Verdict {
  const [worst, ...others] = overview.status.findings;
  if (worst === undefined) {
    if (overview.isEmpty) return emptyVerdict(overview);
    return { look: "v-ok", title: "All is well.", text: factsOf(overview) };
  }
  return {
    look: worst.isBad ? "v-bad" : "v-warn",
    title: worst.title,
    text: (
      <>
        {why(worst, overview)} {others.length === 0 && factsOf(overview)}
      </>
    ),
    ...(others.length > 0 && { also: <Also findings={others} overview={overview} /> }),
    acts: actsOf(worst, overview),
  };
}

/** Each leads to where it is mended; what one press mends has its button here. */
function Also({
  findings,
  overview,
}: {
  readonly findings: readonly StatusFinding[];
  readonly overview: Overview;
}): JSX.Element {
  return (
    <ul class="also" aria-label="Also">
      {findings.map((finding) => (
        <li key={finding.kind} title={finding.title}>
          {findings[0] === finding && "Also: "}
          <Place finding={finding} />
          <Mend finding={finding} overview={overview} />
        </li>
      ))}
    </ul>
  );
}

function Place({ finding }: { readonly finding: StatusFinding }): JSX.Element {
  const { kind, brief, queues } = finding;
  const [queue] = queues;
  const href =
    kind === "failed"
      ? to("jobs", { status: "failed" })
      : ["critical", "warning", "info", "silenced"].includes(kind)
        ? to("alerts")
        : ["no-worker", "silent"].includes(kind)
          ? to("workers")
          : queue === undefined || queues.length > 1
            ? to("queues")
            : to(["queues", queue]);
  return <a href={href}>{brief}</a>;
}

function Mend({
  finding: { kind, queues },
  overview,
}: {
  readonly finding: StatusFinding;
  readonly overview: Overview;
}): JSX.Element | null {
  const row = rowOf(queues[0], overview);
  if (kind === "all-paused") {
    return (
      <Act kind="quiet" onClick={() => askResumeAll(overview.queues)}>
        Resume…
      </Act>
    );
  }
  if ((kind !== "paused" && kind !== "paused-idle") || row === undefined) return null;
  return (
    <Act
      kind="quiet"
      title={`Resume queue ${row.queue}`}
      onClick={() => askResume(row.queue, row.counts.pending)}
    >
      Resume…
    </Act>
  );
}

/** What is behind it. */
function why({ kind, command, queues }: StatusFinding, overview: Overview): Children {
  switch (kind) {
    case "no-worker":
      return (
        <>
          Start one: <code>{command}</code>.
        </>
      );
    case "silent":
      return "The jobs of a worker that stays silent are taken back when its leases end, and run elsewhere.";
    case "workers-paused":
      return "They are paused, draining or stopping.";
    case "all-paused":
      return (
        <>
          {pausedBy(pausedTogether(overview.queues)[0], "all queues")} Jobs that run end normally,
          and jobs can still be enqueued.
        </>
      );
    case "paused":
    case "paused-idle":
      return (
        <>
          {pausedBy(rowOf(queues[0], overview))}
          {queues.length > 1 &&
            ` ${f.plural(queues.length - 1, "more queue")} ${queues.length === 2 ? "is" : "are"} paused${kind === "paused" ? " with jobs" : ""}.`}
        </>
      );
    case "unserved":
      return queues.length > 1
        ? `${f.plural(queues.length - 1, "more queue")} with jobs ${queues.length === 2 ? "has" : "have"} none.`
        : null;
    default:
      return null;
  }
}

function rowOf(name: string | undefined, { queues }: Overview): OverviewQueue | undefined {
  return queues.find(({ queue }) => queue === name);
}

function actsOf({ kind, queues }: StatusFinding, overview: Overview): Children {
  const first = rowOf(queues[0], overview);
  switch (kind) {
    case "no-worker":
    case "silent":
      return <Btn href={to("workers")}>Workers</Btn>;
    case "critical":
    case "warning":
    case "info":
      return <Btn href={to("alerts")}>{alertsText(overview)}</Btn>;
    case "silenced":
      return <Btn href={to("alerts")}>Alerts</Btn>;
    case "all-paused":
      return (
        <Act kind="primary" onClick={() => askResumeAll(overview.queues)}>
          Resume everything…
        </Act>
      );
    case "failed":
      return <Btn href={to("jobs", { status: "failed", endedSince: "1h" })}>Failed jobs</Btn>;
    case "canary":
    case "uncounted":
      return undefined;
    default:
      return first === undefined ? undefined : <QueueActs kind={kind} queue={first} />;
  }
}

function alertsText({ alertsOpen: { critical, warning, info } }: Overview): string {
  return f.plural(critical + warning + info, "alert");
}

function QueueActs({
  kind,
  queue: { queue, counts },
}: {
  readonly kind: StatusFinding["kind"];
  readonly queue: OverviewQueue;
}): JSX.Element {
  return (
    <>
      {counts.pending > 0 && (
        <Btn href={to("jobs", { status: "pending", queue })}>
          Show {f.plural(counts.pending, "job")}
        </Btn>
      )}
      {kind === "paused" || kind === "paused-idle" ? (
        <Act kind="primary" onClick={() => askResume(queue, counts.pending)}>
          Resume {queue}…
        </Act>
      ) : (
        <Btn href={to("workers")}>Workers</Btn>
      )}
    </>
  );
}

/** "Paused at 10:41:08 by ada, “provider is down”." */
function pausedBy(row: OverviewQueue | undefined, subject = `queue ${row?.queue}`): Children {
  if (row?.paused === null || row === undefined) return null;
  const { at, by, reason } = row.paused;
  return (
    <>
      Paused at {f.moment(at, serverNow())} by <a href={to("audit", { subject })}>{by}</a>
      {reason !== null && `, “${reason}”`}.
    </>
  );
}

/** "7 queues, 12 workers, the canary was picked up in 4 ms." */
function factsOf({ queues, queuesLeftOut, canaries, figures }: Overview): string {
  const picked = canaries.flatMap(({ pickupMs }) => (pickupMs === null ? [] : [pickupMs]));
  const slowest = picked.length === 0 ? null : Math.max(...picked);
  const parts = [
    f.plural(queues.length + queuesLeftOut, "queue"),
    f.plural(figures.workers, "worker"),
    ...(slowest === null ? [] : [`the canary was picked up in ${f.span(slowest)}`]),
  ];
  const text = `${parts.join(", ")}.`;
  return figures.recovered === 0 ? text : `${text} ${recoveredText(figures.recovered)}`;
}

/** "94 jobs went on after their workers died or froze in the last 5 minutes." */
function recoveredText(jobs: number): string {
  return `${f.plural(jobs, "job")} went on after ${jobs === 1 ? "its worker" : "their workers"} died or froze in the last 5 minutes.`;
}

/** Null: how many jobs wait in it is not known. */
export function askResume(queue: string, pending: number | null): void {
  ask({
    title: `Resume queue ${queue}?`,
    body: (
      <p>
        {pending === 0
          ? "No job waits in it."
          : `${pending === null ? "Its pending jobs" : f.plural(pending, "job")} can start at once.`}
      </p>
    ),
    reason: true,
    confirm: `Resume ${queue}`,
    run: (answers) => post("queues/{name}/resume", { name: queue, ...reasonIn(answers) }),
  });
}

export function askPause(queue: string, running: number): void {
  ask({
    title: `Pause queue ${queue}?`,
    body: (
      <p>
        {running === 0
          ? "No job of it runs."
          : `The ${f.plural(running, "job")} that ${running === 1 ? "runs ends" : "run end"} normally.`}{" "}
        No worker takes another one until it is resumed.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: `Pause ${queue}`,
    run: (answers) => post("queues/{name}/pause", { name: queue, ...reasonIn(answers) }),
  });
}

function emptyVerdict(overview: Overview): Verdict {
  const { workers } = overview.figures;
  const text =
    workers === 0
      ? "The database answers and its tables fit. No worker runs yet. The first job shows up here within a second."
      : `The database answers, its tables fit, and ${f.plural(workers, "worker")} ${workers === 1 ? "waits" : "wait"}. The first job shows up here within a second.`;
  return {
    look: "v-none",
    title: "Nothing to do yet.",
    text,
    acts: (
      <Act kind="primary" href={to("enqueue")}>
        Enqueue a job…
      </Act>
    ),
  };
}

export function askPauseAll(queues: readonly OverviewQueue[]): void {
  const open = queues.filter(({ paused }) => paused === null);
  const running = open.reduce((sum, queue) => sum + queue.running, 0);
  ask({
    title: `Pause ${f.plural(open.length, "queue")}?`,
    body: (
      <p>
        {running === 0 ? "No job runs." : `The ${f.plural(running, "job")} that run end normally.`}{" "}
        Nothing else starts until the queues are resumed. Jobs can still be enqueued.
      </p>
    ),
    reason: true,
    danger: true,
    confirm: `Pause ${f.plural(open.length, "queue")}`,
    run: async (answers) => {
      const changed = await post("pause-all", reasonIn(answers));
      toast(`${f.plural(changed.queues.length, "queue")} paused.`);
    },
  });
}

export function askResumeAll(queues: readonly OverviewQueue[]): void {
  const together = pausedTogether(queues);
  const names = new Set(together.map(({ queue }) => queue));
  const others = queues.filter(({ queue, paused }) => paused !== null && !names.has(queue));
  const pending = together.reduce((sum, { counts }) => sum + counts.pending, 0);
  ask({
    title: `Resume ${f.plural(together.length, "queue")}?`,
    body: (
      <p>
        {pending === 0 ? "No job waits in them." : `${f.plural(pending, "job")} can start at once.`}
        {others.length > 0 &&
          ` ${f.listed(others.map(({ queue }) => queue))} ${others.length === 1 ? "was" : "were"} paused before, and ${others.length === 1 ? "stays" : "stay"} paused.`}
      </p>
    ),
    reason: true,
    confirm: `Resume ${f.plural(together.length, "queue")}`,
    run: async (answers) => {
      const { queues: resumed, paused } = await post("resume-all", reasonIn(answers));
      toast(
        `${f.plural(resumed.length, "queue")} resumed${paused.length === 0 ? "" : `; still paused: ${f.listed(paused)}`}.`,
      );
    },
  });
}
