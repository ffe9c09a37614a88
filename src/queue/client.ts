/** What an application calls to hand over jobs and to see what became of them. */
import { checkKnown } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { Closed, InvalidArgument } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { makeIds } from "../core/id.ts";
import type { LockMode } from "../core/lock.ts";
import type { Logger } from "../core/log.ts";
import { checkKey, checkName } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import type { LockPlace } from "../locks/lock.ts";
import { SqlLock } from "../locks/sql-lock.ts";
import { ENQUEUE_BATCH_MAX } from "../store/sql-store.ts";
import type { Emitted } from "../store/journal.ts";
import type { Enqueued, NewJob, QueueStats, Store } from "../store/store.ts";
import { Audit } from "./audit.ts";
import { Enqueuer } from "./enqueuer.ts";
import { Figures } from "./figures.ts";
import { Job } from "./job.ts";
import { Jobs } from "./jobs.ts";
import { Leases } from "./leases.ts";
import { Locks } from "./locks.ts";
import { checkPayload, listOf, type OptionsOf } from "./new-job.ts";
import type { EnqueueOptions } from "./options.ts";
import { Results } from "./results.ts";
import { Subscription } from "./subscription.ts";
import { enqueueTraced } from "./traced-enqueue.ts";
import { Watches } from "./watches.ts";
import { Within } from "./within.ts";
import { Workers } from "./workers.ts";
import { Workflows } from "./workflows.ts";

const SUBSCRIBE_OPTIONS = new Set(["poll"]);

export interface ClientParts {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Which build of the application this is. */
  readonly version: string;
  /** Where locks are kept. Default: in rows of the store. */
  readonly locks?: {
    readonly mode: LockMode;
    readonly place: LockPlace;
    readonly ttl?: Duration;
    readonly wait?: Duration;
  };
}

export class Client implements AsyncDisposable {
  readonly store: Store;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly version: string;
  readonly jobs: Jobs;
  readonly leases: Leases;
  readonly workers: Workers;
  readonly workflows: Workflows;
  readonly locks: Locks;
  readonly audit: Audit;
  readonly figures: Figures;
  readonly #newId: () => string;
  readonly #results: Results;
  readonly #watches: Watches;
  readonly #enqueuer: Enqueuer;
  readonly #subscriptions = new Set<Subscription>();
  /** A signal ends the process once this is closed: results are not waited for any more, and that is not an error. */
  protected isLeaving = false;
  #closed = false;

  constructor({ store, runtime, logger, version, locks }: ClientParts) {
    this.store = store;
    this.runtime = runtime;
    this.logger = logger;
    this.version = version;
    this.leases = new Leases(store, runtime);
    this.workers = new Workers(store, runtime);
    this.figures = new Figures(store);
    this.#newId = makeIds(runtime);
    const { mode = "sql", place = new SqlLock(store), ...times } = locks ?? {};
    const newId = this.#newId;
    this.locks = new Locks({ mode, place, ...times, store, runtime, logger, newId });
    this.#results = new Results({ store, runtime, logger });
    this.#enqueuer = new Enqueuer({ store, runtime, logger, version });
    this.#watches = new Watches({ store, runtime });
    const parts = { results: this.#results, watches: this.#watches, newId: this.#newId };
    this.jobs = new Jobs(store, parts);
    this.workflows = new Workflows({
      store,
      runtime,
      newId: this.#newId,
      locks: this.#lockLayer(),
    });
    this.audit = new Audit({ store, jobs: this.jobs, newId: this.#newId });
  }

  /** The first layer of every change of an item, unless somebody does without. */
  #lockLayer(): Locks | null {
    return this.locks.mode === "off" ? null : this.locks;
  }

  /** Accepts one job. Once this resolves, the job is on disk and will not be lost. */
  async enqueue<Input, Result>(
    task: Task<Input, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<Job<Result>>;
  /**
   * By name (`order.ship`, `order.ship@2`), for callers that do not have the task's code. The worker checks the input. Its queue and attempts are not
   * known here either: `default` and 3 unless given.
   */
  async enqueue(task: string, input: unknown, options?: EnqueueOptions): Promise<Job<unknown>>;
  async enqueue(task: Task | string, input: unknown, options: EnqueueOptions = {}) {
    const [job] = await this.#enqueueAll(task, [input], options);
    return job as Job<unknown>;
  }

  /**
   * Accepts many jobs. Every input is checked before the first is written. Up to 5,000 are accepted together or not
   * at all; more are written in groups of that size, one after the other and in their order, and an error says how many
   * were accepted: the first ones.
   */
  async enqueueMany<Input, Result>(
    task: Task<Input, Result>,
    inputs: Iterable<NoInfer<Input>>,
    options: EnqueueOptions | ((input: Input, index: number) => EnqueueOptions) = {},
  ): Promise<Job<Result>[]> {
    const each = options as EnqueueOptions | OptionsOf;
    return (await this.#enqueueAll(task, listOf(inputs), each)) as Job<Result>[];
  }

  /**
   * Says that something happened, under a key, once and for all: jobs that wait for it go on, and those that will wait for
   * it do not. What was said first stands.
   */
  async emit<Payload>(
    event: EventType<Payload>,
    key: string,
    payload: NoInfer<Payload>,
  ): Promise<Emitted>;
  async emit(event: EventType, key: string, payload: unknown, ...others: unknown[]) {
    const said = await checkPayload(event, payload, others);
    return this.store.emit({ name: event.name, key: checkKey("key", key), payload: said });
  }

  /**
   * The verbs inside of a transaction of your own (a `pg` client, a `mysql2` connection, a `DatabaseSync`): what they write
   * is there if, and when, you commit.
   */
  within(tx: unknown): Within {
    const { store, jobs, runtime, workflows } = this;
    return new Within({ store, jobs, runtime, workflows, newId: this.#newId, tx });
  }

  /**
   * Calls `hear` when a queue has pending jobs: soon after they arrive, and again every `poll` while some are left. For
   * workers of your own on `leases`. Returns the function that ends it.
   */
  subscribe(
    queue: string,
    hear: (queue: string) => void | Promise<void>,
    options: { readonly poll?: Duration } = {},
  ): () => Promise<void> {
    this.checkOpen();
    checkKnown(options, SUBSCRIBE_OPTIONS);
    if (typeof hear !== "function") {
      throw new InvalidArgument({ field: "hear", problem: "give a function to call." });
    }
    const pollMs = toMs("poll", options.poll ?? "10s", { min: 10 });
    const subscription = new Subscription(this, { queue: checkName("queue", queue), hear, pollMs });
    this.#subscriptions.add(subscription);
    return async () => {
      this.#subscriptions.delete(subscription);
      await subscription.stop();
    };
  }

  stats(): Promise<QueueStats[]> {
    return this.store.stats();
  }

  /** Whatever would go on by itself must not be started any more. */
  protected checkOpen(): void {
    if (this.#closed) throw new Closed({ what: "Holdfast" });
  }

  protected refuseMore(): void {
    this.#closed = true;
  }

  async close(): Promise<void> {
    this.refuseMore();
    await Promise.all([...this.#subscriptions].map((subscription) => subscription.stop()));
    this.#watches.stop();
    await this.#results.stop({ isLeaving: this.isLeaving });
    await this.#enqueuer.stop();
    await this.locks.close();
    await this.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #enqueueAll(
    task: Task | string,
    inputs: readonly unknown[],
    options: EnqueueOptions | OptionsOf,
  ): Promise<Job<unknown>[]> {
    const enqueueing = { task, inputs, options, newId: this.#newId };
    const { name, enqueued } = await enqueueTraced(enqueueing, (news) => this.#write(news));
    this.#enqueuer.note();
    return enqueued.map((row) => new Job({ ...row, task: name, jobs: this.jobs }));
  }

  /** In batches, one after the other and in their order. Each is accepted or refused as a whole. */
  async #write(news: readonly NewJob[]): Promise<Enqueued[]> {
    const accepted: Enqueued[] = [];
    for (let at = 0; at < news.length; at += ENQUEUE_BATCH_MAX) {
      try {
        accepted.push(...(await this.store.enqueue(news.slice(at, at + ENQUEUE_BATCH_MAX))));
      } catch (error) {
        throw partly(error, accepted.length);
      }
      // A large call shall not keep everybody else waiting.
      await new Promise<void>((resolve) => this.runtime.afterIo(resolve));
    }
    return accepted;
  }
}

function partly(error: unknown, accepted: number): unknown {
  if (accepted > 0 && error instanceof Error) error.message += ` (${accepted} jobs were accepted.)`;
  return error;
}
