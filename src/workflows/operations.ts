/**
 * The verbs of workflows and items that read. `change-operations.ts` has those that change items, `item-operations.ts` those of
 * the command line, which shows what the API leaves out.
 */
import { type ItemRecord, itemActions } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { notFound, Problem } from "../http-kernel/problem.ts";
import { operationsOf } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { type Columns, flexible, listOf, right } from "../operations/show.ts";
import { ItemNotFoundError } from "./errors.ts";
import type { StoredItem } from "./item-record.ts";
import { type LegalMove, legalMoves } from "./plan.ts";
import type { ItemsStore } from "./store.ts";
import type { AnyWorkflow } from "./workflow.ts";
import type { Workflows } from "./workflows.ts";

export interface WorkflowsApp {
  readonly store: { readonly items: ItemsStore };
  readonly workflows: Workflows;
  readonly runtime: Runtime;
  /** The workflows whose code this server has, by name: it can change their items. */
  readonly known?: ReadonlyMap<string, AnyWorkflow>;
  /** The module that a command has them from. */
  readonly module?: string;
}

export const workflowOperation = operationsOf<WorkflowsApp>("workflows");

const WORKFLOWS_MAX = 200;
const PAGE = 50;
/** Items of one state that are counted; beyond that, the answer says that there are more. */
const COUNTED_MAX = 10_000;

const workflow = s
  .object({
    name: s.text(),
    version: s.integer(),
    parent: s.text().nullable(),
    keepMs: s.number().nullable(),
    declaredAt: s.instant,
    types: s.list(s.text()),
    states: s.list(s.object({ name: s.text(), isInitial: s.boolean(), isFinal: s.boolean() })),
    moves: s.list(s.object({ name: s.text(), from: s.text(), to: s.text() })),
    movable: s
      .boolean()
      .about("Whether this server has the workflow's code and can move its items."),
  })
  .named("Workflow", "The states of a workflow and the moves between them.");

type WorkflowView = s.TypeOf<typeof workflow>;

export const itemFields = {
  id: s.id,
  workflow: s.text(),
  type: s.text(),
  tenant: s.text(),
  identifier: s.text(),
  parent: s.text().nullable(),
  root: s.text(),
  status: s.text(),
  revision: s.count,
  createdAt: s.instant,
  updatedAt: s.instant,
  enteredAt: s.instant,
};

const itemSummary = s.object(itemFields).named("ItemSummary", "An item without its data.");

export const item = s
  .object({ ...itemFields, data: s.anything() })
  .named("Item", "An item of a workflow, with its data.");

export const itemLine = s
  .object({
    item: s.text(),
    seq: s.count,
    at: s.instant,
    actor: s.text(),
    action: s.choice(itemActions),
    move: s.text().nullable(),
    oldStatus: s.text().nullable(),
    newStatus: s.text(),
    revision: s.count,
    reason: s.text().nullable(),
    lockWaitMs: s.number().nullable(),
    traceId: s.text().nullable(),
    jobs: s.list(s.text()),
    dataHash: s.text(),
    previousHash: s.text(),
    hash: s.text(),
  })
  .named("ItemLine", "One entry of an item's audit trail.");

export const childrenIn = s
  .object({ workflow: s.text(), status: s.text(), isFinal: s.boolean(), children: s.count })
  .named("ChildrenIn", "Number of child items in a state.");

const move = s
  .object({
    name: s.text(),
    to: s.text(),
    allowed: s
      .boolean()
      .nullable()
      .about(
        "What the guard says if the data stays as it is; null: this server does not have the workflow's code.",
      ),
    why: s.text().nullable().about("Why the guard refuses."),
  })
  .named("LegalMove", "A move that leads on from the item's state.");

async function findWorkflow(
  { store, known }: WorkflowsApp,
  name: string,
): Promise<WorkflowView | null> {
  const found = await store.items.findWorkflow(name);
  return found === null ? null : { ...found, movable: known?.has(name) === true };
}

/** Without the code, the moves are those of the stored declaration. */
async function movesOf(
  { store: { items }, runtime, known }: WorkflowsApp,
  found: StoredItem,
  actor: string,
): Promise<LegalMove[]> {
  const code = known?.get(found.workflow);
  if (code !== undefined) {
    const parent = found.parent === null ? null : await items.find(found.parent);
    return legalMoves(code, runtime, { item: found, parent, actor, now: runtime.now() });
  }
  const declared = await items.findWorkflow(found.workflow);
  const moves = (declared?.moves ?? []).filter(({ from }) => from === found.status);
  return moves.map(({ name, to }) => ({ name, to, allowed: null, why: null }));
}

const WORKFLOWS: Columns<WorkflowView> = [
  flexible("WORKFLOW", ({ name }) => name),
  right("VERSION", ({ version }) => String(version)),
  flexible("STATES", ({ states }) => states.map(({ name }) => name).join(", ")),
  flexible("PARENT", ({ parent }) => parent ?? ""),
];

export const workflowOperations = {
  list: workflowOperation({
    name: "listWorkflows",
    summary: "List declared workflows",
    access: "viewer",
    returns: "The workflows, ordered by name.",
    result: s.object({ workflows: s.list(workflow) }),
    run: async (app) => {
      const names = await app.store.items.workflowNames({ limit: WORKFLOWS_MAX });
      const workflows = await Promise.all(names.map((name) => findWorkflow(app, name)));
      return { workflows: workflows.filter((one) => one !== null) };
    },
    http: { method: "GET", path: "/api/v1/workflows" },
    cli: {
      command: "workflows list",
      examples: ["workflows list"],
      show: listOf({
        rows: ({ workflows }) => workflows,
        columns: WORKFLOWS,
        none: "No workflow is declared.",
        unit: "workflow",
      }),
    },
    agent: "The workflows with their states, and the moves between them.",
  }),

  show: workflowOperation({
    name: "getWorkflow",
    summary: "One workflow with its states and moves",
    access: "viewer",
    input: { name: s.name },
    returns: "The workflow.",
    result: s.object({ workflow }),
    run: async (app, { name }) => {
      const found = await findWorkflow(app, name);
      if (found === null) throw notFound("such workflow");
      return { workflow: found };
    },
    http: { method: "GET", path: "/api/v1/workflows/{name}" },
  }),

  counts: workflowOperation({
    name: "countItems",
    summary: "How many items of a workflow are in each state",
    access: "viewer",
    input: { name: s.name },
    returns: "In the order of the declaration.",
    result: s.object({
      states: s.list(
        s.object({
          name: s.text(),
          items: s.count,
          isMore: s.boolean().about("There are more than were counted."),
        }),
      ),
    }),
    run: async ({ store: { items } }, { name: wanted }) => {
      const found = await items.findWorkflow(wanted);
      if (found === null) throw notFound("such workflow");
      const counts = await items.counts({
        workflow: wanted,
        states: found.states.map(({ name }) => name),
        limit: COUNTED_MAX + 1,
      });
      return {
        states: counts.map(({ status: name, items: n }) => ({
          name,
          items: Math.min(n, COUNTED_MAX),
          isMore: n > COUNTED_MAX,
        })),
      };
    },
    http: { method: "GET", path: "/api/v1/workflows/{name}/counts" },
    agent: "How many items of a workflow are in each state: where they pile up.",
  }),
};

export const workflowCommands = {
  name: "workflows",
  about: "list declared workflows",
  parts: [workflowOperations.list],
};

export const itemOperations = {
  list: workflowOperation({
    name: "listItems",
    summary: "List items, newest first",
    access: "viewer",
    input: {
      workflow: s.name.optional().about("Required with `status` or `tenant`."),
      status: s.name.optional(),
      tenant: s.name.optional(),
      identifier: s.key.optional(),
      parent: s.id.optional(),
      before: s.id.optional().about("`next` from the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "Items without their data. `next` is null on the last page.",
    result: s.object({ items: s.list(itemSummary), next: s.id.nullable() }),
    run: async ({ store }, { limit = PAGE, ...filter }) => {
      if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
        const detail = "status and tenant require a workflow. Add workflow to the query.";
        throw new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "workflow" });
      }
      const page = await store.items.list({ ...filter, limit });
      const next = page.length === limit ? (page.at(-1)?.id ?? null) : null;
      return { items: page.map(summaryOf), next };
    },
    http: { method: "GET", path: "/api/v1/items" },
    agent: "Items of workflows by state, tenant or identifier.",
  }),

  show: workflowOperation({
    name: "getItem",
    summary: "One item with its data, legal moves, child counts and history",
    access: "viewer",
    input: { id: s.id },
    returns: "The item, with the first page of its history.",
    result: s.object({
      item,
      moves: s.list(move),
      movable: s
        .boolean()
        .about("Whether this server has the workflow's code and can change the item."),
      progress: s.list(childrenIn),
      history: s.list(itemLine),
    }),
    run: async (app, { id }, { by }) => {
      const found = await app.store.items.find(id);
      if (found === null) throw new ItemNotFoundError({ id });
      const { workflows } = app;
      const [progress, history] = [await workflows.progress(id), await workflows.history(id)];
      const movable = app.known?.has(found.workflow) === true;
      const moves = await movesOf(app, found, by.actor);
      return { item: itemOf(found), moves, movable, progress, history };
    },
    http: { method: "GET", path: "/api/v1/items/{id}" },
    agent: "One item: its data, the moves that it can make now, and who moved it before.",
  }),

  history: workflowOperation({
    name: "itemHistory",
    summary: "The history of an item, oldest first",
    access: "viewer",
    input: {
      id: s.id,
      after: s.integer({ min: 0 }).optional().about("`next` from the previous page."),
      limit: s.pageLimit.optional(),
    },
    returns: "A page of entries.",
    result: s.object({ history: s.list(itemLine), next: s.integer().nullable() }),
    run: async ({ workflows }, { id, limit = PAGE, ...rest }) => {
      const history = await workflows.history(id, { limit, ...rest });
      const next = history.length === limit ? (history.at(-1)?.seq ?? null) : null;
      return { history, next };
    },
    http: { method: "GET", path: "/api/v1/items/{id}/history" },
  }),
};

function summaryOf(
  found: StoredItem,
): Omit<StoredItem, "data" | "depth" | "auditSeq" | "auditHash"> {
  const { data: _data, depth: _depth, auditSeq: _seq, auditHash: _hash, ...summary } = found;
  return summary;
}

export function itemOf(found: StoredItem): ItemRecord {
  return { ...summaryOf(found), data: readable(found.data) };
}

/** Data written to the table by hand may not be JSON; then it is returned as text. */
export function readable(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return text;
  }
}
