/** Shapes of explanations: every reason with the fields of its facts. */
import { finalStatuses } from "../core/job.ts";
import type {
  Explanation,
  JobReasons,
  Obstacles,
  QueueExplanation,
  QueueReasons,
} from "../core/explanation.ts";
import * as s from "../operations/shape.ts";

/** A reason whose facts have no shape, or another one than the library's types say, does not compile. */
type Facts<Reasons> = { readonly [Reason in keyof Reasons]: s.Shape<Reasons[Reason]> };

/** Named, so that the API's document has each once. */
const facts = <F extends s.Fields>(name: string, fields: F) =>
  s.object(fields).named(`${name}Facts`);

const bounded = s
  .object({ count: s.count, isMore: s.boolean() })
  .about("At most 1,000 are counted.");

const busy = facts("Busy", { workers: s.list(s.text()), places: s.count });

const limited = {
  queue: s.text(),
  of: s.choice(["queue", "lane", "task"]),
  name: s.text().nullable().about("Of the lane or the task."),
};

const holder = s.object({ job: s.id, task: s.text(), worker: s.text(), claimedAt: s.instant });

const claim = {
  worker: s.text(),
  claimedAt: s.instant,
  lockedUntil: s.instant,
  attempt: s.count,
  maxAttempts: s.count,
};

const obstacles: Facts<Obstacles> = {
  paused: facts("Paused", {
    queue: s.text(),
    lane: s.text().nullable().about("Null: the whole queue is paused."),
    by: s.text(),
    at: s.instant,
    why: s.text().nullable(),
  }),
  "no-worker": facts("NoWorker", {
    missing: s.choice(["worker", "queue", "task", "version"]),
    queue: s.text(),
    task: s.text().nullable(),
    silent: s
      .object({ worker: s.text(), heartbeatAt: s.instant })
      .nullable()
      .about("A worker that could run it, but counts as dead."),
    known: s
      .list(s.text())
      .about("The queues in which live workers know the task, or the versions that they know."),
  }),
  "workers-paused": facts("WorkersPaused", { workers: s.list(s.text()) }),
  "concurrency-limit": facts("ConcurrencyLimit", {
    ...limited,
    limit: s.count,
    running: s.count,
    longest: holder.nullable(),
  }),
  "rate-limit": facts("RateLimit", {
    ...limited,
    count: s.count,
    periodMs: s.count,
    freeAt: s.instant,
  }),
  "workers-busy": busy,
};

const error = s.text().nullable();

export const jobFacts: Facts<JobReasons> = {
  running: facts("Running", claim),
  cancelling: facts("Cancelling", { ...claim, requestedAt: s.instant }),
  "lease-expired": facts("LeaseExpired", claim),
  ended: facts("Ended", {
    status: s.choice(finalStatuses.filter((one) => one !== "expired")),
    finishedAt: s.instant,
    attempts: s.count,
    maxAttempts: s.count,
    error,
  }),
  expired: facts("Expired", { startBy: s.instant.nullable(), finishedAt: s.instant.nullable() }),
  scheduled: facts("Scheduled", { dueAt: s.instant }),
  due: facts("Due", { dueAt: s.instant }),
  "backing-off": facts("BackingOff", {
    until: s.instant,
    attempt: s.count,
    maxAttempts: s.count,
    error,
  }),
  "waits-for-jobs": facts("WaitsForJobs", {
    count: s.count,
    jobs: s
      .list(s.object({ id: s.id, task: s.text().nullable(), status: s.status.nullable() }))
      .about("The first few of them."),
    until: s.instant.nullable(),
  }),
  "waits-for-event": facts("WaitsForEvent", {
    events: s.list(s.object({ name: s.text(), key: s.text() })),
    until: s.instant.nullable(),
  }),
  sleeping: facts("Sleeping", { until: s.instant, why: s.text().nullable() }),
  "effect-in-doubt": facts("EffectInDoubt", {
    effects: s.list(s.object({ name: s.text(), occurrence: s.count, begunAt: s.instant })),
  }),
  stuck: facts("Stuck", {}),
  ...obstacles,
  behind: facts("Behind", {
    queue: s.text(),
    lane: s.text().nullable(),
    before: s.count,
    isMore: s.boolean(),
    busy: busy.nullable(),
  }),
  next: facts("Next", { queue: s.text() }),
};

const sentence = s.text().about("The reason in English, with its facts.");

/** One shape for each reason, with `more` in all of them. */
function explained(reasons: Readonly<Record<string, s.Shape<unknown>>>, more: s.Fields = {}) {
  const each = Object.entries(reasons).map(([reason, of]) =>
    s.object({ ...more, reason: s.constant(reason), sentence, facts: of }),
  );
  return s.variants<unknown>("reason", ...each);
}

/** As a part of what is told about a job. */
export const jobExplanation = (explained(jobFacts) as s.Shape<Explanation>).named("JobExplanation");

export const queueFacts: Facts<QueueReasons> = {
  empty: facts("Empty", { running: bounded }),
  ...obstacles,
  held: facts("Held", { job: s.id, because: jobExplanation, pending: bounded }),
  moving: facts("Moving", { running: bounded, pending: bounded }),
};

export const explanationOfJob = (
  explained(jobFacts, { job: s.id }) as s.Shape<Explanation & { readonly job: string }>
).named("Explanation", "Why a job does not run.");

export const explanationOfQueue = (
  explained(queueFacts, { queue: s.text() }) as s.Shape<
    QueueExplanation & { readonly queue: string }
  >
).named("QueueExplanation", "Why the jobs of a queue do not start.");
