/** What a service logs about jobs and queues. Never what a job was given or gave back: that is the user's, and may be secret. */
import { formatMs } from "../core/duration.ts";
import type { Status } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import type { Observation } from "../ops/observation.ts";
import type { JobEvent } from "../worker/events.ts";
import type { Worker } from "../worker/worker.ts";

/** The worker itself logs its start, its end and what goes wrong; here is what goes well. */
export function logJobs(worker: Worker, logger: Logger): void {
  worker.on("job:started", (event) => logger.debug(factsOf(event), `${event.task} started`));
  worker.on("job:completed", (event) =>
    logger.info({ ...factsOf(event), took: formatMs(event.durationMs) }, `${event.task} done`),
  );
  worker.on("job:retrying", (event) =>
    logger.warn(
      { ...factsOf(event), err: event.error },
      `${event.task} failed and will be tried again`,
    ),
  );
  worker.on("job:cancelled", (event) => logger.info(factsOf(event), `${event.task} cancelled`));
  worker.on("job:released", (event) => logger.info(factsOf(event), `${event.task} handed back`));
}

function factsOf({ id, attempt, worker, traceId }: JobEvent): object {
  return { job: id, attempt, worker, traceId };
}

/** One line about all queues: what waits, what runs, what became of the rest. */
export function logQueues({ at, census, minutes }: Observation, logger: Logger): void {
  if (census === null) return;
  const total = (status: Status): number =>
    census.queues.reduce((sum, { counts }) => sum + counts[status], 0);
  const oldest = census.queues.flatMap(({ oldestPendingAt }) => oldestPendingAt ?? []);
  const done = minutes.reduce((sum, minute) => sum + minute.done, 0);
  const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0);
  logger.info(
    {
      pending: total("pending"),
      processing: total("processing"),
      completed: total("done"),
      failed: total("failed"),
      oldestPendingMs: oldest.length === 0 ? null : Math.max(0, at - Math.min(...oldest)),
      // Of those that ended in the last quarter of an hour; null: none did.
      successRate:
        done + failed === 0 ? null : Math.round((done / (done + failed)) * 1_000) / 1_000,
    },
    "queues",
  );
}
