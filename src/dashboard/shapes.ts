/** What the overview shows. */
import { alert } from "../alerts/operations.ts";
import { jobSummary } from "../jobs/shapes.ts";
import * as s from "../operations/shape.ts";
import { desiredStates, livenesses, workerStates } from "../registry/worker-record.ts";
import { paused } from "../queues/shapes.ts";
import { depthFields } from "../stats/shapes.ts";
import { serviceStatus } from "./status.ts";

const queue = s
  .object({
    ...depthFields,
    paused,
    running: s.count,
    slots: s.count.about("Of all workers that serve the queue and answer."),
    served: s.boolean().about("Whether a worker takes jobs from it."),
    concurrency: s.count.nullable().about("The limit of the queue; null: none."),
    inPerSecond: s.number(),
    outPerSecond: s.number(),
    failedHour: s.count,
    spark: s
      .list(s.count)
      .about("Jobs that ended in every two minutes of the last hour, oldest first."),
  })
  .named("OverviewQueue", "A queue with its work and its workers.");

export type OverviewQueue = s.TypeOf<typeof queue>;

const worker = s
  .object({
    id: s.text(),
    type: s.text(),
    running: s.count,
    concurrency: s.count,
    status: s.choice(workerStates),
    desiredState: s.choice(desiredStates),
    liveness: s.choice(livenesses),
    version: s.text(),
  })
  .named("OverviewWorker", "A worker with its jobs.");

export type OverviewWorker = s.TypeOf<typeof worker>;

const canary = s
  .object({
    queue: s.text(),
    sentAt: s.instant,
    pickupMs: s.number().nullable().about("Null: it has not started."),
    doneMs: s.number().nullable().about("Null: it has not ended."),
  })
  .named("Canary", "A job that only shows that jobs run.");

const figures = s.object({
  endedPerSecond: s.number().about("In the last whole minute."),
  usualLow: s
    .number()
    .nullable()
    .about("Four of five quarters of an hour of the last day are between these."),
  usualHigh: s.number().nullable(),
  succeeded: s.number().nullable().about("The share in the last hour, 0 to 1."),
  succeededBefore: s.number().nullable(),
  pickupP50Ms: s.number().nullable(),
  pickupP99Ms: s.number().nullable(),
  pending: s.count,
  running: s.count,
  slots: s.count,
  workers: s.count,
  builds: s.list(s.text()),
  failedHour: s.count,
  recovered: s.count.about("Jobs of workers that died or froze in the last five minutes."),
  errorKinds: s.count,
  errorKindsNew: s.count,
});

export const overview = s
  .object({
    at: s.instant,
    status: serviceStatus,
    countedAt: s.instant,
    figures,
    queues: s.list(queue),
    queuesLeftOut: s.count,
    workers: s.list(worker),
    alerts: s.list(alert).about("The worst first, at most 20."),
    alertsOpen: s
      .object({ critical: s.count, warning: s.count, info: s.count, silenced: s.count })
      .about("By severity without the silenced ones."),
    canaries: s.list(canary),
    failed: s.list(jobSummary),
    isEmpty: s.boolean(),
    pausedAll: s.boolean(),
  })
  .named("Overview", "How the service is.");

export type OverviewView = s.TypeOf<typeof overview>;
