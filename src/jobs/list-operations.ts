/** Lists and counts of jobs by the one filter. */
import type { Redaction } from "../config/redaction.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import type { CheckedFilter } from "./filter.ts";
import type { Jobs } from "./jobs.ts";
import { EXAMINE_MAX } from "./list.ts";
import { filterTexts, jobSummary, pairsOf } from "./shapes.ts";
import { isByEnd, isPosition, type Order, orders } from "./order.ts";
import { storedInput } from "./walk.ts";

const PAGE = 50;

/** Each may have 256 KiB. */
const INPUTS_MAX = 10;
const INPUTS = 3;

export interface ListApp {
  readonly jobs: Pick<Jobs, "page" | "countSome" | "get" | "readFilter">;
  readonly redaction: Redaction;
}

const operation = operationsOf<ListApp>("jobs");

const before = s
  .text({ pattern: /^([0-9]{1,15}[.])?[0-9a-f-]{36}$/ })
  .optional()
  .about("`next` from the previous page.");

const order = s
  .choice(orders)
  .optional()
  .about(
    "By when they were enqueued (the default) or ended, the last first. By their end only with statuses of `failed`, `cancelled` and `expired`.",
  );

const examine = s
  .integer({ min: 1, max: EXAMINE_MAX })
  .optional()
  .about("How many jobs to look at, at most.");

const looked = {
  examined: s.count.about("How many jobs were looked at."),
  isComplete: s.boolean().about("Whether all jobs were looked at."),
  next: s.id.nullable(),
};

const taskInput = s
  .object({
    id: s.id,
    key: s.text().nullable(),
    status: s.status,
    enqueuedAt: s.instant,
    input: s.anything(),
  })
  .named("TaskInput", "What a job of the task was enqueued with.");

export const listOperations = {
  list: operation({
    name: "listJobs",
    summary: "List the jobs that match a filter, newest first",
    access: "viewer",
    input: { ...filterTexts, order, before, limit: s.pageLimit.optional(), examine },
    returns:
      "Jobs without input and result. A page may have fewer jobs than its limit, or none, and still have a `next`: a request looks for a short time only. `next` is null on the last page.",
    result: s.object({ jobs: s.list(jobSummary), ...looked }),
    run: async (
      { jobs, redaction },
      { order: by, before: from, limit = PAGE, examine: most = EXAMINE_MAX, ...fields },
    ) => {
      const filter = await jobs.readFilter(pairsOf(fields));
      checkOrder(filter, by, from);
      const page = await jobs.page(filter, {
        order: by,
        before: from,
        limit,
        examine: most,
        shows: showsOf(filter, redaction),
      });
      return { ...page, isComplete: page.next === null };
    },
    http: { method: "GET", path: "/api/v1/jobs" },
    agent:
      "Jobs by status, queue, task, key, tag, error, input or time. Continue with `next` while `isComplete` is false.",
  }),

  count: operation({
    name: "countJobs",
    summary: "Count the jobs that match a filter",
    access: "viewer",
    input: {
      ...filterTexts,
      before,
      examine,
    },
    returns:
      "How many of the newest jobs match. If it is not complete, `next` is where another request goes on.",
    result: s.object({ count: s.count, ...looked }),
    run: async ({ jobs, redaction }, { before: from, examine: most = EXAMINE_MAX, ...fields }) => {
      const filter = await jobs.readFilter(pairsOf(fields));
      checkOrder(filter, "enqueued", from);
      const shows = showsOf(filter, redaction);
      const counted = await jobs.countSome(filter, { before: from, examine: most, shows });
      return { ...counted, isComplete: counted.next === null };
    },
    http: { method: "GET", path: "/api/v1/jobs/count" },
    agent: "How many jobs match a filter.",
  }),

  inputs: operation({
    name: "listTaskInputs",
    summary: "The inputs of the newest jobs of a task, as examples",
    access: "viewer",
    input: { task: s.name, before, limit: s.integer({ min: 1, max: INPUTS_MAX }).optional() },
    returns:
      "Newest first. Like a page of jobs, it may have fewer than its limit, or none, and still have a `next`.",
    result: s.object({ inputs: s.list(taskInput), ...looked }),
    run: async ({ jobs }, { task, before: from, limit = INPUTS }) => {
      const filter = await jobs.readFilter([["task", task]]);
      const { jobs: found, ...page } = await jobs.page(filter, { before: from, limit });
      const whole = await Promise.all(found.map(({ id }) => jobs.get(id)));
      const inputs = whole
        .filter((one) => one !== null)
        .map(({ id, key, status, enqueuedAt, input }) => ({ id, key, status, enqueuedAt, input }));
      return { inputs, ...page, isComplete: page.next === null };
    },
    http: { method: "GET", path: "/api/v1/tasks/{task}/inputs" },
    agent: "What the newest jobs of a task were enqueued with: look before you enqueue one.",
  }),
};

/** A position of one order is none of the other. */
function checkOrder(filter: CheckedFilter, by: Order = "enqueued", from?: string): void {
  if (by === "ended" && !isByEnd(filter)) {
    const problem = "by their end only with a status of failed, cancelled or expired.";
    throw new InvalidArgumentError({ field: "order", problem });
  }
  if (from !== undefined && !isPosition(by, from)) {
    const problem = "must be `next` of the page before, in the same order.";
    throw new InvalidArgumentError({ field: "before", problem });
  }
}

/**
 * With rules, the text is compared with inputs as they are shown. Neither a page, nor how far the request looked, nor how long
 * it took then depends on a value that is hidden: the database never compares it.
 */
function showsOf(
  { input }: CheckedFilter,
  redaction: Redaction,
): ((payload: string) => boolean) | undefined {
  if (input === undefined || redaction.isEmpty) return undefined;
  const part = storedInput(input).toLowerCase();
  return (payload) =>
    JSON.stringify(redaction.data(JSON.parse(payload)))
      .toLowerCase()
      .includes(part);
}
