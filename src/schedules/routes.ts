/** Schedules over HTTP: list, create, edit, pause, resume, run and delete them. */
import { z } from "zod";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { notFound } from "../http-kernel/problem.ts";
import { auditedBy, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { PRIORITY_MAX } from "../jobs/enqueue.ts";
import { CRON_LENGTH_MAX } from "./cron.ts";
import {
  DESCRIPTION_LENGTH_MAX,
  overlaps,
  runOutcomes,
  type RunRecord,
  type ScheduleChanges,
  type ScheduleOptions,
} from "./schedule.ts";
import type { PreviewOptions, RunsFilter, Schedules } from "./schedules.ts";
import type { SchedulesStore } from "./store.ts";
import { MISSED_LIMIT_MAX } from "./timing.ts";

const TAG = "schedules";
const READ = { method: "GET", tag: TAG, access: "viewer" } as const;
const ACT = { method: "POST", tag: TAG, access: "operator" } as const;
const ZONE_LENGTH_MAX = 64;

const timing = {
  cron: z.string().max(CRON_LENGTH_MAX).optional().meta({
    description: "Five fields, or six with seconds first, or a nickname such as @daily.",
  }),
  timeZone: z.string().max(ZONE_LENGTH_MAX).optional().meta({
    description: "The IANA name of the time zone of `cron`. Default: UTC.",
  }),
};

const interval = {
  every: s.duration.optional().meta({
    description: "An interval in whole seconds, instead of `cron`.",
  }),
  offset: s.duration.optional().meta({ description: "Shifts the runs of `every`." }),
};

const missed = z
  .union([z.enum(["skip", "once"]), z.strictObject({ all: z.int().min(1).max(MISSED_LIMIT_MAX) })])
  .meta({
    description: "Which missed ticks run: none, the newest, or up to this many of the newest.",
  });

const jobOptions = {
  queue: s.name.optional(),
  priority: z.int().min(-PRIORITY_MAX).max(PRIORITY_MAX).optional(),
  maxAttempts: z.int().min(1).max(ATTEMPTS_MAX).optional(),
  key: s.key.optional(),
  keyFor: s.duration.optional(),
  onConflict: z.enum(["return", "replace"]).optional(),
};

const changes = {
  ...timing,
  ...interval,
  input: z.unknown().optional().meta({ description: "The input of its jobs. Default: null." }),
  options: z
    .strictObject(jobOptions)
    .optional()
    .meta({ description: "Options of its jobs, as for enqueueing." }),
  missed: missed.optional(),
  overlap: z.enum(overlaps).optional().meta({
    description:
      "What happens to a tick while the job of an earlier one has not ended. Default: allow.",
  }),
  description: z.string().max(DESCRIPTION_LENGTH_MAX).optional(),
};

const facts = {
  name: z.string(),
  task: z.string(),
  input: z.unknown(),
  options: z.looseObject({}),
  cron: z.string().nullable(),
  timeZone: z.string().nullable(),
  everyMs: s.count.nullable(),
  offsetMs: s.count.nullable(),
  words: z.string().meta({ description: "The timing in words." }),
  missed,
  overlap: z.enum(overlaps),
  description: z.string().nullable(),
  nextAt: s.instant.nullable().meta({ description: "Null: it is paused, or never runs again." }),
  lastAt: s.instant.nullable().meta({ description: "The last tick that was handled." }),
  pausedAt: s.instant.nullable(),
  pausedBy: z.string().nullable(),
  declaredBy: z.string().nullable().meta({
    description: "The name of the workers whose code declares it; null: created at run time.",
  }),
  revision: s.count,
  createdAt: s.instant,
  updatedAt: s.instant,
  missedCount: s.count.meta({ description: "Missed ticks that were skipped." }),
  queuedCount: s.count.meta({ description: "Runs that wait for the end of an earlier job." }),
  error: z.string().nullable().meta({ description: "Why its last tick could not be handled." }),
  errorAt: s.instant.nullable(),
};

const scheduleSchema = z
  .object(facts)
  .meta({ id: "Schedule", description: "What to enqueue, and when." });

/** Runs of each schedule in a list. */
const LISTED_RUNS_MAX = 50;

const detailsSchema = z
  .object({ ...facts, nextRuns: z.array(s.instant).meta({ description: "The next five ticks." }) })
  .meta({ id: "ScheduleDetails" });

const runSchema = z
  .object({
    schedule: z.string(),
    tick: s.instant.meta({
      description: "When it was due; for a manual run, when it was requested.",
    }),
    manual: z.boolean(),
    outcome: z.enum(runOutcomes),
    job: s.id.nullable(),
    status: s.status.nullable().meta({ description: "Of the job; null: there is none." }),
    at: s.instant,
  })
  .meta({ id: "ScheduleRun", description: "What happened at a tick." });

const listedSchema = z
  .object({
    ...facts,
    runs: z.array(runSchema).optional().meta({ description: "Newest first, if they were wanted." }),
  })
  .meta({ id: "ListedSchedule" });

const reason = s.reason.optional();
const named = { name: s.name };
const stored = { description: "The schedule.", schema: scheduleSchema };

type StatusesOf = (
  ids: readonly string[],
) => Promise<readonly { readonly id: string; readonly status: string }[]>;

interface ScheduleRouteParts {
  readonly schedules: Schedules;
  readonly store: Pick<SchedulesStore, "recent">;
  readonly statusesOf: StatusesOf;
}

export function scheduleRoutes(parts: ScheduleRouteParts): Route[] {
  const { schedules } = parts;
  return [
    ...readRoutes(parts),
    ...changeRoutes(schedules),
    ...(["pause", "resume"] as const).map((command) => stateRoute(schedules, command)),
    runRoute(schedules),
    deleteRoute(schedules),
  ];
}

/** Runs with the statuses of their jobs. */
async function withStatus(
  runs: readonly RunRecord[],
  statusesOf: StatusesOf,
): Promise<(RunRecord & { readonly status: string | null })[]> {
  const known = await statusesOf(runs.flatMap(({ job }) => job ?? []));
  const statuses = new Map(known.map(({ id, status }) => [id, status]));
  return runs.map((run) => ({ ...run, status: statuses.get(run.job ?? "") ?? null }));
}

function listRoute({ schedules, store, statusesOf }: ScheduleRouteParts): Route {
  return route({
    ...READ,
    path: "/api/v1/schedules",
    name: "listSchedules",
    summary: "List schedules, by name",
    query: {
      task: s.name.optional(),
      paused: z.boolean().optional(),
      after: s.name.optional().meta({ description: "The last name of the previous page." }),
      limit: s.pageLimit.optional(),
      runs: z.int().min(0).max(LISTED_RUNS_MAX).optional().meta({
        description: "How many of its newest runs each schedule is listed with. Default: none.",
      }),
    },
    answers: {
      200: {
        description: "A page of schedules.",
        schema: z.object({ schedules: z.array(listedSchema) }),
      },
    },
    run: async ({ query: { runs = 0, ...filter } }) => {
      const found = await schedules.list(withoutUndefined(filter));
      if (runs === 0) return { status: 200, json: { schedules: found } };
      const names = found.map(({ name }) => name);
      const recent = await withStatus(
        await store.recent({ schedules: names, limit: runs }),
        statusesOf,
      );
      const byName = Map.groupBy(recent, ({ schedule }) => schedule);
      const json = found.map((one) => ({
        ...one,
        runs: byName.get(one.name)?.slice(0, runs) ?? [],
      }));
      return { status: 200, json: { schedules: json } };
    },
  });
}

function readRoutes(parts: ScheduleRouteParts): Route[] {
  const { schedules, statusesOf } = parts;
  return [
    listRoute(parts),
    route({
      ...READ,
      path: "/api/v1/schedules/{name}",
      name: "getSchedule",
      summary: "One schedule, with its next five runs",
      params: named,
      answers: { 200: { description: "The schedule.", schema: detailsSchema } },
      run: async ({ params }) => {
        const found = await schedules.get(params.name);
        if (found === null) throw notFound("such schedule");
        return { status: 200, json: found };
      },
    }),
    route({
      ...READ,
      path: "/api/v1/schedules/{name}/runs",
      name: "listScheduleRuns",
      summary: "What happened at each tick of a schedule, newest first",
      params: named,
      query: {
        before: s.instant.optional().meta({ description: "The last tick of the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: { description: "A page of runs.", schema: z.object({ runs: z.array(runSchema) }) },
      },
      run: async ({ params, query }) => ({
        status: 200,
        json: {
          runs: await withStatus(
            await schedules.runs(params.name, query as RunsFilter),
            statusesOf,
          ),
        },
      }),
    }),
    previewRoute(schedules),
  ];
}

function previewRoute(schedules: Schedules): Route {
  return route({
    ...READ,
    path: "/api/v1/schedule-preview",
    name: "previewSchedule",
    summary: "A timing in words, and the next runs it would have",
    query: {
      ...timing,
      every: s.durationText.optional(),
      offset: s.durationText.optional(),
      count: z.int().min(1).max(100).optional().meta({ description: "Default: 5." }),
      after: s.instant.optional().meta({ description: "Default: now." }),
    },
    answers: {
      200: {
        description: "Nothing is stored.",
        schema: z.object({ words: z.string(), nextRuns: z.array(s.instant) }),
      },
    },
    problems: [422],
    run: async ({ query }) => ({
      status: 200,
      json: await schedules.preview(query as PreviewOptions),
    }),
  });
}

function changeRoutes(schedules: Schedules): Route[] {
  return [
    route({
      ...ACT,
      path: "/api/v1/schedules",
      name: "createSchedule",
      summary: "Create a schedule",
      body: z.strictObject({
        ...named,
        task: s.name,
        ...changes,
        paused: z.boolean().optional(),
        reason,
      }),
      answers: { 201: stored },
      problems: [409],
      repeatable: true,
      location: (json) =>
        `/api/v1/schedules/${encodeURIComponent((json as { name: string }).name)}`,
      run: async (call) => {
        const { reason: _reason, paused = false, ...given } = call.body;
        const schedule = withoutUndefined(given) as ScheduleOptions;
        const by = { ...auditedBy(call), paused };
        return { status: 201, json: await schedules.create(schedule, by, call.ids[0]) };
      },
    }),
    route({
      ...ACT,
      path: "/api/v1/schedules/{name}/edit",
      name: "editSchedule",
      summary: "Change a schedule; omitted fields do not change",
      params: named,
      body: z.strictObject({
        ...changes,
        revision: z.int().min(1).optional().meta({
          description: "Refuse the change if the schedule has a different revision.",
        }),
        reason,
      }),
      answers: { 200: stored },
      problems: [409],
      run: async (call) => {
        const { reason: _reason, revision, ...given } = call.body;
        const by = { ...auditedBy(call), ...withoutUndefined({ revision }) };
        const edits = withoutUndefined(given) as ScheduleChanges;
        return { status: 200, json: await schedules.edit(call.params.name, edits, by) };
      },
    }),
  ];
}

const SUMMARIES = {
  pause: "Pause a schedule: it enqueues nothing until it is resumed",
  resume: "Resume a paused schedule",
} as const;

function stateRoute(schedules: Schedules, command: "pause" | "resume"): Route {
  return route({
    ...ACT,
    path: `/api/v1/schedules/{name}/${command}`,
    name: `${command}Schedule`,
    summary: SUMMARIES[command],
    params: named,
    body: z.strictObject({ reason }),
    answers: { 200: stored },
    repeatable: true,
    run: async (call) => ({
      status: 200,
      json: await schedules[command](call.params.name, auditedBy(call)),
    }),
  });
}

function runRoute(schedules: Schedules): Route {
  return route({
    ...ACT,
    path: "/api/v1/schedules/{name}/run",
    name: "runSchedule",
    summary: "Enqueue one job of a schedule now",
    params: named,
    body: z.strictObject({ reason }),
    answers: { 201: { description: "The job.", schema: z.object({ job: s.id }) } },
    repeatable: true,
    location: (json) => `/api/v1/jobs/${(json as { job: string }).job}`,
    run: async (call) => {
      const job = await schedules.run(call.params.name, auditedBy(call), call.ids[0]);
      return { status: 201, json: { job } };
    },
  });
}

function deleteRoute(schedules: Schedules): Route {
  return route({
    ...ACT,
    path: "/api/v1/schedules/{name}/delete",
    name: "deleteSchedule",
    summary: "Delete a schedule, but not its jobs",
    params: named,
    body: z.strictObject({
      force: z.boolean().optional().meta({
        description: "Required for a schedule that workers declare in code: it may come back.",
      }),
      reason,
    }),
    answers: {
      200: { description: "It is deleted.", schema: z.object({ deleted: z.string() }) },
    },
    problems: [409],
    run: async (call) => {
      const { name } = call.params;
      await schedules.remove(name, { ...auditedBy(call), force: call.body.force ?? false });
      return { status: 200, json: { deleted: name } };
    },
  });
}
