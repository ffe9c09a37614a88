/** Flows: jobs that wait for each other, enqueued together. The store decides where each begins. */
import {
  operatorFields,
  operatorOf,
  operatorOptions,
  type OperatorOptions,
} from "../audit/entry.ts";
import { invalid } from "../core/errors.ts";
import { calledId, isId } from "../core/id.ts";
import { finalStatuses, type Status } from "../core/job.ts";
import { checkName } from "../core/name.ts";
import { checkText, choice, idOf, optionsOf, passed, whole } from "../core/options.ts";
import type { AnyTask, Task } from "../core/task.ts";
import { callsOf, enqueue, type EnqueueOptions, type TaskCall } from "../jobs/enqueue.ts";
import { Job, type Jobs } from "../jobs/jobs.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { Enqueued, NewJob } from "../jobs/store.ts";
import {
  asMembers,
  buildFrom,
  FLOW_JOBS_MAX,
  FlowBuilder,
  type FlowJob,
  type FlowJobSpec,
} from "./builder.ts";
import { FlowNotFoundError } from "./errors.ts";
import { dependenciesOfJob, type DependencyView } from "./results.ts";
import {
  type FlowEdge,
  type FlowJobRecord,
  type FlowJobState,
  flowKinds,
  type FlowsFilter,
  type FlowFacts,
  type FlowRecord,
  type FlowRow,
  type FlowsStore,
  jobStates,
  type NewFlow,
} from "./store.ts";

export interface FlowsParts {
  readonly store: { readonly flows: FlowsStore; readonly jobs: JobsStore };
  readonly jobs: Jobs;
  readonly newId: () => string;
  /** How jobs are written: in a transaction of ours or of the user's. */
  readonly write: Pick<FlowsStore, "enqueue" | "add">;
  /** Jobs of these tasks were enqueued by name. */
  readonly onNamed: (tasks: readonly string[]) => void;
  /** Tasks whose schemas check the inputs of flows that are given as data. */
  readonly tasks?: ReadonlyMap<string, Task>;
}

export const flowStatuses = ["running", "done", "failed", "cancelled"] as const;
/** How a flow or batch stands. */
export type FlowStatus = (typeof flowStatuses)[number];

/** A flow or batch with the state of its jobs. */
export interface FlowView extends FlowFacts {
  /** `running` until all jobs have ended; then `failed` if one failed, or `cancelled` if one was cancelled. */
  readonly status: FlowStatus;
  /** How many jobs were added. */
  readonly total: number;
  /** How many of them are done. */
  readonly done: number;
  /** How many failed, or could not start because of one that did. */
  readonly failed: number;
  /** How many were cancelled. */
  readonly cancelled: number;
  /** Jobs that have not ended. */
  readonly live: number;
  /** Ended jobs whose records were pruned. */
  readonly pruned: number;
}

/** An enqueued flow, with its jobs. */
export interface Flow {
  /** Its id, for the other functions of `holdfast.flows`. */
  readonly id: string;
  /** The name that it was enqueued with. */
  readonly name: string;
  /** In the order in which they were added to the flow. */
  readonly jobs: readonly Job<unknown>[];
  /** The enqueued job, to wait for its result. */
  job<Result>(of: FlowJob<Result>): Job<Result>;
}

/** Adds the jobs of a flow. */
export type BuildFlow = (flow: FlowBuilder) => unknown;

const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 50;

/** Jobs that are cancelled or retried in one transaction. */
const CHANGE_BATCH = 100;

/** Jobs may start, or be added, while a flow is cancelled: it is gone through again. */
const CANCEL_PASSES_MAX = 5;

/** A page of the jobs of a flow. */
export interface FlowPageOptions {
  /** The last id of the page before. Default: the first page. */
  readonly after?: string;
  /** The length of the page. Default 50, at most 1,000. */
  readonly limit?: number;
}

/** Which jobs of a flow, and how many. */
export interface FlowJobsOptions extends FlowPageOptions {
  /** Only those that ended and are not done (`failed`), that are done, or that have not ended (`live`). Default: all. */
  readonly state?: FlowJobState;
}

/** How the jobs of a flow are retried, and who does it. */
export interface FlowRetryOptions extends OperatorOptions {
  /** How many more attempts each job gets. Default: as many as its task allows. */
  readonly attempts?: number;
}

const limit = whole(1, PAGE_MAX, PAGE_DEFAULT);
const flowId = idOf("a flow");
const listOptions = optionsOf<FlowsFilter>()({
  kind: choice(flowKinds),
  before: flowId,
  limit,
});
const jobsOptions = optionsOf<FlowJobsOptions>()({
  after: idOf("a job"),
  limit,
  state: choice(jobStates),
});
const limitOptions = optionsOf<Pick<FlowPageOptions, "limit">>()({ limit });
const retryOptions = optionsOf<FlowRetryOptions>()({
  attempts: passed<number>(),
  ...operatorFields,
});

/** Enqueues jobs that wait for each other, and inspects, cancels and retries them: `holdfast.flows`. */
export class Flows {
  readonly #parts: FlowsParts;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: FlowsParts) {
    this.#parts = parts;
  }

  /**
   * Enqueues jobs that wait for each other, in one transaction. The function adds them: `const a = flow.job(fetch, url)`, then
   * `flow.job(merge, {}, { after: [a] })`. Or give a list of `{ name, task, input, after, options }`, with names in `after`.
   *
   * @example
   * ```ts
   * await holdfast.flows.enqueue("order 7", (flow) => {
   *   const charged = flow.job(charge, { order: "7", cents: 1999 });
   *   flow.job(ping, undefined, { after: [charged] });
   * });
   * ```
   */
  async enqueue(name: string, jobs: BuildFlow | readonly FlowJobSpec[]): Promise<Flow> {
    const id = this.#parts.newId();
    const flow: NewFlow = { id, kind: "flow", name: checkName("name", name), callback: null };
    const builder = await this.#build(jobs);
    const { write } = this.#parts;
    return this.#enqueue({ id, name }, builder, (news) => write.enqueue(flow, news));
  }

  /**
   * Adds jobs to a flow, in one transaction. They may wait for jobs of the flow (`after`), and jobs of it that still wait may
   * be made to wait for them (`before`). Throws FlowNotFoundError, CircleError or StartedError.
   */
  async add(id: string, jobs: BuildFlow | readonly FlowJobSpec[]): Promise<Flow> {
    checkText("id", id);
    const builder = await this.#build(jobs, id);
    const { write } = this.#parts;
    return this.#enqueue({ id, name: id }, builder, (news) => write.add(id, news));
  }

  async #build(jobs: BuildFlow | readonly FlowJobSpec[], flow?: string): Promise<FlowBuilder> {
    const { newId, tasks = new Map() } = this.#parts;
    const builder = new FlowBuilder(newId);
    if (typeof jobs === "function") await jobs(builder);
    else buildFrom(builder, jobs, { known: await this.#named(jobs, flow), tasks });
    if (builder.planned.length > 0) return builder;
    throw invalid("jobs", "a flow needs at least one job.");
  }

  /** The ids of the jobs of the flow that the new ones name in `after`. */
  async #named(jobs: readonly FlowJobSpec[], flow?: string): Promise<Map<string, string>> {
    if (!Array.isArray(jobs)) {
      const problem = "pass a function that adds jobs, or a list of { name, task, input, after }.";
      throw invalid("jobs", problem);
    }
    const own = new Set(jobs.map((spec: FlowJobSpec | undefined) => spec?.name));
    const named = jobs.flatMap((spec: FlowJobSpec | undefined) => spec?.after ?? []);
    const others = [...new Set(named)].filter((on) => !own.has(on) && !isId(on));
    const known =
      flow === undefined
        ? new Map<string, string>()
        : await this.#parts.store.flows.named(flow, others);
    const unknown = others.find((on) => !known.has(on));
    if (unknown === undefined) return known;
    throw invalid("after", `no job of the flow is called '${unknown}'.`);
  }

  async #enqueue(
    { id, name }: { readonly id: string; readonly name: string },
    { planned }: FlowBuilder,
    write: (news: readonly NewJob[]) => Promise<Enqueued[]>,
  ): Promise<Flow> {
    const ids = planned.map((one) => one.id);
    let at = 0;
    const enqueued = await enqueue(
      planned.map(({ call }) => call),
      {
        newId: () => ids[at++] as string,
        write: (news) => write(asMembers(id, planned, news)),
        onNamed: this.#parts.onNamed,
      },
    );
    const { jobs } = this.#parts;
    const made = enqueued.map((row, index) => {
      const { task } = planned[index]?.call ?? {};
      return new Job<unknown>({
        ...row,
        task: typeof task === "object" ? task.name : `${task}`,
        jobs,
      });
    });
    const byId = new Map(ids.map((one, index) => [one, made[index]]));
    return {
      id,
      name,
      jobs: made,
      job<Result>(of: FlowJob<Result>) {
        const job = byId.get(of?.id);
        if (job !== undefined) return job as Job<Result>;
        throw invalid("job", "it is not a job of this flow.");
      },
    };
  }

  /** A flow or batch with the state of its jobs. Null: there is none. */
  async get(id: string): Promise<FlowView | null> {
    const record = await this.#parts.store.flows.find(checkText("id", id));
    return record === null ? null : viewOf(record);
  }

  /** A page of flows and batches, newest first. Pass the last id of one page as `before` of the next. */
  async list(options: FlowsFilter = {}): Promise<FlowView[]> {
    return (await this.#parts.store.flows.list(listOptions.read(options))).map(viewOf);
  }

  /**
   * A page of the jobs of a flow, in the order in which they were added. Pass the last id as `after` of the next. Throws
   * FlowNotFoundError.
   */
  async jobs(id: string, options: FlowJobsOptions = {}): Promise<FlowJobRecord[]> {
    const { flows } = this.#parts.store;
    const jobs = await flows.jobs(flowId.check("id", id), jobsOptions.read(options));
    if (jobs.length === 0) await this.#known(id);
    return jobs;
  }

  /** The first lines of its graph: which job waits for which. At most 1,000. Throws FlowNotFoundError. */
  async edges(id: string, options: Pick<FlowPageOptions, "limit"> = {}): Promise<FlowEdge[]> {
    const { limit: most } = limitOptions.read(options);
    const edges = await this.#parts.store.flows.edges(flowId.check("id", id), { limit: most });
    if (edges.length === 0) await this.#known(id);
    return edges;
  }

  /** The id of the flow of a job; null: it belongs to none. */
  of(job: string): Promise<string | null> {
    return this.#parts.store.flows.flowOf(checkText("job", job));
  }

  /** The jobs that a job waits or waited for, in the order of its `after`. */
  dependencies(job: string): AsyncGenerator<DependencyView, void, undefined> {
    return dependenciesOfJob(this.#parts.store.flows, checkText("job", job));
  }

  /** The first ids, in order, of the jobs that wait or waited for a job. */
  dependents(job: string, options: Pick<FlowPageOptions, "limit"> = {}): Promise<string[]> {
    return this.#parts.store.flows.dependents(checkText("job", job), limitOptions.read(options));
  }

  /**
   * Cancels the jobs of a flow that have not ended, the last first; running ones are asked to stop. The callback of a batch
   * is cancelled too. Returns how many.
   */
  async cancel(id: string, options: OperatorOptions = {}): Promise<number> {
    operatorOptions.read(options);
    const { store } = this.#parts;
    const flow = await this.#known(id);
    this.#sign(options, []); // wrong options are refused before anything is done
    const cancelled = new Set<string>();
    const cancel = async (ids: readonly string[]): Promise<void> => {
      for (const one of await store.jobs.cancelAll(this.#sign(options, ids))) cancelled.add(one);
    };
    if (flow.callback !== null) await cancel([flow.callback]);
    for (let pass = 0; pass < CANCEL_PASSES_MAX; pass += 1) {
      const before = cancelled.size;
      const live = await this.#members(id, ({ status }) => !isFinal(status));
      const left = live.filter((one) => !cancelled.has(one)).toReversed();
      for (let at = 0; at < left.length; at += CHANGE_BATCH) {
        await cancel(left.slice(at, at + CHANGE_BATCH));
      }
      if (cancelled.size === before) break;
    }
    return cancelled.size;
  }

  /** Retries the failed and cancelled jobs of a flow, the first first. Jobs that ended because of them follow. */
  async retry(id: string, options: FlowRetryOptions = {}): Promise<number> {
    const { attempts, ...operator } = retryOptions.read(options);
    const { jobs, store } = this.#parts;
    const flow = await this.#known(id);
    this.#sign(operator, []);
    const ended = await this.#members(id, ({ status }) => isFinal(status) && status !== "done");
    const callback = flow.callback === null ? [] : [flow.callback];
    for (const one of [...ended, ...callback]) {
      // One that has followed an earlier one is not finished any more.
      const [row] = await store.jobs.findFinished([one]);
      if (row === undefined || row.status === "done") continue;
      await jobs.retry(one, { ...operator, ...(attempts === undefined ? {} : { attempts }) });
    }
    return ended.length;
  }

  #sign(options: OperatorOptions, ids: readonly string[]) {
    const { newId } = this.#parts;
    if (ids.length === 0) operatorOf(options, newId);
    const operators = ids.flatMap(() => operatorOf(options, newId) ?? []);
    return { ids, operators: operators.length === 0 ? null : operators };
  }

  async #known(id: string): Promise<FlowRow> {
    const flow = await this.#parts.store.flows.find(checkText("id", id));
    if (flow === null) throw new FlowNotFoundError({ id });
    return flow;
  }

  async #members(id: string, wanted: (job: FlowJobRecord) => boolean): Promise<string[]> {
    const found: string[] = [];
    for (let after: string | undefined; ;) {
      const page = await this.jobs(id, {
        limit: PAGE_MAX,
        ...(after === undefined ? {} : { after }),
      });
      found.push(...page.filter(wanted).map((job) => job.id));
      after = page.at(-1)?.id;
      if (page.length < PAGE_MAX || after === undefined) return found;
    }
  }
}

function viewOf({ counts, size, ...flow }: FlowRecord): FlowView {
  const { live = 0, done = 0, failed = 0, cancelled = 0 } = counts;
  const ended = finalStatuses.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
  const unmet = ended - done - cancelled; // failed, or not started in time
  const ending = unmet > 0 ? "failed" : cancelled > 0 ? "cancelled" : "done";
  return {
    ...flow,
    status: live > 0 ? "running" : ending,
    total: size,
    done,
    failed: Math.max(failed, unmet),
    cancelled,
    live,
    pruned: Math.max(0, size - live - ended),
  };
}

function isFinal(status: Status): boolean {
  return (finalStatuses as readonly Status[]).includes(status);
}

// Batches: jobs of any tasks with progress, and a callback when all have ended.

/** An enqueued batch: its jobs, and the job that runs when they have ended. */
export interface Batch {
  /** Its id, for `holdfast.flows` and `holdfast.batches.add()`. */
  readonly id: string;
  /** The name that it was enqueued with. */
  readonly name: string;
  /** Its jobs, without the callback. */
  readonly jobs: readonly Job<unknown>[];
  /** Null: the batch has none. */
  readonly callback: Job<unknown> | null;
}

type Call = readonly [Task | string, unknown?, EnqueueOptions?];

/** Options of a batch: its callback. */
export interface BatchOptions {
  /** A job that runs when all jobs of the batch have ended, however they ended. It can read their results. */
  readonly callback?: readonly [task: AnyTask | string, input?: unknown, options?: EnqueueOptions];
}

const batchOptions = optionsOf<BatchOptions>()({
  callback: passed<NonNullable<BatchOptions["callback"]>>(),
});

/** Ends of all kinds count. */
const ALL_ENDS = { onFailed: "ignore", onCancelled: "ignore" } as const;

/** Groups of jobs with progress, and a callback when all have ended. */
export class Batches {
  readonly #parts: FlowsParts;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: FlowsParts) {
    this.#parts = parts;
  }

  /**
   * Enqueues jobs of any tasks, such as `[[resize, { image: 1 }], [resize, { image: 2 }]]`, and the callback, in one transaction.
   *
   * @example
   * ```ts
   * await holdfast.batches.enqueue("nightly", [[charge, { order: "7", cents: 1999 }]], {
   *   callback: [ping],
   * });
   * ```
   */
  async enqueue<const Tasks extends readonly (AnyTask | string)[]>(
    name: string,
    jobs: { readonly [At in keyof Tasks]: TaskCall<Tasks[At]> },
    options?: BatchOptions,
  ): Promise<Batch>;
  async enqueue(name: string, jobs: readonly Call[], options: BatchOptions = {}): Promise<Batch> {
    const { callback } = batchOptions.read(options);
    const { newId, write, onNamed } = this.#parts;
    const id = newId();
    const calls = callsOf(jobs, FLOW_JOBS_MAX - 1);
    const last = callback === undefined ? null : calledId(newId());
    const flow: NewFlow = { id, kind: "batch", name: checkName("name", name), callback: last };
    const all = last === null ? calls : [...calls, ...callsOf([callback as Call])];
    const enqueued = await enqueue(all, {
      onNamed,
      newId: () => calledId(newId()),
      write: (news) =>
        write.enqueue(
          flow,
          news.map((job, index) => {
            const after = job.member?.after ?? [];
            const member = { flow: id, name: null, after, before: [] };
            if (last === null || index < calls.length) return { ...job, member };
            const members = news.slice(0, -1).map((one) => ({ id: one.id, ...ALL_ENDS }));
            return {
              ...job,
              id: last,
              member: { ...member, flow: null, after: [...members, ...after] },
            };
          }),
        ),
    });
    const made = this.#jobsOf(all, enqueued);
    return { id, name, jobs: made.slice(0, calls.length), callback: made[calls.length] ?? null };
  }

  /** Adds jobs to a batch whose callback still waits; it waits for them, too. Throws StartedError if it does not. */
  async add<const Tasks extends readonly (AnyTask | string)[]>(
    id: string,
    jobs: { readonly [At in keyof Tasks]: TaskCall<Tasks[At]> },
  ): Promise<Job<unknown>[]>;
  async add(id: string, jobs: readonly Call[]): Promise<Job<unknown>[]> {
    const { newId, write, store, onNamed } = this.#parts;
    const batch = await store.flows.find(checkText("id", id));
    if (batch === null) throw new FlowNotFoundError({ id });
    const before = batch.callback === null ? [] : [{ id: batch.callback, ...ALL_ENDS }];
    const calls = callsOf(jobs, FLOW_JOBS_MAX);
    const enqueued = await enqueue(calls, {
      onNamed,
      newId: () => calledId(newId()),
      write: (news) =>
        write.add(
          id,
          news.map((job) => {
            const after = job.member?.after ?? [];
            return { ...job, member: { flow: id, name: null, after, before } };
          }),
        ),
    });
    return this.#jobsOf(calls, enqueued);
  }

  #jobsOf(calls: readonly { readonly task: Task | string }[], enqueued: readonly Enqueued[]) {
    const { jobs } = this.#parts;
    return enqueued.map((row, index) => {
      const task = calls[index]?.task ?? "";
      return new Job<unknown>({ ...row, task: typeof task === "string" ? task : task.name, jobs });
    });
  }
}
