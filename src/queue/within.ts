/** What an application does inside of a transaction of its own: there if, and when, it commits. */
import { checkText } from "../core/check.ts";
import { JobNotFound } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import type { Status } from "../core/job.ts";
import { checkKey } from "../core/name.ts";
import type { Task } from "../core/task.ts";
import type { Emitted } from "../store/journal.ts";
import type { Store } from "../store/store.ts";
import type { Runtime } from "../core/runtime.ts";
import { Job } from "./job.ts";
import type { Jobs } from "./jobs.ts";
import { checkPayload, listOf, type OptionsOf } from "./new-job.ts";
import type { EnqueueOptions } from "./options.ts";
import { enqueueTraced } from "./traced-enqueue.ts";
import { GuestWorkflows } from "./within-workflows.ts";
import type { Workflows } from "./workflows.ts";

export interface WithinParts {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly newId: () => string;
  readonly runtime: Runtime;
  /** Outside of the transaction. */
  readonly workflows: Workflows;
  /** The user's transaction. */
  readonly tx: unknown;
}

export class Within {
  readonly #parts: WithinParts;

  /** As `holdfast.workflows`; without the distributed lock, which has to be taken before a transaction begins. */
  readonly workflows: Workflows;

  constructor(parts: WithinParts) {
    this.#parts = parts;
    this.workflows = new GuestWorkflows(parts);
  }

  /** As `holdfast.enqueue`. Rolled back, the job never was, and nobody is woken for it. */
  async enqueue<Input, Result>(
    task: Task<Input, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<Job<Result>>;
  async enqueue(task: string, input: unknown, options?: EnqueueOptions): Promise<Job<unknown>>;
  async enqueue(task: Task | string, input: unknown, options: EnqueueOptions = {}) {
    const [job] = await this.#enqueueAll(task, [input], options);
    return job as Job<unknown>;
  }

  async enqueueMany<Input, Result>(
    task: Task<Input, Result>,
    inputs: Iterable<NoInfer<Input>>,
    options: EnqueueOptions | ((input: Input, index: number) => EnqueueOptions) = {},
  ): Promise<Job<Result>[]> {
    const each = options as EnqueueOptions | OptionsOf;
    return (await this.#enqueueAll(task, listOf(inputs), each)) as Job<Result>[];
  }

  /** As `holdfast.emit`. */
  async emit<Payload>(
    event: EventType<Payload>,
    key: string,
    payload: NoInfer<Payload>,
  ): Promise<Emitted>;
  async emit(event: EventType, key: string, payload: unknown, ...others: unknown[]) {
    const said = await checkPayload(event, payload, others);
    const news = { name: event.name, key: checkKey("key", key), payload: said };
    return this.#parts.store.within(this.#parts.tx, (guest) => guest.emit(news));
  }

  /** As `holdfast.jobs.cancel`. */
  async cancel(id: string): Promise<Status> {
    const { store, tx } = this.#parts;
    const status = await store.within(tx, (guest) => guest.cancel(checkText("id", id)));
    if (status === null) throw new JobNotFound({ id });
    return status;
  }

  async #enqueueAll(
    task: Task | string,
    inputs: readonly unknown[],
    options: EnqueueOptions | OptionsOf,
  ): Promise<Job<unknown>[]> {
    const { store, jobs, newId, tx } = this.#parts;
    const enqueueing = { task, inputs, options, newId };
    const { name, enqueued } = await enqueueTraced(enqueueing, (news) =>
      store.within(tx, (guest) => guest.enqueue(news)),
    );
    return enqueued.map((row) => new Job({ ...row, task: name, jobs }));
  }
}
