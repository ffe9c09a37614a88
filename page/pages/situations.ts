/**
 * What is wrong, worst first. The page says that all is well only if this list is empty.
 *
 * Here is every situation and its rank; how one is told at length, and its buttons, are in verdict.tsx.
 */
import * as f from "../format.ts";
import type { Alert, Overview, OverviewQueue, OverviewWorker } from "../api.gen.ts";

/** The oldest pending job of a queue is late after this. */
export const LATE_MS = 60_000;

/** A job of the canary is late after this. */
const CANARY_LATE_MS = 60_000;

/** Counts that are older say nothing about now. */
const COUNTED_MS = 300_000;

/** Worst first. */
export const RANKS = [
  "no-worker",
  "critical",
  "unserved",
  "silent",
  "all-paused",
  "paused",
  "workers-paused",
  "warning",
  "canary",
  "late",
  "failed",
  "paused-idle",
  "uncounted",
  "info",
] as const;

export type Kind = (typeof RANKS)[number];

export interface Finding {
  readonly kind: Kind;
  readonly isBad: boolean;
  /** A whole sentence, for the worst. */
  readonly title: string;
  /** A few words, for the others. */
  readonly brief: string;
  /** The queues it is about, those with the most pending jobs first. */
  readonly queues?: readonly OverviewQueue[];
}

type Part = Omit<Finding, "kind">;

export function findingsOf(overview: Overview, now: number): readonly Finding[] {
  const parts: Readonly<Record<Kind, Part | null>> = {
    "no-worker": noWorker(overview),
    critical: alerts(overview, "critical"),
    unserved: unserved(overview, now),
    silent: silent(overview),
    "all-paused": allPaused(overview),
    paused: paused(overview, now),
    "workers-paused": workersPaused(overview, now),
    warning: alerts(overview, "warning"),
    canary: canary(overview, now),
    late: late(overview, now),
    failed: failed(overview),
    "paused-idle": pausedIdle(overview),
    uncounted: uncounted(overview, now),
    info: alerts(overview, "info"),
  };
  return RANKS.flatMap((kind) => {
    const part = parts[kind];
    return part === null ? [] : [{ kind, ...part }];
  });
}

/** No worker of the registry answers, and none takes jobs over HTTP. */
function isUnworked({ figures, queues }: Overview): boolean {
  return figures.workers === 0 && queues.every(({ served }) => !served);
}

function noWorker(overview: Overview): Part | null {
  if (!isUnworked(overview)) return null;
  const isSilent = silentOf(overview).length > 0;
  // A new database has nothing to do, and no worker yet.
  if (overview.isEmpty && !isSilent) return null;
  const { figures, queues } = overview;
  const later = total(queues, ({ counts }) => counts.retry + counts.scheduled + counts.waiting);
  const who = isSilent ? "No worker answers" : "No worker runs";
  const waits = figures.pending > 0 ? waiting(figures.pending) : null;
  const starts = `${f.plural(later, "job")} ${later === 1 ? "starts" : "start"} later`;
  const what = waits ?? (later > 0 ? starts : null);
  return {
    isBad: figures.pending + figures.running + later > 0,
    title: what === null ? `${who}. Nothing waits for one now.` : `${who}: ${what}.`,
    brief: "no worker",
  };
}

function alerts({ alerts: all, alertsOpen }: Overview, severity: Alert["severity"]): Part | null {
  const count = alertsOpen[severity];
  const first = all.find((alert) => alert.severity === severity);
  if (count === 0 || first === undefined) return null;
  const word = severity === "info" ? "notice" : `${severity} alert`;
  return { isBad: severity === "critical", title: first.message, brief: f.plural(count, word) };
}

function unserved(overview: Overview, now: number): Part | null {
  const some = waitingIn(overview, ({ paused: by, served, slots }) => {
    return by === null && !served && slots === 0;
  });
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: true,
    title: `No worker serves queue ${first.queue}: ${waitingSince(first, now)}.`,
    brief: `${f.plural(some.length, "queue")} with jobs and no worker`,
    queues: some,
  };
}

function silent(overview: Overview): Part | null {
  const some = silentOf(overview);
  if (some.length === 0) return null;
  const names = f.listed(some.map(({ id }) => f.workerName(id)));
  const verb = some.length === 1 ? "does" : "do";
  return {
    isBad: false,
    title: `${names} ${verb} not answer.`,
    brief: `${f.plural(some.length, "worker")} that ${verb} not answer`,
  };
}

function silentOf({ workers }: Overview): readonly OverviewWorker[] {
  return workers.filter(({ liveness }) => liveness === "stale" || liveness === "hung");
}

function allPaused({ queues, pausedAll, figures }: Overview): Part | null {
  if (!pausedAll || pausedTogether(queues).length === 0) return null;
  return {
    isBad: true,
    title: `Everything is paused: ${waiting(figures.pending)}.`,
    brief: "every queue is paused",
  };
}

function paused(overview: Overview, now: number): Part | null {
  if (allPaused(overview) !== null) return null;
  const some = waitingIn(overview, ({ paused: by }) => by !== null);
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: true,
    title: `Queue ${first.queue} is paused: ${waitingSince(first, now)}.`,
    brief: `${f.plural(some.length, "paused queue")} with jobs`,
    queues: some,
  };
}

function pausedIdle(overview: Overview): Part | null {
  if (allPaused(overview) !== null) return null;
  const some = overview.queues.filter(
    ({ paused: by, counts }) => by !== null && counts.pending === 0,
  );
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: false,
    title: `Queue ${first.queue} is paused. No job waits in it.`,
    brief: `${f.plural(some.length, "paused queue")} without jobs`,
    queues: some,
  };
}

function workersPaused(overview: Overview, now: number): Part | null {
  const some = waitingIn(overview, ({ paused: by, served, slots }) => {
    return by === null && !served && slots > 0;
  });
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: true,
    title: `The workers of queue ${first.queue} take no jobs: ${waitingSince(first, now)}.`,
    brief: `${f.plural(some.length, "queue")} whose workers are paused or ending`,
    queues: some,
  };
}

function canary({ canaries }: Overview, now: number): Part | null {
  const some = canaries.filter(({ pickupMs, sentAt }) => {
    return pickupMs === null && now - sentAt > CANARY_LATE_MS;
  });
  if (some.length === 0) return null;
  return {
    isBad: false,
    title: `The canary of ${f.listed(some.map(({ queue }) => queue))} was not picked up.`,
    brief: `the canary of ${f.plural(some.length, "queue")}`,
  };
}

/** Jobs that workers could take, and have not. */
function late(overview: Overview, now: number): Part | null {
  const some = waitingIn(overview, (queue) => {
    return queue.paused === null && queue.served && isLate(queue, now);
  });
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: false,
    title: `Queue ${first.queue} is behind: ${waitingSince(first, now)}.`,
    brief: `${f.plural(some.length, "queue")} behind`,
    queues: some,
  };
}

export function isLate({ oldestPendingAt, counts }: OverviewQueue, now: number): boolean {
  return counts.pending > 0 && oldestPendingAt !== null && now - oldestPendingAt > LATE_MS;
}

function failed({ figures: { failedHour } }: Overview): Part | null {
  if (failedHour === 0) return null;
  const text = `${f.plural(failedHour, "job")} failed for good in the last hour`;
  return { isBad: false, title: `${text}.`, brief: text };
}

function uncounted({ countedAt }: Overview, now: number): Part | null {
  if (countedAt === null || now - countedAt <= COUNTED_MS) return null;
  const ago = f.age(now - countedAt);
  return {
    isBad: false,
    title: `Jobs were last counted ${ago} ago.`,
    brief: `counts that are ${ago} old`,
  };
}

function waitingIn(
  { queues }: Overview,
  isMeant: (queue: OverviewQueue) => boolean,
): readonly OverviewQueue[] {
  return queues
    .filter((queue) => queue.counts.pending > 0 && isMeant(queue))
    .toSorted((a, b) => b.counts.pending - a.counts.pending);
}

/** "1 job waits", "20 jobs wait". */
function waiting(jobs: number): string {
  return `${f.plural(jobs, "job")} ${jobs === 1 ? "waits" : "wait"}`;
}

/** "20 jobs wait, the oldest for 6 min 2 s". */
function waitingSince({ counts, oldestPendingAt }: OverviewQueue, now: number): string {
  const text = waiting(counts.pending);
  if (oldestPendingAt === null) return text;
  return `${text}, the oldest for ${f.span(Math.max(0, now - oldestPendingAt))}`;
}

function total(queues: readonly OverviewQueue[], of: (queue: OverviewQueue) => number): number {
  return queues.reduce((sum, queue) => sum + of(queue), 0);
}

/** Queues that one action paused have the same instant. */
export function pausedTogether(queues: readonly OverviewQueue[]): readonly OverviewQueue[] {
  const some = queues.filter((queue) => queue.paused !== null);
  const groups = [...Map.groupBy(some, (queue) => queue.paused?.at).values()];
  return groups.filter((group) => group.length > 1 || queues.length === 1).flat();
}
