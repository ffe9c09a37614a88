/** Whether a live worker can run a job. Such jobs are accepted anyway: their worker may come with the next deployment. */
import { didYouMean } from "../core/did-you-mean.ts";
import type { JobView } from "../jobs/jobs.ts";
import { activeStates, type UnregisteredWorker, type WorkerRecord } from "./worker-record.ts";
import { isRunnable, type Workers } from "./workers.ts";

const WORKERS_SEEN_MAX = 1_000;

interface Prospect {
  /** Null: it is not waiting for a worker. */
  readonly runnable: boolean | null;
  /** Why no worker can run it; null: one can. */
  readonly note: string | null;
}

type Wanted = Pick<JobView, "queue" | "task" | "status">;

/** Considers registered workers, and programs that acquire leases; the latter need not declare their tasks. */
export async function prospectOf(workers: Workers, view: Wanted): Promise<Prospect> {
  const [prospect] = await prospectsOf(workers, [view]);
  return prospect as Prospect;
}

/** The same for several jobs, with one query for the workers. */
export async function prospectsOf(workers: Workers, views: readonly Wanted[]): Promise<Prospect[]> {
  const isWaiting = ({ status }: Wanted): boolean => status === "pending" || status === "scheduled";
  const none: Prospect = { runnable: null, note: null };
  if (!views.some(isWaiting)) return views.map(() => none);
  const all = await workers.list({ limit: WORKERS_SEEN_MAX });
  // A stopping worker claims no new jobs.
  const live = all.filter((worker) => activeStates.some((state) => state === worker.status));
  const others = views.every((view) => isRunnable(view, live)) ? [] : await workers.unregistered();
  return views.map((view) => {
    if (!isWaiting(view)) return none;
    const runnable = isRunnable(view, live) || takes(view, others);
    return { runnable, note: runnable ? null : whyNot(view, live) };
  });
}

/** Whether a program that acquires leases may claim it. */
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
    return `No live worker serves the queue '${queue}': the workers that know '${task}' serve ${elsewhere.map((name) => `'${name}'`).join(", ")}. The job waits.`;
  }
  const known = [...new Set(live.flatMap(({ tasks }) => tasks))];
  return `No live worker knows the task '${task}': the job waits for a worker that does.${didYouMean(task, known)}`;
}
