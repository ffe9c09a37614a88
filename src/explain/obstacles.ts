/** What keeps pending jobs of a queue from starting: a pause, missing or busy workers, and limits. */
import type { Busy, JobReasons, Limited } from "../core/explanation.ts";
import { formatMs } from "../core/duration.ts";
import { bareName } from "../core/name.ts";
import type { FleetWorker, LimitFacts, QueueState } from "./facts.ts";
import { ago, lasting, listed, moment, quoted } from "./words.ts";

/** Workers that a sentence names. */
const NAMED_MAX = 3;

type Obstacle = {
  [
    Reason in
      | "paused"
      | "no-worker"
      | "workers-paused"
      | "concurrency-limit"
      | "rate-limit"
      | "workers-busy"
  ]: {
    readonly reason: Reason;
    readonly sentence: string;
    readonly facts: JobReasons[Reason];
  };
}["paused" | "no-worker" | "workers-paused" | "concurrency-limit" | "rate-limit" | "workers-busy"];

/** The jobs that are explained: one, or all of a queue. */
export interface Subject {
  readonly queue: string;
  /** Null: of any task. */
  readonly task: string | null;
  readonly now: number;
}

export function pauseOf({ queue, task, now }: Subject, state: QueueState | null): Obstacle | null {
  const { pausedAt: at = null, pausedBy = null, pauseReason: why = null } = state ?? {};
  if (at === null) return null;
  const by = pausedBy ?? "an operator";
  const reason = why === null ? "" : `, with the reason "${why}"`;
  const whose = task === null ? "The" : "Its";
  return {
    reason: "paused",
    sentence: `${whose} queue ${quoted(queue)} is paused: ${by} paused it ${ago(at, now)}${reason}.`,
    facts: { queue, by, at, why },
  };
}

function mayTake({ queue, task }: Subject, worker: FleetWorker): boolean {
  const knows = task === null || worker.tasks === null || worker.tasks.includes(task);
  return knows && worker.queues.includes(queue);
}

/** No live worker can take it, or all of these are paused. */
export function missingWorker(subject: Subject, fleet: readonly FleetWorker[]): Obstacle | null {
  const able = fleet.filter((worker) => mayTake(subject, worker));
  const live = able.filter(({ isLive }) => isLive);
  if (live.some(({ isPaused }) => !isPaused)) return null;
  if (live.length > 0) return pausedWorkers(subject, live);
  const [silent = null] = able.toSorted((a, b) => b.heartbeatAt - a.heartbeatAt);
  return noWorker(
    subject,
    fleet.filter(({ isLive }) => isLive),
    silent,
  );
}

function pausedWorkers({ task }: Subject, live: readonly FleetWorker[]): Obstacle {
  const workers = live.map(({ id }) => id);
  const could = task === null ? "serve it" : "could run it";
  const one = task === null ? "the only one that serves it" : "the only one that could run it";
  const sentence =
    workers.length === 1
      ? `Worker ${workers[0]}, ${one}, is paused.`
      : `${workers.length === 2 ? "Both" : `All ${workers.length}`} workers that ${could} are paused.`;
  return { reason: "workers-paused", sentence, facts: { workers } };
}

function noWorker(
  { queue, task, now }: Subject,
  live: readonly FleetWorker[],
  silent: FleetWorker | null,
): Obstacle {
  const { missing, what, known, hint } = lacking({ queue, task }, live);
  const last =
    silent === null
      ? hint
      : `; worker ${silent.id}, which could take it, sent its last heartbeat ${ago(silent.heartbeatAt, now)}`;
  const lost = silent && { worker: silent.id, heartbeatAt: silent.heartbeatAt };
  return {
    reason: "no-worker",
    sentence: `${what}${last}.`,
    facts: { missing, queue, task, silent: lost, known },
  };
}

interface Lacking {
  readonly missing: JobReasons["no-worker"]["missing"];
  readonly what: string;
  readonly known: readonly string[];
  /** What could help, as the end of the sentence. */
  readonly hint: string;
}

function lacking(
  { queue, task }: Pick<Subject, "queue" | "task">,
  live: readonly FleetWorker[],
): Lacking {
  if (live.length === 0) {
    return { missing: "worker", what: "No worker is running", known: [], hint: "" };
  }
  const here = live.filter(({ queues }) => queues.includes(queue));
  if (here.length === 0 || task === null) {
    const elsewhere = live.filter(({ tasks }) => task !== null && tasks?.includes(task));
    const known = unique(elsewhere.flatMap(({ queues }) => queues));
    const whose = task === null ? "the" : "its";
    const hint =
      known.length === 0
        ? ""
        : `; the workers that know the task ${quoted(task ?? "")} serve ${shown(known)}`;
    const what = `No live worker serves ${whose} queue ${quoted(queue)}`;
    return { missing: "queue", what, known, hint };
  }
  const bare = bareName(task);
  const known = unique(here.flatMap(({ tasks }) => tasks ?? [])).filter(
    (name) => bareName(name) === bare,
  );
  const who = `No live worker of the queue ${quoted(queue)} knows`;
  if (known.length === 0) {
    return { missing: "task", what: `${who} the task ${quoted(task)}`, known, hint: "" };
  }
  const what = `${who} the task ${quoted(task)} in this version`;
  return { missing: "version", what, known, hint: `; they know ${shown(known)}` };
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)].toSorted();
}

function shown(names: readonly string[]): string {
  const more = names.length - NAMED_MAX;
  const first = names.slice(0, NAMED_MAX).map(quoted);
  return listed(more > 0 ? [...first, `${more} more`] : first);
}

/** The first limit that allows no start now. */
export function limitOf({ task, now }: Subject, limits: readonly LimitFacts[]): Obstacle | null {
  const whose = task === null ? "The" : "Its";
  for (const limit of limits) {
    const { queue, of, name } = limit;
    const limited: Limited = { queue, of, name };
    const { concurrency, running, longest, rate, rateFreeAt } = limit;
    if (concurrency !== null && running >= concurrency) {
      return {
        reason: "concurrency-limit",
        sentence: concurrencySentence(`${whose} ${nameOf(limited)}`, limit, now),
        facts: { ...limited, limit: concurrency, running, longest },
      };
    }
    if (rate === null || rateFreeAt === null) continue;
    const { count, periodMs } = rate;
    const most = `at most ${count} job${count === 1 ? "" : "s"} in ${formatMs(periodMs)}`;
    return {
      reason: "rate-limit",
      sentence: `${whose} ${nameOf(limited)} starts ${most}, and the next may start at ${moment(rateFreeAt, now)}.`,
      facts: { ...limited, count, periodMs, freeAt: rateFreeAt },
    };
  }
  return null;
}

/** "queue 'mail'", "lane 'acme' in the queue 'mail'". */
function nameOf({ queue, of, name }: Limited): string {
  return of === "queue"
    ? `queue ${quoted(queue)}`
    : `${of} ${quoted(name ?? "")} in the queue ${quoted(queue)}`;
}

function concurrencySentence(what: string, limit: LimitFacts, now: number): string {
  const { concurrency, running, longest } = limit;
  if (concurrency === 0 && running === 0) return `${what} has a limit of 0, so no job may start.`;
  const most = `${what} runs at most ${concurrency} job${concurrency === 1 ? "" : "s"} at the same time`;
  const busy = `${running} ${running === 1 ? "is" : "are"} running`;
  if (longest === null) return `${most}, and ${busy}.`;
  const { job, worker, claimedAt } = longest;
  const which = running === 1 ? "job" : "the longest is job";
  return `${most}, and ${busy}: ${which} ${job}, which worker ${worker} has been running for ${lasting(claimedAt, now)}.`;
}

/** The workers that could take it, if none of them has a place for another job. */
export function busyWorkers(subject: Subject, fleet: readonly FleetWorker[]): Busy | null {
  const able = fleet.filter(
    (worker) => worker.isLive && !worker.isPaused && mayTake(subject, worker),
  );
  if (able.length === 0 || !able.every(isFull)) return null;
  const places = able.reduce((sum, { concurrency }) => sum + (concurrency ?? 0), 0);
  return { workers: able.map(({ id }) => id), places };
}

/** "all 20 places of the 2 workers that could run it are taken". */
export function busyClause({ workers, places }: Busy, could: string): string {
  const runs = `runs ${places} job${places === 1 ? "" : "s"}, as many as it may`;
  if (workers.length === 1) return `worker ${workers[0]}, the only one that ${could}, ${runs}`;
  const all = could.replace(/^serves /, "serve ");
  return `the ${workers.length} workers that ${all} already run ${places} jobs, as many as they may`;
}

function isFull({ concurrency, leases }: FleetWorker): boolean {
  return concurrency !== null && leases >= concurrency;
}
