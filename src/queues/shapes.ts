/** What the verbs of queues take and return. */
import * as s from "../operations/shape.ts";
import { depthFields } from "../stats/shapes.ts";

const concurrency = s
  .integer()
  .nullable()
  .about("Maximum number of running jobs in all processes; null: no limit.");

const rate = s
  .object({ count: s.integer(), periodMs: s.integer(), burst: s.integer() })
  .about("At most `count` jobs start per period, and `burst` together after a quiet period.");

const limits = { concurrency, rate: rate.nullable() };

const settingsFields = {
  name: s.text(),
  paused: s
    .object({ at: s.instant, by: s.text(), reason: s.text().nullable() })
    .nullable()
    .about("Who paused the queue, when and why; null: it is not paused."),
  ageingMs: s.integer().nullable(),
  limits: s.object(limits),
  eachLane: s.object(limits),
  lanes: s.map(s.text(), s.object({ ...limits, weight: s.integer() })),
  tasks: s.map(s.text(), s.object(limits)),
};

export const settings = s.object(settingsFields).named("QueueSettings", "The settings of a queue.");

export const changed = s
  .object({
    ...settingsFields,
    changed: s.boolean().about("False: it already was as was wanted."),
  })
  .named("QueueState", "The settings of a queue that was paused or resumed.");

export const queue = s
  .object({ ...depthFields, settings: settings.nullable().about("Null: it has none.") })
  .named("QueueView", "A queue with its job counts by status, and its settings.");

export const all = s.object({
  queues: s.list(s.text()).about("Those that were changed, by name."),
  paused: s.list(s.text()).about("Those that are paused now."),
});

export const limitInUse = s
  .object({
    queue: s.text(),
    kind: s
      .choice(["queue", "lanes", "lane", "task"])
      .about("Of the queue, of each of its lanes, of one lane, or of one task in it."),
    name: s.text().nullable().about("Of the lane or the task."),
    concurrency: s.count.nullable(),
    rate: s.object({ count: s.count, periodMs: s.number(), burst: s.count }).nullable(),
    inUse: s.count.about("Of each lane: in the lane with the most."),
  })
  .named("LimitInUse", "A limit, and how many jobs run under it.");

const rateInput = s.strict({
  count: s.integer(),
  per: s.duration,
  burst: s.integer().optional(),
});

export const limitInput = {
  concurrency: s.integer().nullable().optional(),
  rate: rateInput.nullable().optional(),
};

export const laneInput = s.strict({ ...limitInput, weight: s.integer().nullable().optional() });

export type View = s.TypeOf<typeof queue>;
