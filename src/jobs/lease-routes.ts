/**
 * Leases: the API for workers in any language.
 *
 * If only such workers run, no other process reclaims expired leases and promotes due jobs. So acquiring does this maintenance
 * too, about once a second per server.
 */
import { z } from "zod";
import type { Runtime } from "../core/runtime.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { type AcquireOptions, DEFAULT_CRASHES_MAX, type Leases, type Release } from "./leases.ts";
import type { JobsStore } from "./sql-jobs.ts";

interface LeaseRouteParts {
  readonly jobs: JobsStore;
  readonly leases: Leases;
  readonly runtime: Runtime;
}

const TAG = "leases";

/** Fewer than in a process, because the response contains every job's input. */
const ACQUIRE_MAX = 100;

const NAMES_MAX = 100;

const CHORES_EVERY_MS = 1_000;

const CHORES_LIMIT = 1_000;

const GRACE_MS = 2_000;

const fence = {
  worker: s.workerId,
  epoch: z.int().min(0),
};

const failure = z
  .union([
    z.string(),
    z.object({
      name: z.string().optional(),
      message: z.string(),
      code: z.string().optional(),
      stack: z.string().optional(),
    }),
  ])
  .meta({ description: "A string, or an object with a message." });

const settlement = z
  .discriminatedUnion("as", [
    z.strictObject({ ...fence, as: z.literal("done"), result: z.unknown().optional() }),
    z.strictObject({
      ...fence,
      as: z.literal("failed"),
      error: failure,
      retryIn: s.duration.optional(),
      final: z.boolean().optional(),
      attempt: z.int().min(1).optional(),
    }),
    z.strictObject({ ...fence, as: z.literal("suspended"), for: s.duration }),
    z.strictObject({ ...fence, as: z.literal("released") }),
  ])
  .meta({
    id: "Settlement",
    description: "The outcome of the attempt, with the worker and epoch of the lease.",
  });

const claimed = {
  id: s.id,
  worker: z.string(),
  epoch: s.count,
  queue: z.string(),
  task: z.string(),
};

const leaseSchema = z
  .object({
    ...claimed,
    input: z.unknown(),
    attempt: s.count,
    maxAttempts: s.count,
    lockedUntil: s.instant,
  })
  .meta({
    id: "Lease",
    description:
      "A job claimed until `lockedUntil`. Send `worker` and `epoch` with every later request about it.",
  });

export function leaseRoutes(parts: LeaseRouteParts): Route[] {
  return [acquireRoute(parts), ...heldRoutes(parts), resetRoute(parts)];
}

function acquireRoute({ jobs, leases, runtime }: LeaseRouteParts): Route {
  const maintain = maintenance(jobs, runtime);
  return route({
    method: "POST",
    path: "/api/v1/leases/acquire",
    name: "acquireLeases",
    isWhole: true,
    tag: TAG,
    summary: "Claim pending jobs under exclusive leases",
    access: "operator",
    body: z.strictObject({
      worker: s.workerId.meta({ description: "Must be unique for every start of your process." }),
      queues: z.array(s.name).min(1).max(NAMES_MAX).optional(),
      tasks: z.array(s.name).min(1).max(NAMES_MAX).optional(),
      limit: z.int().min(1).max(ACQUIRE_MAX).optional(),
      lease: s.duration.optional(),
    }),
    answers: {
      200: {
        description: "The claimed jobs; empty if none is pending.",
        schema: z.object({ leases: z.array(leaseSchema) }),
      },
    },
    run: async ({ body }) => {
      await maintain();
      const acquired = await leases.acquire(body as AcquireOptions);
      return { status: 200, json: { leases: acquired.map(leaseOf) } };
    },
  });
}

function leaseOf(lease: z.output<typeof leaseSchema>): z.output<typeof leaseSchema> {
  const { id, worker, epoch, queue, task, input, attempt, maxAttempts, lockedUntil } = lease;
  return { id, worker, epoch, queue, task, input, attempt, maxAttempts, lockedUntil };
}

function maintenance(jobs: JobsStore, runtime: Runtime): () => Promise<void> {
  const reclaim = { graceMs: GRACE_MS, maxCrashes: DEFAULT_CRASHES_MAX, limit: CHORES_LIMIT };
  let doneAt = Number.NEGATIVE_INFINITY;
  return async () => {
    if (runtime.monotonic() - doneAt < CHORES_EVERY_MS) return;
    doneAt = runtime.monotonic();
    await jobs.reclaimExpired(reclaim);
    const { dueInMs } = await jobs.upcoming();
    if (dueInMs !== null && dueInMs <= 0) await jobs.promoteDue({ limit: CHORES_LIMIT });
  };
}

function heldRoutes({ leases }: LeaseRouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/leases/{id}/extend",
      name: "extendLease",
      tag: TAG,
      summary: "Extend a lease",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({ ...fence, lease: s.duration.optional() }),
      answers: {
        200: {
          description: "The new expiry. If `cancelRequested` is true, stop working on the job.",
          schema: z.object({ lockedUntil: s.instant, cancelRequested: z.boolean() }),
        },
      },
      problems: [409],
      repeatable: true,
      run: async ({ params, body }) => {
        const { lease, ...held } = body;
        const options = lease === undefined ? {} : { lease };
        return { status: 200, json: await leases.extend({ ...params, ...held }, options) };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/leases/{id}/settle",
      name: "settleLease",
      tag: TAG,
      summary: "Settle a job with the outcome of its attempt",
      access: "operator",
      params: { id: s.id },
      body: settlement,
      answers: {
        200: {
          description: "The job's new status. `retryAt` is when it is retried.",
          schema: z.object({
            status: s.status,
            attempts: s.count,
            retryAt: s.instant.nullable(),
          }),
        },
      },
      problems: [409, 413],
      run: async ({ params, body }) => {
        const { worker, epoch, ...release } = body;
        const attempt = "attempt" in release ? release.attempt : undefined;
        const lease = { ...params, worker, epoch, ...(attempt === undefined ? {} : { attempt }) };
        return { status: 200, json: await leases.release(lease, release as Release) };
      },
    }),
  ];
}

function resetRoute({ leases }: LeaseRouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/leases/reset-expired",
    name: "resetExpiredLeases",
    tag: TAG,
    summary: "Reclaim expired leases; workers and `acquire` do this automatically",
    access: "operator",
    body: z.strictObject({
      grace: s.duration.optional(),
      limit: z.int().min(1).max(CHORES_LIMIT).optional(),
    }),
    answers: {
      200: {
        description: "The reclaimed jobs and their new status.",
        schema: z.object({
          jobs: z.array(
            z.object({ id: s.id, worker: z.string(), epoch: s.count, status: s.status }),
          ),
        }),
      },
    },
    repeatable: true,
    run: async ({ body }) => {
      const settled = await leases.resetExpired(body as object);
      const reclaimed = settled.map(({ id, worker, epoch, status: now }) => {
        return { id, worker, epoch, status: now };
      });
      return { status: 200, json: { jobs: reclaimed } };
    },
  });
}
