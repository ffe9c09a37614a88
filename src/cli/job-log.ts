/** What a service logs about jobs. Never what a job was given or gave back: that is the user's, and may be secret. */
import { formatMs } from "../core/duration.ts";
import type { Logger } from "../core/log.ts";
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

function factsOf({ id, attempt, worker }: JobEvent): object {
  return { job: id, attempt, worker };
}
