/** What an application does with schedules: `holdfast.schedules`. */
import {
  anyOperator,
  operatorFields,
  type OperatorOptions,
  operatorOptions,
  sha256,
} from "../audit/entry.ts";
import { invalid, InvalidArgumentError } from "../core/errors.ts";
import { decode } from "../core/json.ts";
import type { AnyTask } from "../core/task.ts";
import { checkName, checkTaskName, NAME_LENGTH_MAX } from "../core/name.ts";
import {
  by,
  checkBoolean,
  checkList,
  checkText,
  instant,
  optionsOf,
  whole,
  yes,
} from "../core/options.ts";
import {
  changeOptions,
  defineSchedule,
  type Definition,
  type MissedOption,
  type Overlap,
  type RunRecord,
  type Schedule,
  type ScheduleChanges,
  type ScheduledJobOptions,
  ScheduleNotFoundError,
  type ScheduleOptions,
  type ScheduleRecord,
} from "./schedule.ts";
import type { Reconciled, SchedulesStore } from "./store.ts";
import {
  between,
  checkTiming,
  nextTicks,
  timingFields,
  type TimingOptions,
  timingOf,
  type TimingRow,
} from "./timing.ts";
import { inWords } from "./words.ts";

const LIST_MAX = 1_000;
const LIST_DEFAULT = 100;
const NEXT_RUNS = 5;
const PREVIEW_MAX = 100;

/** Schedules that one worker may declare. */
const DECLARED_MAX = 1_000;

/** A schedule as the API shows it. */
export interface ScheduleView {
  /** Identifies it. */
  readonly name: string;
  /** The name of the task of its jobs. */
  readonly task: string;
  /** What each job is enqueued with. */
  readonly input: unknown;
  /** Options of its jobs. */
  readonly options: ScheduledJobOptions;
  /** The cron expression; null: it has an interval. */
  readonly cron: string | null;
  /** The IANA zone of the expression; null: it has an interval. */
  readonly timeZone: string | null;
  /** The interval in milliseconds; null: it has a cron expression. */
  readonly everyMs: number | null;
  /** How long after each multiple of the interval it runs; null: it has a cron expression. */
  readonly offsetMs: number | null;
  /** Such as "At 02:30 on Monday to Friday (Europe/Berlin)". */
  readonly words: string;
  /** What happens to ticks that no worker handled in time. */
  readonly missed: MissedOption;
  /** What happens at a tick while an earlier job runs. */
  readonly overlap: Overlap;
  /** For people; null: none. */
  readonly description: string | null;
  /** Null: it is paused, or no date matches any more. */
  readonly nextAt: number | null;
  /** The last tick that was handled. */
  readonly lastAt: number | null;
  /** When it was paused (ms since 1970); null: it is not. */
  readonly pausedAt: number | null;
  /** Who paused it; null: it is not paused. */
  readonly pausedBy: string | null;
  /** The name of the workers whose code declares it; null: it was created at run time. */
  readonly declaredBy: string | null;
  /** Grows with every change. */
  readonly revision: number;
  /** When it was created (ms since 1970). */
  readonly createdAt: number;
  /** When it was last changed (ms since 1970). */
  readonly updatedAt: number;
  /** Missed ticks that were skipped. */
  readonly missedCount: number;
  /** Runs that wait for the end of an earlier job. */
  readonly queuedCount: number;
  /** Why its last tick could not be handled; null: it could. */
  readonly error: string | null;
  /** When that was (ms since 1970). */
  readonly errorAt: number | null;
}

/** A schedule with its next runs. */
export interface ScheduleDetails extends ScheduleView {
  /** The next five ticks. */
  readonly nextRuns: readonly number[];
  /** How the clock's next change moves one of its runs, in a sentence; null: it moves none within a year. */
  readonly clock: string | null;
}

/** Which schedules to list, and how many. */
export interface SchedulesFilter {
  /** Schedules of this task. */
  readonly task?: string;
  /** Only paused schedules, or only those that are not. */
  readonly paused?: boolean;
  /** The last name of the page before. */
  readonly after?: string;
  /** Default 100, at most 1,000. */
  readonly limit?: number;
}

/** A page of the runs of a schedule. */
export interface RunsFilter {
  /** The last tick of the page before. */
  readonly before?: number;
  /** Default 100, at most 1,000. */
  readonly limit?: number;
}

/** A timing to preview, and how many runs. */
export interface PreviewOptions extends TimingOptions {
  /** Default 5, at most 100. */
  readonly count?: number;
  /** Ticks after this instant. Default: now, by the database's clock. */
  readonly after?: Date | number;
}

/** A timing in words, with its next runs. */
export interface Preview {
  /** The timing in English, such as "At 02:30 (Europe/Berlin)". */
  readonly words: string;
  /** The next ticks (ms since 1970). */
  readonly nextRuns: readonly number[];
  /** How the clock's next change moves one of its runs, in a sentence; null: it moves none within a year. */
  readonly clock: string | null;
}

/** How many days a calendar covers. */
export interface CalendarOptions {
  /** Default 7, at most 31. */
  readonly days?: number;
}

/** What the schedules run within some days. */
export interface Calendar {
  /** Now (ms since 1970, the database's clock). */
  readonly from: number;
  /** The end of the last day. */
  readonly until: number;
  /** By name. */
  readonly schedules: readonly {
    /** The name of the schedule. */
    readonly name: string;
    /** Its timing in English. */
    readonly words: string;
    /** Its ticks (ms since 1970); empty if there are too many. */
    readonly ticks: readonly number[];
    /** It runs too often to list every tick. */
    readonly isDense: boolean;
  }[];
  /** Whether these are all that are not paused. */
  readonly isAll: boolean;
}

const DAY_MS = 86_400_000;
export const CALENDAR_DAYS_MAX = 31;
/** Schedules of a calendar, and the ticks of each that are listed. */
export const CALENDAR_MAX = 200;
export const CALENDAR_TICKS_MAX = 24;

const calendarOptions = optionsOf<CalendarOptions>()({ days: whole(1, CALENDAR_DAYS_MAX, 7) });

/** A definition that cannot be read here runs nothing here either. */
function ticksIn(row: TimingRow, { from, until }: Pick<Calendar, "from" | "until">) {
  try {
    const ticks = between(timingOf(row), from, until, CALENDAR_TICKS_MAX + 1);
    const isDense = ticks.length > CALENDAR_TICKS_MAX;
    return { ticks: isDense ? [] : ticks, isDense };
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    return { ticks: [], isDense: false };
  }
}

const createOptions = optionsOf<OperatorOptions & { readonly paused?: boolean }>()({
  paused: yes(false),
  ...operatorFields,
});

const editOptions = optionsOf<OperatorOptions & { readonly revision?: number }>()({
  revision: whole(1, Number.MAX_SAFE_INTEGER),
  ...operatorFields,
});

const deleteOptions = optionsOf<OperatorOptions & { readonly force?: boolean }>()({
  force: yes(false),
  ...operatorFields,
});

const limitOption = whole(1, LIST_MAX, LIST_DEFAULT);

const listOptions = optionsOf<SchedulesFilter>()({
  task: by(checkTaskName),
  paused: by(checkBoolean),
  after: by(checkText),
  limit: limitOption,
});

const runsOptions = optionsOf<RunsFilter>()({
  before: whole(0, Number.MAX_SAFE_INTEGER),
  limit: limitOption,
});

const previewOptions = optionsOf<PreviewOptions>()({
  ...timingFields,
  count: whole(1, PREVIEW_MAX, NEXT_RUNS),
  after: instant(),
});

interface SchedulesParts {
  readonly store: { readonly schedules: SchedulesStore; readonly db: { clock(): Promise<number> } };
  readonly newId: () => string;
}

/** Creates, edits, pauses and lists schedules: `holdfast.schedules`. */
export class Schedules {
  readonly #store: SchedulesParts["store"];
  readonly #newId: () => string;

  /** @internal */
  constructor({ store, newId }: SchedulesParts) {
    this.#store = store;
    this.#newId = newId;
  }

  /**
   * Creates a schedule, also from what `defineSchedule()` returned; it takes effect at once, in all workers. Throws
   * ScheduleExistsError.
   */
  async create<Of extends AnyTask | string>(
    schedule: ScheduleOptions<Of> | Schedule,
    options: OperatorOptions & {
      /** Whether it begins paused. Default false. */
      readonly paused?: boolean;
    } = {},
    /** @internal The id of the audit line: a call that is repeated with it changes nothing. */
    id?: string,
  ): Promise<ScheduleView> {
    const { paused, ...audited } = createOptions.read(options);
    const { definition, check } = isSchedule(schedule)
      ? schedule
      : defineSchedule(schedule as ScheduleOptions);
    await check();
    const operator = anyOperator(audited, () => id ?? this.#newId());
    return viewOf(await this.#store.schedules.create(definition, operator, { paused }));
  }

  /**
   * Changes a schedule; what is not named stays. Takes effect at once, in all workers. Throws ScheduleNotFoundError, and
   * ScheduleChangedError if a `revision` is given and is not the present one.
   */
  async edit(
    name: string,
    changes: ScheduleChanges,
    options: OperatorOptions & {
      /** The revision that it must still have; else ScheduleChangedError. Default: any. */
      readonly revision?: number;
    } = {},
  ): Promise<ScheduleView> {
    const { revision, ...audited } = editOptions.read(options);
    changeOptions.read(changes);
    if (Object.keys(changes).length === 0) throw invalid("changes", "name at least one change.");
    const expected = revision === undefined ? {} : { revision };
    const operator = anyOperator(audited, this.#newId);
    const named = checkName("name", name);
    return viewOf(await this.#store.schedules.edit(named, changes, operator, expected));
  }

  /** A paused schedule enqueues nothing until it is resumed. Ticks of the pause are skipped. */
  async pause(name: string, options: OperatorOptions = {}): Promise<ScheduleView> {
    return viewOf(await this.#store.schedules.pause(checkName("name", name), this.#by(options)));
  }

  /** Ends a pause: it continues with its next tick. */
  async resume(name: string, options: OperatorOptions = {}): Promise<ScheduleView> {
    return viewOf(await this.#store.schedules.resume(checkName("name", name), this.#by(options)));
  }

  /**
   * Deletes a schedule and its history; its jobs stay. One that is declared in code would come back, so it takes `force`:
   * otherwise this throws ScheduleDeclaredError.
   */
  async delete(
    name: string,
    options: OperatorOptions & {
      /** Deletes it although workers declare it in code. Default false. */
      readonly force?: boolean;
    } = {},
  ): Promise<void> {
    const { force, ...audited } = deleteOptions.read(options);
    const operator = anyOperator(audited, this.#newId);
    await this.#store.schedules.delete(checkName("name", name), operator, { force });
  }

  /** Enqueues one job now, whatever the timing, a pause or an overlap. Returns the id of the job. */
  async run(
    name: string,
    options: OperatorOptions = {},
    /** @internal As for `create`. */
    id?: string,
  ): Promise<string> {
    const operator = { ...this.#by(options), ...(id === undefined ? {} : { id }) };
    return this.#store.schedules.run(checkName("name", name), operator);
  }

  /** With its next five runs. Null: there is no such schedule. */
  async get(name: string): Promise<ScheduleDetails | null> {
    const record = await this.#store.schedules.find(checkName("name", name));
    if (record === null) return null;
    const { nextAt, pausedAt } = record;
    const isOver = pausedAt !== null || nextAt === null;
    if (isOver) return { ...viewOf(record), nextRuns: [], clock: null };
    const timing = timingOf(record);
    const later = nextTicks(timing, nextAt, NEXT_RUNS - 1);
    const clock = timing.clock(nextAt - 1);
    return { ...viewOf(record), nextRuns: [nextAt, ...later], clock };
  }

  /** A page of schedules, by name. */
  async list(filter: SchedulesFilter = {}): Promise<ScheduleView[]> {
    const records = await this.#store.schedules.list(listOptions.read(filter));
    return records.map(viewOf);
  }

  /** What became of its ticks, newest first. The last 1,000 are kept, and those of the last day. */
  async runs(name: string, filter: RunsFilter = {}): Promise<RunRecord[]> {
    const schedule = checkName("name", name);
    const runs = await this.#store.schedules.runs({ schedule, ...runsOptions.read(filter) });
    if (runs.length === 0 && (await this.#store.schedules.find(schedule)) === null)
      throw new ScheduleNotFoundError({ schedule });
    return runs;
  }

  /** The run that enqueued a job, such as `runOf(ctx.id)` in a task. Null: no schedule enqueued it, or it is too old. */
  runOf(job: string): Promise<RunRecord | null> {
    return this.#store.schedules.runOf(checkText("job", job));
  }

  /** The timing in words, and the next runs it would have. Stores nothing. */
  preview(options: PreviewOptions): Promise<Preview> {
    return preview(options, () => this.#store.db.clock());
  }

  /** What the schedules run in the next days, by name. */
  async calendar(options: CalendarOptions = {}): Promise<Calendar> {
    const { days } = calendarOptions.read(options);
    const { schedules: store, db } = this.#store;
    const from = await db.clock();
    const until = from + days * DAY_MS;
    const found = await store.list({ paused: false, limit: CALENDAR_MAX + 1 });
    const schedules = found.slice(0, CALENDAR_MAX).map((one) => ({
      name: one.name,
      words: inWords(one),
      ...ticksIn(one, { from, until }),
    }));
    return { from, until, schedules, isAll: found.length <= CALENDAR_MAX };
  }

  #by(options: OperatorOptions) {
    return anyOperator(operatorOptions.read(options), this.#newId);
  }
}

/** The timing in words, and the next runs it would have after `options.after`, or else after now. */
export async function preview(
  options: PreviewOptions,
  now: () => Promise<number>,
): Promise<Preview> {
  const { count, after, ...timing } = previewOptions.read(options);
  const row = checkTiming(timing);
  const from = after ?? (await now());
  const ticks = timingOf(row);
  return { words: inWords(row), nextRuns: nextTicks(ticks, from, count), clock: ticks.clock(from) };
}

function viewOf(record: ScheduleRecord): ScheduleView {
  const {
    payload,
    options,
    missed,
    missedLimit,
    sinceAt: _since,
    declared: _declared,
    ...rest
  } = record;
  return {
    ...rest,
    nextAt: record.pausedAt === null ? record.nextAt : null,
    input: decode(payload),
    options: decode(options) as ScheduledJobOptions,
    words: inWords(record),
    missed: missed === "all" ? { all: missedLimit } : missed,
  };
}

function isSchedule(value: object): value is Schedule {
  const { check, definition } = (value ?? {}) as Partial<Schedule>;
  return typeof check === "function" && typeof definition === "object";
}

export function checkSchedules(schedules: readonly Schedule[]): readonly Schedule[] {
  const names = new Set<string>();
  for (const schedule of checkList("schedules", schedules)) {
    if (!isSchedule(schedule)) {
      throw invalid("schedules", "pass schedules made with defineSchedule().");
    }
    if (names.has(schedule.name)) {
      throw invalid("schedules", `two schedules are called '${schedule.name}'.`);
    }
    names.add(schedule.name);
  }
  if (names.size <= DECLARED_MAX) return schedules;
  const problem = `has ${names.size} schedules; at most ${DECLARED_MAX} are allowed.`;
  throw invalid("schedules", problem);
}

/** Stores the schedules that workers of a name declare. */
export async function declareSchedules(
  group: string,
  schedules: readonly Schedule[],
  store: SchedulesStore,
): Promise<Reconciled> {
  for (const schedule of schedules) await schedule.check();
  const declared = schedules.map(({ definition }) => ({ definition, hash: hashOf(definition) }));
  return store.declare(group, declared, `code of ${group}`.slice(0, NAME_LENGTH_MAX));
}

function hashOf(definition: Definition): string {
  const entries = Object.entries(definition).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify(entries));
}
