/** Jobs looked at from outside: get, list, retry, cancel. */
import type { Duration } from "../core/duration.ts";
import { decodeError, type ErrorRecord } from "../core/error-record.ts";
import { InvalidArgument, JobNotFound } from "../core/errors.ts";
import { statuses, traceId, type Status } from "../core/job.ts";
import { shortIds } from "../core/id-prefix.ts";
import { decode, encodeOptional, RESULT } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import { readReport, reportKinds, type Report, type WatchEntry } from "../core/report.ts";
import { ATTEMPTS_MAX, retryPolicy } from "../core/retry.ts";
import { DoubtNotFound } from "../core/step-errors.ts";
import { checkTaskName } from "../core/task-name.ts";
import type {
  AttemptRecord,
  JobRecord,
  JobSummary as JobRow,
  ListFilter,
  Store,
  Stranded,
} from "../store/store.ts";
import { checkKnown, checkText, checkWhole } from "../core/check.ts";
import type { Doubt, StepRecord } from "../store/journal.ts";
import type { ReportFilter } from "../store/reports.ts";
import {
  BULK_OPTIONS,
  bulkChunk,
  checkBulk,
  type BulkAct,
  type BulkChunk,
  type BulkFilter,
  type BulkOptions,
} from "./bulk.ts";
import { calledFirst } from "./called.ts";
import type { Results } from "./results.ts";
import { anyOperator, OPERATOR_OPTIONS, operatorOf, type ByOperator } from "./signature.ts";
import type { Watches, WatchOptions } from "./watches.ts";

/** A job without what it carries. Its error comes without a stack: `get` has that. */
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

export interface RetryJobOptions {
  /** How many more tries it gets. */
  readonly attempts?: number;
  /** Whether called jobs that failed it are retried with it. */
  readonly withCalled?: boolean;
}

export const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 50;
const REPORT_OPTIONS = new Set(["after", "limit", "kind", "newest"]);
const CANCEL_OPTIONS = new Set<string>(OPERATOR_OPTIONS);
const RETRY_OPTIONS = new Set(["attempts", "withCalled", ...OPERATOR_OPTIONS]);
const LIST_OPTIONS = new Set(["status", "queue", "task", "key", "prefix", "before", "limit"]);

export class Jobs {
  readonly #store: Store;
  readonly #results: Results;
  readonly #watches: Watches;
  readonly #newId: () => string;

  constructor(store: Store, parts: { results: Results; watches: Watches; newId: () => string }) {
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
    const record = await this.#store.find(checkText("id", id));
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
    const records = await this.#store.attempts(checkText("id", id));
    return records.map((record) => ({
      ...record,
      traceId: traceId({ ...record, id }),
      error: record.error === null ? null : decodeError(record.error),
    }));
  }

  /** What a job has kept so far, in the order in which it was begun. */
  async steps(id: string): Promise<StepView[]> {
    const records = await this.#store.steps(checkText("id", id));
    return records.map(({ result, ageMs: _ageMs, ...rest }) => ({
      ...rest,
      result: result === null ? undefined : readable(result),
    }));
  }

  /**
   * What a job has reported, in order, a page at a time: pass the last number of one page as `after` of the next. With
   * `newest`, the last page instead of the first.
   */
  async reports(id: string, options: Partial<Omit<ReportFilter, "job">> = {}): Promise<Report[]> {
    checkKnown(options, REPORT_OPTIONS);
    const { after = 0, limit = PAGE_DEFAULT, kind } = options;
    if (kind !== undefined && !reportKinds.includes(kind)) {
      const problem = `'${kind}' is none. The kinds are: ${reportKinds.join(", ")}.`;
      throw new InvalidArgument({ field: "kind", problem });
    }
    checkWhole("after", after, { least: 0, most: Number.MAX_SAFE_INTEGER });
    checkWhole("limit", limit, { least: 1, most: PAGE_MAX });
    const job = checkText("id", id);
    const records = await this.#store.reports({ ...options, job, after, limit });
    return records.map(readReport);
  }

  /** What a job reports, live. See `job.watch()`. */
  watch(id: string, options: WatchOptions = {}): AsyncGenerator<WatchEntry, void, undefined> {
    return this.#watches.of(id, options);
  }

  /** Effects of which nobody knows whether they happened. Their jobs wait for a person. */
  doubts(options: { readonly limit?: number } = {}): Promise<Doubt[]> {
    checkKnown(options, new Set(["limit"]));
    const { limit = PAGE_DEFAULT } = options;
    return this.#store.doubts({ limit: checkWhole("limit", limit, { least: 1, most: PAGE_MAX }) });
  }

  /**
   * Says whether an effect happened that is in doubt, and lets its job go on: with the result, if it happened; otherwise
   * the effect is made.
   */
  async resolve(
    { job, name, occurrence }: Pick<Doubt, "job" | "name" | "occurrence">,
    happened: { readonly done: true; readonly result?: unknown } | { readonly done: false },
    options: ByOperator = {},
  ): Promise<void> {
    checkKnown(options, CANCEL_OPTIONS);
    const operator = anyOperator(options, this.#newId);
    const result = happened.done ? encodeOptional(happened.result, RESULT) : null;
    const step = { job: checkText("job", job), name: checkName("name", name), occurrence };
    const said = happened.done ? { result } : null;
    const resolved = await this.#store.resolveDoubt({ ...step, ...operator, happened: said });
    if (resolved) return;
    if ((await this.#store.find(job)) === null) throw new JobNotFound({ id: job });
    throw new DoubtNotFound({ id: job, name, occurrence, inDoubt: [] });
  }

  /** A page of jobs, newest first. Pass the last id of one page as `before` to get the next. */
  async list(options: Partial<ListFilter> = {}): Promise<JobSummary[]> {
    checkKnown(options, LIST_OPTIONS);
    const { status, queue, task, key, prefix, limit = PAGE_DEFAULT } = options;
    if (status !== undefined && !statuses.includes(status)) {
      throw new InvalidArgument({
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
    const rows = await this.#store.list({ ...options, limit });
    return rows.map(summaryOf);
  }

  /** The shortest form of each id that can be typed instead of it: no other job's id begins with it now. */
  async shortIds(ids: readonly string[]): Promise<Map<string, string>> {
    const some = ids.slice(0, PAGE_MAX);
    return shortIds(some, await this.#store.neighbours("job", some));
  }

  /**
   * Pending jobs that no live worker can run, by queue and task: nobody works on their queue, or nobody there knows their
   * task or its version. Workers of your own on `leases` are not registered, and count for nobody here.
   */
  stranded(): Promise<Stranded[]> {
    return this.#store.stranded();
  }

  /**
   * Makes a failed or cancelled job pending again, with `attempts` more tries. With an `actor` it is in the audit. A job that
   * failed because a job it called did would fail again at once: that is refused with CALLED_FAILED, unless the called jobs are
   * retried too (`withCalled: true`) or left as they are (`false`). Returns the ids of the called jobs that were retried.
   */
  async retry(id: string, options: RetryJobOptions & ByOperator = {}): Promise<string[]> {
    checkKnown(options, RETRY_OPTIONS);
    const { attempts = retryPolicy().attempts, withCalled } = options;
    checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
    checkText("id", id);
    operatorOf(options, this.#newId); // wrong options are refused before anything is done
    const called = await calledFirst(this.#store, id, withCalled);
    for (const one of [...called, id]) {
      await this.#store.revive(one, attempts, operatorOf(options, this.#newId));
    }
    return called;
  }

  /**
   * Retries failed or cancelled jobs that have something in common. One call looks at up to `limit` jobs, newest first, and
   * changes those that fit, a hundred in one transaction; pass `next` as the `cursor` of the next call until it is null. A job
   * that cannot be retried is in `refused` and does not hold up the others.
   */
  async retryMany(
    filter: BulkFilter,
    options: BulkOptions & RetryJobOptions = {},
  ): Promise<BulkChunk> {
    checkBulk(filter, options, [...BULK_OPTIONS, "attempts", "withCalled"]);
    const { attempts = retryPolicy().attempts, withCalled, actor, reason, trace } = options;
    checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
    const by = givenOnly({ actor, reason, trace, withCalled });
    const act: BulkAct = {
      move: "retry",
      together: (chunk) => this.#store.reviveAll(chunk, attempts),
      alone: (id) => this.retry(id, { attempts, ...by }),
      isApart: ({ error }) => error?.code === "CALL_FAILED",
    };
    return bulkChunk({ store: this.#store, newId: this.#newId }, { filter, options, act });
  }

  /** Cancels jobs that have something in common, as `retryMany` does. Those that run are told to stop. */
  async cancelMany(filter: BulkFilter, options: BulkOptions = {}): Promise<BulkChunk> {
    checkBulk(filter, options, BULK_OPTIONS);
    const { actor, reason, trace } = options;
    const act: BulkAct = {
      move: "cancel",
      together: (chunk) => this.#store.cancelAll(chunk),
      alone: (id) => this.cancel(id, givenOnly({ actor, reason, trace })),
      isApart: () => false,
    };
    return bulkChunk({ store: this.#store, newId: this.#newId }, { filter, options, act });
  }

  /**
   * Cancels a job. `cancelled`: it will not run. `processing`: it is running; its worker is told, and the job ends as
   * cancelled. Any other status: it had finished before. With an `actor` it is in the audit, if it had not.
   */
  async cancel(id: string, options: ByOperator = {}): Promise<Status> {
    checkKnown(options, CANCEL_OPTIONS);
    const operator = operatorOf(options, this.#newId);
    const status = await this.#store.cancel(checkText("id", id), operator);
    if (status === null) throw new JobNotFound({ id });
    return status;
  }
}

/** Options that were not given are left out: some must not be there as undefined. */
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

/** What somebody wrote into the table by hand may be no JSON; then it is shown as it is. */
function readable(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return text;
  }
}
