/** When a job starts: the options of one that waits for the ends of other jobs, its time, and its priority. */
import { invalid } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import { checkList, choice, passed } from "../core/options.ts";
import {
  type Dependency,
  dependencyPolicies,
  type DependencyPolicy,
  type Member,
  type NewJob,
} from "./store.ts";

/** The jobs that a job waits for, and what happens if one of them fails. */
export interface AfterOptions {
  /** Jobs, or their ids, that must end first. A `delay` counts from the end of the last one. */
  readonly after?: readonly After[];
  /** What happens if one of these fails. `fail` (the default) and `cancel`: this job ends so too. `ignore`: it runs. */
  readonly onFailed?: DependencyPolicy;
  /** The same if one of these is cancelled. Default `cancel`. */
  readonly onCancelled?: DependencyPolicy;
}

/** A job to wait for. With a policy, it counts for this one instead of the policy of the options. */
export type After =
  | string
  | {
      /** The id of a job, or the job that `enqueue` returned. */
      readonly id: string;
    }
  | {
      /** The job, or its id. */
      readonly job:
        | string
        | {
            /** Its id. */
            readonly id: string;
          };
      /** What happens if that job fails. Default: as in the options. */
      readonly onFailed?: DependencyPolicy;
      /** What happens if that job is cancelled. Default: as in the options. */
      readonly onCancelled?: DependencyPolicy;
    };

/** The most jobs that one job waits for. */
export const AFTER_MAX = 20_000;

const policy = choice(dependencyPolicies);

/** The jobs themselves are checked with the policies: see memberOf. */
export const afterFields = {
  after: passed<readonly After[]>(),
  onFailed: policy,
  onCancelled: policy,
};

export function memberOf(options: AfterOptions): { member?: Member } {
  const { after, onFailed, onCancelled } = options;
  if (after !== undefined) {
    const member = { flow: null, name: null, before: [] };
    return { member: { ...member, after: dependenciesOf("after", after, options) } };
  }
  if (onFailed === undefined && onCancelled === undefined) return {};
  const field = onFailed === undefined ? "onCancelled" : "onFailed";
  throw invalid(field, "requires `after`.");
}

/** Checks a list of jobs to wait for. */
export function dependenciesOf(
  field: string,
  jobs: readonly After[],
  policies: Omit<AfterOptions, "after">,
): Dependency[] {
  if (checkList(field, jobs).length > AFTER_MAX) {
    const problem = `has ${jobs.length} jobs; at most ${AFTER_MAX} are allowed.`;
    throw invalid(field, problem);
  }
  const dependencies = jobs.map((one, index): Dependency => {
    const given = typeof one === "object" && one !== null && "job" in one ? one : { job: one };
    const id = typeof given.job === "string" ? given.job : given.job?.id;
    if (typeof id !== "string" || !isId(id)) {
      throw invalid(`${field}[${index}]`, "pass a job or the id of one.");
    }
    const { onFailed = policies.onFailed, onCancelled = policies.onCancelled } =
      given as AfterOptions;
    return {
      id,
      onFailed: policy.check("onFailed", onFailed ?? "fail"),
      onCancelled: policy.check("onCancelled", onCancelled ?? "cancel"),
    };
  });
  return [...new Map(dependencies.map((dependency) => [dependency.id, dependency])).values()];
}

// When a job starts, and before which others: the same for a new job and for one that is changed.

export const PRIORITY_MAX = 32_767;

/** Null: at once. */
export function startOf({
  delayMs,
  runAt,
}: {
  readonly delayMs?: number | undefined;
  readonly runAt?: number | undefined;
}): NewJob["start"] {
  if (delayMs !== undefined && runAt !== undefined) {
    throw invalid("delay", "pass delay or runAt, not both.");
  }
  if (runAt !== undefined) return { at: runAt };
  return delayMs === undefined || delayMs === 0 ? null : { delayMs };
}
