/** The one reason why a queue does not move, or that it does, found in its facts. */
import type { Explanation, QueueExplanation } from "../core/explanation.ts";
import type { QueueFacts } from "./facts.ts";
import { explainJob } from "./job.ts";
import { busyClause, busyWorkers, limitOf, missingWorker, pauseOf } from "./obstacles.ts";
import { capitalised, jobs, quoted, uncapitalised } from "./words.ts";

/** Reasons for which the first job does not start, although the queue as a whole could. */
const HOLDING: ReadonlySet<Explanation["reason"]> = new Set([
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
