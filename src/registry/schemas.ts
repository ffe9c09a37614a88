/** Schemas of workers in responses. */
import { z } from "zod";
import { count, instant } from "../http/schemas.ts";

export const workerType = z
  .object({
    type: z.string(),
    slots: z
      .int()
      .nullable()
      .meta({ description: "Maximum number of active workers; null: unlimited." }),
    active: count,
  })
  .meta({ id: "WorkerType" });

export const worker = z
  .object({
    id: z.string(),
    type: z.string(),
    slot: z.int().nullable(),
    instance: count,
    status: z.enum(["starting", "running", "stopping", "stopped"]),
    reason: z.string().nullable(),
    desiredState: z.enum(["run", "pause", "drain", "stop"]),
    version: z.string(),
    nodeVersion: z.string(),
    platform: z.string(),
    arch: z.string(),
    hostname: z.string(),
    pid: z.int(),
    queues: z.array(z.string()),
    tasks: z.array(z.string()),
    concurrency: count,
    startedAt: instant,
    heartbeatAt: instant,
    silentMs: z.number(),
    staleMs: z.number(),
    hungMs: z.number(),
    liveness: z.enum(["alive", "stale", "hung", "stopped"]).meta({
      description:
        "Based on the last heartbeat and the database's clock. Stale and hung workers count as dead.",
    }),
    leases: count.meta({ description: "Jobs it holds now." }),
    stoppedAt: instant.nullable(),
    heartbeats: count,
    gapMsMax: z.number(),
    claimed: count,
    done: count,
    failed: count,
    retried: count,
    leasesLost: count,
    running: count.meta({ description: "Jobs that were running at its last heartbeat." }),
    loopDelayMs: z.number(),
    memoryBytes: z.number(),
  })
  .meta({ id: "Worker", description: "A process that runs jobs." });

export const unregistered = z
  .object({
    id: z.string(),
    kind: z.enum(["standby", "leases"]).meta({
      description:
        "A standby worker, or a program that claims jobs over HTTP or with the lease commands.",
    }),
    type: z.string().nullable(),
    hostname: z.string().nullable(),
    pid: z.int().nullable(),
    version: z.string().nullable(),
    queues: z.array(z.string()),
    tasks: z.array(z.string()).nullable().meta({ description: "Null: any task." }),
    startedAt: instant,
    heartbeatAt: instant,
    silentMs: z.number(),
    leases: count.meta({ description: "Jobs it holds now." }),
  })
  .meta({ id: "UnregisteredWorker", description: "A worker without a row in the registry." });

export const drift = z
  .object({
    workers: z
      .array(z.object({ type: z.string(), versions: z.array(z.string()) }))
      .meta({ description: "Worker types with running workers of different builds." }),
    enqueuers: z
      .array(
        z.object({
          version: z.string(),
          firstAt: instant,
          lastAt: instant,
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
