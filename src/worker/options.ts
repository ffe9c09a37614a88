/** The options of a worker, their defaults and checks, and the same as settings of a service. */
import {
  DAY,
  list,
  modulePath,
  name,
  SECOND,
  setting,
  settled,
  span,
  type ValuesOf,
  whole,
  yesOrNo,
} from "../config/kind.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { type FinalStatus, finalStatuses } from "../core/job.ts";
import { checkName } from "../core/name.ts";
import { checkBoolean, checkKnown, checkList, checkWhole, shownNumber } from "../core/options.ts";
import { type AnyTask, type Task, taskMap } from "../core/task.ts";
import { DEFAULT_CRASHES_MAX, DEFAULT_GRACE, DEFAULT_LEASE, LEASE_MS_MIN } from "../jobs/leases.ts";
import { SLOTS_MAX } from "../registry/worker-record.ts";
import type { Schedule } from "../schedules/schedule.ts";
import { checkSchedules } from "../schedules/schedules.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import { checkHooks, type RunHook } from "./events.ts";

/** What a worker runs, how many jobs at once, and how it renews its leases. */
export interface WorkerOptions {
  /** The tasks whose jobs it runs. */
  readonly tasks: readonly AnyTask[];
  /** Workflows whose items it moves at the time limit of a state, or when the jobs they wait for have ended. */
  readonly workflows?: readonly AnyWorkflow[];
  /**
   * Schedules that it stores when it starts. Those that workers of its name declared before and that are missing here are
   * deleted; without the option, none is.
   */
  readonly schedules?: readonly Schedule[];
  /** The first part of the worker's id. Default: "worker". */
  readonly name?: string;
  /** A list, or how many jobs of each queue run at once: `{ mail: 2, default: 20 }`. Default: the queues of the tasks. */
  readonly queues?: readonly string[] | Readonly<Record<string, number>>;
  /** Jobs at once. Default 10, or the sum of the numbers in `queues`. */
  readonly concurrency?: number;
  /** How long the lease on a claimed job lasts unless the worker renews it. Default 30 s. */
  readonly lease?: Duration;
  /** The share of the lease after which it is renewed. Default 0.5. */
  readonly extendAt?: number;
  /** How often an idle worker polls without a notification. Default 10 s. */
  readonly poll?: Duration;
  /** How often maintenance runs: promoting, reclaiming, pruning. Default 1 s. */
  readonly maintenanceInterval?: Duration;
  /** How long to wait before reclaiming an expired lease. Default 2 s. */
  readonly grace?: Duration;
  /** After this many lost leases, a job fails as a poison job. Default 3. */
  readonly maxCrashes?: number;
  /** Whether a job whose last worker died runs alone at its next attempt, so that it cannot harm other jobs again. Default true. */
  readonly runSuspectsAlone?: boolean;
  /** How long a task may block the event loop before its jobs are given up. Default: ten leases, at least 10 s. */
  readonly maxBlock?: Duration;
  /**
   * True: a watchdog thread ends the process, with a line on stderr and SIGKILL, when a task has blocked the event loop for
   * longer than `maxBlock`, so that a supervisor can restart it. False: its jobs are given up, and the process stays blocked.
   * Default true.
   */
  readonly endBlocked?: boolean;
  /** How long a stopping worker waits for its jobs. Default 30 s. */
  readonly shutdown?: Duration;
  /**
   * True: SIGTERM and SIGINT close Holdfast, so that running jobs finish, and then end the process with 0; a second signal
   * ends it at once. Programs with their own signal handlers call `close()` instead. Default false.
   */
  readonly signals?: boolean;
  /** How many workers of this name may be active at once, in all processes; the database enforces it. Default: any number. */
  readonly slots?: number;
  /** When all slots are taken: fail, or wait and take over when one becomes free. Default "refuse". */
  readonly onConflict?: "refuse" | "standby";
  /** How often the worker sends a heartbeat. Default 10 s. */
  readonly heartbeat?: Duration;
  /** A worker counts as dead after this long without a heartbeat. Default 30 s. */
  readonly heartbeatTimeout?: Duration;
  /** The same for a stopping worker. Default 60 s. */
  readonly stoppingTimeout?: Duration;
  /** The build of the application. Default: the git commit, else BUILD_ID. */
  readonly version?: string;
  /** Functions around every task that this worker runs; the first is the outermost. */
  readonly hooks?: readonly RunHook[];
  /** How long finished jobs are kept. Default 7 days, failed ones 30. */
  readonly retention?: Partial<Record<FinalStatus, Duration>>;
}

export interface WorkerSettings {
  readonly tasks: ReadonlyMap<string, Task>;
  readonly workflows: readonly AnyWorkflow[];
  /** Null: it declares none, and leaves those of others alone. */
  readonly schedules: readonly Schedule[] | null;
  readonly name: string;
  readonly queues: readonly string[];
  /** How many jobs of each queue run at once; null: only `concurrency` limits them. */
  readonly queueLimits: ReadonlyMap<string, number> | null;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly extendAt: number;
  readonly pollMs: number;
  readonly maintenanceMs: number;
  readonly graceMs: number;
  readonly crashesMax: number;
  readonly runSuspectsAlone: boolean;
  readonly blockedMsMax: number;
  readonly endBlocked: boolean;
  readonly shutdownMs: number;
  readonly signals: boolean;
  readonly slots: number | null;
  readonly onConflict: "refuse" | "standby";
  readonly heartbeatMs: number;
  readonly staleMs: number;
  readonly hungMs: number;
  readonly version: string;
  readonly hooks: readonly RunHook[];
  readonly keepMs: Record<FinalStatus, number>;
}

const CONCURRENCY = { least: 1, most: 1_000 };
const CONCURRENCY_INITIAL = 10;
const CRASHES = { least: 1, most: 1_000 };
const SLOTS = { least: 1, most: SLOTS_MAX };
const QUEUES_MAX = 64;

/** The shortest interval of a loop. */
const LOOP_MS_MIN = 10;

const STALE_MS = 30_000;
const HUNG_MS = 60_000;

/** Trust in a lease ends at nine tenths of it: the answer to a renewal must arrive by then. */
const EXTEND_AT_MAX = 0.8;

/** The default of `maxBlock`, in leases. */
const BLOCKED_LEASES = 10;

/** Even with short leases, a process that is busy starting up must not count as blocked. */
const BLOCKED_MS_MIN = 10_000;

/** A worker that misses one heartbeat is not dead yet. */
export const HEARTBEATS_PER_STALE = 2;

const KNOWN = new Set(
  (
    "tasks workflows schedules name queues concurrency lease extendAt poll maintenanceInterval grace maxCrashes maxBlock endBlocked shutdown retention " +
    "signals slots onConflict heartbeat heartbeatTimeout stoppingTimeout version hooks runSuspectsAlone"
  ).split(" "),
);

/** `version` is the build of the process, for workers that name none. */
export function checkWorkerOptions(options: WorkerOptions, version: string): WorkerSettings {
  checkKnown(options, KNOWN);
  const tasks = checkTasks(options.tasks ?? []);
  const leaseMs = msOf(options, "lease", LEASE_MS_MIN);
  const { retention = {} } = options;
  checkKnown(retention, new Set(finalStatuses), { field: "retention", example: '{ done: "7d" }' });
  return {
    tasks,
    workflows: checkList("workflows", options.workflows ?? []),
    schedules: options.schedules === undefined ? null : checkSchedules(options.schedules),
    name: checkName("name", options.name ?? workerSettings.name.initial),
    ...checkConcurrency(options, tasks),
    leaseMs,
    extendAt: checkShare("extendAt", options.extendAt ?? 0.5),
    pollMs: msOf(options, "poll", LOOP_MS_MIN),
    maintenanceMs: msOf(options, "maintenanceInterval", LOOP_MS_MIN),
    graceMs: msOf(options, "grace"),
    crashesMax: checkWhole(
      "maxCrashes",
      options.maxCrashes ?? workerSettings.maxCrashes.initial,
      CRASHES,
    ),
    runSuspectsAlone: checkBoolean("runSuspectsAlone", options.runSuspectsAlone ?? true),
    blockedMsMax: toMs(
      "maxBlock",
      options.maxBlock ?? Math.max(leaseMs * BLOCKED_LEASES, BLOCKED_MS_MIN),
      { min: leaseMs },
    ),
    endBlocked: checkBoolean("endBlocked", options.endBlocked ?? true),
    shutdownMs: msOf(options, "shutdown"),
    signals: checkBoolean("signals", options.signals ?? false),
    ...checkRegistration(options, version),
    hooks: checkHooks(options.hooks ?? []),
    keepMs: {
      done: toMs("retention.done", retention.done ?? workerSettings.retentionDone.initial),
      cancelled: toMs(
        "retention.cancelled",
        retention.cancelled ?? workerSettings.retentionCancelled.initial,
      ),
      failed: toMs("retention.failed", retention.failed ?? workerSettings.retentionFailed.initial),
      expired: toMs(
        "retention.expired",
        retention.expired ?? workerSettings.retentionExpired.initial,
      ),
    },
  };
}

/** An option in milliseconds; the default is that of its setting. */
function msOf(
  options: WorkerOptions,
  field: "lease" | "poll" | "maintenanceInterval" | "grace" | "shutdown" | "heartbeat",
  min = 0,
): number {
  return toMs(field, options[field] ?? workerSettings[field].initial, { min });
}

function checkRegistration(
  options: WorkerOptions,
  version: string,
): Pick<WorkerSettings, "slots" | "onConflict" | "heartbeatMs" | "staleMs" | "hungMs" | "version"> {
  const { slots, onConflict = "refuse" } = options;
  if (onConflict !== "refuse" && onConflict !== "standby") {
    throw new InvalidArgumentError({
      field: "onConflict",
      problem: 'must be "refuse" or "standby".',
    });
  }
  const heartbeatMs = msOf(options, "heartbeat", LOOP_MS_MIN);
  const min = heartbeatMs * HEARTBEATS_PER_STALE;
  return {
    slots: slots === undefined ? null : checkWhole("slots", slots, SLOTS),
    onConflict,
    heartbeatMs,
    staleMs: toMs("heartbeatTimeout", options.heartbeatTimeout ?? Math.max(min, STALE_MS), { min }),
    hungMs: toMs("stoppingTimeout", options.stoppingTimeout ?? Math.max(min, HUNG_MS), { min }),
    version: checkName("version", options.version ?? version),
  };
}

function checkTasks(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = taskMap(tasks);
  if (map.size > 0) return map;
  const problem = "a worker needs at least one task, made with defineTask().";
  throw new InvalidArgumentError({ field: "tasks", problem });
}

/** Queues with numbers run so many jobs at once, and together as many as `concurrency` allows. */
function checkConcurrency(
  { queues, concurrency }: WorkerOptions,
  tasks: ReadonlyMap<string, Task>,
): Pick<WorkerSettings, "queues" | "queueLimits" | "concurrency"> {
  const isLimited = typeof queues === "object" && queues !== null && !Array.isArray(queues);
  const limits = isLimited
    ? Object.entries(queues).map(([queue, limit]): [string, number] => [
        queue,
        checkWhole(`queues.${queue}`, limit as number, CONCURRENCY),
      ])
    : null;
  const sum = limits?.reduce((all, [, limit]) => all + limit, 0) ?? CONCURRENCY_INITIAL;
  return {
    queues: checkQueues(
      limits?.map(([queue]) => queue) ??
        (queues as readonly string[] | undefined) ??
        [...tasks.values()].map((task) => task.queue),
    ),
    queueLimits: limits === null ? null : new Map(limits),
    concurrency: checkWhole(
      "concurrency",
      concurrency ?? Math.min(sum, CONCURRENCY.most),
      CONCURRENCY,
    ),
  };
}

function checkQueues(queues: readonly string[]): string[] {
  const names = [...new Set(queues.map((queue) => checkName("queues", queue)))];
  if (names.length > 0 && names.length <= QUEUES_MAX) return names;
  throw new InvalidArgumentError({ field: "queues", problem: `name 1 to ${QUEUES_MAX} queues.` });
}

function checkShare(field: string, share: number): number {
  if (typeof share === "number" && share >= 0.1 && share <= EXTEND_AT_MAX) return share;
  const problem = `must be from 0.1 to ${EXTEND_AT_MAX}, not ${shownNumber(share)}.`;
  throw new InvalidArgumentError({ field, problem });
}

/** The environment variable, the flag and the key in the configuration file. */
function named(env: string, flag: string | null, file: string) {
  return { group: "Worker", env: [env], flag, file } as const;
}

/** Names of queues, each with a number if you like; in the configuration file also `{ mail: 2 }`. */
function queueList() {
  const names = list(name(), QUEUES_MAX);
  return {
    ...names,
    read(given: unknown): readonly string[] | null {
      const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
      const texts = isObject
        ? Object.entries(given).map(([queue, limit]) => `${queue}=${String(limit)}`)
        : given;
      return names.read(texts);
    },
  };
}

/** All with a number, or none: a queue without one would have an unclear share. */
function queuesFrom(texts: readonly string[]): NonNullable<WorkerOptions["queues"]> {
  const parts = texts.map((text) => /^(.+)=(\d{1,6})$/.exec(text));
  if (parts.every((part) => part === null)) return texts;
  const lacking = texts.find((_text, index) => parts[index] === null);
  if (lacking !== undefined) {
    const problem = `'${lacking}' has no number, but others do. Write ${lacking}=10, or use no numbers at all.`;
    throw new InvalidArgumentError({ field: "queues", problem });
  }
  return Object.fromEntries(parts.map((part) => [part?.[1] ?? "", Number(part?.[2])]));
}

/** The same options as settings of a service. */
export const workerSettings = {
  tasks: setting({
    ...named("HOLDFAST_TASKS", "--tasks <file>", "tasks"),
    kind: modulePath(),
    initial: null,
    about: "The module that exports the tasks.",
    isPath: true,
  }),
  queues: setting({
    ...named("HOLDFAST_QUEUES", "--queue <names>", "queues"),
    kind: queueList(),
    initial: null,
    about:
      "Comma-separated queues to serve, optionally with the maximum number of running jobs of each: " +
      "mail=2,default=20 (default: the queues of the tasks).",
  }),
  concurrency: setting({
    ...named("MAX_CONCURRENT_JOBS", "--concurrency <n>", "concurrency"),
    kind: whole(CONCURRENCY.least, CONCURRENCY.most),
    initial: null,
    about:
      "Maximum number of jobs that run at the same time in each process (default: 10, or the sum of the numbers in the queue setting).",
  }),
  name: settled({
    ...named("HOLDFAST_WORKER_NAME", "--name <name>", "name"),
    kind: name(),
    initial: "worker",
    about: "The first part of the worker's id.",
  }),
  poll: settled({
    ...named("POLL_INTERVAL_MS", "--poll <duration>", "poll"),
    kind: span({ least: LOOP_MS_MIN }),
    initial: 10 * SECOND,
    about: "How often to poll for jobs when no notification arrives.",
  }),
  shutdown: settled({
    ...named("SHUTDOWN_TIMEOUT_MS", "--shutdown <duration>", "shutdown"),
    kind: span({ most: DAY }),
    initial: 30 * SECOND,
    about: "How long to wait for running jobs at shutdown.",
  }),
  lease: settled({
    ...named("HOLDFAST_LEASE", "--lease <duration>", "lease"),
    kind: span({ least: LEASE_MS_MIN }),
    initial: toMs("lease", DEFAULT_LEASE),
    about: "How long the lease on a claimed job lasts unless the worker renews it.",
  }),
  maintenanceInterval: settled({
    ...named(
      "HOLDFAST_MAINTENANCE_INTERVAL",
      "--maintenance-interval <duration>",
      "maintenanceInterval",
    ),
    kind: span({ least: LOOP_MS_MIN }),
    initial: SECOND,
    about: "How often maintenance runs.",
  }),
  grace: settled({
    ...named("HOLDFAST_GRACE", "--grace <duration>", "grace"),
    kind: span({}),
    initial: toMs("grace", DEFAULT_GRACE),
    about: "How long to wait before reclaiming a job whose lease has expired.",
  }),
  maxCrashes: settled({
    ...named("HOLDFAST_MAX_CRASHES", "--max-crashes <n>", "maxCrashes"),
    kind: whole(CRASHES.least, CRASHES.most),
    initial: DEFAULT_CRASHES_MAX,
    about: "Number of lost leases after which a job fails as a poison job.",
  }),
  runSuspectsAlone: settled({
    ...named("HOLDFAST_RUN_SUSPECTS_ALONE", null, "runSuspectsAlone"),
    kind: yesOrNo(),
    initial: true,
    about: "Whether a job whose last worker died runs alone at its next attempt.",
  }),
  slots: setting({
    ...named("HOLDFAST_SLOTS", "--slots <n>", "slots"),
    kind: whole(SLOTS.least, SLOTS.most),
    initial: null,
    about: "Maximum number of active workers with this name (default: no limit).",
  }),
  standby: settled({
    ...named("HOLDFAST_STANDBY", "--standby", "standby"),
    kind: yesOrNo(),
    initial: false,
    about: "When all slots are taken, wait for a free one instead of failing.",
  }),
  heartbeat: settled({
    ...named("HOLDFAST_HEARTBEAT", "--heartbeat <duration>", "heartbeat"),
    kind: span({ least: LOOP_MS_MIN }),
    initial: 10 * SECOND,
    about: "How often to send a heartbeat.",
  }),
  heartbeatTimeout: setting({
    ...named("HOLDFAST_HEARTBEAT_TIMEOUT", "--heartbeat-timeout <duration>", "heartbeatTimeout"),
    kind: span({ least: LOOP_MS_MIN }),
    initial: null,
    about:
      "Mark a worker dead after this long without a heartbeat (default: 30s, but at least two heartbeat intervals).",
  }),
  stoppingTimeout: setting({
    ...named("HOLDFAST_STOPPING_TIMEOUT", "--stopping-timeout <duration>", "stoppingTimeout"),
    kind: span({ least: LOOP_MS_MIN }),
    initial: null,
    about:
      "Mark a stopping worker dead after this long without a heartbeat (default: 60s, but at least two heartbeat intervals).",
  }),
  retentionDone: settled({
    ...named("HOLDFAST_RETENTION_DONE", null, "retention.done"),
    kind: span({}),
    initial: 7 * DAY,
    about: "How long to keep done jobs.",
  }),
  retentionFailed: settled({
    ...named("HOLDFAST_RETENTION_FAILED", null, "retention.failed"),
    kind: span({}),
    initial: 30 * DAY,
    about: "How long to keep failed jobs (dead letters).",
  }),
  retentionCancelled: settled({
    ...named("HOLDFAST_RETENTION_CANCELLED", null, "retention.cancelled"),
    kind: span({}),
    initial: 7 * DAY,
    about: "How long to keep cancelled jobs.",
  }),
  retentionExpired: settled({
    ...named("HOLDFAST_RETENTION_EXPIRED", null, "retention.expired"),
    kind: span({}),
    initial: 7 * DAY,
    about: "How long to keep jobs that expired before they started.",
  }),
};

/** The options of a worker with these settings. Only `standby` and `retention` have other names. */
export function workerOptionsFrom(
  settings: ValuesOf<typeof workerSettings>,
): Omit<WorkerOptions, "tasks"> {
  const { standby, retentionDone, retentionFailed, retentionCancelled } = settings;
  const { retentionExpired } = settings;
  const keys = Object.keys(workerSettings) as (keyof typeof workerSettings)[];
  const same = keys.filter((key) => key !== "tasks" && KNOWN.has(key) && settings[key] !== null);
  return {
    ...Object.fromEntries(same.map((key) => [key, settings[key]])),
    ...(settings.queues === null ? {} : { queues: queuesFrom(settings.queues) }),
    ...(standby ? { onConflict: "standby" } : {}),
    retention: {
      done: retentionDone,
      failed: retentionFailed,
      cancelled: retentionCancelled,
      expired: retentionExpired,
    },
  };
}
