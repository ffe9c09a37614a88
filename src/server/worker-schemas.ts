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
    stoppedAt: instant.nullable(),
    beats: count,
    gapMsMax: z.number(),
    claimed: count,
    done: count,
    failed: count,
    retried: count,
    leasesLost: count,
    running: count,
    loopDelayMs: z.number(),
    memoryBytes: z.number(),
  })
  .meta({ id: "Worker", description: "A process that runs jobs." });
