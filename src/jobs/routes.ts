/** The route that lists jobs. */
import { z } from "zod";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { zodOf } from "../operations/route.ts";
import type { Jobs } from "./jobs.ts";
import { jobSummary } from "./shapes.ts";

const TAG = "jobs";

const PAGE = 50;

export function jobRoutes({ jobs }: { readonly jobs: Jobs }): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/jobs",
      name: "listJobs",
      agent: "Jobs by status, queue, task, key or tag, newest first.",
      tag: TAG,
      summary: "List jobs, newest first",
      access: "viewer",
      query: {
        status: s.status.optional(),
        queue: s.name.optional(),
        task: s.name.optional(),
        key: s.key.optional().meta({ description: "Only jobs enqueued with this key." }),
        tag: s.tag.optional().meta({ description: "Only jobs with this tag." }),
        prefix: s.idPrefix.optional(),
        before: s.id.optional().meta({ description: "`next` from the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description:
            "Jobs without input and result. A page may have fewer jobs than its limit, or none, and still have a `next`: a request looks for a short time only. `next` is null on the last page.",
          schema: z.object({ jobs: z.array(zodOf(jobSummary)), next: s.id.nullable() }),
        },
      },
      run: async ({ query }) => {
        const { limit = PAGE, tag, ...filter } = query;
        const tags = tag === undefined ? {} : { tags: [tag] };
        return { status: 200, json: await jobs.page({ ...filter, ...tags, limit } as object) };
      },
    }),
  ];
}
