/** Attempts as spans: each belongs to the trace of whoever enqueued its job. */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { answerWithin } from "../core/wait.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { isTracing, openSpan, type OpenSpan } from "../tracing/spans.ts";
import type { TracesStore } from "../tracing/store.ts";
import type { AttemptOutcome } from "./events.ts";

/** Jobs do not wait longer to learn where they belong: their leases are running. */
const LOOK_MS_MAX = 1_000;

export interface Tracing {
  readonly store: { readonly traces: TracesStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
}

/** The same jobs, with their traces: asked for once for all of them, and only where somebody traces. */
export async function withTraces(
  jobs: readonly ClaimedJob[],
  { store, runtime, logger }: Tracing,
): Promise<readonly ClaimedJob[]> {
  if (jobs.length === 0 || !isTracing()) return jobs;
  try {
    const asking = store.traces.list(jobs.map(({ id }) => id));
    const found = await answerWithin(runtime, LOOK_MS_MAX, asking);
    const traces = new Map(found.map(({ id, ...trace }) => [id, trace]));
    return jobs.map((job) => {
      const trace = traces.get(job.id);
      return trace === undefined ? job : { ...job, trace };
    });
  } catch (error) {
    logger.debug({ err: error }, "could not look up the traces of jobs; they begin their own");
    return jobs;
  }
}

export function openAttempt(job: ClaimedJob): OpenSpan | null {
  if (!isTracing()) return null;
  const { id, task, queue, worker, attempt, epoch, trace } = job;
  return openSpan({
    name: `attempt ${task}`,
    kind: "consumer",
    partition: true,
    ...(trace === undefined ? {} : { parent: trace }),
    facts: {
      "messaging.system": "holdfast",
      "messaging.destination.name": queue,
      "holdfast.job.id": id,
      "holdfast.task": task,
      "holdfast.attempt": attempt,
      "holdfast.epoch": epoch,
      "holdfast.worker": worker,
    },
  });
}

/** `lost`: the database refused its outcome, because the job is somebody else's. */
export function closeAttempt(
  span: OpenSpan | null,
  outcome: AttemptOutcome | "lost",
  error: unknown,
): void {
  if (span === null) return;
  span.add({ "holdfast.outcome": outcome });
  if (outcome === "retried" || outcome === "failed" || outcome === "lost") span.fail(error);
  span.end();
}
