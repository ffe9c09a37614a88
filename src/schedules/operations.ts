/** The verbs of schedules. */
import type { Status } from "../core/job.ts";
import { systemRuntime } from "../core/runtime.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { listOf } from "../operations/show.ts";
import { moment, printable } from "../terminal/table.ts";
import {
  defineSchedule,
  type MissedOption,
  OVERLAP_DEFAULT,
  type RunRecord,
  type ScheduledJobOptions,
  ScheduleNotFoundError,
} from "./schedule.ts";
import { CALENDAR_DAYS_MAX, preview, type Schedules } from "./schedules.ts";
import {
  calendar,
  changes,
  details,
  jobOptions,
  listed,
  LISTED_RUNS_MAX,
  run,
  schedule,
  timing,
} from "./shapes.ts";
import { factsOf, runLine, SCHEDULES, sentence } from "./show.ts";
import type { SchedulesStore } from "./store.ts";

export interface SchedulesApp {
  readonly schedules: Schedules;
  readonly store: {
    readonly schedules: Pick<SchedulesStore, "recent">;
    readonly dashboard: {
      brief(ids: readonly string[]): Promise<{ readonly id: string; readonly status: Status }[]>;
    };
    readonly db: { clock(): Promise<number> };
  };
}

const operation = operationsOf<SchedulesApp>("schedules");

/** Runs that are shown with one schedule. */
const SHOWN_RUNS = 5;

const itsName = { name: "the schedule's name" };

const jobFlags = {
  input: { about: "the input of its jobs (default: null)" },
  queue: { value: "<name>", about: "the queue of its jobs (default: 'default')" },
  priority: { about: "the priority of its jobs; higher numbers run first" },
  maxAttempts: { about: "maximum number of attempts of its jobs" },
  key: { about: "the key of its jobs: only one of them can be live at a time" },
};

const changeFlags = {
  cron: {
    value: "<text>",
    about: "five fields, or six with seconds first, such as '30 2 * * *'",
  },
  timeZone: {
    value: "<name>",
    about: "the time zone of --cron, such as Europe/Berlin (default: UTC)",
  },
  every: { about: "an interval instead of --cron, such as 10m" },
  offset: { about: "shift the runs of --every" },
  ...jobFlags,
  missed: {
    value: "<what>",
    about: "what to do about missed runs: skip, once or all:<n> (default: once)",
    read: missedOf,
  },
  overlap: {
    value: "<what>",
    about: `what to do at a tick if an earlier job has not ended (default: ${OVERLAP_DEFAULT})`,
  },
  description: { value: "<text>", about: "what it is for" },
};

type JobFlags = Pick<ScheduledJobOptions, "queue" | "priority" | "maxAttempts" | "key">;

/** On the command line, the options of its jobs are flags of their own. */
function withOptions<T extends object>(typed: T & JobFlags): Omit<T, keyof JobFlags> & Options {
  const { queue, priority, maxAttempts, key, ...rest } = typed;
  const all = Object.entries({ queue, priority, maxAttempts, key });
  const given = all.filter(([, value]) => value !== undefined);
  return given.length === 0 ? rest : { ...rest, options: Object.fromEntries(given) };
}

interface Options {
  readonly options?: ScheduledJobOptions;
}

export const scheduleOperations = {
  list: operation({
    name: "listSchedules",
    summary: "List schedules, by name",
    access: "viewer",
    input: {
      task: s.name.optional(),
      paused: s.boolean().optional(),
      after: s.name.optional().about("The last name of the previous page."),
      limit: s.pageLimit.optional(),
      runs: s
        .integer({ min: 0, max: LISTED_RUNS_MAX })
        .optional()
        .about("How many of its newest runs each schedule is listed with. Default: none."),
    },
    returns: "A page of schedules.",
    result: s.object({ schedules: s.list(listed) }),
    run: async (app, { runs = 0, ...filter }) => {
      const found = await app.schedules.list(filter);
      if (runs === 0) return { schedules: found };
      const names = found.map(({ name }) => name);
      const recent = await app.store.schedules.recent({ schedules: names, limit: runs });
      const byName = Map.groupBy(await withStatus(app, recent), (one) => one.schedule);
      return {
        schedules: found.map((one) => ({
          ...one,
          runs: byName.get(one.name)?.slice(0, runs) ?? [],
        })),
      };
    },
    http: { method: "GET", path: "/api/v1/schedules" },
    cli: {
      command: "schedules list",
      flags: {
        task: { value: "<name>", about: "only schedules of this task" },
        paused: { about: "only paused schedules" },
        after: { value: "<name>", about: "only names after this one (next page)" },
        limit: { about: "maximum number of schedules", initial: 50 },
      },
      examples: ["schedules list --paused"],
      show: listOf({
        rows: ({ schedules }) => schedules,
        columns: SCHEDULES,
        none: "No schedules.",
        unit: "schedule",
      }),
    },
    agent: "What is enqueued when: the schedules with their next runs, pauses and errors.",
  }),

  create: operation({
    name: "createSchedule",
    summary: "Create a schedule",
    access: "operator",
    input: {
      name: s.name,
      task: s.name,
      ...changes,
      overlap: changes.overlap.initial(OVERLAP_DEFAULT),
      paused: s.boolean().optional(),
    },
    isAudited: true,
    returns: "The schedule.",
    result: schedule,
    run: ({ schedules }, { paused = false, ...given }, { by, ids: [id] }) =>
      schedules.create(given, { ...by, paused }, id),
    http: {
      method: "POST",
      path: "/api/v1/schedules",
      status: 201,
      problems: [409],
      repeatable: true,
      location: ({ name }) => `/api/v1/schedules/${encodeURIComponent(name)}`,
    },
    cli: {
      command: "schedules create",
      arguments: itsName,
      flags: {
        ...changeFlags,
        task: { value: "<name>", about: "the task of its jobs", isRequired: true },
        paused: { about: "create it paused" },
      },
      typed: jobOptions,
      // What is wrong with the arguments is said before a database is created.
      inputOf: (typed: JobFlags & { name: string; task: string; paused?: boolean }) => {
        const { paused, ...given } = withOptions(typed);
        defineSchedule(given);
        return paused === undefined ? given : { ...given, paused };
      },
      opensForWork: true,
      examples: [
        "schedules create nightly --task report.send --cron '30 2 * * *'",
        "schedules create sync --task shop.sync --every 15m --overlap skip",
      ],
      show: (created, { terminal, notes }) => {
        terminal.complain(...notes);
        return [sentence("Created", created)];
      },
    },
  }),

  get: operation({
    name: "getSchedule",
    summary: "One schedule, with its next five runs and its last ones",
    access: "viewer",
    input: { name: s.name },
    returns: "The schedule.",
    result: details,
    run: async (app, { name }) => {
      const found = await app.schedules.get(name);
      if (found === null) throw new ScheduleNotFoundError({ schedule: name });
      const runs = await app.schedules.runs(name, { limit: SHOWN_RUNS });
      return { ...found, runs: await withStatus(app, runs) };
    },
    http: { method: "GET", path: "/api/v1/schedules/{name}" },
    cli: {
      command: "schedules show",
      about: "show a schedule, its next five runs and its last ones",
      arguments: itsName,
      examples: ["schedules show nightly"],
      show: (found, { terminal }) => [
        ...factsOf(found),
        "",
        ...found.runs.map((one) => runLine(one, terminal)),
      ],
    },
    agent: "One schedule: its timing, its options, its next five runs and its last five.",
  }),

  runs: operation({
    name: "listScheduleRuns",
    summary: "What happened at each tick of a schedule, newest first",
    access: "viewer",
    input: {
      name: s.name,
      before: s.instant.optional().about("The last tick of the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "A page of runs.",
    result: s.object({ runs: s.list(run) }),
    run: async (app, { name, ...page }) => ({
      runs: await withStatus(app, await app.schedules.runs(name, page)),
    }),
    http: { method: "GET", path: "/api/v1/schedules/{name}/runs" },
    cli: {
      command: "schedules runs",
      about: "show what happened at each tick, newest first",
      arguments: itsName,
      flags: {
        before: {
          value: "<tick>",
          about: "only ticks before this one, in milliseconds (next page)",
          read: tickOf,
        },
        limit: { about: "maximum number of runs", initial: 20 },
      },
      examples: ["schedules runs nightly --limit 50"],
      show: ({ runs }, { terminal }) =>
        runs.length === 0
          ? [terminal.colors.dim("No runs yet.")]
          : runs.map((one) => runLine(one, terminal)),
    },
  }),

  preview: operation({
    name: "previewSchedule",
    summary: "A timing in words, and the next runs it would have",
    access: "viewer",
    input: {
      ...timing,
      every: s.durationText.optional(),
      offset: s.durationText.optional(),
      count: s.integer({ min: 1, max: 100 }).optional().about("Default: 5."),
      after: s.instant.optional().about("Default: now."),
    },
    returns: "Nothing is stored.",
    result: s.object({
      words: s.text(),
      nextRuns: s.list(s.instant),
      clock: s.text().nullable().about("How the clock's next change moves one of its runs."),
    }),
    run: ({ store }, input) => preview(input, () => store.db.clock()),
    http: { method: "GET", path: "/api/v1/schedule-preview" },
    cli: {
      command: "schedules preview",
      about: "describe a timing in words and show when it would run; stores nothing",
      arguments: { cron: "five fields, or six with seconds first, such as '30 2 * * *'" },
      flags: {
        timeZone: {
          value: "<name>",
          about: "the time zone, such as Europe/Berlin (default: UTC)",
        },
        every: { about: "an interval instead of a cron expression, such as 10m" },
        offset: { about: "shift the runs of --every" },
        count: { about: "number of runs", initial: 5 },
      },
      opensNothing: true,
      inputOf: (typed: object) => ({ ...typed, after: systemRuntime.now() }),
      examples: ["schedules preview '30 2 * * *' --time-zone Europe/Berlin"],
      show: ({ words, nextRuns, clock }) => [
        words,
        ...(nextRuns.length === 0
          ? ["  It never runs."]
          : nextRuns.map((at) => `  ${moment(at, systemRuntime.now())}`)),
        ...(clock === null ? [] : [clock]),
      ],
    },
    agent: "When a cron expression or an interval would run next, in words and as instants.",
  }),

  calendar: operation({
    name: "scheduleCalendar",
    summary: "What all schedules run in the next days",
    access: "viewer",
    input: { days: s.integer({ min: 1, max: CALENDAR_DAYS_MAX }).optional().about("Default: 7.") },
    returns: "By name; paused schedules are left out.",
    result: calendar,
    run: ({ schedules }, { days }) => schedules.calendar(days === undefined ? {} : { days }),
    http: { method: "GET", path: "/api/v1/schedule-calendar" },
    agent: "What all schedules run in the next days, as instants.",
  }),

  edit: operation({
    name: "editSchedule",
    summary: "Change a schedule; omitted fields do not change",
    access: "operator",
    input: {
      name: s.name,
      ...changes,
      revision: s
        .integer({ min: 1 })
        .optional()
        .about("Refuse the change if the schedule has a different revision."),
    },
    isAudited: true,
    returns: "The schedule.",
    result: schedule,
    run: ({ schedules }, { name, revision, ...edits }, { by }) =>
      schedules.edit(name, edits, { ...by, ...(revision === undefined ? {} : { revision }) }),
    http: { method: "POST", path: "/api/v1/schedules/{name}/edit", problems: [409] },
    cli: {
      command: "schedules edit",
      about: "change a schedule; options that you omit keep their values",
      arguments: itsName,
      flags: {
        ...changeFlags,
        revision: { about: "refuse the change if the schedule has a different revision" },
      },
      typed: jobOptions,
      inputOf: (typed: JobFlags & { name: string }) => withOptions(typed),
      // A flag changes one of the options of its jobs, and a request all of them.
      complete: async ({ schedules }, { options, ...rest }) => {
        if (options === undefined) return rest;
        const before = (await schedules.get(rest.name))?.options;
        return { ...rest, options: { ...before, ...options } };
      },
      examples: ["schedules edit nightly --cron '0 3 * * *'"],
      show: (changed) => [sentence("Changed", changed)],
    },
  }),

  pause: operation({
    name: "pauseSchedule",
    summary: "Pause a schedule: it enqueues nothing until it is resumed",
    access: "operator",
    input: { name: s.name },
    isAudited: true,
    returns: "The schedule.",
    result: schedule,
    run: ({ schedules }, { name }, { by }) => schedules.pause(name, by),
    http: { method: "POST", path: "/api/v1/schedules/{name}/pause", repeatable: true },
    cli: {
      command: "schedules pause",
      arguments: itsName,
      examples: ["schedules pause nightly --reason 'report is being rewritten'"],
      show: (paused) => [sentence("Paused", paused)],
    },
    agent: "Pause a schedule: it enqueues nothing until it is resumed. Jobs that exist go on.",
  }),

  resume: operation({
    name: "resumeSchedule",
    summary: "Resume a paused schedule: it enqueues from the next tick on",
    access: "operator",
    input: { name: s.name },
    isAudited: true,
    returns: "The schedule.",
    result: schedule,
    run: ({ schedules }, { name }, { by }) => schedules.resume(name, by),
    http: { method: "POST", path: "/api/v1/schedules/{name}/resume", repeatable: true },
    cli: {
      command: "schedules resume",
      arguments: itsName,
      examples: ["schedules resume nightly"],
      show: (resumed) => [sentence("Resumed", resumed)],
    },
    agent: "Resume a paused schedule. Ticks of the pause are skipped.",
  }),

  run: operation({
    name: "runSchedule",
    summary: "Enqueue one job of a schedule now, even if it is paused or a job is running",
    access: "operator",
    input: { name: s.name },
    isAudited: true,
    returns: "The job.",
    result: s.object({ job: s.id }),
    run: async ({ schedules }, { name }, { by, ids: [id] }) => ({
      job: await schedules.run(name, by, id),
    }),
    http: {
      method: "POST",
      path: "/api/v1/schedules/{name}/run",
      status: 201,
      repeatable: true,
      location: ({ job }) => `/api/v1/jobs/${job}`,
    },
    cli: {
      command: "schedules run",
      arguments: itsName,
      examples: ["schedules run nightly"],
      show: ({ job }, { terminal }) => [`${terminal.colors.green("Enqueued")} job ${job}`],
    },
    agent: "Enqueue one job of a schedule now, whatever its timing or pause.",
  }),

  delete: operation({
    name: "deleteSchedule",
    summary: "Delete a schedule, but not its jobs",
    access: "operator",
    input: {
      name: s.name,
      force: s
        .boolean()
        .optional()
        .about("Required for a schedule that workers declare in code: it may come back."),
    },
    isAudited: true,
    returns: "It is deleted.",
    result: s.object({ deleted: s.text() }),
    run: async ({ schedules }, { name, force = false }, { by }) => {
      await schedules.delete(name, { ...by, force });
      return { deleted: name };
    },
    http: { method: "POST", path: "/api/v1/schedules/{name}/delete", problems: [409] },
    cli: {
      command: "schedules delete",
      arguments: itsName,
      flags: {
        force: { about: "delete it even if workers declare it in code; it may come back" },
      },
      examples: ["schedules delete nightly"],
      show: ({ deleted }) => [`Deleted schedule '${printable(deleted)}'.`],
    },
  }),
};

export const scheduleCommands = {
  name: "schedules",
  about: "list and change schedules",
  parts: Object.values(scheduleOperations),
};

/** Runs with the statuses of their jobs. */
async function withStatus(
  { store }: SchedulesApp,
  runs: readonly RunRecord[],
): Promise<(RunRecord & { readonly status: Status | null })[]> {
  const known = await store.dashboard.brief(runs.flatMap(({ job }) => job ?? []));
  const statuses = new Map(known.map(({ id, status }) => [id, status]));
  return runs.map((one) => ({ ...one, status: statuses.get(one.job ?? "") ?? null }));
}

function missedOf(text: string): MissedOption {
  if (text === "skip" || text === "once") return text;
  const [, count] = /^all:(\d{1,4})$/.exec(text) ?? [];
  if (count !== undefined) return { all: Number(count) };
  throw new Error("Write skip, once or all:<n>, such as all:10.");
}

function tickOf(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new Error("Write a whole number.");
}
