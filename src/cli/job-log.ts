/**
 * What a service logs about jobs. Never what a job was given or gave back: that is the user's, and may be secret.
 *
 * A log store asks by `event` and by fields, so the message is the same for every task, and numbers are numbers.
 */
import type { Logger } from "../core/log.ts";
import type { EndEvent, JobEvent } from "../worker/events.ts";
import type { Worker } from "../worker/worker.ts";

/** The worker itself logs its start, its end and what goes wrong; here is what goes well. */
export function logJobs(worker: Worker, logger: Logger): void {
  worker.on("job:started", (event) => logger.debug(factsOf("job:started", event), "job started"));
  worker.on("job:completed", (event) => logger.info(endOf("job:done", event), "job done"));
  worker.on("job:retrying", (event) => {
    const { error: err, retryAt } = event;
    logger.warn({ ...endOf("job:retrying", event), retryAt, err }, "job retrying");
  });
  worker.on("job:cancelled", (event) =>
    logger.info(endOf("job:cancelled", event), "job cancelled"),
  );
  worker.on("job:released", (event) => logger.info(endOf("job:released", event), "job released"));
}

function factsOf(event: string, { id, task, queue, attempt, worker }: JobEvent): object {
  return { event, job: id, task, queue, attempt, worker };
}

function endOf(event: string, ended: EndEvent): object {
  return { ...factsOf(event, ended), durationMs: Math.round(ended.durationMs) };
}
