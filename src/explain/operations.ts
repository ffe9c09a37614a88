/** Why a job does not run, or why the jobs of a queue do not start. */
import { invalid } from "../core/errors.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import type { Queues } from "../queues/queues.ts";
import { printable } from "../terminal/table.ts";
import { explanationOfJob, explanationOfQueue } from "./shapes.ts";

interface ExplainApp {
  readonly jobs: Pick<Jobs, "explain" | "list">;
  readonly queues: Pick<Queues, "explain">;
}

const returns = "The reason, in one sentence.";

const explainJob = operationsOf<ExplainApp>("jobs")({
  name: "explainJob",
  summary: "Explain why a job does not run",
  access: "viewer",
  input: { id: s.id },
  returns,
  result: explanationOfJob,
  run: async ({ jobs }, { id }) => ({ job: id, ...(await jobs.explain(id)) }),
  http: { method: "GET", path: "/api/v1/jobs/{id}/explanation", problems: [404] },
  agent: "Why a job does not run, or how it ended, in one sentence with the facts.",
});

const explainQueue = operationsOf<ExplainApp>("queues")({
  name: "explainQueue",
  summary: "Explain why the jobs of a queue do not start",
  access: "viewer",
  input: { name: s.name },
  returns,
  result: explanationOfQueue,
  run: async ({ queues }, { name }) => ({ queue: name, ...(await queues.explain(name)) }),
  http: { method: "GET", path: "/api/v1/queues/{name}/explanation" },
  agent: "Why the jobs of a queue do not start, in one sentence with the facts.",
});

export const explainOperations = { explainJob, explainQueue };

/** Of either. */
export const explainCommand = operationsOf<ExplainApp>("jobs")({
  name: "explain",
  summary: "Explain in one sentence why a job or a queue does not run",
  access: "viewer",
  input: { id: s.id.optional(), queue: s.name.optional() },
  returns,
  result: s.union<s.TypeOf<typeof explanationOfJob> | s.TypeOf<typeof explanationOfQueue>>(
    explanationOfJob,
    explanationOfQueue,
  ),
  run: async ({ jobs, queues }, { id, queue }) => {
    if (id !== undefined) return { job: id, ...(await jobs.explain(id)) };
    const name = queue ?? "";
    return { queue: name, ...(await queues.explain(name)) };
  },
  cli: {
    command: "explain",
    arguments: { id: "the job's id, or an unambiguous prefix" },
    flags: { queue: { value: "<name>", about: "explain a queue instead of a job" } },
    inputOf: (given: { readonly id?: string; readonly queue?: string }) => {
      if ((given.id === undefined) !== (given.queue === undefined)) return given;
      throw invalid("id", "Pass either the id of a job, or --queue with the name of a queue.");
    },
    ids: { id: async (app, typed) => (await import("../jobs/command.ts")).jobId(app, typed) },
    examples: ["explain 01890a5d", "explain --queue mail"],
    show: ({ sentence }) => [printable(sentence)],
  },
});
