/** The workers that are known to the database, and what somebody wants of them. */
import { anyOperator, OPERATOR_OPTIONS, type OperatorOptions } from "../audit/operator.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import { checkName } from "../core/name.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
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

/** The parts of the store that are used here. */
interface Stores {
  readonly workers: WorkersStore;
}

const LIST_OPTIONS = new Set(["type", "all", "limit"]);

const COMMAND_OPTIONS = new Set<string>(OPERATOR_OPTIONS);

const LIMIT_MAX = 1_000;

const LIMIT_DEFAULT = 100;

const DAY_MS = 24 * 3_600_000;

/** Longer ago than this somebody may have been replaced. */
const ENQUEUED_WITHIN_MS = 5 * 60_000;

export interface WorkersFilter {
  /** Only workers of this name. */
  readonly type?: string;
  /** Also those that stopped. */
  readonly all?: boolean;
  readonly limit?: number;
}

/** One worker by its id, all of a name, or all there are. */
export type WorkerTarget = { readonly id: string } | { readonly type: string } | "all";

/** Running workers of one name that run different builds. */
export interface Drift {
  readonly type: string;
  readonly versions: readonly string[];
}

/** Where the application's builds differ. */
export interface Drifts {
  /** Among running workers of one name. */
  readonly workers: readonly Drift[];
  /** Builds that enqueue jobs and that no running worker has. */
  readonly enqueuers: readonly EnqueuerRecord[];
}

/** How the workers of one name are doing, by their rows: those that run, and those that stopped within a week. */
export interface WorkerMetrics {
  readonly type: string;
  readonly running: number;
  /** Of those that run: since when the first and the last of them do, in milliseconds. */
  readonly uptimeMs: { readonly least: number; readonly most: number };
  /** Jobs done by those that run, together and by the busiest. */
  readonly done: { readonly all: number; readonly most: number };
  /** Starts within the last day. */
  readonly startsPerDay: number;
  /** The longest time between two signs of life of one that runs. */
  readonly gapMsMax: number;
  /** The builds that run, those that started last first, and how long it took from the first worker of each to its last. */
  readonly versions: readonly {
    readonly version: string;
    readonly running: number;
    readonly rolloutMs: number;
  }[];
}

export class Workers {
  readonly #store: Stores;
  readonly #newId: () => string;

  constructor(store: Stores, runtime: Runtime) {
    this.#store = store;
    this.#newId = makeIds(runtime);
  }

  /** Those that started last first. */
  list(filter: WorkersFilter = {}): Promise<WorkerRecord[]> {
    checkKnown(filter, LIST_OPTIONS);
    const { type, all = false } = filter;
    const limit = checkWhole("limit", filter.limit ?? LIMIT_DEFAULT, { least: 1, most: LIMIT_MAX });
    return this.#store.workers.list({
      limit,
      ...(type === undefined ? {} : { type: checkName("type", type) }),
      ...(all ? {} : { alive: true }),
    });
  }

  find(id: string): Promise<WorkerRecord | null> {
    return this.#store.workers.find(checkText("id", id));
  }

  /** Standbys, and programs that take jobs over HTTP or with the lease verbs: those of the last minute. */
  unregistered(): Promise<UnregisteredWorker[]> {
    return this.#store.workers.unregistered();
  }

  /** Where builds differ: among workers, and between those who enqueued within the last minutes and the workers. */
  async drift(): Promise<Drifts> {
    const workers = await this.#store.workers.list({ alive: true, limit: LIMIT_MAX });
    const enqueuers = await this.#store.workers.enqueuers(ENQUEUED_WITHIN_MS);
    return { workers: driftOf(workers), enqueuers: unknownTo(workers, enqueuers) };
  }

  /** The types of workers that were ever started, with their limits. */
  types(): Promise<WorkerType[]> {
    return this.#store.workers.types();
  }

  /**
   * Changes how many workers of a type may be active at once; null: any number. Workers that declare another limit are refused
   * from now on. Throws WorkerLimitInUseError while active workers do not fit into the new limit.
   */
  async setLimit(
    type: string,
    slots: number | null,
    options: OperatorOptions = {},
  ): Promise<ChangedLimit> {
    checkKnown(options, COMMAND_OPTIONS);
    const limit = slots === null ? null : checkWhole("slots", slots, { least: 1, most: SLOTS_MAX });
    const operator = anyOperator(options, this.#newId);
    return this.#store.workers.changeLimit({
      ...operator,
      type: checkName("type", type),
      slots: limit,
    });
  }

  /** One for each name, over the rows of the last thousand workers that started. */
  async metrics(): Promise<WorkerMetrics[]> {
    const rows = await this.#store.workers.list({ limit: LIMIT_MAX });
    return [...Map.groupBy(rows, ({ type }) => type)].map(([type, some]) => metricsOf(type, some));
  }

  /** Ends workers: they stop claiming, wait for their jobs for as long as their own settings say, and are gone. */
  stop(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#tell("stop", target, options);
  }

  /** Ends workers when their last job has ended, however long that takes. */
  drain(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#tell("drain", target, options);
  }

  /** Workers take nothing new, and finish what runs. */
  pause(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#tell("pause", target, options);
  }

  resume(target: WorkerTarget, options?: OperatorOptions): Promise<string[]> {
    return this.#tell("run", target, options);
  }

  /** Returns the ids of those that are there to hear it: within a heartbeat, and at once where the database pushes. */
  async #tell(
    desiredState: DesiredState,
    target: WorkerTarget,
    options: OperatorOptions = {},
  ): Promise<string[]> {
    checkKnown(options, COMMAND_OPTIONS);
    const operator = anyOperator(options, this.#newId);
    return this.#store.workers.command({ ...operator, desiredState, target: targetOf(target) });
  }
}

function targetOf(target: WorkerTarget): Command["target"] {
  if (target === "all") return { all: true };
  if (typeof target === "object" && target !== null) {
    if ("id" in target) return { worker: checkText("id", target.id) };
    if ("type" in target) return { type: checkName("type", target.type) };
  }
  throw new InvalidArgumentError({
    field: "target",
    problem: 'give { id } for one worker, { type } for all of a name, or "all".',
  });
}

function metricsOf(type: string, rows: readonly WorkerRecord[]): WorkerMetrics {
  const running = rows.filter(({ status }) => status === "running");
  // All instants are of the database's clock, and so is what counts as now.
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

/** Whether one of the workers takes jobs like this one. */
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

/** One that cannot say which build it runs counts for nothing. */
function runningOf(workers: readonly WorkerRecord[]): WorkerRecord[] {
  return workers.filter(({ status, version }) => status === "running" && isKnownVersion(version));
}

/** Where workers of one name run different builds. */
export function driftOf(workers: readonly WorkerRecord[]): Drift[] {
  return [...Map.groupBy(runningOf(workers), ({ type }) => type)]
    .map(([type, some]) => ({ type, versions: byBuild(some).map(({ version }) => version) }))
    .filter(({ versions }) => versions.length > 1);
}

/** Who enqueues and runs a build that no running worker has. Without a worker there is nothing to differ from. */
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
