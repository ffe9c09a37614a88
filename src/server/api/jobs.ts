/** Jobs: hand them over, look at them, cancel them, try them again, hear what they tell. */
import { z } from "zod";
import { JobNotFound } from "../../core/errors.ts";
import { finalStatuses, type FinalStatus } from "../../core/job.ts";
import { reportKinds, type WatchEntry } from "../../core/report.ts";
import { ATTEMPTS_MAX } from "../../core/retry.ts";
import { DEFAULT_QUEUE } from "../../core/task.ts";
import { traceOf, type TraceContext } from "../../core/trace.ts";
import { inSpan, isTracing } from "../../core/tracing.ts";
import { calledFirst } from "../../queue/called.ts";
import { jobsOf } from "../../queue/new-job.ts";
import { conflicts, PRIORITY_MAX, type EnqueueOptions } from "../../queue/options.ts";
import { prospectsOf } from "../../queue/runnable.ts";
import { ENQUEUE_BATCH_MAX } from "../../store/sql-store.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Answer, type Call, type Route } from "../route.ts";
import * as s from "../schemas.ts";
import type { EventSource } from "../sse.ts";

const TAG = "jobs";
const PAGE = 50;
/** The id of the event that tells the end: whoever comes back with it has heard all. */
const END = ".end";

const options = z
  .strictObject({
    queue: s.name.optional(),
    priority: z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).optional(),
    delay: s.duration.optional(),
    runAt: s.instant.optional(),
    attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
    key: s.key.optional(),
    keyFor: s.duration.optional(),
    onConflict: z.enum(conflicts).optional(),
  })
  .meta({ id: "EnqueueOptions", description: "As those of the library's enqueue." });

const newJob = z
  .strictObject({ task: s.name, input: z.unknown().optional(), options: options.optional() })
  .meta({
    id: "NewJob",
    description: "Run this task with this input. Without one, the input is null.",
  });

type NewJob = z.output<typeof newJob>;

export function jobRoutes(parts: RouteParts): Route[] {
  return [
    ...enqueueRoutes(parts),
    ...readRoutes(parts),
    ...actionRoutes(parts),
    eventsRoute(parts),
  ];
}

function enqueueRoutes(parts: RouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs",
      name: "enqueue",
      tag: TAG,
      summary: "Accept one job",
      access: "operator",
      body: newJob,
      answers: {
        200: {
          description: "Another job holds the key, and this is that job.",
          schema: s.enqueued,
        },
        201: { description: "The job is on disk.", schema: s.enqueued },
      },
      problems: [409, 413],
      repeatable: true,
      location: (json) => `/api/v1/jobs/${(json as Accepted[number]).id}`,
      run: async ({ body, ids, headers }) => {
        const [job] = await enqueue(parts, { jobs: [body], ids, trace: traceOf(headers) });
        return { status: job?.added === true ? 201 : 200, json: job };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/bulk",
      name: "enqueueMany",
      tag: TAG,
      summary: "Accept many jobs, all or none",
      access: "operator",
      body: z.strictObject({ jobs: z.array(newJob).min(1).max(ENQUEUE_BATCH_MAX) }),
      answers: {
        201: {
          description: "All of them are on disk, in the order given.",
          schema: z.object({ jobs: z.array(s.enqueued) }),
        },
      },
      problems: [409, 413],
      repeatable: true,
      idCount: ({ jobs }) => jobs.length,
      run: async ({ body: { jobs }, ids, headers }) => ({
        status: 201,
        json: { jobs: await enqueue(parts, { jobs, ids, trace: traceOf(headers) }) },
      }),
    }),
  ];
}

interface Wanted {
  readonly jobs: readonly NewJob[];
  readonly ids: readonly string[];
  /** What the request belongs to. */
  readonly trace: TraceContext | null;
}

type Accepted = z.output<typeof s.enqueued>[];

/** With a span around it where the application traces; what the jobs do belongs to the trace of the request. */
function enqueue(parts: RouteParts, { trace, ...wanted }: Wanted): Promise<Accepted> {
  if (!isTracing()) return accept(parts, { ...wanted, trace });
  const [first, ...others] = wanted.jobs;
  const name = others.length === 0 ? `enqueue ${first?.task}` : "enqueue";
  const parent = trace === null ? {} : { parent: trace };
  return inSpan({ name, kind: "producer", ...parent }, (span) =>
    accept(parts, { ...wanted, trace: span?.trace ?? trace }),
  );
}

/** One transaction. A job whose id is there already was accepted when the same request came before. */
async function accept({ holdfast, tasks }: RouteParts, wanted: Wanted): Promise<Accepted> {
  const { jobs, ids, trace } = wanted;
  const news = await Promise.all(
    jobs.map(async ({ task, input = null, options: terms = {} }, index) => {
      const made = await jobsOf({
        task: tasks.get(task) ?? task,
        inputs: [input],
        options: { ...(terms as EnqueueOptions), ...(trace === null ? {} : { trace }) },
        newId: () => ids[index] as string,
      });
      return made.news;
    }),
  );
  const enqueued = await holdfast.store.enqueue(news.flat());
  const accepted = enqueued.map(({ id }, index) => {
    const job = jobs[index] as NewJob;
    return { id, task: job.task, added: id === ids[index] };
  });
  return withWarnings({ holdfast, tasks }, jobs, accepted);
}

/**
 * A name that is misspelt is accepted like any other. Only a server with tasks looks at the workers, and only for a task
 * that it does not know: most requests cost no query more.
 */
async function withWarnings(
  { holdfast, tasks }: Pick<RouteParts, "holdfast" | "tasks">,
  jobs: readonly NewJob[],
  accepted: Accepted,
): Promise<Accepted> {
  const isUnknown = ({ task, added }: Accepted[number]): boolean => added && !tasks.has(task);
  if (tasks.size === 0 || !accepted.some(isUnknown)) return accepted;
  const views = accepted.map(({ task }, index) => ({
    task,
    queue: jobs[index]?.options?.queue ?? DEFAULT_QUEUE,
    status: "pending" as const,
  }));
  // They are accepted: that the workers cannot be seen is no reason to fail.
  const prospects = await prospectsOf(holdfast.workers, views).catch(() => []);
  return accepted.map((job, index) => {
    const note = isUnknown(job) ? (prospects[index]?.note ?? null) : null;
    return note === null ? job : { ...job, warning: note };
  });
}

function readRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/jobs",
      name: "listJobs",
      tag: TAG,
      summary: "A page of jobs, newest first",
      access: "viewer",
      query: {
        status: s.status.optional(),
        queue: s.name.optional(),
        task: s.name.optional(),
        key: s.key.optional().meta({ description: "Only jobs that were enqueued with this key." }),
        prefix: s.idPrefix.optional(),
        before: s.id.optional().meta({ description: "`next` of the page before." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "Without what they carry. `next` null: there are no more.",
          schema: z.object({ jobs: z.array(s.jobSummary), next: s.id.nullable() }),
        },
      },
      run: async ({ query }) => {
        const { limit = PAGE, ...filter } = query;
        const jobs = await holdfast.jobs.list({ ...filter, limit } as object);
        const next = jobs.length === limit ? (jobs.at(-1)?.id ?? null) : null;
        return { status: 200, json: { jobs, next } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/jobs/{id}",
      name: "getJob",
      tag: TAG,
      summary: "All about one job: what it carries, its attempts, its steps",
      access: "viewer",
      params: { id: s.id },
      answers: {
        200: {
          description: "The job.",
          schema: z.object({
            job: s.job,
            attempts: z.array(s.attempt),
            steps: z.array(s.step),
          }),
        },
      },
      run: async ({ params: { id } }) => {
        const job = await holdfast.jobs.get(id);
        if (job === null) throw new JobNotFound({ id });
        const attempts = await holdfast.jobs.attempts(id);
        return { status: 200, json: { job, attempts, steps: await holdfast.jobs.steps(id) } };
      },
    }),
  ];
}

const signed = { reason: s.reason.optional() };

function actionRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/cancel",
      name: "cancelJob",
      tag: TAG,
      summary: "Cancel a job",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject(signed),
      answers: {
        200: {
          description:
            "What it is then. `processing`: its worker is told; a status of the end: it had ended before.",
          schema: z.object({ id: s.id, status: s.status }),
        },
      },
      repeatable: true,
      run: async (call) => {
        const { id } = call.params;
        const status = await holdfast.store.cancel(id, signatureOf(call));
        if (status === null) throw new JobNotFound({ id });
        return { status: 200, json: { id, status } };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/jobs/{id}/retry",
      name: "retryJob",
      tag: TAG,
      summary: "Make a failed or cancelled job pending again",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({
        attempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
        withCalled: z.boolean().optional().meta({
          description:
            "Whether called jobs that failed it are retried too. Without: refused if there are any.",
        }),
        ...signed,
      }),
      answers: {
        200: { description: "It is pending.", schema: z.object({ id: s.id, status: s.status }) },
      },
      problems: [409],
      run: async (call) => {
        const { id } = call.params;
        const { attempts = DEFAULT_ATTEMPTS, withCalled, reason } = call.body;
        const called = await calledFirst(holdfast.store, id, withCalled);
        const by = { actor: call.asker.name, trace: call.requestId };
        for (const one of called) {
          const why = reason === undefined ? {} : { reason };
          await holdfast.jobs.retry(one, { attempts, withCalled: false, ...by, ...why });
        }
        await holdfast.store.revive(id, attempts, signatureOf(call));
        return { status: 200, json: { id, status: "pending" } };
      },
    }),
  ];
}

const DEFAULT_ATTEMPTS = 3;

interface Signature {
  readonly id: string;
  readonly actor: string;
  readonly reason: string | null;
  readonly traceId: string;
}

/** The line in the audit has the id of the request: a repeated one is recognised by it, whatever became of the job since. */
export function signatureOf(
  call: Call<unknown, unknown, { readonly reason?: string | undefined }>,
): Signature {
  const { ids, asker, body, requestId } = call;
  const reason = body.reason ?? null;
  return { id: ids[0] as string, actor: asker.name, reason, traceId: requestId };
}

function eventsRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/jobs/{id}/events",
    name: "jobEvents",
    tag: TAG,
    summary: "What a job told: a page of it, or live as server-sent events",
    access: "viewer",
    params: { id: s.id },
    query: {
      after: z
        .int()
        .min(0)
        .optional()
        .meta({ description: "Only what was told behind this number." }),
      kind: z.enum(reportKinds).optional(),
      newest: z.boolean().optional().meta({ description: "The last page instead of the first." }),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page of reports.",
        schema: z.object({ reports: z.array(s.report), next: z.int().nullable() }),
      },
      204: {
        description: "Whoever comes back with Last-Event-ID has heard all: the job has ended.",
      },
    },
    stream: {
      description:
        "With Accept: text/event-stream, events until the job has ended. Resumes by Last-Event-ID.",
      type: "text/event-stream",
      schema: z.string(),
    },
    run: async ({ params: { id }, query, headers }): Promise<Answer> => {
      const standing = await holdfast.store.standing(id);
      if (standing === null) throw new JobNotFound({ id });
      if (headers.accept?.includes("text/event-stream") === true) {
        const last = headers["last-event-id"];
        const hasEnded = finalStatuses.includes(standing.status as FinalStatus);
        if (hasEnded && last?.endsWith(END) === true) return { status: 204 };
        const after = /^\d{1,15}/.exec(last ?? "")?.[0] ?? query.after ?? 0;
        return { events: watched(holdfast, id, Number(after)) };
      }
      const { limit = PAGE, ...filter } = query;
      const reports = await holdfast.jobs.reports(id, { ...filter, limit } as object);
      const next = reports.length === limit ? (reports.at(-1)?.seq ?? null) : null;
      return { status: 200, json: { reports, next } };
    },
  });
}

function watched(holdfast: RouteParts["holdfast"], id: string, after: number): EventSource {
  return async (stream) => {
    for await (const entry of holdfast.jobs.watch(id, { after, signal: stream.signal })) {
      await stream.sendInTime({ id: eventId(entry), event: entry.kind, data: entry });
    }
  };
}

function eventId(entry: WatchEntry): string {
  const isEnd = entry.kind === "status" && finalStatuses.includes(entry.status as FinalStatus);
  return `${entry.seq}${isEnd ? END : ""}`;
}
