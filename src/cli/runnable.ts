/** Whether somebody is there who runs a job. It is accepted anyhow: who knows its task may come later, with the next deployment. */
import { didYouMean } from "../core/did-you-mean.ts";
import { activeStates } from "../core/worker-state.ts";
import { isRunnable } from "../queue/workers.ts";
import type { JobView } from "../queue/jobs.ts";
import type { UnregisteredWorker, WorkerRecord } from "../store/registry.ts";
import type { Holdfast } from "../worker/holdfast.ts";

const WORKERS_SEEN_MAX = 1_000;

export interface Prospect {
  /** Null: nobody needs to run it now. */
  readonly runnable: boolean | null;
  /** Why nobody runs it; null: somebody does. */
  readonly note: string | null;
}

/** By the registry of workers, and by the programs that acquire leases. Which tasks the latter know they need not say. */
export async function prospectOf(
  { workers }: Holdfast,
  view: Pick<JobView, "queue" | "task" | "status">,
): Promise<Prospect> {
  const { status } = view;
  if (status !== "pending" && status !== "scheduled") return { runnable: null, note: null };
  const all = await workers.list({ limit: WORKERS_SEEN_MAX });
  // One that is stopping takes nothing new.
  const live = all.filter((worker) => activeStates.some((state) => state === worker.status));
  const runnable = isRunnable(view, live) || takes(view, await workers.unregistered());
  return { runnable, note: runnable ? null : whyNot(view, live) };
}

/** Whether a program that acquires leases may take it. */
export function takes(
  { task, queue }: Pick<JobView, "queue" | "task">,
  others: readonly UnregisteredWorker[],
): boolean {
  return others.some(
    ({ kind, queues, tasks }) =>
      kind === "leases" && queues.includes(queue) && (tasks === null || tasks.includes(task)),
  );
}

function whyNot(
  { task, queue }: Pick<JobView, "queue" | "task">,
  live: readonly WorkerRecord[],
): string {
  if (live.length === 0) return "No worker is running: the job waits for one.";
  const elsewhere = live.find(({ tasks }) => tasks.includes(task))?.queues;
  if (elsewhere !== undefined) {
    return `No live worker runs the queue '${queue}': those that know '${task}' run ${elsewhere.map((name) => `'${name}'`).join(", ")}. The job waits.`;
  }
  const known = [...new Set(live.flatMap(({ tasks }) => tasks))];
  return `No live worker knows the task '${task}': the job waits for one that does.${didYouMean(task, known)}`;
}
