/**
 * Canaries: synthetic jobs, one for every queue now and then, that tell how long a job takes from enqueue to pickup and to
 * its end. A queue whose figures look well and whose canary does not come back is not well.
 *
 * They go the way of all jobs. Every process that watches may send them: a canary has a key, by queue, which it keeps for a
 * while after its end, so of all processes one sends, one canary of a queue is out at a time, and everybody is given its id
 * and measures the same one. Whoever has no worker that knows the task is sent none.
 */
import { type Duration, toMs } from "../core/duration.ts";
import { makeIds } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { checkKnown } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { type AnyTask, defineTask } from "../core/task.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { AttemptRecord, JobRecord, NewJob } from "../jobs/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import { isRunnable, type Workers } from "../registry/workers.ts";
import type { CanaryReport } from "./observation.ts";

const DEFAULT_INTERVAL = "60s";

const INTERVAL_MS_MIN = 1_000;

const TIMEOUT = "10s";

/** Queues that are sent canaries, by name; those beyond are not watched. */
const QUEUES_MAX = 32;

const WORKERS_MAX = 1_000;

/** A canary keeps its key for less than the shortest wait of the loop, or every second round would find it still held. */
const KEY_SHARE = 0.85;

const KNOWN = new Set(["interval"]);

export interface CanaryOptions {
  /** How often every queue is sent one. Default 60 s. */
  readonly interval?: Duration;
}

/** What a canary does: nothing. Workers that shall be watched are given this task; see `withCanary`. */
export const canaryTask = defineTask({
  name: "holdfast.canary",
  retry: { maxAttempts: 1 },
  timeout: TIMEOUT,
  run: (_sent: { readonly sentAt: number }) => null,
});

/** These tasks and the canary's, which stands on a queue of theirs: no worker takes on another queue because of it. */
export function withCanary(tasks: readonly AnyTask[]): readonly AnyTask[] {
  const [first] = tasks;
  if (first === undefined || tasks.some(({ name }) => name === canaryTask.name)) return tasks;
  return [...tasks, { ...canaryTask, queue: first.queue }];
}

/** The last canary of a queue, and what is known of it; null: it has not ended. */
interface Sent {
  readonly id: string;
  readonly report: CanaryReport | null;
}

/** What canaries need of a Holdfast. */
export interface CanaryHost {
  /** @internal */
  readonly store: { readonly jobs: JobsStore };
  readonly workers: Workers;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

export class Canaries {
  readonly #host: CanaryHost;
  readonly #jobs: JobsStore;
  readonly #intervalMs: number;
  readonly #newId: () => string;
  readonly #loop: Loop;
  #sent: ReadonlyMap<string, Sent> = new Map();

  constructor(host: CanaryHost, options: CanaryOptions = {}) {
    checkKnown(options, KNOWN);
    const interval = options.interval ?? DEFAULT_INTERVAL;
    this.#intervalMs = toMs("canary.interval", interval, { min: INTERVAL_MS_MIN });
    this.#host = host;
    const { store, runtime, logger } = host;
    this.#jobs = store.jobs;
    this.#newId = makeIds(runtime);
    const once = (): Promise<number> => this.#send();
    this.#loop = new Loop({ name: "canary", runtime, logger, once, background: true });
  }

  /** How the last canary of every queue fared, as far as it has come. */
  async reports(): Promise<CanaryReport[]> {
    const reports: CanaryReport[] = [];
    for (const [queue, { id, report }] of this.#sent) {
      const now = report ?? (await this.#measure(queue, id));
      if (now !== null) reports.push(now);
    }
    return reports;
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  async #send(): Promise<number> {
    const workers = await this.#host.workers.list({ limit: WORKERS_MAX });
    const queues = queuesOf(workers);
    const news = queues.map((queue) => this.#newCanary(queue));
    // Not as an application would: who sends canaries is not one of those who enqueue.
    const enqueued = await this.#jobs.enqueue(news);
    const fresh = enqueued.map(({ id }, index): [string, Sent] => {
      const queue = queues[index] as string;
      const before = this.#sent.get(queue);
      return [queue, before?.id === id ? before : { id, report: null }];
    });
    this.#sent = new Map([...this.#leftOf(queues), ...fresh]);
    return this.#intervalMs;
  }

  /** Canaries that are out in queues which nobody serves any more: that is when they matter most. */
  #leftOf(queues: readonly string[]): [string, Sent][] {
    const left = [...this.#sent].filter(
      ([queue, { report }]) => report === null && !queues.includes(queue),
    );
    return left.slice(-QUEUES_MAX);
  }

  #newCanary(queue: string): NewJob {
    return {
      id: this.#newId(),
      queue,
      task: canaryTask.name,
      payload: JSON.stringify({ sentAt: this.#host.runtime.now() }),
      priority: 0,
      maxAttempts: canaryTask.retry.maxAttempts,
      key: queue,
      keyForMs: Math.floor(this.#intervalMs * KEY_SHARE),
      start: null,
    };
  }

  /** By the database's clock. Null: the job is not kept any more. */
  async #measure(queue: string, id: string): Promise<CanaryReport | null> {
    const job = await this.#jobs.find(id);
    const [first] = await this.#jobs.attempts(id);
    const report = job === null ? null : reportOf(job, first);
    if (job?.finishedAt !== null) this.#note(queue, id, report);
    return report;
  }

  /** What has ended does not change any more, and what is gone does not come back. */
  #note(queue: string, id: string, report: CanaryReport | null): void {
    if (this.#sent.get(queue)?.id !== id) return;
    const sent = new Map(this.#sent);
    if (report === null) sent.delete(queue);
    else sent.set(queue, { id, report });
    this.#sent = sent;
  }
}

function reportOf(job: JobRecord, first: AttemptRecord | undefined): CanaryReport {
  const { queue, enqueuedAt: sentAt, finishedAt } = job;
  const since = (at: number | null): number | null =>
    at === null ? null : Math.max(0, at - sentAt);
  return { queue, sentAt, pickupMs: since(first?.startedAt ?? null), doneMs: since(finishedAt) };
}

/** Those that a worker serves who would take the canary: one that is paused or leaves would not, and that is no news. */
function queuesOf(workers: readonly WorkerRecord[]): string[] {
  const willing = workers.filter(({ desiredState }) => desiredState === "run");
  const queues = new Set(willing.flatMap((worker) => worker.queues));
  return [...queues]
    .filter((queue) => isRunnable({ queue, task: canaryTask.name }, willing))
    .toSorted()
    .slice(0, QUEUES_MAX);
}
