/** `holdfast items`: what the database has of an item, with its hashes and its jobs, without the workflow's code. */
import { auditLine } from "../audit/operations.ts";
import { formatMs } from "../core/duration.ts";
import { isId, shortIds } from "../core/id.ts";
import type { ChildrenIn } from "../core/item.ts";
import { checkWhole } from "../core/options.ts";
import { systemRuntime } from "../core/runtime.ts";
import { knownNames } from "../core/text.ts";
import { attempt as attemptShape } from "../jobs/shapes.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, plain, right, tableOf } from "../operations/show.ts";
import { wholeId } from "../terminal/ids.ts";
import {
  type Cell,
  counted,
  dataJson,
  facts,
  moment,
  printable,
  relative,
} from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { BadUsageError } from "../terminal/usage.ts";
import { ItemNotFoundError } from "./errors.ts";
import type { HistoryEntry } from "./history.ts";
import type { ItemJob, StoredItem } from "./item-record.ts";
import {
  childrenIn,
  itemFields,
  itemLine,
  readable,
  workflowOperation,
  type WorkflowsApp,
} from "./operations.ts";

type App = Pick<WorkflowsApp, "store">;

/** Fits a screen. */
const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 1_000;
const HISTORY_DEFAULT = 50;
const WORKFLOWS_LISTED_MAX = 200;

/** Shorter waits for a lock are not shown. */
const WAIT_SHOWN_MS = 1;

const rowFields = { ...itemFields, depth: s.count, auditSeq: s.count, auditHash: s.text() };

/** Its type is wider: the cause of an error is anything there. */
const trailEntry = s.variants<object>(
  "kind",
  s.object({ at: s.instant, kind: s.constant("line"), line: itemLine }),
  s.object({ at: s.instant, kind: s.constant("enqueued"), job: s.id, task: s.text() }),
  s.object({ at: s.instant, kind: s.constant("attempt"), job: s.id, attempt: attemptShape }),
  s.object({ at: s.instant, kind: s.constant("ended"), job: s.id, status: s.status }),
  s.object({ at: s.instant, kind: s.constant("action"), job: s.id, action: auditLine }),
) as s.Shape<HistoryEntry>;

const TRAIL: Columns<HistoryEntry> = [
  right("LINE", (entry) => (entry.kind === "line" ? String(entry.line.seq) : "")),
  right("WHEN", ({ at }) => relative(at, systemRuntime.now())),
  flexible("WHAT", (entry, terminal) => saidOf(entry, 0, terminal)),
  flexible("BY", (entry, terminal) => saidOf(entry, 1, terminal)),
  flexible("REMARKS", (entry, terminal) => saidOf(entry, 2, terminal)),
];

export const itsId = {
  arguments: { id: "the item's id, or an unambiguous prefix" },
  ids: { id: itemId },
};

const list = workflowOperation({
  name: "listStoredItems",
  summary: "List items, newest first",
  access: "viewer",
  input: {
    workflow: s.name.optional(),
    status: s.name.optional(),
    tenant: s.name.optional(),
    identifier: s.key.optional(),
    parent: s.id.optional(),
    limit: s.pageLimit.optional(),
    before: s.id.optional(),
  },
  returns: "Items without their data.",
  result: s.object({ items: s.list(s.object(rowFields)) }),
  run: async ({ store }, { limit = LIMIT_DEFAULT, ...filter }) => {
    checkWhole("--limit", limit, { least: 1, most: LIMIT_MAX });
    if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
      throw new BadUsageError("--status and --tenant require --workflow <name>.");
    }
    const items = await store.items.list({ ...filter, limit });
    return { items: items.map(({ data: _data, ...item }) => item) };
  },
  cli: {
    command: "items list",
    flags: {
      workflow: { value: "<name>", about: "only items of this workflow" },
      status: { about: "only items with this status" },
      tenant: { value: "<name>", about: "only items of this tenant" },
      identifier: { value: "<text>", about: "only items with this identifier" },
      parent: { value: "<id>", about: "only children of this item" },
      limit: { about: "maximum number of items", initial: LIMIT_DEFAULT },
      before: { value: "<id>", about: "only items older than this one (next page)" },
    },
    ids: { parent: itemId, before: itemId },
    examples: ["items list --workflow order --status paid"],
    show: async ({ items }, { app, terminal, input }) => {
      if (items.length === 0) return [printable(`No items.${await unknownNames(app, input)}`)];
      const older = items.length === input.limit ? [`Older: --before ${items.at(-1)?.id}`] : [];
      const footer = [counted(items.length, "item"), ...older].map(terminal.colors.dim);
      return [...(await itemTable(app, items, terminal)), "", ...footer];
    },
  },
});

const show = workflowOperation({
  name: "getStoredItem",
  summary: "Show all details of an item",
  access: "viewer",
  input: { id: s.id },
  returns: "The item, its children, and the jobs that its state enqueued and waits for.",
  result: s.object({
    item: s.object({ ...rowFields, data: s.anything() }),
    children: s.list(childrenIn),
    jobs: s.list(s.object({ job: s.id, status: s.text().nullable() })),
  }),
  run: async (app, { id }) => {
    const item = await mustFind(app, id);
    const children = await app.store.items.progressOf(id);
    const jobs = await app.store.items.jobsOf(id);
    return { item: { ...item, data: readable(item.data) }, children, jobs };
  },
  cli: {
    ...itsId,
    command: "items show",
    examples: ["items show 01890a5d"],
    show: (found, { terminal }) => portrait(terminal, found),
  },
});

const history = workflowOperation({
  name: "getItemTrail",
  summary: "Show the history of an item and of its jobs",
  access: "viewer",
  input: { id: s.id, after: s.count.optional(), limit: s.pageLimit.optional() },
  returns: "The lines of the item, and what its jobs did, oldest first.",
  result: s.object({ trail: s.list(trailEntry) }),
  run: async (app, { id, ...page }) => {
    const trail = await app.workflows.trail(id, page);
    if (trail.length === 0) await mustFind(app, id);
    return { trail };
  },
  cli: {
    ...itsId,
    command: "items history",
    flags: {
      after: { value: "<number>", about: "only lines after this one (next page)", initial: 0 },
      limit: { about: "maximum number of lines of the item", initial: HISTORY_DEFAULT },
    },
    examples: ["items history 01890a5d"],
    show: ({ trail }, { terminal, input: { limit = HISTORY_DEFAULT } }) => [
      ...tableOf(TRAIL, trail, terminal),
      ...moreOf(trail, limit, terminal),
    ],
  },
});

export const itemReads = [list, show, history];

type Row = Omit<StoredItem, "data">;

async function itemTable(
  { store }: App,
  items: readonly Row[],
  terminal: Terminal,
): Promise<string[]> {
  const now = systemRuntime.now();
  const ids = items.map(({ id }) => id);
  const isPiped = terminal.columns === null;
  const short = shortIds(ids, isPiped ? [] : await store.items.neighbours(ids));
  const oneTenant = items.every(({ tenant }) => tenant === items[0]?.tenant);
  const columns: Columns<Row> = [
    plain("ID", ({ id }) => (isPiped ? id : (short.get(id) ?? id))),
    plain("STATUS", ({ status }) => status),
    right("SINCE", ({ enteredAt }) => relative(enteredAt, now)),
    flexible("WORKFLOW", ({ workflow }) => workflow),
    flexible("IDENTIFIER", ({ id, identifier }) => (identifier === id ? "" : identifier)),
    ...(oneTenant ? [] : [flexible<Row>("TENANT", ({ tenant }) => tenant)]),
  ];
  return tableOf(columns, items, terminal);
}

async function mustFind({ store }: App, id: string): Promise<StoredItem> {
  const item = await store.items.find(id);
  if (item === null) throw new ItemNotFoundError({ id });
  return item;
}

interface Portrait {
  readonly item: Row & { readonly data: unknown };
  readonly children: readonly ChildrenIn[];
  /** Jobs that its state enqueued and waits for. */
  readonly jobs: readonly ItemJob[];
}

function portrait({ colors }: Terminal, { item, children, jobs }: Portrait): string[] {
  const now = systemRuntime.now();
  const lines = facts(colors, {
    status: `${item.status}, since ${moment(item.enteredAt, now)}`,
    type: item.type === item.workflow ? null : item.type,
    tenant: item.tenant,
    identifier: item.identifier === item.id ? null : item.identifier,
    parent: item.parent,
    root: item.parent === null ? null : item.root,
    started: moment(item.createdAt, now),
    changed: `${moment(item.updatedAt, now)}, revision ${item.revision}`,
    history: `${counted(item.auditSeq, "line")}: holdfast items history ${item.id}`,
    children:
      children.map((one) => `${one.children} ${one.workflow} ${one.status}`).join(", ") || null,
    jobs: jobs.map(({ job, status }) => `${job} ${status ?? "unfinished"}`).join(", ") || null,
  });
  return [
    `${colors.bold(printable(item.workflow))} ${item.id}`,
    ...lines,
    "",
    colors.bold("data"),
    ...printable(dataJson(item.data, 2), { lines: true })
      .split("\n")
      .map((line) => `  ${line}`),
  ];
}

function saidOf(entry: HistoryEntry, at: 0 | 1 | 2, { colors }: Terminal): string | Cell {
  const text = describe(entry)[at];
  return entry.kind === "line" ? text : { text, paint: colors.dim };
}

/** What happened, who did it, and remarks. */
function describe(entry: HistoryEntry): [what: string, by: string, remarks: string] {
  switch (entry.kind) {
    case "line": {
      const { action, move, oldStatus, newStatus, actor, reason, lockWaitMs } = entry.line;
      const from = oldStatus === null || oldStatus === newStatus ? "" : `${oldStatus} → `;
      const waited =
        lockWaitMs === null || lockWaitMs < WAIT_SHOWN_MS
          ? []
          : [`waited ${formatMs(Math.round(lockWaitMs))} for the lock`];
      const remarks = [...(reason === null ? [] : [reason]), ...waited].join("; ");
      return [`${move ?? action}: ${from}${newStatus}`, actor, remarks];
    }
    case "enqueued":
      return [`${entry.task} enqueued`, "", `job ${entry.job}`];
    case "attempt": {
      const { attempt, outcome, worker } = entry.attempt;
      return [`attempt ${attempt}: ${outcome}`, worker, `job ${entry.job}`];
    }
    case "ended":
      return [`ended: ${entry.status}`, "", `job ${entry.job}`];
    case "action": {
      const { action, actor, reason } = entry.action;
      const why = reason === null ? "" : `; ${reason}`;
      return [action, actor, `job ${entry.job}${why}`];
    }
  }
}

function moreOf(trail: readonly HistoryEntry[], limit: number, { colors }: Terminal): string[] {
  const lines = trail.flatMap((entry) => (entry.kind === "line" ? [entry.line.seq] : []));
  if (lines.length < limit) return [];
  return ["", colors.dim(`Newer: --after ${lines.at(-1)}`)];
}

async function itemId({ store }: App, typed: string): Promise<string> {
  if (isId(typed)) return typed;
  return wholeId(typed, {
    what: "item",
    find: async (prefix, limit) => {
      const found = await store.items.list({ prefix, limit });
      return found.map(({ id, status, workflow, identifier }) => ({
        id,
        about: `${status} ${workflow}${identifier === id ? "" : ` ${identifier}`}`,
      }));
    },
    notFound: (id) => new ItemNotFoundError({ id }),
  });
}

/** Explains an empty result whose filter contains an unknown name. */
async function unknownNames(
  { store }: App,
  { workflow: name, status }: { readonly workflow?: string; readonly status?: string },
): Promise<string> {
  if (name === undefined) return "";
  const workflow = await store.items.findWorkflow(name);
  if (workflow === null) {
    const names = await store.items.workflowNames({ limit: WORKFLOWS_LISTED_MAX });
    return ` Unknown workflow '${name}'.${knownNames(name, names)}`;
  }
  const states = workflow.states.map((state) => state.name);
  if (status === undefined || states.includes(status)) return "";
  return ` Workflow '${name}' has no state '${status}'.${knownNames(status, states)}`;
}
