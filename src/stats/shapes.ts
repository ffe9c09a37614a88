/** What queues hold, as the API shows it. */
import { type Status, statuses } from "../core/job.ts";
import * as s from "../operations/shape.ts";

export const counts = s.object(
  Object.fromEntries(statuses.map((status) => [status, s.count])),
) as s.Shape<Readonly<Record<Status, number>>>;

export const depthFields = {
  queue: s.text(),
  counts,
  oldestPendingAt: s.instant.nullable(),
};

export const depth = s.object(depthFields).named("Queue", "Job counts of a queue by status.");

export const unclaimable = s
  .list(
    s
      .object({ queue: s.text(), task: s.text(), jobs: s.count, waitedMs: s.number() })
      .named("Unclaimable", "Pending jobs that no live worker can run."),
  )
  .nullable()
  .about("Found within the last few seconds. Null: the database took too long.");
