/** Whether a worker is there that runs a job. The job is accepted anyhow: its worker may come with the next deployment. */
import { didYouMean } from "../core/did-you-mean.ts";
import type { JobView } from "../jobs/jobs.ts";
import { activeStates, type UnregisteredWorker, type WorkerRecord } from "./worker-record.ts";
import { isRunnable, type Workers } from "./workers.ts";

const WORKERS_SEEN_MAX = 1_000;

export interface Prospect {
  /** Null: nobody needs to run it now. */
  readonly runnable: boolean | null;
  /** Why nobody runs it; null: somebody does. */
  readonly note: string | null;
}

type Wanted = Pick<JobView, "queue" | "task" | "status">;

/** By the registry of workers, and by the programs that acquire leases. Which tasks the latter know they need not say. */
export async function prospectOf(workers: Workers, view: Wanted): Promise<Prospect> {
  const [prospect] = await prospectsOf(workers, [view]);
  return prospect as Prospect;
}

/** Of all of them, with one look at the workers. */
export async function prospectsOf(workers: Workers, views: readonly Wanted[]): Promise<Prospect[]> {
  const isWaiting = ({ status }: Wanted): boolean => status === "pending" || status === "scheduled";
  const none: Prospect = { runnable: null, note: null };
  if (!views.some(isWaiting)) return views.map(() => none);
  const all = await workers.list({ limit: WORKERS_SEEN_MAX });
  // One that is stopping takes nothing new.
  const live = all.filter((worker) => activeStates.some((state) => state === worker.status));
  const others = views.every((view) => isRunnable(view, live)) ? [] : await workers.unregistered();
  return views.map((view) => {
    if (!isWaiting(view)) return none;
    const runnable = isRunnable(view, live) || takes(view, others);
    return { runnable, note: runnable ? null : whyNot(view, live) };
  });
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
