/**
 * What is wrong, worst first: the same answer on the command line, over HTTP, for agents and on the page.
 *
 * All is well only if this list is empty. A situation has one rank, one sentence, and the command that fixes it or shows why.
 */
import { type Alert, isSilenced } from "../alerts/alert.ts";
import { formatMs } from "../core/duration.ts";
import type { Status as JobStatus } from "../core/job.ts";
import { shellWord } from "../core/text.ts";
import type { CanaryReport } from "../monitoring/canary.ts";
import * as s from "../operations/shape.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import { counted } from "../terminal/table.ts";

/** The oldest pending job of a queue is late after this. */
const LATE_MS = 60_000;

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
  "silenced",
] as const;

export type Kind = (typeof RANKS)[number];

const finding = s
  .object({
    kind: s.choice(RANKS),
    isBad: s.boolean().about("Jobs do not run because of it, or an alert is critical."),
    title: s.text().about("A whole sentence."),
    brief: s.text().about("A few words."),
    command: s.text().about("The command that fixes it, or that shows why it is so."),
    queues: s.list(s.text()).about("What it is about: those with the most pending jobs first."),
  })
  .named("StatusFinding", "Something that is wrong, with the command that fixes it.");

export const serviceStatus = s
  .object({
    at: s.instant,
    isWell: s.boolean().about("There is no finding."),
    findings: s.list(finding).about("The worst first."),
    workers: s.count.about("Workers that answer."),
    queues: s.count,
    pending: s.count,
    running: s.count,
  })
  .named("ServiceStatus", "Whether all is well, and if not, what is wrong.");

export type Status = s.TypeOf<typeof serviceStatus>;
type Finding = s.TypeOf<typeof finding>;
type Part = Omit<Finding, "kind" | "queues"> & { readonly queues?: readonly QueueState[] };

/** What the judgement is based on. */
export interface Situation {
  readonly at: number;
  readonly countedAt: number;
  readonly figures: {
    readonly workers: number;
    readonly pending: number;
    readonly running: number;
    readonly failedHour: number;
  };
  readonly queues: readonly QueueState[];
  readonly workers: readonly Pick<
    WorkerRecord,
    "id" | "type" | "queues" | "liveness" | "desiredState"
  >[];
  /** The worst first, then the oldest. */
  readonly alerts: readonly Pick<Alert, "severity" | "message" | "silencedUntil">[];
  readonly canaries: readonly Pick<CanaryReport, "queue" | "sentAt" | "pickupMs">[];
  readonly isEmpty: boolean;
  readonly pausedAll: boolean;
}

interface QueueState {
  readonly queue: string;
  readonly counts: Readonly<Record<JobStatus, number>>;
  readonly oldestPendingAt: number | null;
  readonly paused: { readonly at: number; readonly isOfAll: boolean } | null;
  readonly slots: number;
  readonly served: boolean;
}

export function statusOf(situation: Situation): Status {
  const { at, figures, queues } = situation;
  const { workers, pending, running } = figures;
  const findings = findingsOf(situation);
  const isWell = findings.length === 0;
  return { at, isWell, findings, workers, queues: queues.length, pending, running };
}

export function findingsOf(situation: Situation): readonly Finding[] {
  const parts: Readonly<Record<Kind, Part | null>> = {
    "no-worker": noWorker(situation),
    critical: alerts(situation, "critical"),
    unserved: unserved(situation),
    silent: silent(situation),
    "all-paused": allPaused(situation),
    paused: paused(situation),
    "workers-paused": workersPaused(situation),
    warning: alerts(situation, "warning"),
    canary: canary(situation),
    late: late(situation),
    failed: failed(situation),
    "paused-idle": pausedIdle(situation),
    uncounted: uncounted(situation),
    info: alerts(situation, "info"),
    silenced: silenced(situation),
  };
  return RANKS.flatMap((kind) => {
    const part = parts[kind];
    if (part === null) return [];
    return [{ kind, ...part, queues: (part.queues ?? []).map(({ queue }) => queue) }];
  });
}

const START = "holdfast work --tasks tasks.ts";

const startFor = ({ queue }: QueueState): string => `${START} --queue ${shellWord(queue)}`;
const resume = ({ queue }: QueueState): string => `holdfast queues resume ${shellWord(queue)}`;
const explain = (queue: string): string => `holdfast explain --queue ${shellWord(queue)}`;

/** No worker of the registry answers, and none takes jobs over HTTP. */
function noWorker(situation: Situation): Part | null {
  const { figures, queues, isEmpty } = situation;
  if (figures.workers > 0 || queues.some(({ served }) => served)) return null;
  const isSilent = silentOf(situation).length > 0;
  // A new database has nothing to do, and no worker yet.
  if (isEmpty && !isSilent) return null;
  const later = sum(queues.map(({ counts }) => counts.retry + counts.scheduled + counts.waiting));
  const who = isSilent ? "No worker answers" : "No worker runs";
  const waits = figures.pending > 0 ? waiting(figures.pending) : null;
  const starts = `${counted(later, "job")} ${later === 1 ? "starts" : "start"} later`;
  const what = waits ?? (later > 0 ? starts : null);
  return {
    isBad: figures.pending + figures.running + later > 0,
    title: what === null ? `${who}. Nothing waits for one now.` : `${who}: ${what}.`,
    brief: "no worker",
    command: START,
  };
}

function alerts({ alerts: all, at }: Situation, severity: Alert["severity"]): Part | null {
  const some = all.filter((alert) => alert.severity === severity && !isSilenced(alert, at));
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: severity === "critical",
    title: first.message,
    brief: counted(some.length, severity === "info" ? "notice" : `${severity} alert`),
    command: "holdfast alerts",
  };
}

/** The operator who silenced them knows of them: they are told of, and never come first. */
function silenced({ alerts: all, at }: Situation): Part | null {
  const some = all.filter((alert) => isSilenced(alert, at));
  const [first] = some;
  if (first === undefined) return null;
  const more = some.length === 1 ? "" : ` and ${counted(some.length - 1, "other")}`;
  return {
    isBad: false,
    title: `Silenced: ${first.message.replace(/\.$/, "")}${more}.`,
    brief: `${some.length} silenced`,
    command: "holdfast alerts",
  };
}

function unserved(situation: Situation): Part | null {
  const queues = waitingIn(situation, ({ paused: by, served, slots }) => {
    return by === null && !served && slots === 0;
  });
  const [first] = queues;
  if (first === undefined) return null;
  return {
    isBad: true,
    title: `No worker serves queue ${first.queue}: ${waitingSince(first, situation)}.`,
    brief: `${counted(queues.length, "queue")} with jobs and no worker`,
    command: startFor(first),
    queues,
  };
}

function silent(situation: Situation): Part | null {
  const some = silentOf(situation);
  const [first] = some;
  if (first === undefined) return null;
  const verb = some.length === 1 ? "does" : "do";
  return {
    isBad: false,
    title: `${listed(some.map(({ id }) => id))} ${verb} not answer.`,
    brief: `${counted(some.length, "worker")} that ${verb} not answer`,
    command:
      some.length === 1 ? `holdfast workers show ${shellWord(first.id)}` : "holdfast workers",
  };
}

function silentOf({ workers }: Situation): Situation["workers"] {
  return workers.filter(({ liveness }) => liveness === "stale" || liveness === "hung");
}

/** Paused by one action, which one action takes back. */
function allPaused({ queues, pausedAll, figures }: Situation): Part | null {
  if (!pausedAll || !queues.some(({ paused: by }) => by?.isOfAll === true)) return null;
  return {
    isBad: true,
    title: `Everything is paused: ${waiting(figures.pending)}.`,
    brief: "every queue is paused",
    command: "holdfast queues resume --all",
  };
}

function paused(situation: Situation): Part | null {
  if (allPaused(situation) !== null) return null;
  const queues = waitingIn(situation, ({ paused: by }) => by !== null);
  const [first] = queues;
  if (first === undefined) return null;
  return {
    isBad: true,
    title: `Queue ${first.queue} is paused: ${waitingSince(first, situation)}.`,
    brief: `${counted(queues.length, "paused queue")} with jobs`,
    command: resume(first),
    queues,
  };
}

function pausedIdle(situation: Situation): Part | null {
  if (allPaused(situation) !== null) return null;
  const queues = situation.queues.filter(
    ({ paused: by, counts }) => by !== null && counts.pending === 0,
  );
  const [first] = queues;
  if (first === undefined) return null;
  return {
    isBad: false,
    title: `Queue ${first.queue} is paused. No job waits in it.`,
    brief: `${counted(queues.length, "paused queue")} without jobs`,
    command: resume(first),
    queues,
  };
}

function workersPaused(situation: Situation): Part | null {
  const queues = waitingIn(situation, ({ paused: by, served, slots }) => {
    return by === null && !served && slots > 0;
  });
  const [first] = queues;
  if (first === undefined) return null;
  const pausedOne = situation.workers.find(
    (worker) => worker.desiredState === "pause" && worker.queues.includes(first.queue),
  );
  return {
    isBad: true,
    title: `The workers of queue ${first.queue} take no jobs: ${waitingSince(first, situation)}.`,
    brief: `${counted(queues.length, "queue")} whose workers are paused or ending`,
    // Workers that end cannot be resumed.
    command:
      pausedOne === undefined
        ? startFor(first)
        : `holdfast workers resume --type ${shellWord(pausedOne.type)}`,
    queues,
  };
}

function canary({ canaries, at }: Situation): Part | null {
  const some = canaries.filter(({ pickupMs, sentAt }) => {
    return pickupMs === null && at - sentAt > CANARY_LATE_MS;
  });
  const [first] = some;
  if (first === undefined) return null;
  return {
    isBad: false,
    title: `The canary of ${listed(some.map(({ queue }) => queue))} was not picked up.`,
    brief: `the canary of ${counted(some.length, "queue")}`,
    command: explain(first.queue),
  };
}

/** Jobs that workers could take, and have not. */
function late(situation: Situation): Part | null {
  const { at } = situation;
  const queues = waitingIn(situation, ({ paused: by, served, oldestPendingAt }) => {
    return by === null && served && oldestPendingAt !== null && at - oldestPendingAt > LATE_MS;
  });
  const [first] = queues;
  if (first === undefined) return null;
  return {
    isBad: false,
    title: `Queue ${first.queue} is behind: ${waitingSince(first, situation)}.`,
    brief: `${counted(queues.length, "queue")} behind`,
    command: explain(first.queue),
    queues,
  };
}

function failed({ figures: { failedHour } }: Situation): Part | null {
  if (failedHour === 0) return null;
  const text = `${counted(failedHour, "job")} failed for good in the last hour`;
  return { isBad: false, title: `${text}.`, brief: text, command: "holdfast errors" };
}

function uncounted({ countedAt, at }: Situation): Part | null {
  if (at - countedAt <= COUNTED_MS) return null;
  const ago = spanOf(at - countedAt);
  return {
    isBad: false,
    title: `Jobs were last counted ${ago} ago.`,
    brief: `counts that are ${ago} old`,
    command: "holdfast stats --exact",
  };
}

function waitingIn(
  { queues }: Situation,
  isMeant: (queue: QueueState) => boolean,
): readonly QueueState[] {
  return queues
    .filter((queue) => queue.counts.pending > 0 && isMeant(queue))
    .toSorted((a, b) => b.counts.pending - a.counts.pending);
}

/** "1 job waits", "20 jobs wait". */
function waiting(jobs: number): string {
  return `${counted(jobs, "job")} ${jobs === 1 ? "waits" : "wait"}`;
}

/** "20 jobs wait, the oldest for 6m 2s". */
function waitingSince({ counts, oldestPendingAt }: QueueState, { at }: Situation): string {
  const text = waiting(counts.pending);
  return oldestPendingAt === null
    ? text
    : `${text}, the oldest for ${spanOf(at - oldestPendingAt)}`;
}

/** "6m 2s": milliseconds say nothing here. */
function spanOf(ms: number): string {
  return formatMs(Math.max(0, Math.floor(ms / 1_000)) * 1_000);
}

/** "a", "a and b", "a, b and 3 more". */
function listed(names: readonly string[]): string {
  const [first = "", second, ...others] = names;
  if (second === undefined) return first;
  return others.length === 0
    ? `${first} and ${second}`
    : `${first}, ${second} and ${others.length} more`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
