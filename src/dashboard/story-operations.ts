/** Everything that the page of one job draws. */
import { type AuditEntry, subjects } from "../audit/entry.ts";
import { auditLine } from "../audit/operations.ts";
import { kindOf } from "../core/error-kind.ts";
import { JobNotFoundError } from "../core/errors.ts";
import type { Explanation } from "../core/explanation.ts";
import type { AttemptState } from "../core/job.ts";
import { jobExplanation } from "../explain/shapes.ts";
import { dependency } from "../flows/operations.ts";
import type { DependencyView } from "../flows/results.ts";
import type { AttemptView, InputRevision, JobView, StepView } from "../jobs/jobs.ts";
import * as shapes from "../jobs/shapes.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import type { Usual } from "../stats/times.ts";
import type { Related, Relations } from "./store.ts";

/** The page reads earlier ones when a person asks for them: each may have kilobytes. */
const ATTEMPTS_MAX = 10;

/** Jobs it waits for, and jobs that wait for it. */
const DEPENDENCIES_MAX = 100;

const AUDIT_MAX = 50;

/** The errors of other attempts say why a job was put off. */
const FAILED: ReadonlySet<AttemptState> = new Set(["retry", "crashed", "failed"]);

const related = s.object({ id: s.id, task: s.text(), status: s.status }).named("RelatedJob");

const attemptOfBuild = s
  .object({
    ...shapes.attemptFields,
    build: s.text().nullable(),
    kind: s.text().nullable().about("The kind of its error, as the list of errors has it."),
  })
  .named("AttemptOfBuild", "An attempt with the build of its worker.");

const blockedShape = s.object({ ms: s.number(), stack: s.text() });

const story = s
  .object({
    job: shapes.job,
    attempts: s.list(attemptOfBuild).about(`The newest ${ATTEMPTS_MAX}, oldest first.`),
    steps: s.list(shapes.step),
    inputs: s.list(shapes.inputRevision),
    explanation: jobExplanation.nullable(),
    startBy: s.instant.nullable(),
    schedule: s.text().nullable(),
    item: s
      .object({
        id: s.id,
        workflow: s.text(),
        identifier: s.text().nullable(),
        status: s.text(),
      })
      .nullable(),
    flow: s.id.nullable(),
    dependencies: s.list(dependency),
    dependents: s.list(related),
    called: s.list(related).about("Jobs it called and waits for now."),
    callers: s.list(related).about("Jobs that called it and wait for it."),
    usual: s
      .object({ lowMs: s.number(), highMs: s.number(), count: s.count })
      .nullable()
      .about("Four of five recent runs of its task took between these."),
    audit: s.list(auditLine),
    blocked: blockedShape
      .nullable()
      .about("Where a task blocks the event loop of the worker that runs it."),
  })
  .named("JobStory", "Everything about one job.");

export interface StoryApp {
  readonly jobs: {
    get(id: string): Promise<JobView | null>;
    attempts(id: string, page: { limit: number }): Promise<AttemptView[]>;
    steps(id: string): Promise<StepView[]>;
    inputs(id: string): Promise<InputRevision[]>;
    explain(id: string): Promise<Explanation>;
  };
  readonly flows: {
    of(id: string): Promise<string | null>;
    dependencies(id: string): AsyncIterable<DependencyView>;
    dependents(id: string, options: { limit: number }): Promise<string[]>;
  };
  readonly audit: {
    list(filter: { subject: string; limit: number }): Promise<AuditEntry[]>;
  };
  readonly usual: (task: string) => Promise<Usual | null>;
  readonly relations: (id: string) => Promise<Relations>;
  readonly brief: (ids: readonly string[]) => Promise<Related[]>;
  readonly worker: (id: string) => Promise<Pick<WorkerRecord, "blockedMs" | "blockedStack"> | null>;
  readonly builds: (workers: readonly string[]) => Promise<Readonly<Record<string, string>>>;
}

export const storyOperations = {
  story: operationsOf<StoryApp>("dashboard")({
    name: "getJobStory",
    summary: "Everything about one job in one request",
    access: "viewer",
    input: { id: s.id },
    returns: "The job.",
    result: story,
    run: storyOf,
    http: { method: "GET", path: "/api/v1/jobs/{id}/story" },
  }),
};

async function storyOf(
  parts: StoryApp,
  { id }: { readonly id: string },
): Promise<s.TypeOf<typeof story>> {
  const { jobs, flows } = parts;
  const job = await jobs.get(id);
  if (job === null) throw new JobNotFoundError({ id });
  const [attempts, steps, inputs, relations, usual, audit] = await Promise.all([
    jobs.attempts(id, { limit: ATTEMPTS_MAX }),
    jobs.steps(id),
    jobs.inputs(id),
    parts.relations(id),
    parts.usual(job.task),
    parts.audit.list({ subject: subjects.job(id), limit: AUDIT_MAX }),
  ]);
  const [flow, dependencies, dependents, builds, explanation, blocked] = await Promise.all([
    flows.of(id),
    dependenciesOf(parts, id),
    flows.dependents(id, { limit: DEPENDENCIES_MAX }).then(parts.brief),
    parts.builds(attempts.map(({ worker }) => worker)),
    jobs.explain(id).catch(() => null), // the rest is worth showing without it
    blockedOf(parts, job.lockedBy),
  ]);
  const { called, callers, ...belongs } = relations;
  return {
    job,
    attempts: attempts.map((one) => ({
      ...one,
      build: builds[one.worker] ?? null,
      kind: one.error === null || !FAILED.has(one.outcome) ? null : kindOf(job.task, one.error).id,
    })),
    steps,
    inputs,
    explanation,
    ...belongs,
    flow,
    dependencies,
    dependents,
    called,
    callers,
    usual,
    audit,
    blocked,
  };
}

/** Where the worker of a running job is blocked. */
async function blockedOf({ worker }: StoryApp, id: string | null) {
  const { blockedMs: ms = 0, blockedStack: stack = null } =
    (id === null ? null : await worker(id)) ?? {};
  return stack === null ? null : { ms, stack };
}

async function dependenciesOf({ flows }: StoryApp, id: string) {
  const found: s.TypeOf<typeof dependency>[] = [];
  for await (const { result: _result, error: _error, ...one } of flows.dependencies(id)) {
    if (found.push(one) === DEPENDENCIES_MAX) break;
  }
  return found;
}
