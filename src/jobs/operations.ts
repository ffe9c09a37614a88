/** The verbs of one job: enqueue, look, cancel, retry, run now, change, delete, replay. */
import { type Redaction, restoredInput } from "../config/redaction.ts";
import { JobNotFoundError } from "../core/errors.ts";
import { calledId } from "../core/id.ts";
import type { Status } from "../core/job.ts";
import { DEFAULT_QUEUE, type Task } from "../core/task.ts";
import { type Caller, operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { traceOf } from "../tracing/tracing.ts";
import type { EnqueueCall, EnqueueOptions } from "./enqueue.ts";
import type { Jobs, JobView } from "./jobs.ts";
import {
  attempt,
  attempts,
  enqueued,
  inputRevision,
  job,
  newJobFields,
  priority,
  step,
} from "./shapes.ts";
import { ENQUEUE_BATCH_MAX } from "./sql-jobs.ts";
import type { Enqueued } from "./store.ts";

export interface JobsApp {
  readonly jobs: Jobs;
  readonly redaction: Redaction;
  /** Tasks whose schemas check inputs, by name. A command line has none. */
  readonly definitions?: ReadonlyMap<string, Task>;
}

const operation = operationsOf<JobsApp>("jobs");

const PENDING: Status = "pending";

const ATTEMPTS_PAGE = 50;

const standing = s.object({ id: s.id, status: s.status });

/** What a command reads is loaded by commands. */
const wholeJobId = async (app: JobsApp, text: string): Promise<string> =>
  (await import("./command.ts")).jobId(app, text);

const typed = { id: "the job's id, or an unambiguous prefix" };

const input = s.anything().optional();

const readOperations = {
  get: operation({
    name: "getJob",
    summary: "One job with its input, attempts, steps and earlier inputs",
    access: "viewer",
    input: { id: s.id },
    returns: "The job.",
    result: s.object({
      job,
      attempts: s.list(attempt),
      steps: s.list(step),
      inputs: s.list(inputRevision),
    }),
    run: async ({ jobs }, { id }) => {
      const found = await jobs.get(id);
      if (found === null) throw new JobNotFoundError({ id });
      const past = { attempts: await jobs.attempts(id), steps: await jobs.steps(id) };
      return { job: found, ...past, inputs: await jobs.inputs(id) };
    },
    http: { method: "GET", path: "/api/v1/jobs/{id}" },
    agent: "One job with its input, result, attempts with their errors, and steps.",
  }),

  attempts: operation({
    name: "listAttempts",
    summary: "List the attempts of a job",
    access: "viewer",
    input: {
      id: s.id,
      before: s.integer({ min: 1 }).optional().about("`next` of the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "The newest of them, oldest first. `next` is null if there are no earlier ones.",
    result: s.object({ attempts: s.list(attempt), next: s.count.nullable() }),
    run: async ({ jobs }, { id, before, limit = ATTEMPTS_PAGE }) => {
      const page = { limit, ...(before === undefined ? {} : { before }) };
      const found = await jobs.attempts(id, page);
      return { attempts: found, next: found.length < limit ? null : (found[0]?.epoch ?? null) };
    },
    http: { method: "GET", path: "/api/v1/jobs/{id}/attempts" },
  }),
};

/** A new input as it is stored, and the task whose schema checks it. */
async function newInput(
  { jobs, redaction, definitions }: JobsApp,
  id: string,
  given: { readonly input?: unknown },
): Promise<{ input?: unknown; definition?: Task }> {
  if (given.input === undefined) return {};
  const whole = await restoredInput({ jobs, redaction }, id, given.input);
  if (definitions === undefined || definitions.size === 0) return { input: whole };
  const definition = definitions.get((await jobs.get(id))?.task ?? "");
  return { input: whole, ...(definition === undefined ? {} : { definition }) };
}

/** Those that end a job or begin it again. Commands for several jobs or a filter are written by hand: see bulk/. */
const turningOperations = {
  cancel: operation({
    name: "cancelJob",
    summary: "Cancel a job",
    access: "operator",
    input: { id: s.id },
    isAudited: true,
    returns:
      "The job's status now. `processing`: its worker is notified. `done` or `failed`: it had already ended.",
    result: standing,
    run: async ({ jobs }, { id }, { by, ids }) => ({
      id,
      status: await jobs.cancel(id, by, ids[0]),
    }),
    http: { method: "POST", path: "/api/v1/jobs/{id}/cancel", repeatable: true },
    agent: "Cancel a job that has not ended. What it has done stays done; it can be retried.",
  }),

  retry: operation({
    name: "retryJob",
    summary: "Retry a failed, cancelled or expired job, optionally with another input",
    access: "operator",
    input: {
      id: s.id,
      input: input.about("Replaces the input."),
      attempts: attempts.optional(),
      withCalled: s
        .boolean()
        .optional()
        .about(
          "Whether to also retry called jobs whose failure caused this job to fail. If omitted, the retry of such a job is refused.",
        ),
    },
    isAudited: true,
    returns: "The job is pending again, and so are the `called` jobs.",
    result: s.object({ id: s.id, status: s.status, called: s.list(s.id) }),
    run: async (app, { id, input: given, ...how }, { by, ids }) => {
      const what = await newInput(app, id, { input: given });
      const called = await app.jobs.retry(id, { ...by, ...how, ...what }, ids[0]);
      return { id, status: PENDING, called };
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs/{id}/retry",
      problems: [409, 413],
      repeatable: true,
      restores: true,
    },
    agent:
      "Run a failed, cancelled or expired job again. Find out first why it failed: explainJob, getJob.",
  }),

  runNow: operation({
    name: "runJobNow",
    summary: "Run a job now: first in its lane, also while its queue is paused",
    access: "operator",
    input: { id: s.id },
    isAudited: true,
    returns: "It is pending; a worker with a free slot takes it next. Limits hold.",
    result: standing,
    run: async ({ jobs }, { id }, { by, ids }) => {
      await jobs.runNow(id, by, ids[0]);
      return { id, status: PENDING };
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs/{id}/run-now",
      problems: [409],
      repeatable: true,
    },
    cli: {
      command: "job run-now",
      about: "run a pending or scheduled job now, also while its queue is paused",
      arguments: typed,
      ids: { id: wholeJobId },
      examples: ["job run-now 01890a5d --reason 'the bank is back'"],
      show: ({ id }) => [`Pending, and first in line ${id}`],
    },
    agent:
      "Run a scheduled or pending job now, before all others of its queue, also if the queue is paused.",
  }),
};

const changingOperations = {
  edit: operation({
    name: "editJob",
    summary: "Change the input, priority, time or queue of a job that no worker holds",
    access: "operator",
    input: {
      id: s.id,
      input: input.about("Replaces the input; the old one is kept."),
      priority: priority.optional().about("Higher numbers run first."),
      delay: s.duration.optional().about("Start after this long; 0: at once."),
      runAt: s.instant.optional().about("Start at this time."),
      queue: s.name.optional().about("The queue to move to."),
    },
    isAudited: true,
    returns: "The job's status afterwards. What was not given stays as it is.",
    result: standing,
    run: async (app, { id, input: given, ...changes }, { by, ids }) => {
      const what = await newInput(app, id, { input: given });
      return { id, status: await app.jobs.edit(id, { ...by, ...changes, ...what }, ids[0]) };
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs/{id}/edit",
      problems: [409, 413],
      repeatable: true,
      restores: true,
    },
    cli: {
      command: "job edit",
      about: "change a job that no worker holds",
      arguments: typed,
      flags: {
        input: { about: "the new input" },
        priority: {},
        delay: { value: "<duration>" },
        runAt: {},
        queue: { value: "<name>" },
      },
      ids: { id: wholeJobId },
      examples: [
        "job edit 01890a5d --priority 10 --queue urgent",
        `job edit 01890a5d --input '{"to":"ada"}'`,
      ],
      show: ({ id, status }) => [`Changed, and ${status} ${id}`],
    },
  }),

  delete: operation({
    name: "deleteJob",
    summary: "Delete an ended job with its attempts, steps and reports",
    access: "operator",
    input: { id: s.id },
    isAudited: true,
    returns: "The id of the deleted job.",
    result: s.object({ id: s.id }),
    run: async ({ jobs }, { id }, { by, ids }) => {
      await jobs.delete(id, by, ids[0]);
      return { id };
    },
    http: { method: "POST", path: "/api/v1/jobs/{id}/delete", problems: [409], repeatable: true },
    cli: {
      command: "job delete",
      about: "delete a job that has ended, with its attempts, steps and reports",
      arguments: typed,
      ids: { id: wholeJobId },
      examples: ["job delete 01890a5d --reason 'the customer asked for it'"],
      show: ({ id }) => [`Deleted ${id}`],
    },
  }),

  replay: operation({
    name: "replayJob",
    summary: "Enqueue a new job like one that has ended, optionally with another input",
    access: "operator",
    input: { id: s.id, input: input.about("Instead of the input of the old job.") },
    isAudited: true,
    returns:
      "The new job: it has the task, queue, priority, lane and tags of the old one, and the tag `replay-of:<id>`. It does not have its key, flow or workflow.",
    result: s.object({ id: s.id, task: s.text(), replayOf: s.id }),
    run: async (app, { id: replayOf, input: given }, { by, ids }) => {
      const what = await newInput(app, replayOf, { input: given });
      const [newId, entry] = ids;
      const both =
        newId === undefined || entry === undefined ? undefined : ([newId, entry] as const);
      const { id, task } = await app.jobs.replay(replayOf, { ...by, ...what }, both);
      return { id, task, replayOf };
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs/{id}/replay",
      status: 201,
      problems: [409, 413],
      repeatable: true,
      restores: true,
      idCount: () => 2,
      location: ({ id }) => `/api/v1/jobs/${id}`,
    },
    cli: {
      command: "job replay",
      about: "enqueue a new job like one that has ended",
      arguments: typed,
      flags: { input: { about: "an input instead of the old one" } },
      ids: { id: wholeJobId },
      examples: ["job replay 01890a5d", `job replay 01890a5d --input '{"to":"ada"}'`],
      show: ({ id, task, replayOf }) => [`Enqueued ${task} ${id}, a replay of ${replayOf}`],
    },
  }),
};

export const jobOperations = { ...readOperations, ...turningOperations, ...changingOperations };

// Enqueueing. The command, which reads tasks and waits for the result, is written by hand.

export interface EnqueueApp {
  /** Enqueues as the library does: the same checks and defaults, all jobs or none. */
  readonly enqueue: (calls: readonly EnqueueCall[], newId: () => string) => Promise<Enqueued[]>;
  /** Tasks whose schemas check inputs, by name. */
  readonly definitions: ReadonlyMap<string, Task>;
  /** For each pending job, why no live worker can run it; null: one can. */
  readonly whyUnclaimable: (jobs: readonly Pending[]) => Promise<readonly (string | null)[]>;
}

type Pending = Pick<JobView, "queue" | "task">;

const enqueueOperation = operationsOf<EnqueueApp>("jobs");

const newJob = s
  .strict(newJobFields)
  .named("NewJob", "Runs the task with the input. Without one, the input is null.");

type NewJob = s.TypeOf<typeof newJob>;
type Accepted = s.TypeOf<typeof enqueued>;

export const enqueueOperations = {
  one: enqueueOperation({
    name: "enqueue",
    summary: "Enqueue a job",
    access: "operator",
    input: newJobFields,
    returns: "The job is stored durably.",
    result: enqueued,
    run: async (app, wanted, caller) => {
      const [accepted] = await accept(app, [wanted], caller);
      return accepted as Accepted;
    },
    http: {
      method: "POST",
      path: "/api/v1/jobs",
      status: 201,
      other: {
        status: 200,
        returns: "An existing job holds the key; it is returned.",
        when: ({ added }) => !added,
      },
      problems: [409, 413],
      repeatable: true,
      location: ({ id }) => `/api/v1/jobs/${id}`,
    },
  }),

  many: enqueueOperation({
    name: "enqueueMany",
    summary: "Enqueue many jobs, all or none",
    access: "operator",
    input: { jobs: s.list(newJob, { min: 1, max: ENQUEUE_BATCH_MAX }) },
    returns: "All jobs are stored durably; the list is in the order of the request.",
    result: s.object({ jobs: s.list(enqueued) }),
    run: async (app, { jobs }, caller) => ({ jobs: await accept(app, jobs, caller) }),
    http: {
      method: "POST",
      path: "/api/v1/jobs/bulk",
      status: 201,
      problems: [409, 413],
      repeatable: true,
      idCount: ({ jobs }) => jobs.length,
    },
  }),
};

/**
 * The jobs join the trace of the request. A job whose id exists already was accepted by an earlier attempt of the same
 * request.
 */
async function accept(
  app: EnqueueApp,
  jobs: readonly NewJob[],
  { ids, headers }: Caller,
): Promise<Accepted[]> {
  const trace = headers === undefined ? null : traceOf(headers);
  const calls = jobs.map(({ task, input: given = null, options = {} }) => ({
    task: app.definitions.get(task) ?? task,
    inputs: [given],
    options: { ...(options as EnqueueOptions), ...(trace === null ? {} : { trace }) },
  }));
  const unused = ids.values();
  const stored = await app.enqueue(calls, () => unused.next().value as string);
  const accepted = stored.map(({ id }, index) => {
    const ours = ids[index] ?? "";
    // A job that waits for others has a mark in its id.
    const added = id === ours || id === calledId(ours);
    return { id, task: (jobs[index] as NewJob).task, added };
  });
  return withWarnings(app, jobs, accepted);
}

/**
 * A misspelt task name is accepted like any other. Only a server with registered tasks looks for workers, and only for
 * unregistered tasks, so most requests need no extra query.
 */
async function withWarnings(
  { definitions, whyUnclaimable }: EnqueueApp,
  jobs: readonly NewJob[],
  accepted: readonly Accepted[],
): Promise<Accepted[]> {
  const isUnknown = ({ task, added }: Accepted): boolean => added && !definitions.has(task);
  if (definitions.size === 0 || !accepted.some(isUnknown)) return [...accepted];
  const pending = accepted.map(({ task }, index) => ({
    task,
    queue: jobs[index]?.options?.queue ?? DEFAULT_QUEUE,
  }));
  // The jobs are accepted; failing to look up workers must not fail the request.
  const reasons = await whyUnclaimable(pending).catch(() => []);
  return accepted.map((one, index) => {
    const reason = isUnknown(one) ? (reasons[index] ?? null) : null;
    return reason === null ? one : { ...one, warning: reason };
  });
}
