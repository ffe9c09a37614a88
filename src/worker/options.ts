/** The options of a worker, their defaults and checks, and the same as settings of a service. */
import {
  configured,
  DAY,
  list,
  modulePath,
  name,
  setting,
  settingsOf,
  settled,
  span,
  type ValuesOf,
  yesOrNo,
} from "../config/kind.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import type { FinalStatus } from "../core/job.ts";
import { checkName } from "../core/name.ts";
import {
  by,
  checkList,
  checkWhole,
  choice,
  duration,
  optionsOf,
  passed,
  shownNumber,
  whole,
  yes,
} from "../core/options.ts";
import { type AnyTask, type Task, taskMap } from "../core/task.ts";
import { DEFAULT_CRASHES_MAX, DEFAULT_GRACE, DEFAULT_LEASE, LEASE_MS_MIN } from "../jobs/leases.ts";
import { SLOTS_MAX } from "../registry/worker-record.ts";
import type { Schedule } from "../schedules/schedule.ts";
import { checkSchedules } from "../schedules/schedules.ts";
import type { AnyWorkflow } from "../workflows/workflow.ts";
import { checkHooks, type RunHook } from "./events.ts";

/** Settings of a worker that can also be set in `holdfast.config.ts`. */
export interface WorkerConfig {
  /** The first part of the worker's id. Default: "worker". */
  readonly name?: string | undefined;
  /** A list, or how many jobs of each queue run at once: `{ mail: 2, default: 20 }`. Default: the queues of the tasks. */
  readonly queues?: readonly string[] | Readonly<Record<string, number>> | undefined;
  /** Jobs at once. Default 10, or the sum of the numbers in `queues`. */
  readonly concurrency?: number | undefined;
  /** How long the lease on a claimed job lasts unless the worker renews it. Default 30 s. */
  readonly lease?: Duration | undefined;
  /** How often an idle worker polls without a notification. Default 10 s. */
  readonly poll?: Duration | undefined;
  /** How often maintenance runs: promoting, reclaiming, pruning. Default 1 s. */
  readonly maintenanceInterval?: Duration | undefined;
  /** How long to wait before reclaiming an expired lease. Default 2 s. */
  readonly grace?: Duration | undefined;
  /** After this many lost leases, a job fails as a poison job. Default 3. */
  readonly maxCrashes?: number | undefined;
  /** Whether a job whose last worker died runs alone at its next attempt, so that it cannot harm other jobs again. Default true. */
  readonly runSuspectsAlone?: boolean | undefined;
  /** How long a stopping worker waits for its jobs. Default 30 s. */
  readonly shutdown?: Duration | undefined;
  /** How many workers of this name may be active at once, in all processes; the database enforces it. Default: any number. */
  readonly slots?: number | undefined;
  /** How often the worker sends a heartbeat. Default 10 s. */
  readonly heartbeat?: Duration | undefined;
  /** A worker counts as dead after this long without a heartbeat. Default 30 s. */
  readonly heartbeatTimeout?: Duration | undefined;
  /** The same for a stopping worker. Default 60 s. */
  readonly stoppingTimeout?: Duration | undefined;
}

/** What a worker runs, how many jobs at once, and how it renews its leases. */
export interface WorkerOptions extends WorkerConfig {
  /** The tasks whose jobs it runs. */
  readonly tasks: readonly AnyTask[];
  /** Workflows whose items it moves at the time limit of a state, or when the jobs they wait for have ended. */
  readonly workflows?: readonly AnyWorkflow[];
  /**
   * Schedules that it stores when it starts. Those that workers of its name declared before and that are missing here are
   * deleted; without the option, none is.
   */
  readonly schedules?: readonly Schedule[];
  /** The share of the lease after which it is renewed. Default 0.5. */
  readonly extendAt?: number;
  /** How long a task may block the event loop before its jobs are given up. Default: ten leases, at least 10 s. */
  readonly maxBlock?: Duration;
  /**
   * True: a watchdog thread ends the process, with a line on stderr and SIGKILL, when a task has blocked the event loop for
   * longer than `maxBlock`, so that a supervisor can restart it. False: its jobs are given up, and the process stays blocked.
   * Default true.
   */
  readonly endBlocked?: boolean;
  /**
   * True: SIGTERM and SIGINT close Holdfast, so that running jobs finish, and then end the process with 0; a second signal
   * ends it at once. Programs with their own signal handlers call `close()` instead. Default false.
   */
  readonly signals?: boolean;
  /** When all slots are taken: fail, or wait and take over when one becomes free. Default "refuse". */
  readonly onConflict?: "refuse" | "standby";
  /** The build of the application. Default: the git commit, else BUILD_ID. */
  readonly version?: string;
  /** Functions around every task that this worker runs; the first is the outermost. */
  readonly hooks?: readonly RunHook[];
  /** How long finished jobs are kept. Default 7 days, failed ones 30. */
  readonly retention?: Partial<Record<FinalStatus, Duration>>;
}

const CONCURRENCY = { least: 1, most: 1_000 };
const CONCURRENCY_INITIAL = 10;
const CRASHES_MOST = 1_000;
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

const retentionOptions = optionsOf<NonNullable<WorkerOptions["retention"]>>()({
  done: by(toMs, "7d"),
  cancelled: by(toMs, "7d"),
  failed: by(toMs, "30d"),
  expired: by(toMs, "7d"),
});

type Retention = Partial<Record<FinalStatus, Duration>>;

/** Every option: how it is checked, its default, and what the environment and the command line call it. */
const workerOptions = optionsOf<WorkerOptions>()({
  concurrency: configured(whole(CONCURRENCY.least, CONCURRENCY.most), {
    env: "MAX_CONCURRENT_JOBS",
    flag: "--concurrency <n>",
    about:
      "Maximum number of jobs that run at the same time in each process (default: 10, or the sum of the numbers in the queue setting).",
  }),
  name: configured(by(checkName, "worker"), {
    env: "HOLDFAST_WORKER_NAME",
    flag: "--name <name>",
    kind: name(),
    about: "The first part of the worker's id.",
  }),
  poll: configured(duration({ least: LOOP_MS_MIN }, "10s"), {
    env: "POLL_INTERVAL_MS",
    flag: "--poll <duration>",
    about: "How often to poll for jobs when no notification arrives.",
  }),
  shutdown: configured(duration({}, "30s"), {
    env: "SHUTDOWN_TIMEOUT_MS",
    flag: "--shutdown <duration>",
    kind: span({ most: DAY }),
    about: "How long to wait for running jobs at shutdown.",
  }),
  lease: configured(duration({ least: LEASE_MS_MIN }, DEFAULT_LEASE), {
    env: "HOLDFAST_LEASE",
    flag: "--lease <duration>",
    about: "How long the lease on a claimed job lasts unless the worker renews it.",
  }),
  maintenanceInterval: configured(duration({ least: LOOP_MS_MIN }, "1s"), {
    env: "HOLDFAST_MAINTENANCE_INTERVAL",
    flag: "--maintenance-interval <duration>",
    about: "How often maintenance runs.",
  }),
  grace: configured(duration({}, DEFAULT_GRACE), {
    env: "HOLDFAST_GRACE",
    flag: "--grace <duration>",
    about: "How long to wait before reclaiming a job whose lease has expired.",
  }),
  maxCrashes: configured(whole(1, CRASHES_MOST, DEFAULT_CRASHES_MAX), {
    env: "HOLDFAST_MAX_CRASHES",
    flag: "--max-crashes <n>",
    about: "Number of lost leases after which a job fails as a poison job.",
  }),
  runSuspectsAlone: configured(yes(true), {
    env: "HOLDFAST_RUN_SUSPECTS_ALONE",
    about: "Whether a job whose last worker died runs alone at its next attempt.",
  }),
  slots: configured(whole(1, SLOTS_MAX), {
    env: "HOLDFAST_SLOTS",
    flag: "--slots <n>",
    about: "Maximum number of active workers with this name (default: no limit).",
  }),
  heartbeat: configured(duration({ least: LOOP_MS_MIN }, "10s"), {
    env: "HOLDFAST_HEARTBEAT",
    flag: "--heartbeat <duration>",
    about: "How often to send a heartbeat.",
  }),
  heartbeatTimeout: configured(duration({ least: LOOP_MS_MIN }), {
    env: "HOLDFAST_HEARTBEAT_TIMEOUT",
    flag: "--heartbeat-timeout <duration>",
    about:
      "Mark a worker dead after this long without a heartbeat (default: 30s, but at least two heartbeat intervals).",
  }),
  stoppingTimeout: configured(duration({ least: LOOP_MS_MIN }), {
    env: "HOLDFAST_STOPPING_TIMEOUT",
    flag: "--stopping-timeout <duration>",
    about:
      "Mark a stopping worker dead after this long without a heartbeat (default: 60s, but at least two heartbeat intervals).",
  }),
  tasks: by((_field, tasks: readonly AnyTask[]) => checkTasks(tasks), []),
  workflows: by(checkList<AnyWorkflow>, []),
  schedules: by((_field, schedules: readonly Schedule[]) => checkSchedules(schedules)),
  queues: passed<NonNullable<WorkerOptions["queues"]>>(),
  extendAt: by(checkShare, 0.5),
  maxBlock: duration({}),
  endBlocked: yes(true),
  signals: yes(false),
  onConflict: choice(["refuse", "standby"], "refuse"),
  version: by(checkName),
  hooks: by((_field, hooks: readonly RunHook[]) => checkHooks(hooks), []),
  retention: by(
    (field, retention: Retention) =>
      retentionOptions.read(retention, { field, example: '{ done: "7d" }' }),
    {},
  ),
});

/** `version` is the build of the process, for workers that name none. */
export function checkWorkerOptions(options: WorkerOptions, version: string) {
  const checked = workerOptions.read(options);
  const { leaseMs, heartbeatMs, tasks } = checked;
  const blockMs = Math.max(leaseMs * BLOCKED_LEASES, BLOCKED_MS_MIN);
  const min = heartbeatMs * HEARTBEATS_PER_STALE;
  const silence = (field: "heartbeatTimeout" | "stoppingTimeout", initial: number): number =>
    toMs(field, options[field] ?? Math.max(min, initial), { min });
  return {
    ...checked,
    ...checkConcurrency(checked, tasks),
    /** Null: it declares none, and leaves those of others alone. */
    schedules: checked.schedules ?? null,
    slots: checked.slots ?? null,
    version: checked.version ?? version,
    maxBlockMs: toMs("maxBlock", options.maxBlock ?? blockMs, { min: leaseMs }),
    heartbeatTimeoutMs: silence("heartbeatTimeout", STALE_MS),
    stoppingTimeoutMs: silence("stoppingTimeout", HUNG_MS),
  };
}

export type WorkerSettings = Readonly<ReturnType<typeof checkWorkerOptions>>;

function checkTasks(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = taskMap(tasks);
  if (map.size > 0) return map;
  throw invalid("tasks", "a worker needs at least one task, made with defineTask().");
}

/** Queues with numbers run so many jobs at once, and together as many as `concurrency` allows. */
function checkConcurrency(
  { queues, concurrency }: Pick<WorkerOptions, "queues" | "concurrency">,
  tasks: ReadonlyMap<string, Task>,
) {
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
    /** How many jobs of each queue run at once; null: only `concurrency` limits them. */
    queueLimits: limits === null ? null : new Map(limits),
    concurrency: concurrency ?? Math.min(sum, CONCURRENCY.most),
  };
}

function checkQueues(queues: readonly string[]): string[] {
  const names = [...new Set(queues.map((queue) => checkName("queues", queue)))];
  if (names.length > 0 && names.length <= QUEUES_MAX) return names;
  throw invalid("queues", `name 1 to ${QUEUES_MAX} queues.`);
}

function checkShare(field: string, share: number): number {
  if (typeof share === "number" && share >= 0.1 && share <= EXTEND_AT_MAX) return share;
  throw invalid(field, `must be from 0.1 to ${EXTEND_AT_MAX}, not ${shownNumber(share)}.`);
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
    throw invalid("queues", problem);
  }
  return Object.fromEntries(parts.map((part) => [part?.[1] ?? "", Number(part?.[2])]));
}

/** The same options as settings of a service. */
export const workerSettings = {
  tasks: setting({
    ...from("HOLDFAST_TASKS", "--tasks <file>", "tasks"),
    kind: modulePath(),
    initial: null,
    about: "The module that exports the tasks.",
    isPath: true,
  }),
  queues: setting({
    ...from("HOLDFAST_QUEUES", "--queue <names>", "queues"),
    kind: queueList(),
    initial: null,
    about:
      "Comma-separated queues to serve, optionally with the maximum number of running jobs of each: " +
      "mail=2,default=20 (default: the queues of the tasks).",
  }),
  ...settingsOf("Worker", workerOptions.table),
  standby: settled({
    ...from("HOLDFAST_STANDBY", "--standby", "standby"),
    kind: yesOrNo(),
    initial: false,
    about: "When all slots are taken, wait for a free one instead of failing.",
  }),
  retentionDone: retentionSetting("done", "How long to keep done jobs."),
  retentionFailed: retentionSetting("failed", "How long to keep failed jobs (dead letters)."),
  retentionCancelled: retentionSetting("cancelled", "How long to keep cancelled jobs."),
  retentionExpired: retentionSetting(
    "expired",
    "How long to keep jobs that expired before they started.",
  ),
};

/** The environment variable, the flag and the key in the configuration file. */
function from(env: string, flag: string | null, file: string) {
  return { group: "Worker", env: [env], flag, file } as const;
}

function retentionSetting(status: FinalStatus, about: string) {
  const file = `retention.${status}`;
  const initial = toMs(file, retentionOptions.table[status].initial as Duration);
  const env = `HOLDFAST_RETENTION_${status.toUpperCase()}`;
  return settled({ ...from(env, null, file), kind: span({}), initial, about });
}

/** The options of a worker with these settings. Only `standby` and `retention` have other names. */
export function workerOptionsFrom(
  settings: ValuesOf<typeof workerSettings>,
): Omit<WorkerOptions, "tasks"> {
  const { standby, retentionDone, retentionFailed, retentionCancelled } = settings;
  const { retentionExpired } = settings;
  const keys = Object.keys(workerSettings) as (keyof typeof workerSettings)[];
  const same = keys.filter(
    (key) => key !== "tasks" && key in workerOptions.table && settings[key] !== null,
  );
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
