/** Explains why a job does not run, or why a queue does not move. */
import type { Claim, Explanation, JobReasons, QueueExplanation } from "../core/explanation.ts";
import {
  ago,
  busyClause,
  busyWorkers,
  capitalised,
  clause,
  type JobFacts,
  jobs,
  type JobState,
  lasting,
  limitOf,
  listed,
  missingWorker,
  moment,
  pauseOf,
  type QueueFacts,
  quoted,
  type Subject,
  uncapitalised,
  type WaitFacts,
} from "./obstacles.ts";
import type { ExplainStore } from "./store.ts";

export class Explainer {
  readonly #store: ExplainStore;

  constructor(store: ExplainStore) {
    this.#store = store;
  }

  /** Null: there is no such job. */
  async job(id: string): Promise<Explanation | null> {
    const facts = await this.#store.job(id);
    return facts === null ? null : explainJob(facts);
  }

  async queue(name: string): Promise<QueueExplanation> {
    return explainQueue(await this.#store.queue(name));
  }
}

// The one reason why a queue does not move, or that it does, found in its facts.

/** Reasons for which the first job does not start, although the queue as a whole could. */
const HOLDING: ReadonlySet<Explanation["reason"]> = new Set([
  "paused",
  "no-worker",
  "workers-paused",
  "concurrency-limit",
  "rate-limit",
]);

export function explainQueue(facts: QueueFacts): QueueExplanation {
  const { name, now, queue, fleet, limits, running, pending, first } = facts;
  const subject = { queue: name, task: null, now };
  const pause = pauseOf(subject, queue);
  if (pause !== null) return pause;
  if (pending.count === 0) {
    const are = running.count === 0 ? "" : `; ${jobs(running)} ${verb(running)} running`;
    const sentence = `The queue ${quoted(name)} has no pending jobs${are}.`;
    return { reason: "empty", sentence, facts: { running } };
  }
  const obstacle = missingWorker(subject, fleet) ?? limitOf(subject, limits);
  if (obstacle !== null) return obstacle;
  const because = first === null ? null : explainJob(first);
  if (first !== null && because !== null && HOLDING.has(because.reason)) {
    const { id } = first.job;
    const sentence = `Job ${id}, the first in the queue ${quoted(name)}, does not start: ${uncapitalised(because.sentence)}`;
    return { reason: "held", sentence, facts: { job: id, because, pending } };
  }
  const waiting = `${jobs(pending)} ${verb(pending)} pending in the queue ${quoted(name)}`;
  const busy = busyWorkers(subject, fleet);
  if (busy !== null) {
    const sentence = `${capitalised(waiting)}, and ${busyClause(busy, "serves it")}.`;
    return { reason: "workers-busy", sentence, facts: busy };
  }
  const work =
    running.count === 0
      ? `workers are free to take ${verb(pending) === "is" ? "it" : "them"}`
      : `${jobs(running)} ${verb(running)} running`;
  const sentence = `${capitalised(waiting)}, and ${work}.`;
  return { reason: "moving", sentence, facts: { running, pending } };
}

function verb({ count, isMore }: { readonly count: number; readonly isMore: boolean }): string {
  return count === 1 && !isMore ? "is" : "are";
}

// The one reason why a job does not run, found in its facts. Pure, so that each sentence has a test.

export function explainJob(facts: JobFacts): Explanation {
  const { status } = facts.job;
  if (status === "processing") return claimed(facts);
  if (status === "pending") return explainPending(facts);
  if (status === "scheduled") return later(facts);
  if (status === "retry") return backingOff(facts);
  if (status === "waiting") return explainWaiting(facts);
  return ended(facts);
}

function subjectOf({ job, now }: JobFacts): Subject {
  return { queue: job.queue, task: job.task, now };
}

function claimed({ job, now }: JobFacts): Explanation {
  const { lockedBy, claimedAt, lockedUntil, cancelRequestedAt, attempts, maxAttempts } = job;
  const worker = lockedBy ?? "";
  const facts: Claim = {
    worker,
    claimedAt: claimedAt ?? now,
    lockedUntil: lockedUntil ?? now,
    attempt: attempts,
    maxAttempts,
  };
  if (facts.lockedUntil <= now) {
    const expired = `the lease of worker ${worker} expired ${ago(facts.lockedUntil, now)}`;
    const sentence = `It was claimed, but ${expired}: the next worker that runs maintenance reclaims the job.`;
    return { reason: "lease-expired", sentence, facts };
  }
  const since = lasting(facts.claimedAt, now);
  const running = `Worker ${worker} has been running it for ${since}`;
  if (cancelRequestedAt !== null) {
    const sentence = `${running}, and was asked ${ago(cancelRequestedAt, now)} to cancel it.`;
    return { reason: "cancelling", sentence, facts: { ...facts, requestedAt: cancelRequestedAt } };
  }
  const until = moment(facts.lockedUntil, now);
  const sentence = `${running} (attempt ${attempts} of ${maxAttempts}), under a lease until ${until}.`;
  return { reason: "running", sentence, facts };
}

function ended({ job, now }: JobFacts): Explanation {
  const { status, startBy, attempts, maxAttempts, error } = job;
  const finishedAt = job.finishedAt ?? now;
  if (status === "expired") {
    const facts = { startBy, finishedAt };
    const sentence = `It expired ${ago(finishedAt, now)}, because no worker had started it in time.`;
    return { reason: "expired", sentence, facts };
  }
  const facts = {
    status: status as JobReasons["ended"]["status"],
    finishedAt,
    attempts,
    maxAttempts,
    error,
  };
  return { reason: "ended", sentence: endSentence(facts, now), facts };
}

function endSentence(
  { status, finishedAt, attempts, maxAttempts, error }: JobReasons["ended"],
  now: number,
): string {
  const which = `attempt ${attempts} of ${maxAttempts}`;
  if (status === "done") return `It is done: ${which} succeeded ${ago(finishedAt, now)}.`;
  const because = error === null ? "" : `: ${clause(error)}`;
  if (status === "cancelled") return `It was cancelled ${ago(finishedAt, now)}${because}.`;
  const where = attempts === 0 ? "before it started" : `in ${which}`;
  return `It failed ${where}, ${ago(finishedAt, now)}${because}.`;
}

/** Its time has come, and it is not pending yet: a worker must make it so. */
function due(facts: JobFacts, dueAt: number): Explanation {
  const { now, fleet } = facts;
  const missing = missingWorker(subjectOf(facts), fleet);
  if (missing !== null) return missing;
  const sentence = `It was due at ${moment(dueAt, now)}, and becomes pending when a worker next runs maintenance.`;
  return { reason: "due", sentence, facts: { dueAt } };
}

function later(facts: JobFacts): Explanation {
  const { job, now } = facts;
  const dueAt = job.dueAt ?? now;
  if (dueAt <= now) return due(facts, dueAt);
  const sentence = `It is scheduled for ${moment(dueAt, now)}.`;
  return { reason: "scheduled", sentence, facts: { dueAt } };
}

function backingOff(facts: JobFacts): Explanation {
  const { job, now, lastError: error } = facts;
  const until = job.dueAt ?? now;
  if (until <= now) return due(facts, until);
  const { attempts: attempt, maxAttempts } = job;
  const why = error === null ? "" : ` with "${clause(error)}"`;
  const failed = `Attempt ${attempt} of ${maxAttempts} failed${why}`;
  return {
    reason: "backing-off",
    sentence: `${failed}; the next attempt starts at ${moment(until, now)}.`,
    facts: { until, attempt, maxAttempts, error },
  };
}

function explainWaiting(facts: JobFacts): Explanation {
  const { job, now, waits, lastError } = facts;
  const until = job.dueAt;
  if (until !== null && until <= now) return due(facts, until);
  const awaited = waits === null ? null : awaiting(waits, { until, now });
  if (awaited !== null) return awaited;
  if (until === null) {
    const sentence =
      "It waits, but no time, event, job or effect is recorded that it waits for; run 'holdfast doctor' to find out more.";
    return { reason: "stuck", sentence, facts: {} };
  }
  const why = lastError === null ? null : clause(lastError);
  const sentence =
    why === null
      ? `It sleeps until ${moment(until, now)}.`
      : `It is postponed until ${moment(until, now)}: ${why}.`;
  return { reason: "sleeping", sentence, facts: { until, why } };
}

function awaiting(
  { missing, jobs: awaited, events, effects }: WaitFacts,
  { until, now }: { readonly until: number | null; readonly now: number },
): Explanation | null {
  const [effect] = effects;
  if (effect !== undefined) {
    const began = `its effect ${quoted(effect.name)} began ${ago(effect.begunAt, now)}`;
    const sentence = `It waits for an operator: ${began}, and it is unknown whether it happened.`;
    return { reason: "effect-in-doubt", sentence, facts: { effects } };
  }
  const limit = until === null ? "" : `, until ${moment(until, now)}, at the latest`;
  if (missing > 0) {
    const sentence = `It waits for ${awaitedJobs(awaited, missing)}${limit}.`;
    return { reason: "waits-for-jobs", sentence, facts: { count: missing, jobs: awaited, until } };
  }
  if (events.length === 0) return null;
  const names = events.map(({ name, key }) => `${quoted(name)} with the key ${quoted(key)}`);
  const what = names.length === 1 ? `the event ${names[0]}` : `one of the events ${listed(names)}`;
  const sentence = `It waits for ${what}${limit}.`;
  return { reason: "waits-for-event", sentence, facts: { events, until } };
}

/** "job 7 (task 'x', pending) to end", "12 jobs to end, among them 7 (…) and 8 (…)". */
function awaitedJobs(some: JobReasons["waits-for-jobs"]["jobs"], count: number): string {
  const named = some.map(({ id, task, status }) =>
    task === null ? `${id} (deleted)` : `${id} (task ${quoted(task)}, ${status})`,
  );
  const all = jobs({ count, isMore: false });
  if (named.length === 0) return `${all} to end`;
  if (count === 1) return `job ${named[0]} to end`;
  return `${all} to end${named.length < count ? ", among them " : ": "}${listed(named)}`;
}

function explainPending(facts: JobFacts): Explanation {
  const { job, now, queue, fleet, limits } = facts;
  const subject = subjectOf(facts);
  if (job.startBy !== null && job.startBy <= now) {
    const sentence = `It has expired: it had to start by ${moment(job.startBy, now)}, and no worker had started it.`;
    return { reason: "expired", sentence, facts: { startBy: job.startBy, finishedAt: null } };
  }
  const obstacle =
    pauseOf(subject, queue) ?? missingWorker(subject, fleet) ?? limitOf(subject, limits);
  return obstacle ?? inLine(job, facts, subject);
}

/** Only other jobs are before it. */
function inLine(
  { queue, lane }: JobState,
  { fleet, before }: JobFacts,
  subject: Subject,
): Explanation {
  const busy = busyWorkers(subject, fleet);
  const full = busy === null ? null : busyClause(busy, "could run it");
  if (before.count > 0) {
    const where =
      lane === null
        ? `in the queue ${quoted(queue)}`
        : `in its lane ${quoted(lane)} of the queue ${quoted(queue)}`;
    const come = before.count === 1 && !before.isMore ? "comes" : "come";
    const ahead = capitalised(`${jobs(before)} ${come} before it ${where}`);
    return {
      reason: "behind",
      sentence: full === null ? `${ahead}.` : `${ahead}, and ${full}.`,
      facts: { queue, lane, before: before.count, isMore: before.isMore, busy },
    };
  }
  if (busy !== null) {
    return { reason: "workers-busy", sentence: `It is next, but ${full}.`, facts: busy };
  }
  const sentence = "Nothing holds it back: the next worker that polls the queue claims it.";
  return { reason: "next", sentence, facts: { queue } };
}
