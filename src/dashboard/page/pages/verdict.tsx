/** One sentence about how things are, and why; the evidence stands below it. */
import type { JSX } from "preact";
import { write } from "../api.ts";
import * as f from "../format.ts";
import { Icon, type IconName } from "../icons.tsx";
import { serverNow } from "../live.ts";
import { ask, reasonIn, toast } from "../notices.ts";
import { Act, Btn, type Children } from "../parts.tsx";
import { to } from "../router.ts";
import type { Overview, QueueRow } from "../types.ts";

type Look = "v-ok" | "v-warn" | "v-bad" | "v-none";

interface Verdict {
  readonly look: Look;
  readonly title: string;
  readonly text: Children;
  readonly acts?: Children;
}

const ICONS: Readonly<Record<Look, IconName>> = {
  "v-ok": "good",
  "v-warn": "warning",
  "v-bad": "warning",
  "v-none": "info",
};

export function VerdictView({ look, title, text, acts }: Verdict): JSX.Element {
  return (
    <section class={`verdict ${look}`} aria-label="How things are">
      <Icon name={ICONS[look]} />
      <div>
        <h1>{title}</h1>
        <p>{text}</p>
      </div>
      {acts !== undefined && <div class="acts">{acts}</div>}
    </section>
  );
}

/** What is wrong, worst first. */
export function verdictOf(overview: Overview): Verdict {
  const waiting = overview.queues.filter(({ counts }) => counts.pending > 0);
  const paused = waiting.filter((queue) => queue.paused !== null).toSorted(byPending);
  const unserved = waiting
    .filter((queue) => queue.paused === null && queue.slots === 0)
    .toSorted(byPending);
  const critical = overview.alerts.filter(({ severity }) => severity === "critical");
  const [first] = paused;
  const [alone] = unserved;
  if (overview.isEmpty) return emptyVerdict(overview);
  if (overview.pausedAll === true && pausedTogether(overview.queues).length > 0)
    return allPausedVerdict(overview);
  if (first !== undefined) return pausedVerdict(overview, first, paused);
  if (alone !== undefined) return unservedVerdict(overview, alone);
  const [worst] = [...critical, ...overview.alerts];
  if (worst !== undefined) {
    return {
      look: worst.severity === "critical" ? "v-bad" : "v-warn",
      title: worst.message,
      text: rest(overview, "Otherwise"),
      acts: <Btn href={to("alerts")}>{f.plural(overview.alerts.length, "alert")}</Btn>,
    };
  }
  const silent = overview.workers.filter(
    ({ liveness }) => liveness === "stale" || liveness === "hung",
  );
  if (silent.length > 0) {
    const names = f.listed(silent.map(({ id }) => f.workerName(id)));
    return {
      look: "v-warn",
      title: `${names} ${silent.length === 1 ? "does" : "do"} not answer.`,
      text: "The jobs of a worker that stays silent are taken back when its leases end, and run elsewhere.",
      acts: <Btn href={to("workers")}>Workers</Btn>,
    };
  }
  return { look: "v-ok", title: "All is well.", text: rest(overview, "") };
}

function byPending(a: QueueRow, b: QueueRow): number {
  return b.counts.pending - a.counts.pending;
}

/** "7 queues, 12 workers, canary picked up in 4 ms." */
function rest({ queues, workers, canaries, figures }: Overview, begin: string): string {
  const picked = canaries.flatMap(({ pickupMs }) => (pickupMs === null ? [] : [pickupMs]));
  const slowest = picked.length === 0 ? null : Math.max(...picked);
  const parts = [
    f.plural(queues.length, "queue"),
    f.plural(workers.length, "worker"),
    ...(slowest === null ? [] : [`the canary was picked up in ${f.span(slowest)}`]),
  ];
  const text = `${begin === "" ? "" : `${begin}: `}${parts.join(", ")}.`;
  return figures.recovered === 0 ? text : `${text} ${recoveredText(figures.recovered)}`;
}

/** "94 jobs went on after their workers died or froze in the last 5 minutes." */
function recoveredText(jobs: number): string {
  return `${f.plural(jobs, "job")} went on after ${jobs === 1 ? "its worker" : "their workers"} died or froze in the last 5 minutes.`;
}

/** "the oldest for 6 min 2 s". */
function oldest({ oldestPendingAt }: QueueRow): string {
  if (oldestPendingAt === null) return "";
  return `, the oldest for ${f.span(Math.max(0, serverNow() - oldestPendingAt))}`;
}

function pausedVerdict(overview: Overview, queue: QueueRow, all: readonly QueueRow[]): Verdict {
  const { paused, counts } = queue;
  const others =
    all.length > 1
      ? ` ${f.plural(all.length - 1, "more queue")} with jobs ${all.length === 2 ? "is" : "are"} paused.`
      : "";
  return {
    look: "v-bad",
    title: `Queue ${queue.queue} is paused: ${f.plural(counts.pending, "job")} ${counts.pending === 1 ? "waits" : "wait"}${oldest(queue)}.`,
    text: (
      <>
        Paused at {paused === null ? "" : f.moment(paused.at, serverNow())} by{" "}
        <a href={to("audit", { subject: `queue ${queue.queue}` })}>{paused?.by}</a>
        {paused?.reason !== null && `, “${paused?.reason ?? ""}”`}.{others}{" "}
        {rest(overview, "Everything else is well")}
      </>
    ),
    acts: (
      <>
        <Btn href={to("jobs", { status: "pending", queue: queue.queue })}>
          Show {f.plural(counts.pending, "job")}
        </Btn>
        <Act kind="primary" onClick={() => askResume(queue.queue, counts.pending)}>
          Resume {queue.queue}…
        </Act>
      </>
    ),
  };
}

export function askResume(queue: string, pending: number): void {
  ask({
    title: `Resume queue ${queue}?`,
    body: (
      <p>
        {pending === 0 ? "No job waits in it." : `${f.plural(pending, "job")} can start at once.`}
      </p>
    ),
    reason: true,
    confirm: `Resume ${queue}`,
    run: (answers) => write(`queues/${encodeURIComponent(queue)}/resume`, reasonIn(answers)),
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
    run: (answers) => write(`queues/${encodeURIComponent(queue)}/pause`, reasonIn(answers)),
  });
}

function unservedVerdict(overview: Overview, queue: QueueRow): Verdict {
  const { pending } = queue.counts;
  return {
    look: "v-bad",
    title: `No worker serves queue ${queue.queue}: ${f.plural(pending, "job")} ${pending === 1 ? "waits" : "wait"}${oldest(queue)}.`,
    text: rest(overview, "Everything else is well"),
    acts: (
      <>
        <Btn href={to("jobs", { status: "pending", queue: queue.queue })}>
          Show {f.plural(pending, "job")}
        </Btn>
        <Btn href={to("workers")}>Workers</Btn>
      </>
    ),
  };
}

function emptyVerdict({ workers }: Overview): Verdict {
  const text =
    workers.length === 0
      ? "The database answers and its tables fit. No worker runs yet. The first job shows up here within a second."
      : `The database answers, its tables fit, and ${f.plural(workers.length, "worker")} ${workers.length === 1 ? "waits" : "wait"}. The first job shows up here within a second.`;
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

/** Queues that one action paused have the same instant. */
export function pausedTogether(queues: readonly QueueRow[]): readonly QueueRow[] {
  const paused = queues.filter((queue) => queue.paused !== null);
  const groups = [...Map.groupBy(paused, (queue) => queue.paused?.at).values()];
  return groups.filter((group) => group.length > 1 || queues.length === 1).flat();
}

function allPausedVerdict(overview: Overview): Verdict {
  const { queues } = overview;
  const together = pausedTogether(queues);
  const paused = together[0]?.paused ?? null;
  const pending = queues.reduce((sum, { counts }) => sum + counts.pending, 0);
  return {
    look: "v-bad",
    title: `Everything is paused: ${f.plural(pending, "job")} ${pending === 1 ? "waits" : "wait"}.`,
    text: (
      <>
        Paused at {paused === null ? "" : f.moment(paused.at, serverNow())} by{" "}
        <a href={to("audit", { subject: "all queues" })}>{paused?.by}</a>
        {paused?.reason !== null && `, “${paused?.reason ?? ""}”`}. Jobs that run end normally, and
        jobs can still be enqueued.
      </>
    ),
    acts: (
      <Act kind="primary" onClick={() => askResumeAll(queues)}>
        Resume everything…
      </Act>
    ),
  };
}

/** The answer to pausing or resuming all queues. */
interface Changed {
  readonly queues: readonly string[];
  readonly paused: readonly string[];
}

export function askPauseAll(queues: readonly QueueRow[]): void {
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
      const changed = await write<Changed>("pause-all", reasonIn(answers));
      toast(`${f.plural(changed.queues.length, "queue")} paused.`);
    },
  });
}

export function askResumeAll(queues: readonly QueueRow[]): void {
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
      const { queues: resumed, paused } = await write<Changed>("resume-all", reasonIn(answers));
      toast(
        `${f.plural(resumed.length, "queue")} resumed${paused.length === 0 ? "" : `; still paused: ${f.listed(paused)}`}.`,
      );
    },
  });
}
