/** The verbs of bulk actions. Commands that start one by a filter and follow it are in command.ts. */
import type { Redaction } from "../config/redaction.ts";
import { invalid } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import { textOf } from "../core/job-query.ts";
import { systemRuntime } from "../core/runtime.ts";
import { attempts, filterValues, priority } from "../jobs/shapes.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, plain, right } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import { count, counted, facts, printable, relative } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { BulkActions } from "./bulk.ts";
import { PREVIEW_MINUTES, previewBulk, type PreviewParts, startPreviewed } from "./preview.ts";
import { type BulkAction, bulkActions, type BulkFilter, type BulkRequest } from "./request.ts";
import { BulkNotFoundError, type BulkRecord, bulkStatuses } from "./store.ts";

export interface BulkApp extends PreviewParts {
  readonly bulk: BulkActions;
  readonly redaction: Redaction;
  /** Wakes the process that carries it out. A command carries its action out itself. */
  readonly wake?: () => void;
}

const operation = operationsOf<BulkApp>("bulk");

const PAGE = 50;

const all = s.boolean().optional().about("Required if no other field is given.");

const filter = s
  .strict({ ...filterValues, all })
  .named("BulkFilter", "A job must match all given fields.");

const what = { action: s.choice(bulkActions), filter };

const terms = {
  attempts: attempts.optional().about("Retry: additional attempts. Default: 3."),
  withCalled: s
    .boolean()
    .optional()
    .about("Retry: whether to also retry called jobs whose failure caused a job to fail."),
  queue: s.name.optional().about("Move: the new queue."),
  priority: priority.optional().about("Priority: the new priority."),
};

const dryRun = s.boolean().optional().about("Only count the matching jobs.");

const record = s
  .object({
    id: s.id,
    action: s.choice(bulkActions),
    filter,
    terms: s.object({
      attempts: s.count.optional(),
      withCalled: s.boolean().optional(),
      queue: s.text().optional(),
      priority: s.integer().optional(),
    }),
    dryRun: s.boolean(),
    actor: s.text(),
    reason: s.text().nullable(),
    status: s.choice(bulkStatuses),
    looked: s.count,
    matched: s.count,
    changed: s.count,
    refused: s.count,
    sample: s.list(s.id),
    refusals: s.list(s.object({ id: s.id, code: s.text(), message: s.text() })),
    error: s.text().nullable(),
    carrier: s.text().nullable(),
    createdAt: s.instant,
    changedAt: s.instant,
    endedAt: s.instant.nullable(),
  })
  .named(
    "BulkAction",
    "An action on all jobs that match a filter. Workers and servers carry it out in the background; the counts show its progress.",
  ) as s.Shape<BulkRecord>;

const ACTIONS: Columns<BulkRecord> = [
  plain("ID", ({ id }) => id),
  plain("ACTION", ({ action, dryRun: dry }) => (dry ? `${action} (dry run)` : action)),
  plain("STATUS", ({ status }) => status),
  right("STARTED", ({ createdAt }) => relative(createdAt, systemRuntime.now())),
  right("MATCHED", ({ matched }) => count(matched)),
  right("CHANGED", ({ changed }) => count(changed)),
  flexible("BY", ({ actor }) => actor),
  flexible("FILTER", (action) => textOf(action.filter)),
];

const typedId = {
  arguments: { id: "its id, or an unambiguous prefix" },
  ids: { id: wholeBulkId },
};

const startOperations = {
  start: operation({
    name: "startBulk",
    summary: "Retry, cancel, delete, move or reprioritize the jobs that match a filter",
    access: "operator",
    input: { ...what, dryRun, ...terms },
    isAudited: true,
    returns: "The stored action.",
    result: record,
    run: async (app, input, { by, ids: [id] }) => {
      const started = await app.bulk.start(requestOf(app, input), by, id);
      app.wake?.();
      return started;
    },
    http: {
      method: "POST",
      path: "/api/v1/bulk",
      status: 201,
      repeatable: true,
      location: ({ id }) => `/api/v1/bulk/${id}`,
    },
  }),

  preview: operation({
    name: "previewBulk",
    summary: "Count the jobs that a bulk action would change, and get a token that starts it",
    access: "operator",
    input: { ...what, ...terms },
    isAudited: true,
    returns: "The dry run. Its token starts the action.",
    result: s.object({ token: s.id, preview: record }),
    run: async (app, input, { by, ids: [token = ""] }) => {
      const preview = await previewBulk(app, requestOf(app, input), by, token);
      app.wake?.();
      return { token, preview };
    },
    http: {
      method: "POST",
      path: "/api/v1/bulk/preview",
      status: 201,
      repeatable: true,
      location: ({ token }) => `/api/v1/bulk/${token}`,
    },
    agent: `Count the jobs that a bulk action would change; it changes none. Look at matched and sample, then call startPreviewedBulk with the token within ${PREVIEW_MINUTES} minutes. While the status is running, call getBulk with the token as its id.`,
  }),

  startPreviewed: operation({
    name: "startPreviewedBulk",
    summary: "Start the bulk action of a preview, for the jobs that matched then",
    access: "operator",
    input: { token: s.id },
    isAudited: true,
    returns: "The stored action.",
    result: record,
    run: async (app, { token }, { by }) => {
      const started = await startPreviewed(app, token, by);
      app.wake?.();
      return started;
    },
    http: {
      method: "POST",
      path: "/api/v1/bulk/start",
      status: 201,
      problems: [404, 409],
      repeatable: true,
      location: ({ id }) => `/api/v1/bulk/${id}`,
    },
    agent:
      "Start the bulk action that previewBulk counted, by its token. Jobs that match since then are left alone. Follow it with getBulk.",
  }),
};

const readOperations = {
  list: operation({
    name: "listBulk",
    summary: "List bulk actions, newest first",
    access: "viewer",
    input: {
      status: s.choice(bulkStatuses).optional(),
      before: s.id.optional().about("`next` from the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "`next` is null on the last page.",
    result: s.object({ actions: s.list(record), next: s.id.nullable() }),
    run: async ({ bulk }, { limit = PAGE, ...page }) => {
      const actions = await bulk.list({ ...page, limit });
      return { actions, next: actions.length === limit ? (actions.at(-1)?.id ?? null) : null };
    },
    http: { method: "GET", path: "/api/v1/bulk" },
    cli: {
      command: "bulk list",
      flags: {
        status: { about: "only these" },
        before: { value: "<id>", about: "only actions older than this one (next page)" },
        limit: { about: "maximum number of actions", initial: 20 },
      },
      ids: { before: wholeBulkId },
      examples: ["bulk list"],
      show: listOf({
        rows: ({ actions }) => actions,
        columns: ACTIONS,
        none: "No bulk actions.",
      }),
    },
  }),

  get: operation({
    name: "getBulk",
    summary: "One bulk action with its progress",
    access: "viewer",
    input: { id: s.id },
    returns: "The action.",
    result: record,
    run: ({ bulk }, { id }) => bulk.get(id),
    http: { method: "GET", path: "/api/v1/bulk/{id}", problems: [404] },
    cli: {
      ...typedId,
      command: "bulk show",
      about: "show a bulk action and its progress",
      examples: ["bulk show 01890a5d"],
      show: factsOf,
    },
    agent: "How far a bulk action has come: how many jobs matched, were changed and were refused.",
  }),
};

const turn = {
  access: "operator",
  input: { id: s.id },
  isAudited: true,
  returns: "The action.",
  result: record,
} as const;

const turnOperations = {
  stop: operation({
    ...turn,
    name: "stopBulk",
    summary: "Stop a bulk action; jobs that it has changed stay changed",
    run: ({ bulk }, { id }, { by, ids: [once] }) => bulk.stop(id, by, once),
    http: { method: "POST", path: "/api/v1/bulk/{id}/stop", problems: [404], repeatable: true },
    cli: {
      ...typedId,
      command: "bulk stop",
      about: "stop a bulk action",
      examples: ["bulk stop 01890a5d --reason 'wrong filter'"],
      show: factsOf,
    },
  }),

  resume: operation({
    ...turn,
    name: "resumeBulk",
    summary: "Resume a bulk action that was stopped or failed",
    run: async ({ bulk, wake }, { id }, { by, ids: [once] }) => {
      const resumed = await bulk.resume(id, by, once);
      wake?.();
      return resumed;
    },
    http: {
      method: "POST",
      path: "/api/v1/bulk/{id}/resume",
      problems: [404, 409],
      repeatable: true,
    },
  }),
};

export const bulkOperations = { ...startOperations, ...readOperations, ...turnOperations };

/** `checkRequest` tells which terms the action has. */
function requestOf({ redaction }: BulkApp, input: object): BulkRequest {
  const asked = input as BulkRequest;
  refuseHidden(redaction, asked.filter);
  return asked;
}

/** A count of the jobs whose inputs have a text would tell what is hidden in them. */
function refuseHidden({ isEmpty }: Redaction, { input }: BulkFilter): void {
  if (isEmpty || input === undefined) return;
  const problem =
    "cannot be used here, because inputs are redacted. List the jobs, and pass their ids.";
  throw invalid("filter.input", problem);
}

const PREFIX_PAGE = 1_000;

export function wholeBulkId({ bulk }: Pick<BulkApp, "bulk">, typed: string): Promise<string> {
  if (isId(typed)) return Promise.resolve(typed);
  return wholeId(typed, {
    what: "bulk action",
    find: async (prefix, limit) => {
      const found = await bulk.list({ limit: PREFIX_PAGE });
      const fitting = found.filter(({ id }) => id.startsWith(prefix.toLowerCase()));
      return fitting
        .slice(0, limit)
        .map(({ id, action, status }) => ({ id, about: `${status} ${action}` }));
    },
    notFound: (id) => new BulkNotFoundError({ id }),
  });
}

function factsOf(action: BulkRecord, { terminal }: { readonly terminal: Terminal }): string[] {
  const now = systemRuntime.now();
  const { colors } = terminal;
  const lines = facts(colors, {
    status: action.status,
    filter: textOf(action.filter),
    queue: action.terms.queue ?? null,
    priority: action.terms.priority === undefined ? null : String(action.terms.priority),
    by: `${action.actor}${action.reason === null ? "" : `: ${action.reason}`}`,
    started: relative(action.createdAt, now),
    changed: relative(action.changedAt, now),
    checked: count(action.looked),
    error: action.error,
  });
  return [
    `${colors.bold(action.action)} ${action.id}`,
    ...lines,
    sentenceOf(action),
    ...action.refusals.map(({ id, message }) => printable(`  ${id}: ${message}`)),
  ];
}

const DONE: Readonly<Record<BulkAction, string>> = {
  retry: "Retried",
  cancel: "Cancelled",
  delete: "Deleted",
  move: "Moved",
  priority: "Reprioritised",
};

export function sentenceOf({ action, dryRun: dry, matched, changed }: BulkRecord): string {
  if (dry) return `${counted(matched, "job")} would be ${DONE[action].toLowerCase()}.`;
  const others = matched - changed;
  const rest =
    others === 0 ? "" : ` ${counted(others, "job")} could not be, or had changed in the meantime.`;
  return `${DONE[action]} ${counted(changed, "job")}.${rest}`;
}
