/** Routes of explanations. */
import { z } from "zod";
import { jobReasons, queueReasons } from "../core/explanation.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import type { Jobs } from "../jobs/jobs.ts";
import type { Queues } from "../queues/queues.ts";

const sentence = z.string().meta({ description: "The reason in English, with its facts." });
const facts = z
  .looseObject({})
  .meta({ description: "The facts of the reason; instants are milliseconds since 1970." });

export const explanationSchema = z
  .object({ reason: z.enum(jobReasons), sentence, facts })
  .meta({ id: "JobExplanation" });

const jobSchema = z
  .object({ job: s.id, reason: z.enum(jobReasons), sentence, facts })
  .meta({ id: "Explanation", description: "Why a job does not run." });

const queueSchema = z
  .object({ queue: z.string(), reason: z.enum(queueReasons), sentence, facts })
  .meta({ id: "QueueExplanation", description: "Why the jobs of a queue do not start." });

interface Parts {
  readonly jobs: Pick<Jobs, "explain">;
  readonly queues: Pick<Queues, "explain">;
}

export function explainRoutes({ jobs, queues }: Parts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/jobs/{id}/explanation",
      name: "explainJob",
      tag: "jobs",
      summary: "Explain why a job does not run",
      access: "viewer",
      params: { id: s.id },
      answers: { 200: { description: "The reason, in one sentence.", schema: jobSchema } },
      problems: [404],
      run: async ({ params: { id } }) => ({
        status: 200,
        json: { job: id, ...(await jobs.explain(id)) },
      }),
    }),
    route({
      method: "GET",
      path: "/api/v1/queues/{name}/explanation",
      name: "explainQueue",
      tag: "queues",
      summary: "Explain why the jobs of a queue do not start",
      access: "viewer",
      params: { name: s.name },
      answers: { 200: { description: "The reason, in one sentence.", schema: queueSchema } },
      run: async ({ params: { name } }) => ({
        status: 200,
        json: { queue: name, ...(await queues.explain(name)) },
      }),
    }),
  ];
}
