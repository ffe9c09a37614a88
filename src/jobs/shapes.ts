/** Shapes of jobs, and of the filter by which they are found. */
import { attemptStates } from "../core/job.ts";
import { type JobFieldName, jobFieldNames, jobFields } from "../core/job-query.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { stepKinds, stepStates } from "../core/task.ts";
import * as s from "../operations/shape.ts";
import { AFTER_MAX, PRIORITY_MAX } from "./after.ts";
import { conflicts } from "./enqueue.ts";
import { FILTER_IDS_MAX, FILTER_TEXT_MAX, type JobFilter } from "./filter.ts";
import { TAGS_MAX } from "../core/name.ts";
import { dependencyPolicies } from "./store.ts";

const errorRecord = s
  .object({
    name: s.text(),
    message: s.text(),
    code: s.text().optional(),
    stack: s.text().optional(),
    cause: s.anything().optional(),
    step: s
      .object({ name: s.text(), occurrence: s.count, tookMs: s.number() })
      .optional()
      .about("The step that failed, and how long it had run."),
  })
  .named("ErrorRecord", "The error of a failed attempt.");

const summaryFields = {
  id: s.id,
  queue: s.text(),
  task: s.text(),
  status: s.status,
  priority: s.integer(),
  key: s.text().nullable(),
  lane: s.text().nullable().about("The lane it was enqueued in."),
  epoch: s.count,
  attempts: s.count,
  maxAttempts: s.count,
  crashes: s.count,
  enqueuedAt: s.instant,
  dueAt: s.instant.nullable(),
  lockedBy: s.text().nullable(),
  lockedUntil: s.instant.nullable(),
  claimedAt: s.instant.nullable(),
  heartbeatAt: s.instant.nullable(),
  traceId: s.text().nullable(),
  finishedAt: s.instant.nullable(),
  lastError: errorRecord.nullable(),
  inDoubt: s
    .text()
    .nullable()
    .about("The name of an effect in doubt: an operator must record whether it happened."),
  tags: s.list(s.text()),
};

export const jobSummary = s
  .object(summaryFields)
  .named("JobSummary", "A job without its input and result.");

export const job = s
  .object({
    ...summaryFields,
    input: s.anything(),
    result: s.anything().optional(),
    cancelRequestedAt: s.instant.nullable(),
  })
  .named("Job", "A job with its input and result.");

export const attemptFields = {
  epoch: s.count,
  attempt: s.count,
  worker: s.text(),
  outcome: s.choice(attemptStates),
  startedAt: s.instant,
  endedAt: s.instant.nullable(),
  traceId: s.text(),
  error: errorRecord.nullable(),
};

export const attempt = s.object(attemptFields).named("Attempt", "One attempt to run a job.");

export const step = s
  .object({
    name: s.text(),
    occurrence: s.count,
    kind: s.choice(stepKinds),
    position: s.count,
    status: s.choice(stepStates),
    result: s.anything().optional(),
    epoch: s.count,
    begunAt: s.instant,
    endedAt: s.instant.nullable(),
  })
  .named("Step", "A durable step of a job; its result is saved.");

export const inputRevision = s
  .object({ revision: s.count, input: s.anything(), changedAt: s.instant })
  .named("InputRevision", "An earlier input of a job.");

// What enqueues a job.

export const priority = s.integer({ min: -PRIORITY_MAX, max: PRIORITY_MAX });
export const attempts = s.integer({ min: 1, max: ATTEMPTS_MAX });

export const enqueueFields = {
  queue: s.name.optional(),
  priority: priority.optional(),
  delay: s.duration.optional(),
  runAt: s.instant.optional(),
  startBy: s.instant.optional(),
  startWithin: s.duration.optional(),
  lane: s.key.optional(),
  maxAttempts: attempts.optional(),
  key: s.key.optional(),
  keyFor: s.duration.optional(),
  onConflict: s.choice(conflicts).optional(),
  debounce: s
    .union<
      string | number | { readonly wait: string | number; readonly maxWait?: string | number }
    >(s.duration, s.strict({ wait: s.duration, maxWait: s.duration.optional() }))
    .optional(),
  throttle: s.duration.optional(),
  tags: s.list(s.tag, { max: TAGS_MAX }).optional(),
  after: s.list(s.id, { max: AFTER_MAX }).optional().about("The ids of jobs that must end first."),
  onFailed: s.choice(dependencyPolicies).optional(),
  onCancelled: s.choice(dependencyPolicies).optional(),
};

const enqueueOptions = s
  .strict(enqueueFields)
  .named("EnqueueOptions", "The same options as the library's `enqueue`.");

export const newJobFields = {
  task: s.name,
  input: s.anything().optional(),
  options: enqueueOptions.optional(),
};

export const enqueued = s
  .object({
    id: s.id,
    task: s.text(),
    added: s.boolean(),
    warning: s
      .text()
      .optional()
      .about(
        "Set if no live worker can run the job. Only a server with registered tasks checks this, and only for unregistered tasks.",
      ),
  })
  .named(
    "Enqueued",
    "An accepted job. If `added` is false, it is the existing job with the same key.",
  );

// The filter by which jobs are found.

const text = s.text({ min: 1, max: FILTER_TEXT_MAX });
const time =
  "milliseconds since 1970, a date and time, or a duration such as 1h, which counts back from now";

type Texts = { readonly [F in JobFieldName]: s.Shape<string | readonly string[], true> };

type Values = {
  readonly [F in keyof Required<JobFilter>]: s.Shape<Exclude<JobFilter[F], undefined | Date>, true>;
};

const lists = {
  status: s.list(s.status),
  tag: s.list(s.tag, { max: TAGS_MAX }),
  id: s.list(s.idPrefix, { max: FILTER_IDS_MAX }),
};

const one = { name: s.name, task: s.name, key: s.key, id: s.id, text };

/** As an address and as flags have them: all are texts. */
export const filterTexts = shapes((name) => {
  const { kind } = jobFields[name];
  return kind === "instant" ? s.text({ min: 1, max: 64 }) : valueOf(name);
}, time) as Texts;

/** As the body of a request has them: a list of one may be given without the list. */
export const filterValues = shapes((name) => {
  const { kind } = jobFields[name];
  const value = valueOf(name);
  if (kind === "status") return s.union<unknown>(s.status, value);
  if (kind === "tags") return s.union<unknown>(s.tag, value);
  return kind === "ids" ? s.union<unknown>(s.idPrefix, value) : value;
}) as unknown as Values;

function shapes(of: (name: JobFieldName) => s.Shape<unknown>, instants?: string): s.Fields {
  return Object.fromEntries(
    jobFieldNames.map((name) => {
      const { kind, about } = jobFields[name];
      const more = kind === "instant" && instants !== undefined ? `: ${instants}` : "";
      return [name, of(name).optional().about(`Only jobs ${about}${more}.`)];
    }),
  );
}

function valueOf(name: JobFieldName): s.Shape<unknown> {
  const { kind } = jobFields[name];
  if (name === "status" || name === "tag" || name === "id") return lists[name];
  return kind === "instant" ? s.instant : one[kind as keyof typeof one];
}

/** The given fields as pairs, for the one parser. */
export function pairsOf(input: object): [name: JobFieldName, text: string][] {
  return Object.entries(input).flatMap(([name, value]) => {
    if (!Object.hasOwn(jobFields, name)) return [];
    return [value]
      .flat()
      .map((each): [JobFieldName, string] => [name as JobFieldName, String(each)]);
  });
}
