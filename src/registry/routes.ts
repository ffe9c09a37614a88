/** Routes to inspect and control workers. */
import { z } from "zod";
import { notFound } from "../http-kernel/problem.ts";
import { auditedBy, route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import {
  desiredStates,
  livenesses,
  SLOTS_MAX,
  type WorkerRecord,
  workerStates,
} from "./worker-record.ts";
import type { Workers, WorkersFilter } from "./workers.ts";

const TAG = "workers";
const READ = { method: "GET", tag: TAG, access: "viewer" } as const;

const workerTypeSchema = z
  .object({
    type: z.string(),
    slots: z
      .int()
      .nullable()
      .meta({ description: "Maximum number of active workers; null: unlimited." }),
    active: s.count,
  })
  .meta({ id: "WorkerType" });

const workerSchema = z
  .object({
    id: z.string(),
    type: z.string(),
    slot: z.int().nullable(),
    instance: s.count,
    status: z.enum(workerStates),
    reason: z.string().nullable(),
    desiredState: z.enum(desiredStates),
    version: z.string(),
    nodeVersion: z.string(),
    platform: z.string(),
    arch: z.string(),
    hostname: z.string(),
    pid: z.int(),
    queues: z.array(z.string()),
    tasks: z.array(z.string()),
    concurrency: s.count,
    startedAt: s.instant,
    heartbeatAt: s.instant,
    silentMs: z.number(),
    staleMs: z.number(),
    hungMs: z.number(),
    liveness: z.enum(livenesses).meta({
      description:
        "Based on the last heartbeat and the database's clock. Stale and hung workers count as dead.",
    }),
    leases: s.count.meta({ description: "Jobs it holds now." }),
    stoppedAt: s.instant.nullable(),
    heartbeats: s.count,
    gapMsMax: z.number(),
    claimed: s.count,
    done: s.count,
    failed: s.count,
    retried: s.count,
    leasesLost: s.count,
    running: s.count.meta({ description: "Jobs that were running at its last heartbeat." }),
    loopDelayMs: z.number(),
    memoryBytes: z.number(),
    blockedMs: z.number().meta({
      description: "How long a task had blocked the event loop when the stack was taken; 0: none.",
    }),
    blockedStack: z.string().nullable().meta({ description: "Where it blocks it." }),
  })
  .meta({ id: "Worker", description: "A process that runs jobs." });

const unregisteredSchema = z
  .object({
    id: z.string(),
    kind: z.enum(["standby", "leases"]).meta({
      description:
        "A standby worker, or a program that claims jobs over HTTP or with the SQL functions.",
    }),
    type: z.string().nullable(),
    hostname: z.string().nullable(),
    pid: z.int().nullable(),
    version: z.string().nullable(),
    queues: z.array(z.string()),
    tasks: z.array(z.string()).nullable().meta({ description: "Null: any task." }),
    startedAt: s.instant,
    heartbeatAt: s.instant,
    silentMs: z.number(),
    leases: s.count.meta({ description: "Jobs it holds now." }),
  })
  .meta({ id: "UnregisteredWorker", description: "A worker without a row in the registry." });

const driftSchema = z
  .object({
    workers: z
      .array(z.object({ type: z.string(), versions: z.array(z.string()) }))
      .meta({ description: "Worker types with running workers of different builds." }),
    enqueuers: z
      .array(
        z.object({
          version: z.string(),
          firstAt: s.instant,
          lastAt: s.instant,
          silentMs: z
            .number()
            .meta({ description: "Time since it last enqueued a job; updated once a minute." }),
        }),
      )
      .meta({
        description:
          "Builds that enqueued jobs within the last five minutes but have no running worker.",
      }),
  })
  .meta({ id: "Drift" });

const DESIRED_STATES = { pause: "pause", resume: "run", drain: "drain", stop: "stop" } as const;

const SUMMARIES = {
  pause: "Pause a worker: it finishes its jobs and claims no new ones",
  resume: "Resume a paused worker",
  drain: "Drain a worker: it ends after its last job",
  stop: "Stop a worker: it releases jobs that do not end in time",
} as const satisfies Record<keyof typeof DESIRED_STATES, string>;

export function workerRoutes(workers: Workers): Route[] {
  const commands = Object.keys(DESIRED_STATES) as (keyof typeof DESIRED_STATES)[];
  return [
    ...readRoutes(workers),
    ...commands.map((command) => commandRoute(workers, command)),
    ...typeRoutes(workers),
    driftRoute(workers),
  ];
}

function readRoutes(workers: Workers): Route[] {
  return [
    route({
      ...READ,
      path: "/api/v1/workers",
      name: "listWorkers",
      summary: "List workers, most recently started first",
      query: {
        type: s.name.optional(),
        all: z.boolean().optional().meta({ description: "Include stopped workers." }),
        lost: z.boolean().optional().meta({
          description: "Only workers that were found dead within the last hour.",
        }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "The registered workers, and those without a registration.",
          schema: z.object({
            workers: z.array(workerSchema),
            unregistered: z.array(unregisteredSchema),
          }),
        },
      },
      run: async ({ query }) => {
        const listed = await workers.list(query as WorkersFilter);
        const others = await workers.unregistered();
        const unregistered = others.filter(
          ({ type }) => query.type === undefined || type === query.type,
        );
        return { status: 200, json: { workers: listed.map(viewOf), unregistered } };
      },
    }),
    route({
      ...READ,
      path: "/api/v1/workers/{id}",
      name: "getWorker",
      summary: "One worker",
      params: { id: s.workerId },
      answers: {
        200: {
          description: "The worker, registered or unregistered.",
          schema: z.union([
            z.object({ worker: workerSchema }),
            z.object({ unregistered: unregisteredSchema }),
          ]),
        },
      },
      run: async ({ params: { id } }) => {
        const worker = await workers.find(id);
        if (worker !== null) return { status: 200, json: { worker: viewOf(worker) } };
        const others = await workers.unregistered();
        const unregistered = others.find((other) => other.id === id);
        if (unregistered === undefined) throw notFound("such worker");
        return { status: 200, json: { unregistered } };
      },
    }),
  ];
}

function driftRoute(workers: Workers): Route {
  return route({
    ...READ,
    path: "/api/v1/drift",
    name: "getDrift",
    summary: "Build differences among workers, and between enqueuing processes and workers",
    answers: { 200: { description: "Empty lists if there are none.", schema: driftSchema } },
    run: async () => ({ status: 200, json: await workers.drift() }),
  });
}

/** How a process is identified on its host is internal. */
function viewOf(record: WorkerRecord): Omit<WorkerRecord, "hostBoot" | "processStart"> {
  const { hostBoot: _hostBoot, processStart: _processStart, ...view } = record;
  return view;
}

function commandRoute(workers: Workers, command: keyof typeof DESIRED_STATES): Route {
  return route({
    method: "POST",
    path: `/api/v1/workers/{id}/${command}`,
    name: `${command}Worker`,
    tag: TAG,
    summary: SUMMARIES[command],
    access: "operator",
    params: { id: s.workerId },
    body: z.strictObject({ reason: s.reason.optional() }),
    answers: {
      200: {
        description:
          "The desired state is stored; the worker applies it at its next heartbeat at the latest.",
        schema: z.object({ id: z.string(), desiredState: z.enum(desiredStates) }),
      },
    },
    repeatable: true,
    run: async (call) => {
      const [id] = await workers[command](call.params, auditedBy(call));
      if (id === undefined) throw notFound("such live worker");
      return { status: 200, json: { id, desiredState: DESIRED_STATES[command] } };
    },
  });
}

const slots = z
  .int()
  .min(1)
  .max(SLOTS_MAX)
  .nullable()
  .meta({ description: "Maximum number of active workers of the type; null: unlimited." });

function typeRoutes(workers: Workers): Route[] {
  return [
    route({
      ...READ,
      path: "/api/v1/worker-types",
      name: "listWorkerTypes",
      summary: "List worker types and their limits",
      answers: {
        200: {
          description: "The types, ordered by name.",
          schema: z.object({ types: z.array(workerTypeSchema) }),
        },
      },
      run: async () => ({ status: 200, json: { types: await workers.types() } }),
    }),
    route({
      method: "POST",
      path: "/api/v1/worker-types/{type}/limit",
      name: "setWorkerLimit",
      tag: TAG,
      summary: "Set the maximum number of active workers of a type",
      access: "operator",
      params: { type: s.name },
      body: z.strictObject({ slots, reason: s.reason.optional() }),
      answers: {
        200: {
          description: "The old and the new limit.",
          schema: z.object({ type: z.string(), from: slots, to: slots }),
        },
      },
      repeatable: true,
      run: async (call) => {
        const { params, body } = call;
        const set = await workers.setLimit(params.type, body.slots, auditedBy(call));
        return { status: 200, json: set };
      },
    }),
  ];
}
