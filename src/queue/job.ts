/** A job as the one who enqueued it holds it. */
import type { Duration } from "../core/duration.ts";
import { JobNotFound } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import type { WatchEntry } from "../core/report.ts";
import type { JobView, Jobs } from "./jobs.ts";
import type { ByOperator } from "./signature.ts";
import type { WatchOptions } from "./watches.ts";

export class Job<Result> {
  readonly id: string;
  readonly task: string;
  /** False: another job held the key already, and this is that job. */
  readonly added: boolean;
  readonly #jobs: Jobs;

  constructor(parts: { id: string; task: string; added: boolean; jobs: Jobs }) {
    this.id = parts.id;
    this.task = parts.task;
    this.added = parts.added;
    this.#jobs = parts.jobs;
  }

  /**
   * Waits until the job is done and gives its result. Throws JobFailed, JobCancelled, or ResultTimeout when the time
   * given is over; the job itself goes on then.
   */
  result(options: { readonly timeout?: Duration } = {}): Promise<Result> {
    return this.#jobs.result(this.id, options) as Promise<Result>;
  }

  async get(): Promise<JobView> {
    const job = await this.#jobs.get(this.id);
    if (job === null) throw new JobNotFound({ id: this.id });
    return job;
  }

  /**
   * What the job has reported, then what it reports, and its status whenever that changed. Ends when the job has ended,
   * when the signal aborts, or by `break`.
   */
  watch(options: WatchOptions = {}): AsyncGenerator<WatchEntry, void, undefined> {
    return this.#jobs.watch(this.id, options);
  }

  /** See `jobs.cancel()`. */
  cancel(options: ByOperator = {}): Promise<Status> {
    return this.#jobs.cancel(this.id, options);
  }
}
