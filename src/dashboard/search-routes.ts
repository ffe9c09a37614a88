/** Routes that find jobs and other things. */
import { z } from "zod";
import { Cached } from "../core/wait.ts";
import { isId } from "../core/id.ts";
import type { Redaction } from "../config/redaction.ts";
import type { Runtime } from "../core/runtime.ts";
import { Problem } from "../http-kernel/problem.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { JobSummary } from "../jobs/jobs.ts";
import { jobSummary } from "../jobs/shapes.ts";
import { zodOf } from "../operations/route.ts";
import { LOOK_MAX } from "../jobs/search.ts";
import type { Hit, Names } from "./names.ts";
import type { DashboardStore } from "./store.ts";

const TAG = "dashboard";

const PAGE = 50;
const PAGE_MAX = 200;

/** Longest text that is looked for within inputs and errors. */
const TEXT_LENGTH_MAX = 200;

const FIND_LENGTH_MAX = 300;

/** Ids of one request for the rows on a screen. */
const IDS_MAX = 100;

const NAMES_FOR_MS = 10_000;
const NAMES_WAIT_MS = 5_000;

const text = z.string().min(1).max(TEXT_LENGTH_MAX);

const rowSchema = (zodOf(jobSummary) as z.ZodObject)
  .extend({
    worker: z.string().nullable().meta({ description: "Of the running or the last attempt." }),
    ranMs: z.number().nullable().meta({ description: "How long the last attempt took." }),
    changedAt: s.instant.meta({ description: "When it ended, else was claimed, else enqueued." }),
  })
  .meta({ id: "FoundJob", description: "A job in a list of the dashboard." });

const namesSchema = z
  .object({
    queues: z.array(z.string()),
    tasks: z.array(z.string()),
    tags: z.array(z.string()),
    workers: z.array(z.string()),
    builds: z.array(z.string()),
    schedules: z.array(z.string()),
    workflows: z.array(z.string()),
  })
  .meta({ id: "Names", description: "At most 200 of each." });

const KINDS: readonly Hit["kind"][] = [
  "job",
  "item",
  "flow",
  "bulk",
  "key",
  "tag",
  "lock",
  "queue",
  "task",
  "worker",
  "build",
  "schedule",
  "workflow",
];

const kind = z.enum(KINDS as [Hit["kind"], ...Hit["kind"][]]);

interface SearchParts {
  readonly runtime: Runtime;
  readonly redaction: Redaction;
  readonly store: DashboardStore;
}

export function searchRoutes(parts: SearchParts): Route[] {
  const { runtime, store } = parts;
  const cached = new Cached({
    runtime,
    forMs: NAMES_FOR_MS,
    waitMs: NAMES_WAIT_MS,
    ask: () => store.names(),
  });
  const known = async (): Promise<Names> => (await cached.get()) ?? NO_NAMES;
  return [
    searchRoute(parts),
    route({
      method: "GET",
      path: "/api/v1/names",
      name: "listNames",
      tag: TAG,
      summary: "Names of queues, tasks, tags, workers, builds, schedules and workflows",
      access: "viewer",
      answers: { 200: { description: "A few seconds old.", schema: namesSchema } },
      run: async () => ({ status: 200, json: await known() }),
    }),
    route({
      method: "GET",
      path: "/api/v1/find",
      name: "find",
      tag: TAG,
      summary: "What a text is: an id, the start of one, a key, a tag, or a name",
      access: "viewer",
      query: {
        text: z.string().max(FIND_LENGTH_MAX).optional(),
        kind: kind.optional().meta({ description: "Only hits of this kind." }),
      },
      answers: {
        200: {
          description: "At most 10, the most exact first.",
          schema: z.object({
            hits: z.array(z.object({ kind, id: z.string(), text: z.string() })),
          }),
        },
      },
      run: async ({ query }) => {
        const wanted = (query.text ?? "").trim();
        const hits = wanted === "" ? [] : await store.find(wanted, await known());
        const some = hits.filter((hit) => query.kind === undefined || hit.kind === query.kind);
        return { status: 200, json: { hits: some } };
      },
    }),
  ];
}

const NO_NAMES: Names = {
  queues: [],
  tasks: [],
  tags: [],
  workers: [],
  builds: [],
  schedules: [],
  workflows: [],
};

function searchRoute({ runtime, store, redaction }: SearchParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/search",
    name: "searchJobs",
    tag: TAG,
    summary: "Search jobs, newest first, also by worker, build, time, error and input",
    access: "viewer",
    query: {
      status: s.status.optional(),
      queue: s.name.optional(),
      task: s.name.optional(),
      key: s.key.optional(),
      tag: s.tag.optional(),
      prefix: s.idPrefix.optional(),
      worker: s.workerId.optional().meta({ description: "It ran or runs on this worker." }),
      build: s.name.optional().meta({ description: "It ran or runs on a worker of this build." }),
      since: s.instant.optional().meta({ description: "Enqueued at or after this time." }),
      until: s.instant.optional().meta({ description: "Enqueued before this time." }),
      error: text.optional().meta({ description: "Part of the text of an error." }),
      payload: text.optional().meta({ description: "Part of the input, as JSON text." }),
      ids: z.string().optional().meta({ description: "These jobs: ids with commas between them." }),
      before: s.id.optional().meta({ description: "`next` from the previous page." }),
      limit: z.int().min(1).max(PAGE_MAX).optional(),
      look: z.int().min(1).max(LOOK_MAX).optional().meta({
        description: "How many jobs to look at, at most. A request also ends after a short time.",
      }),
    },
    answers: {
      200: {
        description:
          "A page may have fewer jobs than its limit, or none, and still have a `next`: the search was not over.",
        schema: z.object({
          jobs: z.array(rowSchema),
          next: s.id.nullable(),
          looked: s.count.nullable().meta({ description: "Null: an index has the answer." }),
          isAll: z.boolean().meta({ description: "Whether all jobs were looked at." }),
          tookMs: z.number(),
        }),
      },
    },
    run: async ({ query: { limit = PAGE, look = LOOK_MAX, tag, ids, ...rest } }) => {
      const begunAt = runtime.monotonic();
      const tookMs = (): number => Math.round((runtime.monotonic() - begunAt) * 10) / 10;
      if (ids !== undefined) {
        const jobs = (await store.jobs(idsIn(ids))).map(rowOf);
        return {
          status: 200,
          json: { jobs, next: null, looked: null, isAll: true, tookMs: tookMs() },
        };
      }
      const tags = tag === undefined ? {} : { tags: [tag] };
      const wanted = { ...rest, ...asStored(rest), ...tags, limit, look };
      const { jobs, looked, next } = await store.search(asShown(wanted, redaction));
      const json = { jobs: jobs.map(rowOf), next, looked, isAll: next === null, tookMs: tookMs() };
      return { status: 200, json };
    },
  });
}

function escaped(given: string): string {
  return JSON.stringify(given).slice(1, -1);
}

/** Inputs and errors are stored as JSON, in which quotes and line breaks are escaped. */
function asStored({
  payload,
  error,
}: {
  payload?: string | undefined;
  error?: string | undefined;
}): {
  payload?: string;
  error?: string;
} {
  return {
    // A text with quotes is a part of JSON already.
    ...(payload === undefined
      ? {}
      : { payload: payload.includes('"') ? payload : escaped(payload) }),
    ...(error === undefined ? {} : { error: escaped(error) }),
  };
}

/**
 * With rules, the text is compared with inputs as they are shown. Neither a page, nor how far the search looked, nor how long it
 * took then depends on a value that is hidden: the database never compares it.
 */
function asShown<Wanted extends { payload?: string | undefined }>(
  wanted: Wanted,
  redaction: Redaction,
): Wanted & { shows?: (payload: string) => boolean } {
  const { payload: sought } = wanted;
  if (sought === undefined || redaction.isEmpty) return wanted;
  const shows = (payload: string): boolean =>
    JSON.stringify(redaction.data(JSON.parse(payload))).includes(sought);
  return { ...wanted, payload: undefined, shows };
}

function idsIn(given: string): string[] {
  const ids = given.split(",");
  if (ids.length <= IDS_MAX && ids.every(isId)) return ids;
  const detail = `'ids' must be up to ${IDS_MAX} whole ids with commas between them.`;
  throw new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "ids" });
}

function rowOf(job: JobSummary): object {
  const { id, attempts, traceId, claimedAt, finishedAt, enqueuedAt, lockedBy } = job;
  const end = `-${id}-${attempts}`;
  const worker =
    lockedBy ?? (traceId?.endsWith(end) === true ? traceId.slice(0, -end.length) : null);
  const ranMs =
    claimedAt === null || finishedAt === null ? null : Math.max(0, finishedAt - claimedAt);
  return { ...job, worker, ranMs, changedAt: finishedAt ?? claimedAt ?? enqueuedAt };
}
