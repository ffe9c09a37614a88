/** Dead letters: jobs that failed for good. Their causes in groups, their input, and how they are revived or deleted. */
import type { OperatorOptions } from "../audit/entry.ts";
import type { BulkActions } from "../bulk/bulk.ts";
import { type BulkFilter, fits, type Looked } from "../bulk/filter.ts";
import type { BulkRecord, BulkRow, BulkStore } from "../bulk/store.ts";
import { JobNotFoundError } from "../core/errors.ts";
import { checkKnown, checkWhole } from "../core/options.ts";
import { parseInput } from "../core/input.ts";
import type { Task } from "../core/task.ts";
import type {
  AttemptView,
  InputRevision,
  Jobs,
  JobSummary,
  JobView,
  RetryJobOptions,
  StepView,
} from "../jobs/jobs.ts";

/** Which failed jobs to list, and how many. */
export interface DeadLetterFilter {
  /** Jobs of this queue. */
  readonly queue?: string;
  /** Jobs of this task. */
  readonly task?: string;
  /** Jobs with all of these tags. */
  readonly tags?: readonly string[];
  /** The last id of the previous page. */
  readonly before?: string;
  /** The most jobs of the page. */
  readonly limit?: number;
}

/** A failed job with its attempts, steps and earlier inputs. */
export interface DeadLetter {
  /** The job, with its input and last error. */
  readonly job: JobView;
  /** Its attempts, each with its error. */
  readonly attempts: readonly AttemptView[];
  /** Its durable steps, with their results. */
  readonly steps: readonly StepView[];
  /** The inputs that it had before. */
  readonly inputs: readonly InputRevision[];
}

/** Dead letters with the same task and cause. */
export interface DeadLetterGroup {
  /** The name of the task. */
  readonly task: string;
  /** The code of the last error, or its name. */
  readonly error: string;
  /** How many of the jobs that were looked at. */
  readonly jobs: number;
  /** The message of the newest. */
  readonly message: string;
  /** The job of the group that failed last. */
  readonly newest: {
    /** Its id. */
    readonly id: string;
    /** When it failed (ms since 1970). */
    readonly at: number;
  };
  /** When the first of them failed (ms since 1970). */
  readonly oldestAt: number;
  /** A bulk action for failed jobs with this `task` and `code` finds these jobs and no others. */
  readonly isExact: boolean;
}

interface Parts {
  readonly store: { readonly bulk: BulkStore };
  readonly jobs: Jobs;
  readonly bulk: BulkActions;
}

/** Dead letters that are grouped, newest first. */
export const GROUPED_MAX = 100_000;

const GROUPED_DEFAULT = 10_000;

const PAGE = 500;

function causeOf({ error }: Looked): string {
  return error?.code ?? error?.name ?? "";
}

/** A code is also compared with names, and a task without a version stands for all its versions. */
function isExact(
  { task, error }: Pick<DeadLetterGroup, "task" | "error">,
  kinds: readonly Looked[],
): boolean {
  if (error === "") return false;
  return kinds.every((job) => {
    const isIn = job.task === task && causeOf(job) === error;
    return fits(job, { status: "failed", task, code: error }) === isIn;
  });
}

const LIST_OPTIONS = new Set(["queue", "task", "tags", "before", "limit"]);

/** Lists and retries failed jobs: `holdfast.deadLetters`. */
export class DeadLetters {
  readonly #parts: Parts;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** A page of dead letters, newest first. */
  async list(filter: DeadLetterFilter = {}): Promise<JobSummary[]> {
    checkKnown(filter, LIST_OPTIONS);
    return this.#parts.jobs.list({ ...filter, status: "failed" });
  }

  /** @internal The same in bounded time: a page may be short, or empty, and say where the next begins. */
  async page(filter: DeadLetterFilter = {}): Promise<{ jobs: JobSummary[]; next: string | null }> {
    checkKnown(filter, LIST_OPTIONS);
    return this.#parts.jobs.page({ ...filter, status: "failed" });
  }

  /** How many dead letters there are of each task and cause, and how many were looked at, from the newest on. */
  async groups(
    options: {
      /** How many failed jobs are looked at, from the newest on. Default 10,000, at most 100,000. */
      readonly limit?: number;
    } = {},
  ): Promise<{
    /** How many failed jobs were looked at. */
    readonly looked: number;
    /** Whether these are all. */
    readonly isAll: boolean;
    /** The groups, largest first. */
    readonly groups: DeadLetterGroup[];
  }> {
    checkKnown(options, new Set(["limit"]));
    const { limit = GROUPED_DEFAULT } = options;
    checkWhole("limit", limit, { least: 1, most: GROUPED_MAX });
    const groups = new Map<string, Omit<DeadLetterGroup, "isExact">>();
    /** One job of each task, code and name: whether a filter finds it does not depend on the rest. */
    const kinds = new Map<string, Looked>();
    let before: string | null = null;
    let looked = 0;
    let isAll = false;
    while (looked < limit && !isAll) {
      const size = Math.min(PAGE, limit - looked);
      const at = { position: { walk: "failed", before }, filter: {} } as unknown as BulkRow;
      const { jobs } = await this.#parts.store.bulk.look(at, size);
      for (const job of jobs) {
        const { id, task, at: endedAt, error } = job;
        const cause = causeOf(job);
        kinds.set(JSON.stringify([task, error?.code, error?.name]), job);
        const name = JSON.stringify([task, cause]);
        const known = groups.get(name);
        const first = {
          task,
          error: cause,
          message: error?.message ?? "",
          newest: { id, at: endedAt },
        };
        const group = known ?? { ...first, jobs: 0, oldestAt: endedAt };
        const oldestAt = Math.min(group.oldestAt, endedAt);
        groups.set(name, { ...group, jobs: group.jobs + 1, oldestAt });
      }
      looked += jobs.length;
      isAll = jobs.length < size;
      before = jobs.at(-1)?.id ?? null;
    }
    const found = [...groups.values()].map((group) => ({
      ...group,
      isExact: isExact(group, [...kinds.values()]),
    }));
    return { looked, isAll, groups: found.toSorted((a, b) => b.jobs - a.jobs) };
  }

  /** All there is to know about one. Also finds jobs that are not failed any more. */
  async get(id: string): Promise<DeadLetter> {
    const { jobs } = this.#parts;
    const job = await jobs.get(id);
    if (job === null) throw new JobNotFoundError({ id });
    const [attempts, steps, inputs] = await Promise.all([
      jobs.attempts(id),
      jobs.steps(id),
      jobs.inputs(id),
    ]);
    return { job, attempts, steps, inputs };
  }

  /**
   * Makes a failed or cancelled job pending again, if given with another input. With the `definition` of the task, its schema
   * checks the input. The job keeps its id, its completed steps and its place in flows; the old input is kept beside it.
   * Returns the ids of the called jobs that were revived with it.
   */
  async revive(
    id: string,
    options: RetryJobOptions &
      OperatorOptions & {
        /** Validates the new input with the schema of this task. Default: it is not validated. */
        readonly definition?: Task;
      } = {},
    /** As of `jobs.retry`. */
    once?: string,
  ): Promise<string[]> {
    const { definition, ...rest } = options;
    if (definition !== undefined && "input" in rest) {
      const parsed = parseInput(definition, rest.input);
      if (parsed instanceof Promise) await parsed;
    }
    return this.#parts.jobs.retry(id, rest, once);
  }

  /** Starts a bulk action that revives the matching dead letters. */
  reviveAll(
    filter: Omit<BulkFilter, "status">,
    options: Omit<RetryJobOptions, "input"> & OperatorOptions = {},
  ): Promise<BulkRecord> {
    const { attempts, withCalled, ...operator } = options;
    const terms = {
      ...(attempts === undefined ? {} : { attempts }),
      ...(withCalled === undefined ? {} : { withCalled }),
    };
    const failed = { ...filter, status: "failed" } as const;
    return this.#parts.bulk.start({ action: "retry", filter: failed, ...terms }, operator);
  }

  /** Starts a bulk action that deletes the matching dead letters. Retention deletes the others when their time is over. */
  deleteAll(
    filter: Omit<BulkFilter, "status">,
    options: OperatorOptions = {},
  ): Promise<BulkRecord> {
    const failed = { ...filter, status: "failed" } as const;
    return this.#parts.bulk.start({ action: "delete", filter: failed }, options);
  }
}
