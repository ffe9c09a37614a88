/** Batches: jobs of any tasks with progress, and a callback when all have ended. */
import { calledId } from "../core/id.ts";
import { checkName } from "../core/name.ts";
import { checkKnown, checkText } from "../core/options.ts";
import type { AnyTask, Task } from "../core/task.ts";
import { callsOf, enqueue, type EnqueueOptions, type TaskCall } from "../jobs/enqueue.ts";
import { Job } from "../jobs/jobs.ts";
import type { Enqueued } from "../jobs/store.ts";
import { FLOW_JOBS_MAX } from "./builder.ts";
import { FlowNotFoundError } from "./errors.ts";
import type { FlowsParts } from "./flows.ts";
import type { NewFlow } from "./store.ts";

export interface Batch {
  readonly id: string;
  readonly name: string;
  readonly jobs: readonly Job<unknown>[];
  /** Null: the batch has none. */
  readonly callback: Job<unknown> | null;
}

type Call = readonly [Task | string, unknown, EnqueueOptions?];

export interface BatchOptions {
  /** A job that runs when all jobs of the batch have ended, however they ended. It can read their results. */
  readonly callback?: readonly [task: AnyTask | string, input: unknown, options?: EnqueueOptions];
}

const BATCH_OPTIONS = new Set(["callback"]);

/** Ends of all kinds count. */
const ALL_ENDS = { onFailed: "ignore", onCancelled: "ignore" } as const;

/** Groups of jobs with progress, and a callback when all have ended. */
export class Batches {
  readonly #parts: FlowsParts;

  constructor(parts: FlowsParts) {
    this.#parts = parts;
  }

  /** Enqueues jobs of any tasks, such as `[[resize, { image: 1 }], [resize, { image: 2 }]]`, and the callback, in one transaction. */
  async enqueue<const Tasks extends readonly (AnyTask | string)[]>(
    name: string,
    jobs: { readonly [At in keyof Tasks]: TaskCall<Tasks[At]> },
    options?: BatchOptions,
  ): Promise<Batch>;
  async enqueue(name: string, jobs: readonly Call[], options: BatchOptions = {}): Promise<Batch> {
    checkKnown(options, BATCH_OPTIONS);
    const { newId, write } = this.#parts;
    const id = newId();
    const calls = callsOf(jobs, FLOW_JOBS_MAX - 1);
    const { callback } = options;
    const last = callback === undefined ? null : calledId(newId());
    const flow: NewFlow = { id, kind: "batch", name: checkName("name", name), callback: last };
    const all = last === null ? calls : [...calls, ...callsOf([callback as Call])];
    const enqueued = await enqueue(all, {
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
    const { newId, write, store } = this.#parts;
    const batch = await store.flows.find(checkText("id", id));
    if (batch === null) throw new FlowNotFoundError({ id });
    const before = batch.callback === null ? [] : [{ id: batch.callback, ...ALL_ENDS }];
    const calls = callsOf(jobs, FLOW_JOBS_MAX);
    const enqueued = await enqueue(calls, {
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
