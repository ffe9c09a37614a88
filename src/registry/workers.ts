/** Lists workers and sets their desired states. */
import { anyOperator, type OperatorOptions, operatorOptions } from "../audit/entry.ts";
import { HoldfastError, invalid } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkName } from "../core/name.ts";
import { by, checkText, checkWhole, optionsOf, whole, yes } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { byBuild, isKnownVersion, isSameBuild } from "../core/version.ts";
import type { WorkersStore } from "./store.ts";
import {
  activeStates,
  type ChangedLimit,
  type Command,
  type DesiredState,
  type EnqueuerRecord,
  SLOTS_MAX,
  type UnregisteredWorker,
  type WorkerRecord,
  type WorkerType,
} from "./worker-record.ts";

const LIMIT_MAX = 1_000;
const DAY_MS = 24 * 3_600_000;

/** A build that last enqueued longer ago may have been replaced. */
const ENQUEUED_WITHIN_MS = 5 * 60_000;

/** Which workers to list. */
export interface WorkersFilter {
  /** Only workers of this name. */
  readonly type?: string;
  /** Also stopped workers. Default false. */
  readonly all?: boolean;
  /** Only workers that were found dead within the last hour: gone, silent, or stuck while they stopped. Default false. */
  readonly lost?: boolean;
  /** The most workers of the page. Default 100, at most 1,000. */
  readonly limit?: number;
}

const listOptions = optionsOf<WorkersFilter>()({
  type: by(checkName),
  all: yes(false),
  lost: yes(false),
  limit: whole(1, LIMIT_MAX, 100),
});

/** One worker by its id, all of a name, or all workers. */
export type WorkerTarget =
  | {
      /** The id of one worker. */
      readonly id: string;
    }
  | {
      /** The name that workers share. */
      readonly type: string;
    }
  | "all";

/** Running workers of one name that run different builds. */
export interface Drift {
  /** The name that the workers share. */
  readonly type: string;
  /** The builds that they run. */
  readonly versions: readonly string[];
}

/** Where the application's builds differ. */
export interface Drifts {
  /** Names whose running workers differ. */
  readonly workers: readonly Drift[];
  /** Builds that enqueue jobs but have no running worker. */
  readonly enqueuers: readonly EnqueuerRecord[];
}

/** Metrics of the workers of one name, running or stopped within a week. */
export interface WorkerMetrics {
  /** The name that the workers share. */
  readonly type: string;
  /** How many of them run. */
  readonly running: number;
  /** Of running workers, in milliseconds. */
  readonly uptimeMs: {
    /** Of the worker that started last; 0: none runs. */
    readonly least: number;
    /** Of the worker that started first; 0: none runs. */
    readonly most: number;
  };
  /** Jobs done by running workers, in total and by the busiest. */
  readonly done: {
    /** Of all running workers together. */
    readonly all: number;
    /** Of the worker with the most. */
    readonly most: number;
  };
  /** How many started within the last 24 hours. */
  readonly startsPerDay: number;
  /** The longest time between two heartbeats of a running worker. */
  readonly gapMsMax: number;
  /** The running builds, most recent first, and the time from the first worker of each to its last. */
  readonly versions: readonly {
    /** The build. */
    readonly version: string;
    /** How many workers run it. */
    readonly running: number;
    /** The time between the starts of its first and its last worker, in milliseconds. */
    readonly rolloutMs: number;
  }[];
}

/** Lists, pauses, drains and stops workers: `holdfast.workers`. */
export class Workers {
  readonly #store: WorkersStore;
  readonly #newId: () => string;

  /** @internal Applications get it from a Holdfast. */
  constructor({ workers }: { readonly workers: WorkersStore }, runtime: Runtime) {
    this.#store = workers;
    this.#newId = makeIds(runtime);
  }

  /** Most recently started first. */
  list(filter: WorkersFilter = {}): Promise<WorkerRecord[]> {
    const { all, lost, ...rest } = listOptions.read(filter);
    return this.#store.list({ ...rest, ...(lost ? { lost } : all ? {} : { alive: true }) });
  }

  /** One worker; null: there is none. */
  find(id: string): Promise<WorkerRecord | null> {
    return this.#store.find(checkText("id", id));
  }

  /** Standbys, and programs that claimed jobs over HTTP or with the lease methods within the last minute. */
  unregistered(): Promise<UnregisteredWorker[]> {
    return this.#store.unregistered();
  }

  /** Where builds differ: among workers, and between workers and processes that enqueued within the last minutes. */
  async drift(): Promise<Drifts> {
    const workers = await this.#store.list({ alive: true, limit: LIMIT_MAX });
    const enqueuers = await this.#store.enqueuers(ENQUEUED_WITHIN_MS);
    return { workers: driftOf(workers), enqueuers: unknownTo(workers, enqueuers) };
  }

  /** All declared types of workers, with their limits. */
  types(): Promise<WorkerType[]> {
    return this.#store.types();
  }

  /**
   * Changes how many workers of a type may be active at once; null: any number. Workers that declare another limit cannot
   * register from now on. Throws WorkerLimitInUseError while active workers do not fit into the new limit.
   */
  async setLimit(
    type: string,
    slots: number | null,
    options: OperatorOptions = {},
  ): Promise<ChangedLimit> {
    const operator = anyOperator(operatorOptions.read(options), this.#newId);
    const limit = slots === null ? null : checkWhole("slots", slots, { least: 1, most: SLOTS_MAX });
    return this.#store.changeLimit({ ...operator, type: checkName("type", type), slots: limit });
  }

  /** One entry for each name, from the last thousand workers that started. */
  async metrics(): Promise<WorkerMetrics[]> {
    const rows = await this.#store.list({ limit: LIMIT_MAX });
    return [...Map.groupBy(rows, ({ type }) => type)].map(([type, some]) => metricsOf(type, some));
  }

  /** Stops workers: they stop claiming, and wait for their jobs up to their own shutdown timeouts. */
  stop(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#command("stop", target, options);
  }

  /** Stops workers once their last job has ended, however long that takes. */
  drain(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#command("drain", target, options);
  }

  /** Pauses workers: they claim no new jobs, and finish the running ones. */
  pause(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#command("pause", target, options);
  }

  /** Lets paused workers claim jobs again. */
  resume(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#command("run", target, options);
  }

  /** Returns the ids of the live ones. They react within a heartbeat, or at once where the database pushes. */
  async #command(
    desiredState: DesiredState,
    target: WorkerTarget,
    options: OperatorOptions = {},
  ): Promise<string[]> {
    const operator = anyOperator(operatorOptions.read(options), this.#newId);
    return this.#store.command({ ...operator, desiredState, target: targetOf(target) });
  }
}

export class WorkerNotFoundError extends HoldfastError {
  constructor(message: string) {
    super("WORKER_NOT_FOUND", message);
  }
}

export function notLive(id: string): WorkerNotFoundError {
  return new WorkerNotFoundError(
    `Worker ${id} does not exist or has stopped. List workers with 'holdfast workers'.`,
  );
}

function targetOf(target: WorkerTarget): Command["target"] {
  if (target === "all") return { all: true };
  if (typeof target === "object" && target !== null) {
    if ("id" in target) return { worker: checkText("id", target.id) };
    if ("type" in target) return { type: checkName("type", target.type) };
  }
  throw invalid("target", 'pass { id } for one worker, { type } for all of a name, or "all".');
}

function metricsOf(type: string, rows: readonly WorkerRecord[]): WorkerMetrics {
  const running = rows.filter(({ status }) => status === "running");
  // All instants are by the database's clock, including now.
  const now = Math.max(...rows.map(({ heartbeatAt, silentMs }) => heartbeatAt + silentMs));
  const uptimes = running.map(({ startedAt }) => now - startedAt);
  const done = running.map((row) => row.done);
  return {
    type,
    running: running.length,
    uptimeMs: { least: least(uptimes), most: most(uptimes) },
    done: { all: done.reduce((sum, count) => sum + count, 0), most: most(done) },
    startsPerDay: rows.filter(({ startedAt }) => now - startedAt < DAY_MS).length,
    gapMsMax: most(running.map((row) => row.gapMsMax)),
    versions: byBuild(running).map(({ version, some }) => {
      const starts = some.map(({ startedAt }) => startedAt);
      return { version, running: some.length, rolloutMs: most(starts) - least(starts) };
    }),
  };
}

function most(numbers: readonly number[]): number {
  return numbers.length === 0 ? 0 : Math.max(...numbers);
}

function least(numbers: readonly number[]): number {
  return numbers.length === 0 ? 0 : Math.min(...numbers);
}

/** Whether one of the workers claims jobs of this queue and task. */
export function isRunnable(
  { queue, task }: { readonly queue: string; readonly task: string },
  workers: readonly WorkerRecord[],
): boolean {
  return workers.some(
    ({ status, queues, tasks }) =>
      activeStates.some((state) => state === status) &&
      queues.includes(queue) &&
      tasks.includes(task),
  );
}

type Built = Pick<WorkerRecord, "type" | "status" | "version" | "startedAt">;

/** Running workers whose build is known. */
function runningOf(workers: readonly Built[]): Built[] {
  return workers.filter(({ status, version }) => status === "running" && isKnownVersion(version));
}

/** Where workers of one name run different builds. */
export function driftOf(workers: readonly Built[]): Drift[] {
  return [...Map.groupBy(runningOf(workers), ({ type }) => type)]
    .map(([type, some]) => ({ type, versions: byBuild(some).map(({ version }) => version) }))
    .filter(({ versions }) => versions.length > 1);
}

/** Builds that enqueue jobs but have no running worker. Without workers there is nothing to differ from. */
function unknownTo(
  workers: readonly WorkerRecord[],
  enqueuers: readonly EnqueuerRecord[],
): EnqueuerRecord[] {
  const running = byBuild(runningOf(workers));
  if (running.length === 0) return [];
  return enqueuers.filter(
    (enqueuer) => !running.some(({ version }) => isSameBuild(version, enqueuer.version)),
  );
}
