/** Retrying a job that failed because a job it called did: without the other it would fail again at once. */
import { decodeError } from "../core/error-record.ts";
import { decode } from "../core/json.ts";
import { CalledFailed, type CalledJob } from "../core/step-errors.ts";
import type { Store } from "../store/store.ts";

/** A chain of calls that is longer is retried from its end, by hand. */
const CALLS_MAX = 100;

/** The called jobs that failed this one and have not been retried since. */
export async function failedCalls(store: Store, id: string): Promise<CalledJob[]> {
  const job = await store.find(id);
  if (job?.status !== "failed" || job.lastError === null) return [];
  // A job that caught the failure of a call and failed of something else catches it again.
  if (decodeError(job.lastError).code !== "CALL_FAILED") return [];
  const steps = await store.steps(id);
  const called = steps
    .filter(({ kind, status }) => kind === "call" && status === "failed")
    .flatMap(({ result }) => calledBy(result));
  const ended = await store.findFinished(called);
  return ended
    .filter(({ status }) => status !== "done")
    .map(({ id: one, task, status }) => ({ id: one, task, status }));
}

function calledBy(result: string | null): string[] {
  const facts = result === null ? null : (decode(result) as { readonly id?: unknown } | null);
  return typeof facts?.id === "string" ? [facts.id] : [];
}

/**
 * The called jobs to retry before this one, those that were called last first. Throws CalledFailed if there are any and
 * they shall not be retried.
 */
export async function calledFirst(
  store: Store,
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
    if (called.length > 0 && withCalled === undefined) throw new CalledFailed({ id, called });
    order.unshift(...called.map((job) => job.id));
    toLookAt.push(...called.map((job) => job.id));
  }
  return [...new Set(order)];
}
