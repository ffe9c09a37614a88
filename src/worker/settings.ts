/** What a worker can be told, with its defaults, checked before anything starts. */
import { toMs, type Duration } from "../core/duration.ts";
import { InvalidArgument } from "../core/errors.ts";
import { finalStatuses, type FinalStatus } from "../core/job.ts";
import { checkName } from "../core/name.ts";
import { taskMap, type AnyTask, type Task } from "../core/task.ts";
import {
  DEFAULT_CRASHES_MAX,
  DEFAULT_GRACE,
  DEFAULT_LEASE,
  LEASE_MS_MIN,
} from "../queue/leases.ts";
import { checkBoolean, checkKnown, checkList, checkWhole, shownNumber } from "../core/check.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import { SLOTS_MAX } from "../core/worker-state.ts";

export interface WorkerOptions {
  readonly tasks: readonly AnyTask[];
  /** Workflows whose items it moves when their time in a state is over, or when the jobs they wait for have ended. */
  readonly workflows?: readonly AnyWorkflow[];
  /** The first part of the worker's id. Default: "worker". */
  readonly name?: string;
  /** Default: the queues that the tasks name. */
  readonly queues?: readonly string[];
  /** Jobs at once. Default 10. */
  readonly concurrency?: number;
  /** How long a job stays ours without a sign of life. Default 30 s. */
  readonly lease?: Duration;
  /** The share of the lease after which it is renewed. Default 0.5. */
  readonly extendAt?: number;
  /** How often an idle worker looks even if nothing woke it. Default 10 s. */
  readonly poll?: Duration;
  /** How often chores are done: promoting, reclaiming, pruning. Default 1 s. */
  readonly upkeep?: Duration;
  /** How long after its end a lease is left alone. Default 2 s. */
  readonly grace?: Duration;
  /** After this many lost leases a job is poison. Default 3. */
  readonly crashes?: number;
  /** How long a task may block the event loop before its jobs are given up. Default: ten leases, at least 10 s. */
  readonly maxBlock?: Duration;
  /**
   * True: a watchdog thread ends the process, with a line on stderr and SIGKILL, when a task has blocked the event loop for
   * longer than `maxBlock`. Nothing else could, and a supervisor starts it again. False: its jobs are given up, and the process stays
   * blocked. Default true.
   */
  readonly endBlocked?: boolean;
  /** How long a stopping worker waits for its jobs. Default 30 s. */
  readonly shutdown?: Duration;
  /**
   * True: SIGTERM and SIGINT close Holdfast, so that running jobs finish, and then end the process with 0; a second signal
   * ends it at once. For programs without signal handlers of their own; those call `close()`. Default false.
   */
  readonly signals?: boolean;
  /** How many workers of this name may be active at once, in all processes; the database sees to it. Default: any number. */
  readonly slots?: number;
  /** When all slots are taken: fail, or wait and take over when one becomes free. Default "refuse". */
  readonly onConflict?: "refuse" | "standby";
  /** How often the worker gives a sign of life. Default 10 s. */
  readonly heartbeat?: Duration;
  /** Without a sign of life for so long a worker counts as dead. Default 30 s. */
  readonly stale?: Duration;
  /** The same for one that is stopping. Default 60 s. */
  readonly hung?: Duration;
  /** Which build this is. Default: the git commit, else BUILD_ID. */
  readonly version?: string;
  /** How long finished jobs are kept. Default 7 days, failed ones 30. */
  readonly keep?: Partial<Record<FinalStatus, Duration>>;
}

export interface WorkerSettings {
  readonly tasks: ReadonlyMap<string, Task>;
  readonly workflows: readonly AnyWorkflow[];
  readonly name: string;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly extendAt: number;
  readonly pollMs: number;
  readonly upkeepMs: number;
  readonly graceMs: number;
  readonly crashesMax: number;
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
  readonly keepMs: Record<FinalStatus, number>;
}

export const CONCURRENCY_MAX = 1_000;
export const QUEUES_MAX = 64;
const CRASHES_MAX = 1_000;
const STALE_MS = 30_000;
const HUNG_MS = 60_000;
/** Trust in a lease ends at nine tenths of it: a renewal has to be back by then. */
const EXTEND_AT_MAX = 0.8;
const BLOCKED_LEASES = 10;
/** With short leases too, a process that is busy starting up is not taken for one that is blocked. */
const BLOCKED_MS_MIN = 10_000;

/** A worker that is late with one sign of life is not dead yet. */
const BEATS_PER_STALE = 2;
const HEARTBEAT_MS_MIN = 10;

const KNOWN = new Set(
  (
    "tasks workflows name queues concurrency lease extendAt poll upkeep grace crashes maxBlock endBlocked shutdown keep " +
    "signals slots onConflict heartbeat stale hung version"
  ).split(" "),
);

/** The build is that of the process, unless the worker says another. */
export function checkWorkerOptions(options: WorkerOptions, version: string): WorkerSettings {
  checkKnown(options, KNOWN);
  const tasks = checkTasks(options.tasks ?? []);
  const leaseMs = toMs("lease", options.lease ?? DEFAULT_LEASE, { min: LEASE_MS_MIN });
  const { keep = {} } = options;
  checkKnown(keep, new Set(finalStatuses), { field: "keep", example: '{ done: "7d" }' });
  return {
    tasks,
    workflows: checkList("workflows", options.workflows ?? []),
    name: checkName("name", options.name ?? "worker"),
    queues: checkQueues(options.queues ?? [...tasks.values()].map((task) => task.queue)),
    concurrency: checkWhole("concurrency", options.concurrency ?? 10, {
      least: 1,
      most: CONCURRENCY_MAX,
    }),
    leaseMs,
    extendAt: checkShare("extendAt", options.extendAt ?? 0.5),
    pollMs: toMs("poll", options.poll ?? "10s", { min: 10 }),
    upkeepMs: toMs("upkeep", options.upkeep ?? "1s", { min: 10 }),
    graceMs: toMs("grace", options.grace ?? DEFAULT_GRACE),
    crashesMax: checkWhole("crashes", options.crashes ?? DEFAULT_CRASHES_MAX, {
      least: 1,
      most: CRASHES_MAX,
    }),
    blockedMsMax: toMs(
      "maxBlock",
      options.maxBlock ?? Math.max(leaseMs * BLOCKED_LEASES, BLOCKED_MS_MIN),
      { min: leaseMs },
    ),
    endBlocked: checkBoolean("endBlocked", options.endBlocked ?? true),
    shutdownMs: toMs("shutdown", options.shutdown ?? "30s"),
    signals: checkBoolean("signals", options.signals ?? false),
    ...checkRegistration(options, version),
    keepMs: {
      done: toMs("keep.done", keep.done ?? "7d"),
      cancelled: toMs("keep.cancelled", keep.cancelled ?? "7d"),
      failed: toMs("keep.failed", keep.failed ?? "30d"),
    },
  };
}

type Registration = Pick<
  WorkerSettings,
  "slots" | "onConflict" | "heartbeatMs" | "staleMs" | "hungMs" | "version"
>;

function checkRegistration(options: WorkerOptions, version: string): Registration {
  const { slots, onConflict = "refuse" } = options;
  if (onConflict !== "refuse" && onConflict !== "standby") {
    throw new InvalidArgument({ field: "onConflict", problem: 'give "refuse" or "standby".' });
  }
  const heartbeatMs = toMs("heartbeat", options.heartbeat ?? "10s", { min: HEARTBEAT_MS_MIN });
  const min = heartbeatMs * BEATS_PER_STALE;
  return {
    slots: slots === undefined ? null : checkWhole("slots", slots, { least: 1, most: SLOTS_MAX }),
    onConflict,
    heartbeatMs,
    staleMs: toMs("stale", options.stale ?? Math.max(min, STALE_MS), { min }),
    hungMs: toMs("hung", options.hung ?? Math.max(min, HUNG_MS), { min }),
    version: checkName("version", options.version ?? version),
  };
}

function checkTasks(tasks: readonly AnyTask[]): Map<string, Task> {
  const map = taskMap(tasks);
  if (map.size > 0) return map;
  throw new InvalidArgument({
    field: "tasks",
    problem: "a worker needs at least one task, made with defineTask().",
  });
}

function checkQueues(queues: readonly string[]): string[] {
  const names = [...new Set(queues.map((queue) => checkName("queues", queue)))];
  if (names.length > 0 && names.length <= QUEUES_MAX) return names;
  throw new InvalidArgument({ field: "queues", problem: `name 1 to ${QUEUES_MAX} queues.` });
}

function checkShare(field: string, share: number): number {
  if (typeof share === "number" && share >= 0.1 && share <= EXTEND_AT_MAX) return share;
  const problem = `must be from 0.1 to ${EXTEND_AT_MAX}, not ${shownNumber(share)}.`;
  throw new InvalidArgument({ field, problem });
}
