/** What to say when a filter found nothing because its name does not exist. Nothing is counted for it. */
import { didYouMean } from "../core/did-you-mean.ts";
import { OTHERS } from "../store/foremost.ts";
import type { Holdfast } from "../worker/holdfast.ts";

const JOBS_SEEN_MAX = 200;
const WORKERS_SEEN_MAX = 200;
const WORKFLOWS_SEEN_MAX = 200;
const NAMES_SHOWN_MAX = 20;

interface JobNames {
  readonly queue?: string;
  readonly task?: string;
}

/**
 * A sentence to append, or nothing if the names are known: to the newest jobs, to the workers or to the last count of the
 * monitor.
 */
export async function unknownJobNames(
  holdfast: Holdfast,
  { queue, task }: JobNames,
): Promise<string> {
  if (queue === undefined && task === undefined) return "";
  const jobs = await holdfast.jobs.list({ limit: JOBS_SEEN_MAX });
  const workers = await holdfast.workers.list({ limit: WORKERS_SEEN_MAX, all: true });
  const counted = (await holdfast.figures.census())?.queues ?? [];
  const seen = [...jobs, ...counted].map((row) => row.queue);
  const queues = [...seen, ...workers.flatMap((worker) => worker.queues)];
  const tasks = [...jobs.map((job) => job.task), ...workers.flatMap((worker) => worker.tasks)];
  return unknown("queue", queue, queues) + unknown("task", task, tasks);
}

function unknown(what: string, name: string | undefined, known: readonly string[]): string {
  const names = [...new Set(known)].filter((each) => each !== OTHERS).toSorted();
  if (name === undefined || names.length === 0 || names.includes(name)) return "";
  return ` No ${what} '${name}' is known. Known: ${listed(names)}.${didYouMean(name, names)}`;
}

/** The same for items, by what was declared. */
export async function unknownItemNames(
  { store }: Holdfast,
  { workflow: name, status }: { readonly workflow?: string; readonly status?: string },
): Promise<string> {
  if (name === undefined) return "";
  const workflow = await store.findWorkflow(name);
  if (workflow === null) {
    const names = await store.workflowNames({ limit: WORKFLOWS_SEEN_MAX });
    const there = names.length === 0 ? "" : ` There are: ${listed(names)}.`;
    return ` There is no workflow '${name}'.${there}${didYouMean(name, names)}`;
  }
  const states = workflow.states.map((state) => state.name);
  if (status === undefined || states.includes(status)) return "";
  return ` The workflow '${name}' has no state '${status}'. It has: ${listed(states)}.${didYouMean(status, states)}`;
}

function listed(names: readonly string[]): string {
  const more = names.length - NAMES_SHOWN_MAX;
  return names.slice(0, NAMES_SHOWN_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
