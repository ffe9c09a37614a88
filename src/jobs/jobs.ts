/** What an application reads and changes about jobs: get, list, retry, cancel. */
import {
  anyOperator,
  type OperatorEntry,
  operatorOf,
  type OperatorOptions,
  operatorOptions,
} from "../audit/entry.ts";
import type { Duration } from "../core/duration.ts";
import { decodeError, type ErrorRecord } from "../core/error-record.ts";
import { EffectNotFoundError, invalid, JobNotFoundError } from "../core/errors.ts";
import type { Explanation } from "../core/explanation.ts";
import { shortIds } from "../core/id.ts";
import { type Status, traceId } from "../core/job.ts";
import { decode, encodeOptional, RESULT } from "../core/json.ts";
import { checkName } from "../core/name.ts";
import { checkText, choice, optionsOf, whole, yes } from "../core/options.ts";
import {
  readReport,
  type Report,
  type ReportFilter,
  reportKinds,
  type ReportRecord,
  type ReportsFilter,
  type WatchEntry,
  type WatchOptions,
} from "../core/report.ts";
import type { EffectInDoubt, RerunPlan, StepFacts, StepName, StepRecord } from "../core/task.ts";
import {
  checkedPayload,
  EDITABLE,
  type EditOptions,
  editOptions,
  type ReplayOptions,
  replayOptions,
  type RerunOptions,
  rerunOptions,
  type RetryJobOptions,
  retryOptions,
  stepName,
} from "./options.ts";
import { type AttemptsPage, HISTORY_MAX } from "./list.ts";
import { calledFirst, type Results } from "./results.ts";
import type { JobsStore } from "./sql-jobs.ts";
import { startOf } from "./after.ts";
import type { AttemptFacts, JobFacts, JobSummary as JobRow, Unclaimable } from "./store.ts";
import {
  checkListed,
  type CheckedFilter,
  type JobFilter,
  type JobListFilter,
  PAGE_DEFAULT,
  PAGE_MAX,
  readFilter,
} from "./filter.ts";

/** The parts of the store that are used here; this folder does not import the other features. */
interface Stores {
  readonly jobs: JobsStore;
  readonly reports: { list(filter: ReportFilter): Promise<readonly ReportRecord[]> };
  readonly steps: {
    list(job: string): Promise<readonly StepRecord[]>;
    effectsInDoubt(filter: { readonly limit: number }): Promise<EffectInDoubt[]>;
    resolveEffect(resolution: Resolution): Promise<boolean>;
    planRerun(job: string, from: StepName | null): Promise<RerunPlan | null>;
    rerun(request: Rerun): Promise<void>;
  };
  readonly workers: { unclaimable(): Promise<Unclaimable[]> };
}

interface Rerun {
  readonly job: string;
  readonly from: StepName | null;
  readonly confirm: readonly string[];
  readonly attempts: number;
  readonly payload: string | null;
  readonly operator: OperatorEntry;
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

interface Explainer {
  job(id: string): Promise<Explanation | null>;
}

interface JobsParts {
  readonly results: Results;
  readonly watches: Watches;
  readonly newId: () => string;
  readonly explainer: Explainer;
}

/** A job without input and result. The error has no stack: `get` returns it. */
export interface JobSummary extends JobFacts {
  /** The error of the latest failed attempt, without its stack; null: none failed. */
  readonly lastError: ErrorRecord | null;
}

/** A job with its input, its result and its last error. */
export interface JobView extends JobSummary {
  /** When its cancellation was requested while it ran (ms since 1970); null: it was not. */
  readonly cancelRequestedAt: number | null;
  /** What it was enqueued with, or what an operator replaced it with. */
  readonly input: unknown;
  /** What the task returned; undefined: the job is not done, or returned nothing. */
  readonly result: unknown;
  /** The error of the latest failed attempt, with its stack; null: none failed. */
  readonly lastError: ErrorRecord | null;
}

/** One attempt at a job, and how it ended. */
export interface AttemptView extends AttemptFacts {
  /** As in the view `attempts`: `<worker id>-<job id>-<attempt>`. */
  readonly traceId: string;
  /** Why it failed; null: it did not, or has not ended. */
  readonly error: ErrorRecord | null;
}

/** An input that a job had before an operator changed it. */
export interface InputRevision {
  /** From 1: the input that the job was enqueued with. */
  readonly revision: number;
  /** The input, as an object. */
  readonly input: unknown;
  /** Until when it was the input of the job. */
  readonly changedAt: number;
}

/** A durable step of a job, with its result. */
export interface StepView extends StepFacts {
  /** What the step returned; undefined: nothing, or it has not ended. */
  readonly result: unknown;
}

const limitOption = whole(1, PAGE_MAX, PAGE_DEFAULT);

const reportOptions = optionsOf<ReportsFilter>()({
  after: whole(0, Number.MAX_SAFE_INTEGER, 0),
  kind: choice(reportKinds),
  newest: yes(false),
  limit: limitOption,
});

const pageOptions = optionsOf<{ readonly limit?: number }>()({ limit: limitOption });

const attemptsOptions = optionsOf<AttemptsPage>()({
  before: whole(1, Number.MAX_SAFE_INTEGER),
  limit: whole(1, HISTORY_MAX),
});

/** Reads and changes jobs: `holdfast.jobs`. */
export class Jobs {
  readonly #store: Stores;
  readonly #results: Results;
  readonly #watches: Watches;
  readonly #newId: () => string;
  readonly #explainer: Explainer;

  /** @internal Applications get it from a Holdfast. */
  constructor(store: Stores, parts: JobsParts) {
    this.#store = store;
    this.#results = parts.results;
    this.#watches = parts.watches;
    this.#newId = parts.newId;
    this.#explainer = parts.explainer;
  }

  /** Waits for the result of a job that another process enqueued. See `job.result()`. */
  result(
    id: string,
    options: {
      /** How long to wait before ResultTimeoutError is thrown. Default: no limit. */
      readonly timeout?: Duration;
    } = {},
  ): Promise<unknown> {
    return this.#results.of(id, options);
  }

  /** One job with its input and result; null: there is none. */
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

  /** Why it does not run, in one sentence with the facts; or that it runs, or how it ended. */
  async explain(id: string): Promise<Explanation> {
    const explanation = await this.#explainer.job(checkText("id", id));
    if (explanation === null) throw new JobNotFoundError({ id });
    return explanation;
  }

  /** Its attempts, oldest first, the running one included: the newest 1,000, or a page of them. */
  async attempts(
    id: string,
    options: {
      /** The epoch of an attempt: only earlier ones. */
      readonly before?: number;
      /** How many at most. Default 1,000, which is also the most. */
      readonly limit?: number;
    } = {},
  ): Promise<AttemptView[]> {
    return attemptsOf(this.#store.jobs, checkText("id", id), attemptsOptions.read(options));
  }

  /** The inputs that the job had before an operator changed them, oldest first. */
  async inputs(id: string): Promise<InputRevision[]> {
    const found = await this.#store.jobs.revisions(checkText("id", id));
    return found.map(({ payload, ...rest }) => ({ ...rest, input: readable(payload) }));
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
  async reports(id: string, options: ReportsFilter = {}): Promise<Report[]> {
    const filter = { ...reportOptions.read(options), job: checkText("id", id) };
    const records = await this.#store.reports.list(filter);
    return records.map(readReport);
  }

  /** Follows a job's reports. See `job.watch()`. */
  watch(id: string, options: WatchOptions = {}): AsyncGenerator<WatchEntry, void, undefined> {
    return this.#watches.of(id, options);
  }

  /** Effects that may or may not have happened. Their jobs wait for an operator. */
  effectsInDoubt(
    options: {
      /** The length of the list. Default 50, at most 1,000. */
      readonly limit?: number;
    } = {},
  ): Promise<EffectInDoubt[]> {
    return this.#store.steps.effectsInDoubt(pageOptions.read(options));
  }

  /** States whether an effect in doubt happened. Its job continues with the given result, or runs the effect. */
  async resolve(
    { job, name, occurrence }: Pick<EffectInDoubt, "job" | "name" | "occurrence">,
    happened:
      | {
          /** It happened, and is not done again. */
          readonly done: true;
          /** What `ctx.effect()` returns in the next attempt. Default: nothing. */
          readonly result?: unknown;
        }
      | {
          /** It did not happen: the next attempt does it. */
          readonly done: false;
        },
    options: OperatorOptions = {},
  ): Promise<void> {
    const operator = anyOperator(operatorOptions.read(options), this.#newId);
    const result = happened.done ? encodeOptional(happened.result, RESULT) : null;
    const step = { job: checkText("job", job), name: checkName("name", name), occurrence };
    const outcome = { happened: happened.done ? { result } : null };
    if (await this.#store.steps.resolveEffect({ ...step, ...operator, ...outcome })) return;
    if ((await this.#store.jobs.find(job)) === null) throw new JobNotFoundError({ id: job });
    throw new EffectNotFoundError({ id: job, name, occurrence, inDoubt: [] });
  }

  /** A page of jobs, newest first. Pass the last id of one page as `before` to get the next. */
  async list(filter: JobListFilter = {}): Promise<JobSummary[]> {
    return (await this.#store.jobs.list(checkListed(filter))).map(summaryOf);
  }

  /** How many jobs match. It looks at all jobs that the filter's indexes leave, which takes a second for some millions. */
  async count(filter: JobFilter = {}): Promise<number> {
    return (await this.#store.jobs.count(filter, { examine: Number.MAX_SAFE_INTEGER })).count;
  }

  /** @internal A page in bounded time: it may be short, or empty, and say where the next begins. */
  async page(filter: JobFilter, options: Parameters<JobsStore["page"]>[1]) {
    const { jobs, ...rest } = await this.#store.jobs.page(filter, options);
    return { jobs: jobs.map(summaryOf), ...rest };
  }

  /** @internal A count in bounded time. */
  countSome(filter: JobFilter, options: Parameters<JobsStore["count"]>[1]) {
    return this.#store.jobs.count(filter, options);
  }

  /** @internal The filter of an address, of flags or of words. Only spans need the database's clock. */
  async readFilter(given: readonly (readonly [string, string])[]): Promise<CheckedFilter> {
    const isTimed = given.some(([name]) => /(?:Since|Until)$/.test(name));
    return readFilter(given, isTimed ? await this.#store.jobs.now() : 0);
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
   * Makes a failed, cancelled or expired job pending again, with `attempts` more attempts, and with another input if one is
   * given. It keeps its id, its completed steps and its place in flows. With an `actor` it is audited. A job that failed because a called job failed would fail again at once: that is refused with CALLED_FAILED, unless the called jobs
   * are retried too (`withCalled: true`) or left as they are (`false`). Returns the ids of the retried called jobs.
   */
  async retry(
    id: string,
    options: RetryJobOptions & OperatorOptions = {},
    /** The id of the audit entry: a second call with the same id changes nothing. Default: a new id. */
    once?: string,
  ): Promise<string[]> {
    const { attempts, withCalled } = retryOptions.read(options);
    checkText("id", id);
    operatorOf(options, this.#newId); // wrong options are refused before anything is done
    const payload = "input" in options ? await checkedPayload(options) : undefined;
    const called = await calledFirst(this.#store, id, withCalled);
    for (const one of called) {
      await this.#store.jobs.retry(one, attempts, operatorOf(options, this.#newId));
    }
    const who = payload === undefined ? operatorOf : anyOperator;
    await this.#store.jobs.retry(id, attempts, who(options, this.#idOr(once)), payload);
    return called;
  }

  /** What would run again, and what would not, if the job ran again from this step. Changes nothing. */
  async planRerun(id: string, { from }: Pick<RerunOptions, "from">): Promise<RerunPlan> {
    const plan = await this.#store.steps.planRerun(checkText("id", id), stepName("from", from));
    if (plan === null) throw new JobNotFoundError({ id });
    return plan;
  }

  /**
   * Makes an ended job pending again from one of its steps: those before it keep their results, that step and those after it
   * run again. Effects, commits and calls among these must be confirmed by name, or it is refused with RERUN_UNCONFIRMED.
   * Always audited.
   */
  async rerun(
    id: string,
    options: RerunOptions & OperatorOptions,
    /** As of `retry`. */
    once?: string,
  ): Promise<void> {
    const { from, confirm, attempts } = rerunOptions.read(options);
    await this.#store.steps.rerun({
      job: checkText("id", id),
      from,
      confirm,
      attempts,
      payload: "input" in options ? await checkedPayload({ input: options.input }) : null,
      operator: anyOperator(options, this.#idOr(once)),
    });
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
    const operator = operatorOf(operatorOptions.read(options), this.#idOr(once));
    const status = await this.#store.jobs.cancel(checkText("id", id), operator);
    if (status === null) throw new JobNotFoundError({ id });
    return status;
  }

  /**
   * Runs a job as soon as a worker has a free slot: one that is scheduled, waits for its next attempt, or is pending. It goes
   * first in its lane, also while its queue is paused; then for one attempt. Limits and rates hold. Always audited.
   */
  async runNow(
    id: string,
    options: OperatorOptions = {},
    /** As of `retry`. */
    once?: string,
  ): Promise<void> {
    const operator = anyOperator(operatorOptions.read(options), this.#idOr(once));
    await this.#store.jobs.runNow(checkText("id", id), operator);
  }

  /**
   * Changes a job that no worker holds: its input, priority, time or queue. It keeps its key and its lane. A job that waits
   * for an event, a timer of its task or another job cannot be given a time. Always audited. Returns its status afterwards.
   */
  async edit(
    id: string,
    options: EditOptions & OperatorOptions,
    /** As of `retry`. */
    once?: string,
  ): Promise<Status> {
    const { priority, queue, delayMs, runAt } = editOptions.read(options);
    checkText("id", id);
    if (EDITABLE.every((field) => options[field] === undefined && !(field in options))) {
      throw invalid("options", `name what to change: ${EDITABLE.join(", ")}.`);
    }
    const operator = anyOperator(options, this.#idOr(once));
    const hasTime = delayMs !== undefined || runAt !== undefined;
    const terms = {
      ...("input" in options ? { payload: await checkedPayload(options) } : {}),
      ...(priority === undefined ? {} : { priority }),
      ...(queue === undefined ? {} : { queue }),
      ...(hasTime ? { start: startOf({ delayMs, runAt }) } : {}),
    };
    return this.#store.jobs.edit(id, terms, operator);
  }

  /** Deletes a job that has ended, with its attempts, steps and reports. Always audited. */
  async delete(
    id: string,
    options: OperatorOptions = {},
    /** As of `retry`. */
    once?: string,
  ): Promise<void> {
    const operator = anyOperator(operatorOptions.read(options), this.#idOr(once));
    await this.#store.jobs.delete(checkText("id", id), operator);
  }

  /**
   * Enqueues a new job like one that has ended: with its task, queue, priority, lane, attempts, tags and input, or with
   * another input. It runs at once and by itself: without the key, flow, workflow or schedule of the old job. The tag
   * `replay-of:<id>` leads back to that. Always audited.
   */
  async replay(
    id: string,
    options: ReplayOptions & OperatorOptions = {},
    /** The ids of the new job and of the audit entry. Default: new ids. */
    ids?: readonly [job: string, entry: string],
  ): Promise<Job<unknown>> {
    replayOptions.read(options);
    checkText("id", id);
    const operator = anyOperator(options, this.#idOr(ids?.[1]));
    const payload = "input" in options ? { payload: await checkedPayload(options) } : {};
    const newId = ids?.[0] ?? this.#newId();
    const task = await this.#store.jobs.replay({ id, newId, ...payload }, operator);
    return new Job({ id: newId, task, added: true, jobs: this });
  }

  #idOr(once: string | undefined): () => string {
    return once === undefined ? this.#newId : () => once;
  }
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
  /** The id of the job. */
  readonly id: string;
  /** The name of its task. */
  readonly task: string;
  /** False: another job held the key already, and this is that job. */
  readonly added: boolean;
  readonly #jobs: Jobs;

  /** @internal Applications get it from a Holdfast. */
  constructor(parts: { id: string; task: string; added: boolean; jobs: Jobs }) {
    this.id = parts.id;
    this.task = parts.task;
    this.added = parts.added;
    this.#jobs = parts.jobs;
  }

  /**
   * Waits until the job is done and returns its result. Throws JobFailedError, JobCancelledError, or ResultTimeoutError
   * when the timeout expires; the job itself continues then.
   *
   * @example
   * ```ts
   * const receipt = await job.result({ timeout: "30s" });
   * ```
   */
  result(
    options: {
      /** How long to wait before ResultTimeoutError is thrown. Default: no limit. */
      readonly timeout?: Duration;
    } = {},
  ): Promise<Result> {
    return this.#jobs.result(this.id, options) as Promise<Result>;
  }

  /** Returns status, input, result and last error. */
  async get(): Promise<JobView> {
    const job = await this.#jobs.get(this.id);
    if (job === null) throw new JobNotFoundError({ id: this.id });
    return job;
  }

  /** See `jobs.explain()`. */
  explain(): Promise<Explanation> {
    return this.#jobs.explain(this.id);
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

export async function attemptsOf(
  jobs: JobsStore,
  id: string,
  page: AttemptsPage = {},
): Promise<AttemptView[]> {
  const records = await jobs.attempts(id, page);
  return records.map((record) => ({
    ...record,
    traceId: traceId({ ...record, id }),
    error: record.error === null ? null : decodeError(record.error),
  }));
}
