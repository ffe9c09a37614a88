/** Spans of attempts. Each belongs to the trace of the call that enqueued its job. */
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { answerWithin } from "../core/wait.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { isTracing, openSpan, type OpenSpan } from "../tracing/spans.ts";
import type { TracesStore } from "../tracing/store.ts";
import type { AttemptOutcome } from "./events.ts";

/** Jobs wait at most this long for their traces, because their leases are running. */
const LOOK_MS_MAX = 1_000;

/** Adds the traces of the jobs, with one query and only if the application traces. */
export async function withTraces(
  jobs: readonly ClaimedJob[],
  {
    store,
    runtime,
    logger,
  }: { store: { readonly traces: TracesStore }; runtime: Runtime; logger: Logger },
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
    logger.debug(
      { err: error },
      "could not read the traces of jobs; their attempts start new traces",
    );
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

/** `lost`: the database refused its outcome, because another worker owns the job. */
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
