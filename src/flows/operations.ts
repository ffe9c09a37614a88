/** The verbs of flows and batches. */
import { JobNotFoundError } from "../core/errors.ts";
import { idRange } from "../core/id.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { dependencyPolicies } from "../jobs/store.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, plain, right, tableOf } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import { counted } from "../terminal/table.ts";
import { FlowNotFoundError } from "./errors.ts";
import { type Flows, flowStatuses } from "./flows.ts";
import { type DependencyRecord, flowKinds, type FlowsStore, jobStates } from "./store.ts";

export interface FlowsApp {
  readonly flows: Flows;
  readonly jobs: Pick<Jobs, "get" | "list">;
  readonly store: { readonly flows: Pick<FlowsStore, "list"> };
}

const operation = operationsOf<FlowsApp>("flows");

const DEPENDENCIES_DEFAULT = 50;

const facts = {
  id: s.id,
  kind: s.choice(flowKinds),
  name: s.text(),
  callback: s.id.nullable().about("The job that runs when all jobs of a batch have ended."),
  createdAt: s.instant,
  status: s.choice(flowStatuses),
  total: s.count,
  done: s.count,
  failed: s.count,
  cancelled: s.count,
  live: s.count.about("Jobs that have not ended."),
  pruned: s.count.about("Ended jobs whose records were pruned."),
};

const flow = s.object(facts).named("Flow", "A flow or a batch with the state of its jobs.");

const flowJob = s
  .object({
    id: s.id,
    name: s.text().nullable(),
    task: s.text(),
    queue: s.text(),
    status: s.status,
    missing: s.count.about("How many jobs it still waits for."),
    endedBy: s.id
      .nullable()
      .about("The job that it waited for and whose end ended it; null: it ended by itself."),
    error: s.text().nullable().about("Name and message of its last error."),
  })
  .named("FlowJob", "A job of a flow.");

export const dependency = s
  .object({
    id: s.id,
    name: s.text().nullable(),
    task: s.text().nullable(),
    status: s.status.nullable().about("Null: its record was deleted."),
    onFailed: s.choice(dependencyPolicies),
    onCancelled: s.choice(dependencyPolicies),
  })
  .named("Dependency", "A job that another job waits or waited for.");

const FLOWS: Columns<s.TypeOf<typeof flow>> = [
  plain("ID", ({ id }) => id),
  plain("KIND", ({ kind }) => kind),
  flexible("NAME", ({ name }) => name),
  plain("STATUS", ({ status }) => status),
  right("DONE", ({ done }) => String(done)),
  right("FAILED", ({ failed }) => String(failed)),
  right("CANCELLED", ({ cancelled }) => String(cancelled)),
  right("LEFT", ({ live }) => String(live)),
];

const JOBS: Columns<s.TypeOf<typeof flowJob>> = [
  plain("ID", ({ id }) => id),
  flexible("NAME", ({ name }) => name ?? ""),
  flexible("TASK", ({ task }) => task),
  plain("STATUS", ({ status }) => status),
  right("WAITS FOR", ({ missing }) => (missing === 0 ? "" : String(missing))),
  flexible("BECAUSE", ({ endedBy, error }) => (endedBy === null ? (error ?? "") : `of ${endedBy}`)),
];

const DEPENDENCIES: Columns<s.TypeOf<typeof dependency>> = [
  plain("WAITS FOR", ({ id }) => id),
  flexible("NAME", ({ name }) => name ?? ""),
  flexible("TASK", ({ task }) => task ?? ""),
  plain("STATUS", ({ status }) => status ?? "deleted"),
  plain("IF FAILED", ({ onFailed }) => onFailed),
  plain("IF CANCELLED", ({ onCancelled }) => onCancelled),
];

const itsId = { id: "the flow's id, or its start" };

const wholeFlowId = ({ store }: FlowsApp, typed: string): Promise<string> =>
  wholeId(typed, {
    what: "flow",
    find: async (prefix, limit) => {
      const id = idRange(prefix);
      const found = id === null ? [] : await store.flows.list({ id, limit });
      return found.map(({ id: whole, kind, name }) => ({ id: whole, about: `${kind} ${name}` }));
    },
    notFound: (id) => new FlowNotFoundError({ id }),
  });
const ids = { id: wholeFlowId };

/** Lines of one graph that are read. */
const EDGES_MAX = 500;

const jobsPage = {
  after: s.id.optional(),
  limit: s.pageLimit.optional(),
  state: s
    .choice(jobStates)
    .optional()
    .about("Only jobs that ended and are not `done` (`failed`), `done` ones, or others (`live`)."),
};
const jobsFlags = {
  state: { value: "<state>", about: "only jobs that are failed (or cancelled), done or live" },
  after: { value: "<id>", about: "only jobs after this one (next page)" },
  limit: { about: "maximum number of jobs", initial: 20 },
};

export const flowOperations = {
  list: operation({
    name: "listFlows",
    summary: "List flows and batches, newest first",
    access: "viewer",
    input: {
      kind: s.choice(flowKinds).optional(),
      before: s.id.optional(),
      limit: s.pageLimit.optional(),
    },
    returns: "A page. Pass the last id as `before` to get the next.",
    result: s.object({ flows: s.list(flow) }),
    run: async ({ flows }, input) => ({ flows: await flows.list(input) }),
    http: { method: "GET", path: "/api/v1/flows" },
    cli: {
      command: "flows list",
      flags: {
        kind: { value: "<kind>", about: "only flows (flow) or batches (batch)" },
        before: { value: "<id>", about: "only flows older than this one (next page)" },
        limit: { about: "maximum number of flows", initial: 20 },
      },
      examples: ["flows list --kind batch"],
      show: listOf({
        rows: ({ flows }) => flows,
        columns: FLOWS,
        none: "No flows.",
        unit: "flow",
      }),
    },
    agent: "The newest flows and batches, and how many of their jobs are done, failed or left.",
  }),

  get: operation({
    name: "getFlow",
    summary: "Get a flow or a batch, with the state of its jobs and a page of them",
    access: "viewer",
    input: { id: s.id, ...jobsPage },
    returns: "The flow. Pass the last id of its jobs as `after` to get the next.",
    result: s.object({ ...facts, jobs: s.list(flowJob) }).named("FlowDetails", "A flow."),
    run: async ({ flows }, { id, ...page }) => {
      const found = await flows.get(id);
      if (found === null) throw new FlowNotFoundError({ id });
      return { ...found, jobs: await flows.jobs(id, page) };
    },
    http: { method: "GET", path: "/api/v1/flows/{id}" },
    cli: {
      command: "flows show",
      about: "show a flow or batch, and its jobs",
      arguments: itsId,
      flags: jobsFlags,
      ids,
      examples: ["flows show 01890a5d --state failed"],
      show: (found, { terminal }) => {
        const { kind, name, status, total, done, failed, cancelled, live, callback } = found;
        return [
          `${kind} ${name}: ${status}`,
          `${done} done, ${failed} failed, ${cancelled} cancelled, ${live} left of ${counted(total, "job")}`,
          ...(callback === null ? [] : [`callback: job ${callback}`]),
          "",
          ...tableOf(JOBS, found.jobs, terminal),
        ];
      },
    },
    agent: "One flow or batch: how many of its jobs ended how, and a page of its jobs.",
  }),

  jobs: operation({
    name: "listFlowJobs",
    summary: "List the jobs of a flow, in the order in which they were added",
    access: "viewer",
    input: { id: s.id, ...jobsPage },
    returns: "A page. Pass the last id as `after` to get the next.",
    result: s.object({ jobs: s.list(flowJob) }),
    run: async ({ flows }, { id, ...page }) => ({ jobs: await flows.jobs(id, page) }),
    http: { method: "GET", path: "/api/v1/flows/{id}/jobs" },
    cli: {
      command: "flows jobs",
      arguments: itsId,
      flags: jobsFlags,
      ids,
      examples: ["flows jobs 01890a5d --limit 100"],
      show: listOf({
        rows: ({ jobs }) => jobs,
        columns: JOBS,
        none: "No jobs.",
        unit: "job",
      }),
    },
  }),

  edges: operation({
    name: "listFlowEdges",
    summary: "List the lines of a flow's graph: which job waits or waited for which",
    access: "viewer",
    input: { id: s.id },
    returns: `At most the first ${EDGES_MAX} lines.`,
    result: s.object({
      edges: s.list(s.object({ job: s.id, on: s.id.about("The job that it waits for.") })),
      isAll: s.boolean(),
    }),
    run: async ({ flows }, { id }) => {
      const edges = await flows.edges(id, { limit: EDGES_MAX + 1 });
      return { edges: edges.slice(0, EDGES_MAX), isAll: edges.length <= EDGES_MAX };
    },
    http: { method: "GET", path: "/api/v1/flows/{id}/edges" },
  }),

  dependencies: operation({
    name: "listDependencies",
    summary: "List the jobs that a job waits or waited for, and those that wait for it",
    access: "viewer",
    input: { id: s.id, limit: s.pageLimit.optional() },
    returns: "The first page of both lists. `flow` is the flow that the job belongs to, or null.",
    result: s.object({
      flow: s.id.nullable(),
      dependencies: s.list(dependency),
      dependents: s.list(s.id),
    }),
    run: dependenciesOf,
    http: { method: "GET", path: "/api/v1/jobs/{id}/dependencies" },
    cli: {
      command: "flows dependencies",
      about: "list the jobs that a job waits for, and those that wait for it",
      arguments: { id: "the job's id, or its start" },
      flags: { limit: { about: "maximum length of each list", initial: DEPENDENCIES_DEFAULT } },
      ids: { id: async (app, typed) => (await import("../jobs/command.ts")).jobId(app, typed) },
      examples: ["flows dependencies 01890a5d"],
      show: ({ flow: of, dependencies, dependents }, { terminal }) => [
        ...(of === null ? [] : [`flow ${of}`, ""]),
        ...(dependencies.length === 0
          ? ["It waits for no job."]
          : tableOf(DEPENDENCIES, dependencies, terminal)),
        "",
        ...(dependents.length === 0 ? ["No job waits for it."] : ["These wait for it:"]),
        ...dependents,
      ],
    },
    agent: "Which jobs a job waits for, what became of them, and which jobs wait for it.",
  }),

  cancel: operation({
    name: "cancelFlow",
    summary: "Cancel the jobs of a flow that have not ended",
    access: "operator",
    input: { id: s.id },
    isAudited: true,
    returns: "How many jobs were cancelled or asked to stop.",
    result: s.object({ id: s.id, cancelled: s.count }),
    run: async ({ flows }, { id }, { by }) => ({ id, cancelled: await flows.cancel(id, by) }),
    http: { method: "POST", path: "/api/v1/flows/{id}/cancel", problems: [404] },
    cli: {
      command: "flows cancel",
      arguments: itsId,
      ids,
      examples: ["flows cancel 01890a5d"],
      show: ({ id, cancelled }) => [`Cancelled ${counted(cancelled, "job")} of flow ${id}.`],
    },
    agent: "Cancel the jobs of a flow that have not ended; those that run are asked to stop.",
  }),

  retry: operation({
    name: "retryFlow",
    summary: "Retry the failed and cancelled jobs of a flow",
    access: "operator",
    input: { id: s.id, attempts: s.integer({ min: 1, max: ATTEMPTS_MAX }).optional() },
    isAudited: true,
    returns: "How many jobs were retried.",
    result: s.object({ id: s.id, retried: s.count }),
    run: async ({ flows }, { id, ...terms }, { by }) => ({
      id,
      retried: await flows.retry(id, { ...by, ...terms }),
    }),
    http: { method: "POST", path: "/api/v1/flows/{id}/retry", problems: [404, 409] },
    cli: {
      command: "flows retry",
      arguments: itsId,
      flags: { attempts: { about: "additional attempts for each job (default: 3)" } },
      ids,
      examples: ["flows retry 01890a5d --attempts 2"],
      show: ({ id, retried }) => [`Retried ${counted(retried, "job")} of flow ${id}.`],
    },
    agent: "Retry the failed and cancelled jobs of a flow, with those that ended because of them.",
  }),
};

async function dependenciesOf(
  { flows, jobs }: FlowsApp,
  { id, limit = DEPENDENCIES_DEFAULT }: { readonly id: string; readonly limit?: number },
) {
  const dependencies: Omit<DependencyRecord, "position" | "result" | "error">[] = [];
  for await (const { result: _result, error: _error, ...one } of flows.dependencies(id)) {
    if (dependencies.push(one) === limit) break;
  }
  const [flowId, dependents] = await Promise.all([flows.of(id), flows.dependents(id, { limit })]);
  const isAlone = flowId === null && dependencies.length + dependents.length === 0;
  if (isAlone && (await jobs.get(id)) === null) throw new JobNotFoundError({ id });
  return { flow: flowId, dependencies, dependents };
}
