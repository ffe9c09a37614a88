/** Enqueues jobs and emits events, for the client, for a transaction of the user's and for HTTP requests. */
import type { EventType } from "../core/event.ts";
import { checkKey } from "../core/name.ts";
import type { Task } from "../core/task.ts";
import {
  checkPayload,
  enqueue,
  type EnqueueCall,
  type EnqueueOptions,
  listOf,
  type OptionsOf,
} from "../jobs/enqueue.ts";
import { Job, type Jobs } from "../jobs/jobs.ts";
import type { Enqueued, NewJob } from "../jobs/store.ts";
import type { Emitted, NewEvent } from "../steps/events.ts";

/** A subclass says how to write; checks, defaults, ids and spans are the same for all. */
export abstract class Sender {
  /** @internal */
  protected abstract readonly newId: () => string;
  protected abstract readonly jobs: Jobs;

  /** @internal */
  protected abstract writeJobs(news: readonly NewJob[]): Promise<Enqueued[]>;
  /** @internal */
  protected abstract writeEvent(event: NewEvent): Promise<Emitted>;

  /** Accepts one job. Once this resolves, or inside of `within` once you commit, the job is stored durably. */
  async enqueue<Input, Result>(
    task: Task<Input, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<Job<Result>>;
  /**
   * By name (`order.ship`, `order.ship@2`), for callers without the task's code. Only the worker checks the input. The queue is
   * `default` and `maxAttempts` 3 unless given.
   */
  async enqueue(task: string, input: unknown, options?: EnqueueOptions): Promise<Job<unknown>>;
  async enqueue(task: Task | string, input: unknown, options: EnqueueOptions = {}) {
    const [job] = await this.#enqueueAll({ task, inputs: [input], options });
    return job as Job<unknown>;
  }

  /**
   * Accepts many jobs. Every input is checked before the first is written. Up to 5,000 are accepted together or not at all;
   * more are written in batches, in order, and an error says how many were accepted. Inside of `within`, all or none are.
   */
  async enqueueMany<Input, Result>(
    task: Task<Input, Result>,
    inputs: Iterable<NoInfer<Input>>,
    options: EnqueueOptions | ((input: Input, index: number) => EnqueueOptions) = {},
  ): Promise<Job<Result>[]> {
    const each = options as EnqueueOptions | OptionsOf;
    const jobs = await this.#enqueueAll({ task, inputs: listOf(inputs), options: each });
    return jobs as Job<Result>[];
  }

  /**
   * Records that something happened, under a key, once and for all: jobs that wait for it continue, and jobs that wait for
   * it later continue at once. The first payload of a key stands.
   */
  async emit<Payload>(
    event: EventType<Payload>,
    key: string,
    payload: NoInfer<Payload>,
  ): Promise<Emitted>;
  async emit(event: EventType, key: string, payload: unknown, ...others: unknown[]) {
    const text = await checkPayload(event, payload, others);
    return this.writeEvent({ name: event.name, key: checkKey("key", key), payload: text });
  }

  /** @internal For requests: their jobs are of several tasks, with ids that make a repeated request harmless. */
  enqueueCalls(calls: readonly EnqueueCall[], newId: () => string): Promise<Enqueued[]> {
    return enqueue(calls, { newId, write: (news) => this.writeJobs(news) });
  }

  async #enqueueAll(call: EnqueueCall): Promise<Job<unknown>[]> {
    const enqueued = await this.enqueueCalls([call], this.newId);
    const task = typeof call.task === "string" ? call.task : call.task.name;
    return enqueued.map((row) => new Job({ ...row, task, jobs: this.jobs }));
  }
}
