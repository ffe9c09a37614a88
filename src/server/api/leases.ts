/**
 * Leases: what a worker in any language needs.
 *
 * Where only such workers run, nobody else takes back what ran out and makes pending what is due. So whoever acquires here does
 * these chores on the way, about once a second for the whole server.
 */
import { z } from "zod";
import { DEFAULT_CRASHES_MAX } from "../../queue/leases.ts";
import type { AcquireOptions, Release } from "../../queue/leases.ts";
import type { LeaseFilter, Store } from "../../store/store.ts";
import type { RouteParts } from "../parts.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

const TAG = "leases";
/** Over HTTP fewer at once than in a process: each brings its input with it. */
const ACQUIRE_MAX = 100;
const NAMES_MAX = 100;
const PAGE = 100;
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
  .meta({ description: "A text, or an object with a message." });

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
    description: "What became of the attempt, under the fence that the lease came with.",
  });

export function leaseRoutes(parts: RouteParts): Route[] {
  return [acquireRoute(parts), ...heldRoutes(parts), resetRoute(parts), listRoute(parts)];
}

function acquireRoute({ holdfast }: RouteParts): Route {
  const chores = new Chores(holdfast.store, () => holdfast.runtime.monotonic());
  return route({
    method: "POST",
    path: "/api/v1/leases/acquire",
    name: "acquireLeases",
    tag: TAG,
    summary: "Take pending jobs, each under a lease that nobody else has",
    access: "operator",
    body: z.strictObject({
      worker: s.workerId.meta({ description: "Unique for every start of your process." }),
      queues: z.array(s.name).min(1).max(NAMES_MAX).optional(),
      tasks: z.array(s.name).min(1).max(NAMES_MAX).optional(),
      limit: z.int().min(1).max(ACQUIRE_MAX).optional(),
      lease: s.duration.optional(),
    }),
    answers: {
      200: {
        description: "The jobs; none: there is nothing to do.",
        schema: z.object({ leases: z.array(s.lease) }),
      },
    },
    run: async ({ body }) => {
      await chores.do();
      const leases = await holdfast.leases.acquire(body as AcquireOptions);
      return { status: 200, json: { leases: leases.map(leaseOf) } };
    },
  });
}

function leaseOf(lease: z.output<typeof s.lease>): z.output<typeof s.lease> {
  const { id, worker, epoch, queue, task, input, attempt, attemptsMax, lockedUntil } = lease;
  return { id, worker, epoch, queue, task, input, attempt, attemptsMax, lockedUntil };
}

class Chores {
  readonly #store: Store;
  readonly #now: () => number;
  #doneAt = Number.NEGATIVE_INFINITY;

  constructor(store: Store, now: () => number) {
    this.#store = store;
    this.#now = now;
  }

  async do(): Promise<void> {
    if (this.#now() - this.#doneAt < CHORES_EVERY_MS) return;
    this.#doneAt = this.#now();
    await this.#store.reclaimExpired({
      graceMs: GRACE_MS,
      crashesMax: DEFAULT_CRASHES_MAX,
      limit: CHORES_LIMIT,
    });
    const { dueInMs } = await this.#store.upcoming();
    if (dueInMs !== null && dueInMs <= 0) await this.#store.promoteDue({ limit: CHORES_LIMIT });
  }
}

function heldRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "POST",
      path: "/api/v1/leases/{id}/extend",
      name: "extendLease",
      tag: TAG,
      summary: "Keep a job for longer",
      access: "operator",
      params: { id: s.id },
      body: z.strictObject({ ...fence, lease: s.duration.optional() }),
      answers: {
        200: {
          description: "It is yours until then. `cancelRequested`: somebody wants you to stop.",
          schema: z.object({ lockedUntil: s.instant, cancelRequested: z.boolean() }),
        },
      },
      problems: [409],
      repeatable: true,
      run: async ({ params, body }) => {
        const { lease, ...rest } = body;
        const extended = await holdfast.leases.extend(
          { ...params, ...rest },
          lease === undefined ? {} : { lease },
        );
        return { status: 200, json: extended };
      },
    }),
    route({
      method: "POST",
      path: "/api/v1/leases/{id}/settle",
      name: "settleLease",
      tag: TAG,
      summary: "Give a job back, and say what became of it",
      access: "operator",
      params: { id: s.id },
      body: settlement,
      answers: {
        200: {
          description: "What the job is then. `retryAt`: when it is tried again.",
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
        return { status: 200, json: await holdfast.leases.release(lease, release as Release) };
      },
    }),
  ];
}

function resetRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/leases/reset-expired",
    name: "resetExpiredLeases",
    tag: TAG,
    summary: "Take back what ran out; workers and whoever acquires do this by themselves",
    access: "operator",
    body: z.strictObject({
      grace: s.duration.optional(),
      limit: z.int().min(1).max(CHORES_LIMIT).optional(),
    }),
    answers: {
      200: {
        description: "The jobs, and what they are then.",
        schema: z.object({
          jobs: z.array(
            z.object({ id: s.id, worker: z.string(), epoch: s.count, status: s.status }),
          ),
        }),
      },
    },
    repeatable: true,
    run: async ({ body }) => {
      const settled = await holdfast.leases.resetExpired(body as object);
      const jobs = settled.map(({ id, worker, epoch, status }) => ({ id, worker, epoch, status }));
      return { status: 200, json: { jobs } };
    },
  });
}

function listRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/leases",
    name: "listLeases",
    tag: TAG,
    summary: "Who has which job, and what ran out",
    access: "viewer",
    query: {
      state: z.enum(["active", "expired"]).optional(),
      worker: s.workerId.optional(),
      after: s.id.optional().meta({ description: "`next` of the page before." }),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page, in the order of the jobs' ids.",
        schema: z.object({ leases: z.array(s.leaseRecord), next: s.id.nullable() }),
      },
    },
    run: async ({ query }) => {
      const { state = "active", limit = PAGE, ...filter } = query;
      const leases = await holdfast.store.leases({ ...filter, state, limit } as LeaseFilter);
      const next = leases.length === limit ? (leases.at(-1)?.id ?? null) : null;
      return { status: 200, json: { leases, next } };
    },
  });
}
