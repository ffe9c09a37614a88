/** What a bulk action does, and to which jobs. */
import { invalid } from "../core/errors.ts";
import { finalStatuses, operatorActions, type Status } from "../core/job.ts";
import { jobFieldNames } from "../core/job-query.ts";
import { checkQueue } from "../core/name.ts";
import { by, checkBoolean, needed, optionsOf, passed, whole, yes } from "../core/options.ts";
import { ATTEMPTS_MAX, retryPolicy } from "../core/retry.ts";
import { PRIORITY_MAX } from "../jobs/after.ts";
import { type CheckedFilter, checkFilter, type JobFilter } from "../jobs/filter.ts";

export const bulkActions = ["retry", "cancel", "delete", "move", "priority"] as const;

/** What a bulk action does to its jobs. */
export type BulkAction = (typeof bulkActions)[number];

/** Which jobs a bulk action changes: those that `jobs.list()` of the same filter returns, if the action can change them. */
export interface BulkFilter extends JobFilter {
  /** All eligible jobs: required if no other field is given. */
  readonly all?: boolean;
}

/** What a bulk action sets, such as a queue or a priority. */
export interface BulkTerms {
  /** Retry: additional attempts. */
  readonly attempts?: number;
  /** Retry: whether to also retry called jobs whose failure caused a job to fail. */
  readonly withCalled?: boolean;
  /** Move: the new queue. */
  readonly queue?: string;
  /** The new priority. */
  readonly priority?: number;
}

/** A bulk action: what to do with which jobs. */
export type BulkRequest = {
  /** Which jobs. */
  readonly filter: BulkFilter;
  /** Only counts the matching jobs. */
  readonly dryRun?: boolean;
} & (
  | ({
      /** Makes them pending again. */
      readonly action: "retry";
    } & Pick<BulkTerms, "attempts" | "withCalled">)
  | {
      /** Cancels or deletes them. */
      readonly action: "cancel" | "delete";
    }
  | {
      /** Moves them to another queue. */
      readonly action: "move";
      /** The queue that they move to. */
      readonly queue: string;
    }
  | {
      /** Changes their priority. */
      readonly action: "priority";
      /** Their new priority; a higher number goes first. */
      readonly priority: number;
    }
);

/** What an action can change. */
const CHANGES: Readonly<Record<BulkAction, readonly Status[]>> = {
  retry: operatorActions.retry,
  cancel: operatorActions.cancel,
  delete: operatorActions.delete,
  move: operatorActions.edit,
  priority: operatorActions.edit,
};

/** Without a wanted status; to delete, one must be given. */
const DEFAULTS: Readonly<Record<BulkAction, readonly Status[]>> = {
  ...CHANGES,
  retry: ["failed"],
  delete: [],
};

const DONE: Readonly<Record<BulkAction, string>> = {
  retry: "retried",
  cancel: "cancelled",
  delete: "deleted",
  move: "moved",
  priority: "given another priority",
};

/** A checked filter, as it is stored. */
export interface StoredFilter extends CheckedFilter {
  /** It may match every job. */
  readonly all?: boolean;
}

export interface CheckedRequest {
  readonly action: BulkAction;
  readonly filter: StoredFilter;
  readonly terms: BulkTerms;
  readonly dryRun: boolean;
}

type RequestOf<Action> = Extract<BulkRequest, { readonly action: Action }>;

const common = {
  action: passed<BulkAction>(),
  filter: needed(by((_field, given: BulkFilter) => checkBulkFilter(given))),
  dryRun: yes(false),
};

const alone = optionsOf<RequestOf<"cancel" | "delete">>()(common);

const requests = {
  retry: optionsOf<RequestOf<"retry">>()({
    ...common,
    attempts: whole(1, ATTEMPTS_MAX, retryPolicy().maxAttempts),
    withCalled: by(checkBoolean),
  }),
  cancel: alone,
  delete: alone,
  move: optionsOf<RequestOf<"move">>()({ ...common, queue: needed(by(checkQueue)) }),
  priority: optionsOf<RequestOf<"priority">>()({
    ...common,
    priority: needed(whole(-PRIORITY_MAX, PRIORITY_MAX)),
  }),
};

export function checkRequest(request: BulkRequest): CheckedRequest {
  const action = checkAction(request);
  const { action: _action, filter, dryRun, ...terms } = requests[action].read(request as never);
  statusesOf(action, filter);
  return { action, filter, terms, dryRun };
}

function checkBulkFilter(given: BulkFilter): StoredFilter {
  const { all = false, ...fields } = given ?? {};
  const checked = checkFilter(
    given === null || typeof given !== "object" ? given : fields,
    "filter",
  );
  if (checkBoolean("all", all)) return { ...checked, all };
  if (Object.keys(checked).length > 0) return checked;
  const problem = `name at least one of ${jobFieldNames.join(", ")}; or set all: true.`;
  throw invalid("filter", problem);
}

function checkAction(request: BulkRequest): BulkAction {
  const action = (request as Partial<BulkRequest> | null)?.action;
  if (action !== undefined && bulkActions.includes(action)) return action;
  throw invalid("action", `must be one of ${bulkActions.join(", ")}.`);
}

/** The statuses of the jobs that match. Throws if the action cannot change jobs of one of the wanted. */
export function statusesOf(action: BulkAction, { status }: CheckedFilter): readonly Status[] {
  if (action === "delete" && status === undefined) {
    throw invalid("status", `is required to delete jobs. Use ${finalStatuses.join(", ")}.`);
  }
  if (status === undefined) return DEFAULTS[action];
  const changeable = CHANGES[action];
  const wrong = status.find((one) => !changeable.includes(one));
  if (wrong === undefined) return status;
  throw invalid("status", `${wrong} jobs cannot be ${DONE[action]}. Use ${changeable.join(", ")}.`);
}

/**
 * The walks of an action over the jobs, one after the other. Unclaimed jobs run, and return to their queue, while the first walk
 * goes on: the second meets those.
 */
export type Walk = "first" | "returned";

export function walksOf(action: BulkAction): readonly Walk[] {
  return action === "move" || action === "priority" ? ["first", "returned"] : ["first"];
}
