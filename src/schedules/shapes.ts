/** What the verbs of schedules take and return. */
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { PRIORITY_MAX } from "../jobs/after.ts";
import * as s from "../operations/shape.ts";
import { CRON_LENGTH_MAX } from "./cron.ts";
import {
  DESCRIPTION_LENGTH_MAX,
  type MissedOption,
  overlaps,
  runOutcomes,
  type ScheduledJobOptions,
} from "./schedule.ts";
import { CALENDAR_MAX, CALENDAR_TICKS_MAX } from "./schedules.ts";
import { MISSED_LIMIT_MAX } from "./timing.ts";

const ZONE_LENGTH_MAX = 64;
/** Runs of each schedule in a list. */
export const LISTED_RUNS_MAX = 50;

export const timing = {
  cron: s
    .text({ max: CRON_LENGTH_MAX })
    .optional()
    .about("Five fields, or six with seconds first, or a nickname such as @daily."),
  timeZone: s
    .text({ max: ZONE_LENGTH_MAX })
    .optional()
    .about("The IANA name of the time zone of `cron`. Default: UTC."),
};

const missed = s
  .union<MissedOption>(
    s.choice(["skip", "once"]),
    s.strict({ all: s.integer({ min: 1, max: MISSED_LIMIT_MAX }) }),
  )
  .about("Which missed ticks run: none, the newest, or up to this many of the newest.");

export const jobOptions = {
  queue: s.name.optional(),
  priority: s.integer({ min: -PRIORITY_MAX, max: PRIORITY_MAX }).optional(),
  maxAttempts: s.integer({ min: 1, max: ATTEMPTS_MAX }).optional(),
  key: s.key.optional(),
  keyFor: s.duration.optional(),
  onConflict: s.choice(["return", "replace"]).optional(),
};

export const changes = {
  ...timing,
  every: s.duration.optional().about("An interval in whole seconds, instead of `cron`."),
  offset: s.duration.optional().about("Shifts the runs of `every`."),
  input: s.anything().optional().about("The input of its jobs. Default: null."),
  options: s.strict(jobOptions).optional().about("Options of its jobs, as for enqueueing."),
  missed: missed.optional(),
  overlap: s
    .choice(overlaps)
    .optional()
    .about("What happens to a tick while the job of an earlier one has not ended."),
  description: s.text({ max: DESCRIPTION_LENGTH_MAX }).optional(),
};

const facts = {
  name: s.text(),
  task: s.text(),
  input: s.anything(),
  options: s.loose({}) as s.Shape<ScheduledJobOptions>,
  cron: s.text().nullable(),
  timeZone: s.text().nullable(),
  everyMs: s.count.nullable(),
  offsetMs: s.count.nullable(),
  words: s.text().about("The timing in words."),
  missed,
  overlap: s.choice(overlaps),
  description: s.text().nullable(),
  nextAt: s.instant.nullable().about("Null: it is paused, or never runs again."),
  lastAt: s.instant.nullable().about("The last tick that was handled."),
  pausedAt: s.instant.nullable(),
  pausedBy: s.text().nullable(),
  declaredBy: s
    .text()
    .nullable()
    .about("The name of the workers whose code declares it; null: created at run time."),
  revision: s.count,
  createdAt: s.instant,
  updatedAt: s.instant,
  missedCount: s.count.about("Missed ticks that were skipped."),
  queuedCount: s.count.about("Runs that wait for the end of an earlier job."),
  error: s.text().nullable().about("Why its last tick could not be handled."),
  errorAt: s.instant.nullable(),
};

export const schedule = s.object(facts).named("Schedule", "What to enqueue, and when.");

export const run = s
  .object({
    schedule: s.text(),
    tick: s.instant.about("When it was due; for a manual run, when it was requested."),
    manual: s.boolean(),
    outcome: s.choice(runOutcomes),
    job: s.id.nullable(),
    status: s.status.nullable().about("Of the job; null: there is none."),
    at: s.instant,
  })
  .named("ScheduleRun", "What happened at a tick.");

export const details = s
  .object({
    ...facts,
    nextRuns: s.list(s.instant).about("The next five ticks."),
    clock: s.text().nullable().about("How the clock's next change moves one of its runs."),
    runs: s.list(run).about("The last five runs, newest first."),
  })
  .named("ScheduleDetails", "A schedule with its next and its last runs.");

export const listed = s
  .object({
    ...facts,
    runs: s.list(run).optional().about("Newest first, if they were wanted."),
  })
  .named("ListedSchedule", "A schedule in a list.");

export const calendar = s.object({
  from: s.instant,
  until: s.instant,
  schedules: s.list(
    s.object({
      name: s.text(),
      words: s.text(),
      ticks: s.list(s.instant).about("Empty: it never runs in this time, or too often."),
      isDense: s
        .boolean()
        .about(`It runs more than ${CALENDAR_TICKS_MAX} times, which are not listed.`),
    }),
  ),
  isAll: s.boolean().about(`At most ${CALENDAR_MAX} schedules are looked at.`),
});

export type Schedule = s.TypeOf<typeof schedule>;
export type Run = s.TypeOf<typeof run>;
export type Details = s.TypeOf<typeof details>;
