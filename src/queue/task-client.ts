/** What a task can do with the Holdfast whose worker runs it. It is not the task's: a task cannot close it. */
import type { Client } from "./client.ts";

export type TaskClient = Pick<
  Client,
  | "enqueue"
  | "enqueueMany"
  | "emit"
  | "within"
  | "stats"
  | "jobs"
  | "workflows"
  | "locks"
  | "leases"
  | "workers"
  | "audit"
  | "figures"
>;

// Here, because core/ knows no client.
declare module "../core/task.ts" {
  interface Context {
    /** The client of the worker that runs this. Inside of `commit`, use `within(tx)` of it. */
    readonly holdfast: TaskClient;
  }
}

export function taskClient(client: Client): TaskClient {
  const { jobs, workflows, locks, leases, workers, audit, figures } = client;
  return Object.freeze({
    jobs,
    workflows,
    locks,
    leases,
    workers,
    audit,
    figures,
    enqueue: client.enqueue.bind(client),
    enqueueMany: client.enqueueMany.bind(client),
    emit: client.emit.bind(client),
    within: client.within.bind(client),
    stats: client.stats.bind(client),
  });
}
