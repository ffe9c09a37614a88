/** The route of a job's reports: a page, or live. */
import { z } from "zod";
import { JobNotFoundError } from "../core/errors.ts";
import { type FinalStatus, finalStatuses, type Status } from "../core/job.ts";
import {
  jobLogLevels,
  type Report,
  type ReportFilter,
  reportKinds,
  type WatchEntry,
  type WatchOptions,
} from "../core/report.ts";
import { type Answer, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { EventSource } from "../http-kernel/sse.ts";

const PAGE = 50;

/** The id of the final event; a client that resumes with it has received everything. */
const END = ".end";

const numbered = { seq: s.count, at: s.instant, epoch: s.count };

const reportSchema = z
  .discriminatedUnion("kind", [
    z.object({
      ...numbered,
      kind: z.literal("progress"),
      share: z.number(),
      done: z.number().nullable(),
      total: z.number().nullable(),
      text: z.string().nullable(),
    }),
    z.object({
      ...numbered,
      kind: z.literal("log"),
      level: z.enum(jobLogLevels),
      text: z.string(),
      data: z.unknown().optional(),
    }),
    z.object({
      ...numbered,
      kind: z.literal("report"),
      name: z.string(),
      data: z.unknown().optional(),
    }),
    z.object({ ...numbered, kind: z.literal("dropped"), count: s.count }),
  ])
  .meta({ id: "Report", description: "Progress, a log line or a custom report of a job." });

type Watch = (id: string, options: WatchOptions) => AsyncIterable<WatchEntry>;

interface ReportRouteParts {
  /** Null: the job does not exist. */
  readonly standing: (id: string) => Promise<{ readonly status: Status } | null>;
  readonly list: (id: string, options: Partial<Omit<ReportFilter, "job">>) => Promise<Report[]>;
  readonly watch: Watch;
}

export function reportRoute({ standing: standingOf, list, watch }: ReportRouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/jobs/{id}/events",
    name: "jobEvents",
    tag: "jobs",
    summary: "Reports of a job: a page, or live as server-sent events",
    access: "viewer",
    params: { id: s.id },
    query: {
      after: z.int().min(0).optional().meta({ description: "Only reports after this number." }),
      kind: z.enum(reportKinds).optional(),
      newest: z
        .boolean()
        .optional()
        .meta({ description: "Return the last page instead of the first." }),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page of reports.",
        schema: z.object({ reports: z.array(reportSchema), next: z.int().nullable() }),
      },
      204: {
        description: "The job has ended and all its reports were already sent (Last-Event-ID).",
      },
    },
    stream: {
      description:
        "With Accept: text/event-stream, events until the job has ended. Resumes after Last-Event-ID.",
      type: "text/event-stream",
      schema: z.string(),
    },
    run: async ({ params: { id }, query, headers }): Promise<Answer> => {
      const standing = await standingOf(id);
      if (standing === null) throw new JobNotFoundError({ id });
      if (headers.accept?.includes("text/event-stream") === true) {
        const last = headers["last-event-id"];
        const hasEnded = finalStatuses.includes(standing.status as FinalStatus);
        if (hasEnded && last?.endsWith(END) === true) return { status: 204 };
        const after = /^\d{1,15}/.exec(last ?? "")?.[0] ?? query.after ?? 0;
        return { events: watched(watch, id, Number(after)) };
      }
      const { limit = PAGE, ...filter } = query;
      const reports = await list(id, { ...filter, limit } as object);
      const next = reports.length === limit ? (reports.at(-1)?.seq ?? null) : null;
      return { status: 200, json: { reports, next } };
    },
  });
}

function watched(watch: Watch, id: string, after: number): EventSource {
  return async (stream) => {
    for await (const entry of watch(id, { after, signal: stream.signal })) {
      await stream.sendInTime({ id: eventId(entry), event: entry.kind, data: entry });
    }
  };
}

function eventId(entry: WatchEntry): string {
  const isEnd = entry.kind === "status" && finalStatuses.includes(entry.status as FinalStatus);
  return `${entry.seq}${isEnd ? END : ""}`;
}
