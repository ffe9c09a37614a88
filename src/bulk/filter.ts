/** What a bulk action does, and to which jobs. */
import type { ErrorRecord } from "../core/error-record.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import {
  type FinalStatus,
  finalStatuses,
  home,
  moves,
  type Status,
  statuses,
} from "../core/job.ts";
import { checkKey, checkName, checkQueue, checkTaskName, isReserved } from "../core/name.ts";
import { checkBoolean, checkKnown, checkList, checkText, checkWhole } from "../core/options.ts";
import { ATTEMPTS_MAX, retryPolicy } from "../core/retry.ts";
import { PRIORITY_MAX } from "../jobs/start.ts";
import { checkTags, isOfTask } from "../jobs/list.ts";

export const bulkActions = ["retry", "cancel", "delete", "move", "priority"] as const;

/** What a bulk action does to its jobs. */
export type BulkAction = (typeof bulkActions)[number];

/** A job must match all given fields. */
export interface BulkFilter {
  /**
   * To retry: `failed` (the default) or another final status but `done`. To delete: a final status, which must be given.
   * To cancel, move or change the priority: any unfinished status; the default is all that the action can change.
   */
  readonly status?: Status;
  /** Jobs of this queue. */
  readonly queue?: string;
  /** A name without a version matches all versions. */
  readonly task?: string;
  /** The key that the job was enqueued with. */
  readonly key?: string;
  /** The job has all of these tags. */
  readonly tags?: readonly string[];
  /** One of these jobs, at most 1,000. */
  readonly ids?: readonly string[];
  /** It ran or runs on this worker. */
  readonly worker?: string;
  /** It ran or runs on a worker of this build. */
  readonly build?: string;
  /** Only jobs that ended (or, if not ended, were enqueued) at or after this time. */
  readonly since?: number | Date;
  /** Before this time. */
  readonly until?: number | Date;
  /** Part of the last error's name or message, case-insensitive. */
  readonly error?: string;
  /** The code or name of the last error. */
  readonly code?: string;
  /** All eligible jobs: required if no other field is given. */
  readonly all?: boolean;
}

/** A filter as it is stored: instants are milliseconds. */
export interface StoredFilter extends Omit<BulkFilter, "since" | "until"> {
  /** Enqueued at this instant or later. */
  readonly since?: number;
  /** Enqueued before this instant. */
  readonly until?: number;
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

export const ERROR_LENGTH_MAX = 1_000;

export const IDS_MAX = 1_000;

const FILTERS = "status queue task key tags ids worker build since until error code all".split(" ");

const OF_ACTION: Readonly<Record<BulkAction, readonly string[]>> = {
  retry: ["attempts", "withCalled"],
  cancel: [],
  delete: [],
  move: ["queue"],
  priority: ["priority"],
};

/** Jobs are looked up in the one table that holds their state; ended ones by their status, which has an index. */
export type TableWalk = FinalStatus | "waiting" | "pending" | "processing";

/**
 * Jobs pass between tables while an action walks: `unfinished` and `unclaimed` look into several tables in one statement, so
 * no job slips past. `returned` is the second walk over unclaimed jobs: it meets those that ran during the first.
 */
export type Walk = TableWalk | "unfinished" | "unclaimed" | "returned";

/** A job that was looked at. */
export interface Looked {
  readonly id: string;
  readonly queue: string;
  readonly task: string;
  readonly status: Status;
  /** When it ended, or, if it has not, when it was enqueued. */
  readonly at: number;
  /** Of the latest failed attempt. */
  readonly error: ErrorRecord | null;
}

const UNCLAIMED: readonly Status[] = ["scheduled", "retry", "waiting", "pending"];

/** What an action can change. */
const CHANGES: Readonly<Record<BulkAction, readonly Status[]>> = {
  retry: moves.reopen.from,
  cancel: [...UNCLAIMED, "processing"],
  delete: finalStatuses,
  move: UNCLAIMED,
  priority: UNCLAIMED,
};

/** Without a wanted status. */
const WALKS: Readonly<Record<BulkAction, readonly Walk[]>> = {
  retry: ["failed"],
  cancel: ["unfinished"],
  delete: [],
  move: ["unclaimed", "returned"],
  priority: ["unclaimed", "returned"],
};

const DONE: Readonly<Record<BulkAction, string>> = {
  retry: "retried",
  cancel: "cancelled",
  delete: "deleted",
  move: "moved",
  priority: "given another priority",
};

export interface CheckedRequest {
  readonly action: BulkAction;
  readonly filter: StoredFilter;
  readonly terms: BulkTerms;
  readonly dryRun: boolean;
}

export function checkRequest(request: BulkRequest): CheckedRequest {
  const action = checkAction(request);
  checkKnown(request, new Set(["action", "filter", "dryRun", ...OF_ACTION[action]]));
  const filter = checkFilter(request.filter);
  walksOf(action, filter);
  return {
    action,
    filter,
    terms: termsOf(request),
    dryRun: request.dryRun === undefined ? false : checkBoolean("dryRun", request.dryRun),
  };
}

function checkAction(request: BulkRequest): BulkAction {
  const action = (request as Partial<BulkRequest> | null)?.action;
  if (action !== undefined && bulkActions.includes(action)) return action;
  const problem = `must be one of ${bulkActions.join(", ")}.`;
  throw new InvalidArgumentError({ field: "action", problem });
}

function termsOf(request: BulkRequest): BulkTerms {
  switch (request.action) {
    case "retry": {
      const { attempts = retryPolicy().maxAttempts, withCalled } = request;
      checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX });
      if (withCalled === undefined) return { attempts };
      return { attempts, withCalled: checkBoolean("withCalled", withCalled) };
    }
    case "move":
      return { queue: checkQueue("queue", request.queue) };
    case "priority": {
      const range = { least: -PRIORITY_MAX, most: PRIORITY_MAX };
      return { priority: checkWhole("priority", request.priority, range) };
    }
    default:
      return {};
  }
}

function checkFilter(filter: BulkFilter): StoredFilter {
  checkKnown(filter, new Set(FILTERS), { field: "filter", example: '{ task: "mail.send" }' });
  const { status, queue, task, key, tags, ids, worker, build } = filter;
  const { since, until, error, code, all } = filter;
  if (status !== undefined && !statuses.includes(status)) {
    const problem = `'${status as string}' is not a status. The statuses are: ${statuses.join(", ")}.`;
    throw new InvalidArgumentError({ field: "status", problem });
  }
  if (queue !== undefined) checkName("queue", queue);
  if (task !== undefined) checkTaskName("task", task);
  if (key !== undefined) checkKey("key", key);
  if (worker !== undefined) checkKey("worker", worker);
  if (build !== undefined) checkName("build", build);
  if (all !== undefined) checkBoolean("all", all);
  for (const [field, text] of Object.entries({ error, code })) {
    if (text !== undefined) checkErrorText(field, text);
  }
  const checked = {
    status,
    queue,
    task,
    key,
    worker,
    build,
    error,
    code,
    all,
    tags: tags === undefined ? undefined : checkTags("tags", tags),
    ids: ids === undefined ? undefined : checkIds(ids),
    since: since === undefined ? undefined : checkInstant("since", since),
    until: until === undefined ? undefined : checkInstant("until", until),
  };
  const given = Object.entries(checked).filter(([, value]) => value !== undefined);
  if (given.every(([, value]) => value === false)) {
    const problem = `name at least one of ${FILTERS.slice(0, -1).join(", ")}; or set all: true.`;
    throw new InvalidArgumentError({ field: "filter", problem });
  }
  return Object.fromEntries(given);
}

function checkErrorText(field: string, text: string): void {
  if (checkText(field, text).length <= ERROR_LENGTH_MAX) return;
  const problem = `has more than ${ERROR_LENGTH_MAX} characters.`;
  throw new InvalidArgumentError({ field, problem });
}

function checkInstant(field: string, instant: number | Date): number {
  const at = Number(instant);
  if (Number.isFinite(at)) return at;
  const problem = "must be a Date or milliseconds since 1970.";
  throw new InvalidArgumentError({ field, problem });
}

/** Newest first, as they are looked at. */
function checkIds(ids: readonly string[]): readonly string[] {
  const known = [...new Set(checkList("ids", ids))];
  const wrong = known.findIndex((id) => typeof id !== "string" || !isId(id));
  if (wrong >= 0) {
    const problem = "is not the id of a job. Pass full ids.";
    throw new InvalidArgumentError({ field: `ids[${wrong}]`, problem });
  }
  if (known.length > IDS_MAX) {
    const problem = `has ${known.length} ids; at most ${IDS_MAX} are allowed.`;
    throw new InvalidArgumentError({ field: "ids", problem });
  }
  return known.toSorted().toReversed();
}

/** The walks of an action, one after the other. Throws if the action cannot change jobs of the wanted status. */
export function walksOf(action: BulkAction, { status }: StoredFilter): readonly Walk[] {
  if (action === "delete" && status === undefined) {
    const problem = `is required to delete jobs. Use ${finalStatuses.join(", ")}.`;
    throw new InvalidArgumentError({ field: "status", problem });
  }
  const changeable = CHANGES[action];
  if (status === undefined) return WALKS[action];
  if (changeable.includes(status)) return [walkOf(status), ...WALKS[action].slice(1)];
  const problem = `${status} jobs cannot be ${DONE[action]}. Use ${changeable.join(", ")}.`;
  throw new InvalidArgumentError({ field: "status", problem });
}

function walkOf(status: Status): TableWalk {
  return home[status] === "waiting" ? "waiting" : (status as TableWalk);
}

export function fits(job: Looked, filter: StoredFilter): boolean {
  const { status, queue, task, key, ids, since, until, error, code } = filter;
  // Holdfast's internal jobs match only if their queue, their task, their key or they themselves are named.
  const isGeneral = [queue, task, key, ids].every((one) => one === undefined);
  return (
    (status === undefined || job.status === status) &&
    (queue === undefined || job.queue === queue) &&
    !(isGeneral && isReserved(job.queue)) &&
    (task === undefined || isOfTask(job.task, task)) &&
    (since === undefined || job.at >= since) &&
    (until === undefined || job.at < until) &&
    (error === undefined || errorText(job).includes(error.toLowerCase())) &&
    (code === undefined || job.error?.code === code || job.error?.name === code)
  );
}

function errorText({ error }: Looked): string {
  return error === null ? "" : `${error.name}: ${error.message}`.toLowerCase();
}
