/** What a job reads about the jobs that it waited for. */
import { decodeError, type ErrorRecord } from "../core/error-record.ts";
import { invalid, ResultNotStoredError } from "../core/errors.ts";
import type { Status } from "../core/job.ts";
import { decode, TooLargeError } from "../core/json.ts";
import type { Task } from "../core/task.ts";
import type { DependencyPolicy } from "../jobs/store.ts";
import type { DependencyRecord, FlowsStore } from "./store.ts";

/** Dependencies that are read in one query. */
const DEPENDENCIES_PAGE = 200;

/** Results that are returned as one list. */
const RESULTS_BYTES_MAX = 64 * 1024 * 1024;

/** A job that another one waits or waited for. */
export interface DependencyView {
  /** The id of the job. */
  readonly id: string;
  /** Its name within the flow; null: none. */
  readonly name: string | null;
  /** Null, like the status: its record was deleted. */
  readonly task: string | null;
  /** Its state now. */
  readonly status: Status | null;
  /** Undefined: it is not done, returned nothing, or its result could not be stored; then `error` says why. */
  readonly result: unknown;
  /** With the code RESULT_NOT_STORED, the job is done all the same. */
  readonly error: ErrorRecord | null;
  /** What happens if it fails. */
  readonly onFailed: DependencyPolicy;
  /** What happens if it is cancelled. */
  readonly onCancelled: DependencyPolicy;
}

// Declared here, because core/ does not know flows. The worker implements it.
declare module "../core/task.ts" {
  interface Context {
    /**
     * The results of those jobs of a task that this job waited for and that are done, in the order of its `after`. Throws
     * ResultNotStoredError (code RESULT_NOT_STORED) if one of them could not be stored; `dependencies()` does not.
     */
    results<Input, Result>(task: Task<Input, Result>): Promise<Result[]>;
    /** All jobs that this job waited for, one by one, with status, result and error. */
    dependencies(): AsyncGenerator<DependencyView, void, undefined>;
  }
}

export async function* dependenciesOfJob(
  flows: FlowsStore,
  job: string,
): AsyncGenerator<DependencyView, void, undefined> {
  for (let after = 0; ;) {
    const page = await flows.dependencies(job, { after, limit: DEPENDENCIES_PAGE });
    for (const record of page) yield viewOf(record);
    if (page.length < DEPENDENCIES_PAGE) return;
    after = page.at(-1)?.position ?? after;
  }
}

function viewOf({
  position: _position,
  result,
  error,
  ...record
}: DependencyRecord): DependencyView {
  return {
    ...record,
    result: result === null ? undefined : decode(result),
    error: error === null ? null : decodeError(error),
  };
}

/** The results of the done jobs of a task that a job waited for, in the order of its `after`. */
export async function resultsOf<Input, Result>(
  flows: FlowsStore,
  job: string,
  task: Task<Input, Result>,
): Promise<Result[]> {
  if (typeof task?.run !== "function") {
    throw invalid("task", "pass the task whose results you want, made with defineTask().");
  }
  const results: Result[] = [];
  let bytes = 0;
  for (let after = 0; ;) {
    const page = await flows.dependencies(job, { after, limit: DEPENDENCIES_PAGE });
    for (const record of page) {
      if (record.task !== task.name || record.status !== "done") continue;
      if (record.error !== null) {
        const problem = decodeError(record.error).message;
        throw new ResultNotStoredError({ id: record.id, task: task.name, problem });
      }
      bytes += record.result?.length ?? 0;
      if (bytes > RESULTS_BYTES_MAX) {
        const what = `results of '${task.name}' together; read them one by one with ctx.dependencies()`;
        throw new TooLargeError({ what, bytes, bytesMax: RESULTS_BYTES_MAX });
      }
      results.push((record.result === null ? undefined : decode(record.result)) as Result);
    }
    if (page.length < DEPENDENCIES_PAGE) return results;
    after = page.at(-1)?.position ?? after;
  }
}
