/** What an application reads and changes about jobs: get, list, retry, cancel. */
import {
  anyOperator,
  OPERATOR_OPTIONS,
  type OperatorEntry,
  operatorOf,
  type OperatorOptions,
} from "../audit/operator.ts";
import type { Duration } from "../core/duration.ts";
import { decodeError, type ErrorRecord } from "../core/error-record.ts";
import {
  CalledFailedError,
  type CalledJob,
  InvalidArgumentError,
  JobNotFoundError,
} from "../core/errors.ts";
import { shortIds } from "../core/id-prefix.ts";
import { type Status, statuses, traceId } from "../core/job.ts";
import { decode, encodeOptional, RESULT } from "../core/json.ts";
import { checkKey, checkName, checkTaskName } from "../core/name.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
import {
  readReport,
  type Report,
  type ReportFilter,
  reportKinds,
  type ReportRecord,
  type WatchEntry,
  type WatchOptions,
} from "../core/report.ts";
import { ATTEMPTS_MAX, retryPolicy } from "../core/retry.ts";
import type { EffectInDoubt, StepName, StepRecord } from "../core/task.ts";
import { EffectNotFoundError } from "../core/value-errors.ts";
import {
  BULK_OPTIONS,
  type BulkAct,
  bulkChunk,
  type BulkChunk,
  type BulkFilter,
  type BulkOptions,
  checkBulk,
} from "./bulk.ts";
import type { Results } from "./results.ts";
import type { JobsStore } from "./sql-jobs.ts";
import type {
  AttemptRecord,
  JobRecord,
  JobSummary as JobRow,
  ListFilter,
  Unclaimable,
} from "./store.ts";

/** The parts of the store that are used here; this folder does not import the other features. */
interface Stores {
  readonly jobs: JobsStore;
  readonly reports: { list(filter: ReportFilter): Promise<readonly ReportRecord[]> };
  readonly steps: {
    list(job: string): Promise<readonly StepRecord[]>;
    effectsInDoubt(filter: { readonly limit: number }): Promise<EffectInDoubt[]>;
    resolveEffect(resolution: Resolution): Promise<boolean>;
  };
  readonly workers: { unclaimable(): Promise<Unclaimable[]> };
}

/** An operator's statement whether an effect happened. */
export interface Resolution extends StepName, OperatorEntry {
  readonly job: string;
  /** Its result; null: it did not happen. */
  readonly happened: { readonly result: string | null } | null;
}

/** Follows what jobs report. */
interface Watches {
  of(id: string, options: WatchOptions): AsyncGenerator<WatchEntry, void, undefined>;
}

/** A job without input and result. The error has no stack: `get` returns it. */
export interface JobSummary extends Omit<JobRow, "lastError"> {
  readonly lastError: ErrorRecord | null;
}

export interface JobView extends Omit<JobRecord, "payload" | "result" | "lastError"> {
  readonly input: unknown;
  readonly result: unknown;
  readonly lastError: ErrorRecord | null;
}

export interface AttemptView extends Omit<AttemptRecord, "error"> {
  /** As in the view `attempts`: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string;
  readonly error: ErrorRecord | null;
}

export interface StepView extends Omit<StepRecord, "result" | "ageMs"> {
  readonly result: unknown;
}

interface RetryJobOptions {
  /** Additional attempts. */
  readonly attempts?: number;
  /** Whether to retry the called jobs whose failure failed it, too. */
  readonly withCalled?: boolean;
}

export const PAGE_MAX = 1_000;

const PAGE_DEFAULT = 50;

const REPORT_OPTIONS = new Set(["after", "limit", "kind", "newest"]);

const CANCEL_OPTIONS = new Set<string>(OPERATOR_OPTIONS);

const RETRY_OPTIONS = new Set(["attempts", "withCalled", ...OPERATOR_OPTIONS]);

const LIST_OPTIONS = new Set(["status", "queue", "task", "key", "prefix", "before", "limit"]);

export class Jobs {
  readonly #store: Stores;
  readonly #results: Results;
  readonly #watches: Watches;
  readonly #newId: () => string;

  constructor(store: Stores, parts: { results: Results; watches: Watches; newId: () => string }) {
    this.#store = store;
    this.#results = parts.results;
    this.#watches = parts.watches;
    this.#newId = parts.newId;
  }

  /** Waits for the result of a job that another process enqueued. See `job.result()`. */
  result(id: string, options: { readonly timeout?: Duration } = {}): Promise<unknown> {
    return this.#results.of(id, options);
  }

  async get(id: string): Promise<JobView | null> {
    const record = await this.#store.jobs.find(checkText("id", id));
    if (record === null) return null;
    const { payload, result, lastError, ...rest } = record;
    return {
      ...rest,
      input: readable(payload),
      result: result === null ? undefined : readable(result),
      lastError: lastError === null ? null : decodeError(lastError),
    };
  }

  /** Every attempt so far, oldest first, the running one included. */
  async attempts(id: string): Promise<AttemptView[]> {
    return attemptsOf(this.#store.jobs, checkText("id", id));
  }

  /** The durable steps of a job, in the order in which they began. */
  async steps(id: string): Promise<StepView[]> {
    const records = await this.#store.steps.list(checkText("id", id));
    return records.map(({ result, ageMs: _ageMs, ...rest }) => ({
      ...rest,
      result: result === null ? undefined : readable(result),
    }));
  }

  /**
   * A page of a job's reports, in order: pass the last number of one page as `after` of the next. With `newest`, the last
   * page instead of the first.
   */
  async reports(id: string, options: Partial<Omit<ReportFilter, "job">> = {}): Promise<Report[]> {
    checkKnown(options, REPORT_OPTIONS);
    const { after = 0, limit = PAGE_DEFAULT, kind } = options;
    if (kind !== undefined && !reportKinds.includes(kind)) {
      const problem = `'${kind}' is none. The kinds are: ${reportKinds.join(", ")}.`;
      throw new InvalidArgumentError({ field: "kind", problem });
    }
    checkWhole("after", after, { least: 0, most: Number.MAX_SAFE_INTEGER });
    checkWhole("limit", limit, { least: 1, most: PAGE_MAX });
    const job = checkText("id", id);
    const records = await this.#store.reports.list({ ...options, job, after, limit });
    return records.map(readReport);
  }

  /** Follows a job's reports. See `job.watch()`. */
  watch(id: string, options: WatchOptions = {}): AsyncGenerator<WatchEntry, void, undefined> {
    return this.#watches.of(id, options);
  }

  /** Effects that may or may not have happened. Their jobs wait for an operator. */
  effectsInDoubt(options: { readonly limit?: number } = {}): Promise<EffectInDoubt[]> {
    checkKnown(options, new Set(["limit"]));
    const { limit = PAGE_DEFAULT } = options;
    return this.#store.steps.effectsInDoubt({
      limit: checkWhole("limit", limit, { least: 1, most: PAGE_MAX }),
    });
  }

  /** States whether an effect in doubt happened. Its job continues with the given result, or runs the effect. */
  async resolve(
    { job, name, occurrence }: Pick<EffectInDoubt, "job" | "name" | "occurrence">,
    happened: { readonly done: true; readonly result?: unknown } | { readonly done: false },
    options: OperatorOptions = {},
  ): Promise<void> {
    checkKnown(options, CANCEL_OPTIONS);
    const operator = anyOperator(options, this.#newId);
    const result = happened.done ? encodeOptional(happened.result, RESULT) : null;
    const step = { job: checkText("job", job), name: checkName("name", name), occurrence };
    const outcome = { happened: happened.done ? { result } : null };
    if (await this.#store.steps.resolveEffect({ ...step, ...operator, ...outcome })) return;
    if ((await this.#store.jobs.find(job)) === null) throw new JobNotFoundError({ id: job });
    throw new EffectNotFoundError({ id: job, name, occurrence, inDoubt: [] });
  }

  /** A page of jobs, newest first. Pass the last id of one page as `before` to get the next. */
  async list(options: Partial<ListFilter> = {}): Promise<JobSummary[]> {
    checkKnown(options, LIST_OPTIONS);
    const { status, queue, task, key, prefix, limit = PAGE_DEFAULT } = options;
    if (status !== undefined && !statuses.includes(status)) {
      throw new InvalidArgumentError({
        field: "status",
        problem: `'${status}' is none. The statuses are: ${statuses.join(", ")}.`,
      });
    }
    if (queue !== undefined) checkName("queue", queue);
    if (task !== undefined) checkTaskName("task", task);
    if (key !== undefined) checkKey("key", key);
    if (prefix !== undefined) checkText("prefix", prefix);
    if (options.before !== undefined) checkText("before", options.before);
    checkWhole("limit", limit, { least: 1, most: PAGE_MAX });
    const rows = await this.#store.jobs.list({ ...options, limit });
    return rows.map(summaryOf);
  }

  /** The shortest prefix of each id that no other job's id begins with now. */
  async shortIds(ids: readonly string[]): Promise<Map<string, string>> {
    const some = ids.slice(0, PAGE_MAX);
    return shortIds(some, await this.#store.jobs.neighbours(some));
  }

  /**
   * Pending jobs that no live worker can run, by queue and task: no worker has their queue, or none of these knows their
   * task or its version. Custom workers on `leases` are not registered and do not count.
   */
  unclaimable(): Promise<Unclaimable[]> {
    return this.#store.workers.unclaimable();
  }

  /**
   * Makes a failed or cancelled job pending again, with `attempts` more attempts. With an `actor` it is audited. A job that
   * failed because a called job failed would fail again at once: that is refused with CALLED_FAILED, unless the called jobs
   * are retried too (`withCalled: true`) or left as they are (`false`). Returns the ids of the retried called jobs.
   */
  async retry(
    id: string,
    options: RetryJobOptions & OperatorOptions = {},
    /** The id of the audit entry: a second call with the same id changes nothing. Default: a new id. */
    once?: string,
  ): Promise<string[]> {
    checkKnown(options, RETRY_OPTIONS);
    const { attempts = retryPolicy().maxAttempts, withCalled } = options;
    checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
    checkText("id", id);
    operatorOf(options, this.#newId); // wrong options are refused before anything is done
    const called = await calledFirst(this.#store, id, withCalled);
    for (const one of called) {
      await this.#store.jobs.revive(one, attempts, operatorOf(options, this.#newId));
    }
    await this.#store.jobs.revive(id, attempts, operatorOf(options, this.#idOr(once)));
    return called;
  }

  /**
   * Retries the failed or cancelled jobs that match a filter. One call examines up to `limit` jobs, newest first, and
   * changes the matching ones, a hundred in one transaction. Pass `next` as the `cursor` of the next call until it is null.
   * A job that cannot be retried is listed in `refused` and does not stop the others.
   */
  async retryMany(
    filter: BulkFilter,
    options: BulkOptions & RetryJobOptions = {},
  ): Promise<BulkChunk> {
    checkBulk(filter, options, [...BULK_OPTIONS, "attempts", "withCalled"]);
    const { attempts = retryPolicy().maxAttempts, withCalled, actor, reason, trace } = options;
    checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
    const by = givenOnly({ actor, reason, trace, withCalled });
    const act: BulkAct = {
      move: "retry",
      together: (chunk) => this.#store.jobs.reviveAll(chunk, attempts),
      alone: (id) => this.retry(id, { attempts, ...by }),
      isApart: ({ error }) => error?.code === "CALL_FAILED",
    };
    return bulkChunk({ store: this.#store, newId: this.#newId }, { filter, options, act });
  }

  /** Cancels the jobs that match a filter, as `retryMany` does. Running jobs are asked to stop. */
  async cancelMany(filter: BulkFilter, options: BulkOptions = {}): Promise<BulkChunk> {
    checkBulk(filter, options, BULK_OPTIONS);
    const { actor, reason, trace } = options;
    const act: BulkAct = {
      move: "cancel",
      together: (chunk) => this.#store.jobs.cancelAll(chunk),
      alone: (id) => this.cancel(id, givenOnly({ actor, reason, trace })),
      isApart: () => false,
    };
    return bulkChunk({ store: this.#store, newId: this.#newId }, { filter, options, act });
  }

  /**
   * Cancels a job. `cancelled`: it will not run. `processing`: it is running; its worker is notified, and the job ends as
   * cancelled. Any other status: it had finished before, and nothing changed. With an `actor` the change is audited.
   */
  async cancel(
    id: string,
    options: OperatorOptions = {},
    /** As of `retry`. */
    once?: string,
  ): Promise<Status> {
    checkKnown(options, CANCEL_OPTIONS);
    const operator = operatorOf(options, this.#idOr(once));
    const status = await this.#store.jobs.cancel(checkText("id", id), operator);
    if (status === null) throw new JobNotFoundError({ id });
    return status;
  }

  #idOr(once: string | undefined): () => string {
    return once === undefined ? this.#newId : () => once;
  }
}

/** Omits options that were not given: some must not be present as undefined. */
function givenOnly<Options extends object>(
  options: Options,
): { [name in keyof Options]?: NonNullable<Options[name]> } {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as never;
}

function summaryOf({ lastError, ...row }: JobRow): JobSummary {
  if (lastError === null) return { ...row, lastError };
  const { name, message, code } = decodeError(lastError);
  return { ...row, lastError: { name, message, ...(code === undefined ? {} : { code }) } };
}

/** Text that was written by hand may not be JSON; it is shown as it is. */
function readable(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return text;
  }
}

/** A job, as `enqueue` returns it. */
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
   * Waits until the job is done and returns its result. Throws JobFailedError, JobCancelledError, or ResultTimeoutError
   * when the timeout expires; the job itself continues then.
   */
  result(options: { readonly timeout?: Duration } = {}): Promise<Result> {
    return this.#jobs.result(this.id, options) as Promise<Result>;
  }

  async get(): Promise<JobView> {
    const job = await this.#jobs.get(this.id);
    if (job === null) throw new JobNotFoundError({ id: this.id });
    return job;
  }

  /**
   * The job's earlier and new reports, and each change of its status. Ends when the job has ended, when the signal aborts,
   * or by `break`.
   */
  watch(options: WatchOptions = {}): AsyncGenerator<WatchEntry, void, undefined> {
    return this.#jobs.watch(this.id, options);
  }

  /** See `jobs.cancel()`. */
  cancel(options: OperatorOptions = {}): Promise<Status> {
    return this.#jobs.cancel(this.id, options);
  }
}

export async function attemptsOf(jobs: JobsStore, id: string): Promise<AttemptView[]> {
  const records = await jobs.attempts(id);
  return records.map((record) => ({
    ...record,
    traceId: traceId({ ...record, id }),
    error: record.error === null ? null : decodeError(record.error),
  }));
}

// Retrying a job that failed because a called job failed: without the called job it would fail again at once.

/** An operator must retry a longer chain of calls from its end. */
const CALLS_MAX = 100;

/** The called jobs whose failure failed this job, and that have not been retried since. */
async function failedCalls(store: Stores, id: string): Promise<CalledJob[]> {
  const job = await store.jobs.find(id);
  if (job?.status !== "failed" || job.lastError === null) return [];
  // A job that caught the failure of a call and failed for another reason catches it again.
  if (decodeError(job.lastError).code !== "CALL_FAILED") return [];
  const steps = await store.steps.list(id);
  const called = steps
    .filter(({ kind, status }) => kind === "call" && status === "failed")
    .flatMap(({ result }) => calledBy(result));
  const ended = await store.jobs.findFinished(called);
  return ended
    .filter(({ status }) => status !== "done")
    .map(({ id: one, task, status }) => ({ id: one, task, status }));
}

function calledBy(result: string | null): string[] {
  const facts = result === null ? null : (decode(result) as { readonly id?: unknown } | null);
  return typeof facts?.id === "string" ? [facts.id] : [];
}

/**
 * The called jobs to retry before this one, the last called first. Throws CalledFailedError if there are any and the caller
 * does not say whether to retry them.
 */
async function calledFirst(
  store: Stores,
  id: string,
  withCalled: boolean | undefined,
): Promise<string[]> {
  if (withCalled === false) return [];
  const order: string[] = [];
  const toLookAt = [id];
  for (let looked = 0; looked < CALLS_MAX; looked += 1) {
    const one = toLookAt.shift();
    if (one === undefined) break;
    const called = await failedCalls(store, one);
    if (called.length > 0 && withCalled === undefined) throw new CalledFailedError({ id, called });
    order.unshift(...called.map((job) => job.id));
    toLookAt.push(...called.map((job) => job.id));
  }
  return [...new Set(order)];
}
