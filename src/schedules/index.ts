/** Published as `holdfast/schedules`: jobs that recur. */

export {
  ScheduleChangedError,
  ScheduleDeclaredError,
  ScheduleExistsError,
  ScheduleNotFoundError,
} from "./schedule.ts";
export {
  defineSchedule,
  type Definition as ScheduleDefinition,
  type MissedOption,
  type Overlap,
  type RunOutcome,
  type RunRecord,
  type Schedule,
  type ScheduleChanges,
  type ScheduledInput,
  type ScheduledJobOptions,
  type ScheduleOptions,
  type ScheduleTerms,
} from "./schedule.ts";
export type {
  Calendar,
  CalendarOptions,
  Preview,
  PreviewOptions,
  RunsFilter,
  ScheduleDetails,
  Schedules,
  SchedulesFilter,
  ScheduleView,
} from "./schedules.ts";
export type { MissedPolicy, TimingOptions, TimingRow } from "./timing.ts";
