/** Errors of flows and batches. */
import { HoldfastError } from "../core/errors.ts";

/** A job was to wait for a job that does not exist. */
export class DependencyNotFoundError extends HoldfastError {
  /** The id that was given in `after`. */
  readonly id: string;

  constructor({ id }: { id: string }) {
    super(
      "DEPENDENCY_NOT_FOUND",
      `after: there is no job ${id}. It was never accepted here, or its transaction is not committed yet, ` +
        `or it finished and was pruned. Nothing was enqueued.`,
    );
    this.id = id;
  }
}

/** Jobs would wait for each other, and none of them could ever start. */
export class CircleError extends HoldfastError {
  /** The ids or names of the jobs in the circle, or of one in it. */
  readonly jobs: readonly string[];

  constructor({ jobs, waits }: { jobs: readonly string[]; waits?: number }) {
    super(
      "CIRCLE",
      waits === undefined
        ? `These jobs would wait for each other forever: ${[...jobs, jobs[0]].join(" → ")}. Nothing was enqueued.`
        : `More than ${waits} jobs wait for each other here, too many to check that ${jobs[0]} closes no circle. Nothing was enqueued.`,
    );
    this.jobs = jobs;
  }
}

/** A job can be added before another only while that one waits. */
export class StartedError extends HoldfastError {
  /** The id of the job that no longer waits. */
  readonly id: string;

  constructor({ id }: { id: string }) {
    super(
      "ALREADY_STARTED",
      `Job ${id} no longer waits for other jobs, so nothing can be added before it. Nothing was enqueued.`,
    );
    this.id = id;
  }
}

/** A job would end again at once if it were retried: a job that it waits for has failed or was cancelled. */
export class DependencyUnmetError extends HoldfastError {
  /** The id of the job that was to be retried. */
  readonly id: string;
  /** The id of the job that it waits for. */
  readonly on: string;

  constructor({ id, on, was }: { id: string; on: string; was: string }) {
    const ended = was === "cancelled" ? "was cancelled" : was === "failed" ? "failed" : `is ${was}`;
    super(
      "DEPENDENCY_UNMET",
      `Job ${id} cannot be retried: job ${on}, which it waits for, ${ended}. Retry that job (holdfast retry ${on}); this one follows.`,
    );
    this.id = id;
    this.on = on;
  }
}

/** There is no such flow or batch. */
export class FlowNotFoundError extends HoldfastError {
  /** The id that was looked for. */
  readonly id: string;

  constructor({ id }: { id: string }) {
    super(
      "FLOW_NOT_FOUND",
      `There is no flow or batch ${id}. It was never accepted here, or all of its jobs were pruned.`,
    );
    this.id = id;
  }
}
