/**
 * A schedule: what to enqueue, and when.
 *
 * A tick is an instant at which it is due. A run is what became of a tick, or of an operator's "run now".
 */
import {
  HoldfastError,
  invalid,
  OutcomeUnknownError,
  StoreBusyError,
  StoreUnavailableError,
} from "../core/errors.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkName } from "../core/name.ts";
import { by, checkWords, choice, needed, optionsOf, passed, whole } from "../core/options.ts";
import type { AnyTask, InputArguments, InputOf } from "../core/task.ts";
import {
  checkInputs,
  checkOptions,
  defaultsOf,
  type EnqueueOptions,
  type JobOptions,
  unknownTask,
} from "../jobs/enqueue.ts";
import {
  checkTiming,
  MISSED_LIMIT_MAX,
  type MissedPolicy,
  timingFields,
  timingOf,
  type TimingOptions,
  type TimingRow,
} from "./timing.ts";

export const DESCRIPTION_LENGTH_MAX = 500;

/** The options of its jobs, as JSON. */
const OPTIONS_BYTES_MAX = 8_192;

export const overlaps = ["allow", "skip", "queue"] as const;
/** What happens to a tick while the job of an earlier one has not ended. */
export type Overlap = (typeof overlaps)[number];
export const OVERLAP_DEFAULT = "allow";

export const runOutcomes = ["enqueued", "joined", "queued", "skipped"] as const;
/** `enqueued`: it has a job. `joined`: another job held the key. `queued`: it waits. `skipped`: the one before was running. */
export type RunOutcome = (typeof runOutcomes)[number];

/** The options of enqueue() that make sense without a caller. */
export interface ScheduledJobOptions extends JobOptions {
  /** What happens at a tick if another job holds the key. Default `return`: no job is enqueued. */
  readonly onConflict?: "return" | "replace";
}

/** What runs at once if ticks were missed: none, the newest, or up to so many of the newest. */
export type MissedOption =
  | "skip"
  | "once"
  | {
      /** The limit, from 1. */
      readonly all: number;
    };

/** What a schedule has beside its name, its task and its input. */
export interface ScheduleTerms extends TimingOptions {
  /** Options of its jobs, as for enqueue(). */
  readonly options?: ScheduledJobOptions;
  /** Default "once". A tick counts as missed when it is more than a minute late. */
  readonly missed?: MissedOption;
  /** What happens to a tick while the job of an earlier one has not ended. Default "allow". */
  readonly overlap?: Overlap;
  /** What it is for, for people. */
  readonly description?: string;
}

/** What can be changed later. */
export interface ScheduleChanges extends ScheduleTerms {
  /** The input of its jobs. Default null. */
  readonly input?: unknown;
}

/** A schedule: its name, its task and input, and its timing. */
export type ScheduleOptions<Of extends AnyTask | string = AnyTask | string> = ScheduleTerms & {
  /** Identifies it in the database, for workers and operators. */
  readonly name: string;
  /** A task, or the name of one for callers without its code. */
  readonly task: Of;
} & ScheduledInput<InputOf<Of>>;

/** It may be missing if the task needs none. */
export type ScheduledInput<Input> =
  InputArguments<Input, unknown> extends readonly [unknown, unknown?]
    ? {
        /** What each job is enqueued with. */
        readonly input: Input;
      }
    : {
        /** What each job is enqueued with. Default: null. */
        readonly input?: Input | null;
      };

/** A checked schedule, as it is stored. */
export interface Definition extends TimingRow {
  /** The name of the schedule. */
  readonly name: string;
  /** The name of the task of its jobs. */
  readonly task: string;
  /** JSON. */
  readonly payload: string;
  /** JSON. */
  readonly options: string;
  /** What happens to ticks that no worker handled in time. */
  readonly missed: MissedPolicy;
  /** How many missed ticks run at most. */
  readonly missedLimit: number;
  /** What happens at a tick while an earlier job runs. */
  readonly overlap: Overlap;
  /** For people; null: none. */
  readonly description: string | null;
}

/** A schedule that a program declares. Give it to a worker or to `schedules.create()`, or export it from the tasks module. */
export interface Schedule {
  /** The name under which it is stored. */
  readonly name: string;
  /** What it declares, checked. */
  readonly definition: Definition;
  /** Checks the input with the schema of the task. */
  readonly check: () => Promise<void>;
}

const missedOptions = optionsOf<Exclude<MissedOption, string>>()({
  all: needed(whole(1, MISSED_LIMIT_MAX)),
});

const terms = {
  ...timingFields,
  input: passed<unknown>(),
  /** Checked with the defaults of the task: see jobOptionsOf. */
  options: passed<ScheduledJobOptions>(),
  missed: by(missedOf),
  overlap: choice(overlaps),
  description: by((field, text: string) => checkWords(field, text, DESCRIPTION_LENGTH_MAX)),
};

export const changeOptions = optionsOf<ScheduleChanges>()(terms);

interface NewSchedule extends ScheduleChanges {
  readonly name: string;
  readonly task: AnyTask | string;
}

const scheduleOptions = optionsOf<NewSchedule>()({
  name: needed(by(checkName)),
  task: needed(passed<AnyTask | string>()),
  ...terms,
  missed: by(missedOf, "once"),
  overlap: choice(overlaps, OVERLAP_DEFAULT),
});

/**
 * Declares a schedule in code. Workers store it when they start.
 *
 * @example
 * ```ts
 * const nightly = defineSchedule({
 *   name: "ping.nightly",
 *   task: ping,
 *   cron: "30 2 * * *",
 *   timeZone: "Europe/Berlin",
 * });
 * await holdfast.startWorker({ tasks: [ping], schedules: [nightly] });
 * ```
 */
export function defineSchedule<Of extends AnyTask | string>(options: ScheduleOptions<Of>): Schedule;
export function defineSchedule(schedule: ScheduleOptions): Schedule {
  const { name, task, input = null, ...rest } = scheduleOptions.read(schedule);
  const { options = {}, missed, overlap, description = null, ...timing } = rest;
  const defaults = typeof task === "string" ? unknownTask(task) : defaultsOf(task);
  const definition = {
    name,
    task: defaults.name,
    payload: payloadOf(input),
    options: jobOptionsOf(options, defaults),
    ...possible(checkTiming(timing)),
    ...missed,
    overlap,
    description,
  };
  return {
    name,
    definition,
    check: async () => {
      if (typeof task !== "string") await checkInputs(task, [input]);
    },
  };
}

/** Cron expressions name no year, so one that matches no date after 1970 never will. */
function possible(timing: TimingRow): TimingRow {
  firstTick(timing, 0);
  return timing;
}

function payloadOf(input: unknown): string {
  return encode(input, { what: "input", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX });
}

/** The queue and the number of attempts are those of the task as it is now. */
function jobOptionsOf(
  options: ScheduledJobOptions,
  defaults: { readonly queue: string; readonly maxAttempts: number },
): string {
  for (const field of ["delay", "runAt", "trace"] as const) {
    if (typeof options !== "object" || options === null || !(field in options)) continue;
    throw invalid(`options.${field}`, "the schedule decides when its jobs run.");
  }
  const { queue, maxAttempts } = checkOptions(options, defaults);
  if ((options as EnqueueOptions).onConflict === "reject") {
    const problem =
      '"reject" needs a caller, which a schedule does not have. Use "return" or "replace".';
    throw invalid("options.onConflict", problem);
  }
  const all = { ...options, queue, maxAttempts };
  return encode(all, { what: "options", bytesMax: OPTIONS_BYTES_MAX });
}

function missedOf(field: string, missed: MissedOption): Pick<Definition, "missed" | "missedLimit"> {
  if (missed === "skip" || missed === "once") return { missed, missedLimit: 1 };
  if (typeof missed === "object" && missed !== null) {
    const { all } = missedOptions.read(missed, { field, example: "{ all: 100 }" });
    return { missed: "all", missedLimit: all };
  }
  throw invalid(field, 'must be "skip", "once" or { all: 100 }, the most that run.');
}

/** Checks changes by themselves, and gives the columns that they set. */
export function changesOf(before: Definition, changes: ScheduleChanges): Partial<Definition> {
  const { options, missed, overlap, description, input, ...timing } = changeOptions.read(changes);
  const defaults = JSON.parse(before.options) as { queue: string; maxAttempts: number };
  return {
    ...("input" in changes ? { payload: payloadOf(input ?? null) } : {}),
    ...(options && { options: jobOptionsOf(options, defaults) }),
    ...(Object.keys(timing).length > 0 && timingAfter(before, timing)),
    ...missed,
    ...(overlap && { overlap }),
    ...(description !== undefined && { description }),
  };
}

/** What is not named stays, unless it belongs to the other kind of timing. */
function timingAfter(before: Definition, changes: TimingOptions): TimingRow {
  const { cron, every } = changes;
  const kept: TimingOptions =
    cron !== undefined || (every === undefined && before.cron !== null)
      ? {
          cron: before.cron ?? "",
          ...(before.timeZone === null ? {} : { timeZone: before.timeZone }),
        }
      : { every: before.everyMs ?? 0, offset: every === undefined ? (before.offsetMs ?? 0) : 0 };
  return checkTiming({ ...kept, ...changes });
}

/** The first tick after an instant. Throws InvalidArgumentError if there is none, as on 31 February. */
export function firstTick(timing: TimingRow, after: number): number {
  const tick = timingOf(timing).next(after);
  if (tick !== null) return tick;
  throw invalid("cron", `'${timing.cron ?? ""}' matches no date, so it would never run.`);
}

export interface ScheduleRecord extends Definition {
  /** The next tick, also of a paused schedule; null: there is none. */
  readonly nextAt: number | null;
  /** When it was created, resumed, or its timing last changed. */
  readonly sinceAt: number;
  /** The last tick that was handled. */
  readonly lastAt: number | null;
  readonly pausedAt: number | null;
  readonly pausedBy: string | null;
  /** The name of the workers whose code declares it; null: it was created at run time. */
  readonly declaredBy: string | null;
  /** The hash of the declaration. */
  readonly declared: string | null;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Missed ticks that were skipped. */
  readonly missedCount: number;
  /** Runs that wait for the end of an earlier job. */
  readonly queuedCount: number;
  /** Why its last tick could not be handled; null: it could. */
  readonly error: string | null;
  readonly errorAt: number | null;
}

/** What became of one tick of a schedule. */
export interface RunRecord {
  /** The name of the schedule. */
  readonly schedule: string;
  /** When it was due; for a manual run, when it was requested. */
  readonly tick: number;
  /** An operator asked for it. */
  readonly manual: boolean;
  /** Whether a job was enqueued, and why not. */
  readonly outcome: RunOutcome;
  /** Null: it has no job, or none yet. */
  readonly job: string | null;
  /** When it was handled. */
  readonly at: number;
}

/** The database is away or busy: it is not the fault of the schedule. */
export function isOutage(error: unknown): boolean {
  return [StoreUnavailableError, StoreBusyError, OutcomeUnknownError].some(
    (kind) => error instanceof kind,
  );
}

/** There is no schedule with this name. */
export class ScheduleNotFoundError extends HoldfastError {
  /** The name that was looked for. */
  readonly schedule: string;

  constructor(facts: { schedule: string }) {
    super(
      "SCHEDULE_NOT_FOUND",
      `There is no schedule '${facts.schedule}'. To list schedules: holdfast schedules`,
    );
    this.schedule = facts.schedule;
  }
}

/** A schedule with this name exists. */
export class ScheduleExistsError extends HoldfastError {
  /** The name that is taken. */
  readonly schedule: string;

  constructor(facts: { schedule: string }) {
    super(
      "SCHEDULE_EXISTS",
      `Schedule '${facts.schedule}' already exists. Edit it, or choose another name.`,
    );
    this.schedule = facts.schedule;
  }
}

/** The schedule was changed since the caller read it. */
export class ScheduleChangedError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string;
  /** The revision that it has now. */
  readonly revision: number;

  constructor(facts: { schedule: string; revision: number; expected: number }) {
    super(
      "SCHEDULE_CHANGED",
      `Schedule '${facts.schedule}' has revision ${facts.revision}, not ${facts.expected}: it was changed in the meantime. ` +
        `Read it again, and repeat the change if it still applies.`,
    );
    this.schedule = facts.schedule;
    this.revision = facts.revision;
  }
}

/** Workers declare the schedule in code, so deleting it would last until the next one starts. */
export class ScheduleDeclaredError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string;
  /** The name of the workers whose code declares it. */
  readonly declaredBy: string;

  constructor(facts: { schedule: string; declaredBy: string }) {
    super(
      "SCHEDULE_DECLARED",
      `Schedule '${facts.schedule}' is declared in the code of workers named '${facts.declaredBy}' so the next start would create it again. ` +
        `Pause it, or remove it from the code. If those workers no longer exist, delete it with force.`,
    );
    this.schedule = facts.schedule;
    this.declaredBy = facts.declaredBy;
  }
}
