/**
 * Canaries: synthetic jobs, one for every queue at an interval, that measure how long a job takes from enqueue to pickup
 * and to its end. A queue whose canary does not come back has a problem, however good its other statistics are.
 *
 * They take the way of all jobs. Every monitor may send them: a canary has a key, by queue, which it keeps for a while
 * after its end. So one process sends it, one canary of a queue is out at a time, and all processes get its id and measure
 * the same one. Queues without a worker that knows the task get none.
 */
import type { Duration } from "../core/duration.ts";
import { makeIds } from "../core/id.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { duration, optionsOf } from "../core/options.ts";
import type { Runtime } from "../core/runtime.ts";
import { type AnyTask, defineTask } from "../core/task.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { AttemptRecord, JobRecord, NewJob } from "../jobs/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";
import { isRunnable, type Workers } from "../registry/workers.ts";

/** Queues that get canaries, by name; others are not watched. */
const QUEUES_MAX = 32;

const WORKERS_MAX = 1_000;

/** A canary keeps its key for less than the shortest wait of the loop, or every second round would find it still held. */
const KEY_SHARE = 0.85;

/** The result of a queue's last canary job. */
export interface CanaryReport {
  /** The queue that it was sent to. */
  readonly queue: string;
  /** When it was enqueued (ms since 1970). */
  readonly sentAt: number;
  /** From enqueue to the start of its attempt; null: it has not started. */
  readonly pickupMs: number | null;
  /** From enqueue to its end; null: it has not ended. */
  readonly doneMs: number | null;
}

/** How often canary jobs are sent. */
export interface CanaryOptions {
  /** How often every queue gets one. Default 60 s. */
  readonly interval?: Duration;
}

const canaryOptions = optionsOf<CanaryOptions>()({ interval: duration({ least: 1_000 }, "60s") });

/** A canary does nothing. Workers to be watched get this task; see `withCanary`. */
export const canaryTask = defineTask({
  name: "holdfast.canary",
  retry: { maxAttempts: 1 },
  timeout: "10s",
  run: (_sent: {
    /** When it was enqueued (ms since 1970, the clock of the sender). */
    readonly sentAt: number;
  }) => null,
});

/** Adds the canary's task on a queue of these tasks, so that no worker serves another queue because of it. */
export function withCanary(tasks: readonly AnyTask[]): readonly AnyTask[] {
  const [first] = tasks;
  if (first === undefined || tasks.some(({ name }) => name === canaryTask.name)) return tasks;
  return [...tasks, { ...canaryTask, queue: first.queue }];
}

/** The last canary of a queue, and its report; null: it has not ended. */
interface Sent {
  readonly id: string;
  readonly report: CanaryReport | null;
}

/** What canaries need of a Holdfast. */
export interface CanaryHost {
  /** @internal */
  readonly store: { readonly jobs: JobsStore };
  /** Knows which queues have live workers. */
  readonly workers: Workers;
  /** Its clock and timers. */
  readonly runtime: Runtime;
  /** Gets a line when canaries cannot be sent. */
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
    this.#intervalMs = canaryOptions.read(options, { field: "canary" }).intervalMs;
    this.#host = host;
    const { store, runtime, logger } = host;
    this.#jobs = store.jobs;
    this.#newId = makeIds(runtime);
    const once = (): Promise<number> => this.#send();
    this.#loop = new Loop({ name: "canary", runtime, logger, once, background: true });
  }

  /** The report of the last canary of every queue, as far as it is known. */
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
    const canaries = queues.map((queue) => this.#newCanary(queue));
    // Through the store, because a process that sends canaries must not be registered as one that enqueues.
    const enqueued = await this.#jobs.enqueue(canaries);
    const fresh = enqueued.map(({ id }, index): [string, Sent] => {
      const queue = queues[index] as string;
      const before = this.#sent.get(queue);
      return [queue, before?.id === id ? before : { id, report: null }];
    });
    // Canaries in queues that no worker serves any more matter most.
    const left = [...this.#sent].filter(
      ([queue, { report }]) => report === null && !queues.includes(queue),
    );
    this.#sent = new Map([...left.slice(-QUEUES_MAX), ...fresh]);
    return this.#intervalMs;
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

  /** By the database's clock. Null: the job was deleted. */
  async #measure(queue: string, id: string): Promise<CanaryReport | null> {
    const job = await this.#jobs.find(id);
    const [first] = await this.#jobs.attempts(id);
    const report = job === null ? null : reportOf(job, first);
    if (job?.finishedAt !== null) this.#note(queue, id, report);
    return report;
  }

  /** Keeps the final report of a canary that has ended, and forgets a canary that was deleted. */
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

/** Queues of workers that would claim the canary: a paused or stopping worker would not, which is no problem. */
function queuesOf(workers: readonly WorkerRecord[]): string[] {
  const active = workers.filter(({ desiredState }) => desiredState === "run");
  const queues = new Set(active.flatMap((worker) => worker.queues));
  return [...queues]
    .filter((queue) => isRunnable({ queue, task: canaryTask.name }, active))
    .toSorted()
    .slice(0, QUEUES_MAX);
}
