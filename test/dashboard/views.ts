/** Every page of the dashboard, with what it must show. */
import type { Shop } from "./shop.ts";

export interface View {
  readonly name: string;
  readonly path: string;
  /** A text that stands on it when it is drawn. */
  readonly shows: string | RegExp;
}

export function viewsOf({ ids, worker }: Pick<Shop, "ids" | "worker">): readonly View[] {
  return [
    { name: "overview", path: "", shows: /Queue mail is paused: \d+ jobs wait/ },
    { name: "jobs", path: "jobs", shows: "cart-9033-reminder" },
    { name: "failed jobs", path: "jobs?status=failed", shows: /CarrierTimeout/ },
    { name: "a failed job", path: `jobs/${ids.failed}`, shows: "What happened" },
    { name: "a running job", path: `jobs/${ids.running}`, shows: "page 62 of 100" },
    { name: "a job to retry", path: `jobs/${ids.retry}`, shows: /Attempt \d of 5 starts/ },
    { name: "enqueue", path: "enqueue", shows: "Task and payload" },
    { name: "a job in doubt", path: `jobs/${ids.doubt}`, shows: "in doubt" },
    { name: "errors", path: "errors", shows: /1 open kind/ },
    { name: "tasks", path: "tasks", shows: "Attempts that ended, by task" },
    { name: "a task", path: "tasks/order.ship", shows: "By build" },
    { name: "builds", path: "builds", shows: "9c41d07" },
    { name: "a build", path: "builds/9c41d07", shows: "What it changed" },
    { name: "queues", path: "queues", shows: "At most 5 at once, 50 starts per second" },
    { name: "a queue", path: "queues/mail", shows: "provider is down" },
    { name: "schedules", path: "schedules", shows: "nightly-report" },
    { name: "a schedule", path: "schedules/stock-sync", shows: "Every 5 minutes" },
    { name: "flows", path: "flows", shows: "monthly report" },
    { name: "a flow", path: `flows/${ids.flow}`, shows: "fetch north" },
    { name: "workflows", path: "workflows", shows: "delivered" },
    { name: "a workflow", path: "workflows/order", shows: "A-48213" },
    { name: "an item", path: `items/${ids.item}`, shows: "ship → shipped…" },
    { name: "workers", path: "workers", shows: /^\d+ of 20$/ },
    { name: "a worker", path: `workers/${worker.id}`, shows: "report.daily" },
    { name: "locks", path: "locks", shows: "stock:9 is contended: 8 gave up in the last hour" },
    { name: "alerts", path: "alerts", shows: /blocked by an effect in doubt/ },
    { name: "audit", path: "audit", shows: "queue.pause" },
    { name: "bulk actions", path: "bulk", shows: "Bulk actions" },
  ];
}
