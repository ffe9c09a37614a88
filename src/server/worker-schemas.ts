/** What the API tells about workers. */
import { z } from "zod";
import { count, instant } from "./schemas.ts";

export const workerType = z
  .object({
    type: z.string(),
    slots: z
      .int()
      .nullable()
      .meta({ description: "How many may be active at once; null: any number." }),
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
    wish: z.enum(["run", "pause", "drain", "stop"]),
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
      description: "By its last heartbeat and the database's clock. Stale and hung: it is dead.",
    }),
    leases: count.meta({ description: "Jobs that it holds, counted now." }),
    stoppedAt: instant.nullable(),
    beats: count,
    gapMsMax: z.number(),
    claimed: count,
    done: count,
    failed: count,
    retried: count,
    leasesLost: count,
    running: count.meta({ description: "Jobs that ran at its last heartbeat." }),
    loopDelayMs: z.number(),
    memoryBytes: z.number(),
  })
  .meta({ id: "Worker", description: "A process that runs jobs." });

export const unregistered = z
  .object({
    id: z.string(),
    kind: z.enum(["standby", "leases"]).meta({
      description: "A standby, or a program that takes jobs over HTTP or with the lease verbs.",
    }),
    type: z.string().nullable(),
    hostname: z.string().nullable(),
    pid: z.int().nullable(),
    version: z.string().nullable(),
    queues: z.array(z.string()),
    tasks: z.array(z.string()).nullable().meta({ description: "Null: any." }),
    startedAt: instant,
    heartbeatAt: instant,
    silentMs: z.number(),
    leases: count.meta({ description: "Jobs that it holds, counted now." }),
  })
  .meta({ id: "UnregisteredWorker", description: "A worker without a row in the registry." });

export const drift = z
  .object({
    workers: z
      .array(z.object({ type: z.string(), versions: z.array(z.string()) }))
      .meta({ description: "Types whose running workers are of different builds." }),
    enqueuers: z
      .array(
        z.object({
          version: z.string(),
          firstAt: instant,
          lastAt: instant,
          silentMs: z
            .number()
            .meta({ description: "Since it last enqueued; noted once a minute." }),
        }),
      )
      .meta({ description: "Builds that enqueued within five minutes and that no worker runs." }),
  })
  .meta({ id: "Drift" });
