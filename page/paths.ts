/**
 * Every page, and the title of its tab.
 *
 * By the first part of the path, with a slash if another part follows. Tests read the table too: it has no browser in it.
 */
export const titles = {
  "": "Overview",
  jobs: "Jobs",
  "jobs/": "Job",
  enqueue: "Enqueue",
  bulk: "Bulk actions",
  "bulk/": "Bulk action",
  errors: "Errors",
  tasks: "Tasks",
  "tasks/": "Task",
  builds: "Builds",
  "builds/": "Build",
  queues: "Queues",
  "queues/": "Queue",
  schedules: "Schedules",
  "schedules/": "Schedule",
  flows: "Flows",
  "flows/": "Flow",
  workflows: "Workflows",
  "workflows/": "Workflow",
  "items/": "Item",
  workers: "Workers",
  "workers/": "Worker",
  locks: "Locks",
  alerts: "Alerts",
  audit: "Audit",
};

export type PagePath = keyof typeof titles;
