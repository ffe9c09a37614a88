/** What keeps pending jobs of a queue from starting: a pause, missing or busy workers, and limits. */
import { formatMs } from "../core/duration.ts";
import type {
  AwaitedJob,
  Bounded,
  Busy,
  Holder,
  JobReasons,
  Limited,
} from "../core/explanation.ts";
import type { Status } from "../core/job.ts";
import { bareName } from "../core/name.ts";
import { visible } from "../core/text.ts";
import type { Rate } from "../limits/rates.ts";

// What is read about a job or a queue, before a reason is found in it.

export interface JobFacts {
  /** By the database's clock, like all instants. */
  readonly now: number;
  readonly job: JobState;
  /** Of a job that is in retry or waiting: why its last attempt ended. */
  readonly lastError: string | null;
  /** Of a waiting job. */
  readonly waits: WaitFacts | null;
  /** Of a job that is pending or due. */
  readonly fleet: readonly FleetWorker[];
  /** Of a pending job. */
  readonly queue: QueueState | null;
  readonly limits: readonly LimitFacts[];
  /** How many jobs come before it. */
  readonly before: Bounded;
}

export interface JobState {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly lane: string | null;
  readonly status: Status;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly dueAt: number | null;
  readonly startBy: number | null;
  readonly lockedBy: string | null;
  readonly lockedUntil: number | null;
  readonly claimedAt: number | null;
  readonly cancelRequestedAt: number | null;
  readonly finishedAt: number | null;
  readonly error: string | null;
}

export interface WaitFacts {
  /** How many jobs it waits for; `jobs` are the first few. */
  readonly missing: number;
  readonly jobs: readonly AwaitedJob[];
  readonly events: readonly { readonly name: string; readonly key: string }[];
  readonly effects: readonly {
    readonly name: string;
    readonly occurrence: number;
    readonly begunAt: number;
  }[];
}

export interface FleetWorker {
  readonly id: string;
  readonly queues: readonly string[];
  /** Null: it does not say. */
  readonly tasks: readonly string[] | null;
  readonly isLive: boolean;
  readonly isPaused: boolean;
  readonly heartbeatAt: number;
  /** How many jobs it may run at once; null: it does not say. */
  readonly concurrency: number | null;
  readonly leases: number;
}

/** The pause of a queue, or of the lane of a job. */
export interface QueueState {
  /** Null: of the whole queue. */
  readonly lane: string | null;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  readonly pauseReason: string | null;
}

/** A limit that applies to the job, and how much of it is used. */
export interface LimitFacts extends Limited {
  readonly concurrency: number | null;
  readonly running: number;
  readonly longest: Holder | null;
  readonly rate: Rate | null;
  /** Null: the rate allows a start now. */
  readonly rateFreeAt: number | null;
}

export interface QueueFacts {
  readonly now: number;
  readonly name: string;
  readonly queue: QueueState | null;
  readonly fleet: readonly FleetWorker[];
  /** Of the queue as a whole. */
  readonly limits: readonly LimitFacts[];
  readonly running: Bounded;
  readonly pending: Bounded;
  /** The first pending job; null: none, or it has just been claimed. */
  readonly first: JobFacts | null;
}

// Times, numbers and lists as the sentences of an explanation have them.

/** An error in a sentence is cut after this many characters. */
const ERROR_LENGTH_MAX = 200;

/** "2027-01-31 09:00:07 UTC". */
function instant(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** "2027-01-31 09:00:07 UTC, in 5m". */
export function moment(at: number, now: number): string {
  return `${instant(at)}, ${at > now ? `in ${formatMs(at - now)}` : ago(at, now)}`;
}

/** "3m 20s ago". */
export function ago(at: number, now: number): string {
  return now - at < 1_000 ? "just now" : `${lasting(at, now)} ago`;
}

/** How long it has lasted: "3m 20s". */
export function lasting(at: number, now: number): string {
  return formatMs(Math.max(0, now - at));
}

/** "1 job", "1,000 jobs", "more than 1,000 jobs". */
export function jobs({ count, isMore }: Bounded): string {
  const number = count.toLocaleString("en-US");
  return `${isMore ? "more than " : ""}${number} job${count === 1 ? "" : "s"}`;
}

/** "a", "a and b", "a, b and c". */
export function listed(parts: readonly string[]): string {
  const last = parts.at(-1) ?? "";
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(", ")} and ${last}`;
}

export function quoted(name: string): string {
  return `'${visible(name)}'`;
}

/** The first line of a text that a program or a person wrote, without its full stop. */
export function clause(text: string): string {
  const [line = ""] = text.trim().split("\n");
  const safe = visible(line.trim());
  const cut = safe.length > ERROR_LENGTH_MAX ? `${safe.slice(0, ERROR_LENGTH_MAX)}…` : safe;
  return cut.replace(/\.$/, "");
}

export function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

export function uncapitalised(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1);
}

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
  const {
    lane = null,
    pausedAt: at = null,
    pausedBy = null,
    pauseReason: why = null,
  } = state ?? {};
  if (at === null) return null;
  const by = pausedBy ?? "an operator";
  const reason = why === null ? "" : `, with the reason "${why}"`;
  const whose = task === null ? "The" : "Its";
  const what = nameOf({ queue, of: lane === null ? "queue" : "lane", name: lane });
  return {
    reason: "paused",
    sentence: `${whose} ${what} is paused: ${by} paused it ${ago(at, now)}${reason}.`,
    facts: { queue, lane, by, at, why },
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
