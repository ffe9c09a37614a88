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

const pause = { at: s.instant, by: s.text(), reason: s.text().nullable() };

/** Of a queue. */
export const paused = s
  .object({
    ...pause,
    isOfAll: s.boolean().about("It was paused together with all others, and is resumed with them."),
  })
  .nullable()
  .about("Who paused the queue, when and why; null: it is not paused.");

const lanePaused = s
  .object(pause)
  .nullable()
  .about("Who paused the lane, when and why; null: it is not paused.");

const settingsFields = {
  name: s.text(),
  paused,
  ageingMs: s.integer().nullable(),
  limits: s.object(limits),
  eachLane: s.object(limits),
  lanes: s.map(s.text(), s.object({ ...limits, weight: s.integer(), paused: lanePaused })),
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

export const lanes = s
  .object({
    countedAt: s.instant,
    isComplete: s
      .boolean()
      .about(
        "False: of more than two million pending jobs, the lanes at the end of the alphabet were not counted.",
      ),
    lanes: s.list(
      s
        .object({
          lane: s.text().nullable().about("Null: the jobs that are in no lane."),
          pending: s.count.about("Up to 10,000."),
          isMore: s.boolean().about("More jobs than that are pending."),
          oldestPendingAt: s.instant.nullable(),
          running: s.count,
          startsPerMinute: s.count
            .nullable()
            .about("In the last minute; null: too many to be counted."),
          weight: s.integer().about("Its share when lanes take turns."),
          paused: lanePaused,
        })
        .named("Lane", "A lane of a queue: often the jobs of one customer."),
    ),
    total: s
      .object({ lanes: s.count, pending: s.count, isMore: s.boolean() })
      .about("Of all lanes with pending jobs that were counted."),
  })
  .named("Lanes", "The lanes of a queue.");

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
