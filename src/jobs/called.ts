/** Retrying a job that failed because a called job failed: without the called job it would fail again at once. */
import { decodeError } from "../core/error-record.ts";
import { CalledFailedError, type CalledJob } from "../core/errors.ts";
import { decode } from "../core/json.ts";
import type { StepRecord } from "../core/task.ts";
import type { JobsStore } from "./sql-jobs.ts";

/** What decides which called jobs are retried with a job. */
export interface RetryStores {
  readonly jobs: Pick<JobsStore, "find" | "findFinished" | "revive">;
  readonly steps: { list(job: string): Promise<readonly StepRecord[]> };
}

/** An operator must retry a longer chain of calls from its end. */
const CALLS_MAX = 100;

/** The called jobs whose failure failed this job, and that have not been retried since. */
async function failedCalls(store: RetryStores, id: string): Promise<CalledJob[]> {
  const job = await store.jobs.find(id);
  if (job?.status !== "failed" || job.lastError === null) return [];
  // A job that caught the failure of a call and failed for another reason catches it again.
  if (decodeError(job.lastError).code !== "CALL_FAILED") return [];
  const steps = await store.steps.list(id);
  const called = steps
    .filter(({ kind, status }) => kind === "call" && status === "failed")
    .flatMap(({ result }) => calledBy(result));
  const ended = await store.jobs.findFinished(called);
  return ended
    .filter(({ status }) => status !== "done")
    .map(({ id: one, task, status }) => ({ id: one, task, status }));
}

function calledBy(result: string | null): string[] {
  const facts = result === null ? null : (decode(result) as { readonly id?: unknown } | null);
  return typeof facts?.id === "string" ? [facts.id] : [];
}

/**
 * The called jobs to retry before this one, the last called first. Throws CalledFailedError if there are any and the caller
 * does not say whether to retry them.
 */
export async function calledFirst(
  store: RetryStores,
  id: string,
  withCalled: boolean | undefined,
): Promise<string[]> {
  if (withCalled === false) return [];
  const order: string[] = [];
  const toLookAt = [id];
  for (let looked = 0; looked < CALLS_MAX; looked += 1) {
    const one = toLookAt.shift();
    if (one === undefined) break;
    const called = await failedCalls(store, one);
    if (called.length > 0 && withCalled === undefined) throw new CalledFailedError({ id, called });
    order.unshift(...called.map((job) => job.id));
    toLookAt.push(...called.map((job) => job.id));
  }
  return [...new Set(order)];
}
