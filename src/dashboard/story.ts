/** Everything that the page of one job draws. */
import type { AuditEntry } from "../audit/entry.ts";
import { subjects } from "../audit/entry.ts";
import { JobNotFoundError } from "../core/errors.ts";
import type { Explanation } from "../core/explanation.ts";
import type { DependencyView } from "../flows/results.ts";
import type { AttemptView, InputRevision, JobView, StepView } from "../jobs/jobs.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import type { Usual } from "../stats/task-times.ts";
import type { Related, Relations } from "./relations.ts";
import { EARLY } from "./run-now.ts";

/** Jobs it waits for, and jobs that wait for it. */
const DEPENDENCIES_MAX = 100;

const AUDIT_MAX = 50;

export interface StoryParts {
  readonly jobs: {
    get(id: string): Promise<JobView | null>;
    attempts(id: string): Promise<AttemptView[]>;
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

export async function storyOf(parts: StoryParts, id: string): Promise<object> {
  const { jobs, flows } = parts;
  const job = await jobs.get(id);
  if (job === null) throw new JobNotFoundError({ id });
  const [attempts, steps, inputs, relations, usual, audit] = await Promise.all([
    jobs.attempts(id),
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
    attempts: attempts.map((one) => ({ ...one, build: builds[one.worker] ?? null })),
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
    canRunNow: EARLY.includes(job.status),
    blocked,
  };
}

/** Where the worker of a running job is blocked. */
async function blockedOf({ worker }: StoryParts, id: string | null): Promise<object | null> {
  const { blockedMs: ms = 0, blockedStack: stack = null } =
    (id === null ? null : await worker(id)) ?? {};
  return stack === null ? null : { ms, stack };
}

async function dependenciesOf({ flows }: StoryParts, id: string): Promise<object[]> {
  const found: object[] = [];
  for await (const { result: _result, error: _error, ...one } of flows.dependencies(id)) {
    if (found.push(one) === DEPENDENCIES_MAX) break;
  }
  return found;
}
