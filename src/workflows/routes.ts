/** Routes that read workflows and items; change-routes.ts has those that change items. */
import { z } from "zod";
import { itemActions } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { notFound, Problem } from "../http-kernel/problem.ts";
import { route, type Route } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { ItemNotFoundError } from "./errors.ts";
import type { ItemFilter, StoredItem } from "./item-record.ts";
import type { HistoryOptions } from "./options.ts";
import { type LegalMove, legalMoves } from "./plan.ts";
import type { ItemsStore } from "./store.ts";
import type { AnyWorkflow } from "./workflow.ts";
import type { Workflows } from "./workflows.ts";

const TAG = "workflows";
const READ = { method: "GET", tag: TAG, access: "viewer" } as const;
const WORKFLOWS_MAX = 200;
const PAGE = 50;
/** Items of one state that are counted; beyond that, the answer says that there are more. */
const COUNTED_MAX = 10_000;

const workflowSchema = z
  .object({
    name: z.string(),
    version: z.int(),
    parent: z.string().nullable(),
    keepMs: z.number().nullable(),
    declaredAt: s.instant,
    types: z.array(z.string()),
    states: z.array(z.object({ name: z.string(), isInitial: z.boolean(), isFinal: z.boolean() })),
    moves: z.array(z.object({ name: z.string(), from: z.string(), to: z.string() })),
    movable: z
      .boolean()
      .meta({ description: "Whether this server has the workflow's code and can move its items." }),
  })
  .meta({ id: "Workflow", description: "The states of a workflow and the moves between them." });

const itemFields = {
  id: s.id,
  workflow: z.string(),
  type: z.string(),
  tenant: z.string(),
  identifier: z.string(),
  parent: z.string().nullable(),
  root: z.string(),
  status: z.string(),
  revision: s.count,
  createdAt: s.instant,
  updatedAt: s.instant,
  enteredAt: s.instant,
};

const itemSummarySchema = z
  .object(itemFields)
  .meta({ id: "ItemSummary", description: "An item without its data." });

export const itemSchema = z
  .object({ ...itemFields, data: z.unknown() })
  .meta({ id: "Item", description: "An item of a workflow, with its data." });

const itemLineSchema = z
  .object({
    item: z.string(),
    seq: s.count,
    at: s.instant,
    actor: z.string(),
    action: z.enum(itemActions),
    move: z.string().nullable(),
    oldStatus: z.string().nullable(),
    newStatus: z.string(),
    revision: s.count,
    reason: z.string().nullable(),
    lockWaitMs: z.number().nullable(),
    traceId: z.string().nullable(),
    jobs: z.array(z.string()),
    dataHash: z.string(),
    previousHash: z.string(),
    hash: z.string(),
  })
  .meta({ id: "ItemLine", description: "One entry of an item's audit trail." });

const childrenInSchema = z
  .object({ workflow: z.string(), status: z.string(), isFinal: z.boolean(), children: s.count })
  .meta({ id: "ChildrenIn", description: "Number of child items in a state." });

export interface WorkflowRouteParts {
  readonly items: ItemsStore;
  readonly workflows: Workflows;
  readonly runtime: Runtime;
  /** The workflows whose code this server has, by name: it can change their items. */
  readonly known: ReadonlyMap<string, AnyWorkflow>;
}

export function workflowRoutes(parts: WorkflowRouteParts): Route[] {
  return [...declarationRoutes(parts), ...itemRoutes(parts), historyRoute(parts)];
}

function declarationRoutes({ items, known }: WorkflowRouteParts): Route[] {
  const find = async (name: string): Promise<object | null> => {
    const found = await items.findWorkflow(name);
    return found === null ? null : { ...found, movable: known.has(name) };
  };
  return [
    route({
      ...READ,
      path: "/api/v1/workflows",
      name: "listWorkflows",
      summary: "List declared workflows",
      answers: {
        200: {
          description: "The workflows, ordered by name.",
          schema: z.object({ workflows: z.array(workflowSchema) }),
        },
      },
      run: async () => {
        const names = await items.workflowNames({ limit: WORKFLOWS_MAX });
        const workflows = await Promise.all(names.map(find));
        return { status: 200, json: { workflows: workflows.filter((one) => one !== null) } };
      },
    }),
    route({
      ...READ,
      path: "/api/v1/workflows/{name}",
      name: "getWorkflow",
      summary: "One workflow with its states and moves",
      params: { name: s.name },
      answers: {
        200: { description: "The workflow.", schema: z.object({ workflow: workflowSchema }) },
      },
      run: async ({ params }) => {
        const workflow = await find(params.name);
        if (workflow === null) throw notFound("such workflow");
        return { status: 200, json: { workflow } };
      },
    }),
    countsRoute(items),
  ];
}

function countsRoute(items: ItemsStore): Route {
  return route({
    ...READ,
    path: "/api/v1/workflows/{name}/counts",
    name: "countItems",
    summary: "How many items of a workflow are in each state",
    params: { name: s.name },
    answers: {
      200: {
        description: "In the order of the declaration.",
        schema: z.object({
          states: z.array(
            z.object({
              name: z.string(),
              items: s.count,
              isMore: z.boolean().meta({ description: "There are more than were counted." }),
            }),
          ),
        }),
      },
    },
    run: async ({ params }) => {
      const workflow = await items.findWorkflow(params.name);
      if (workflow === null) throw notFound("such workflow");
      const counts = await items.counts({
        workflow: params.name,
        states: workflow.states.map(({ name }) => name),
        limit: COUNTED_MAX + 1,
      });
      const states = counts.map(({ status: name, items: found }) => ({
        name,
        items: Math.min(found, COUNTED_MAX),
        isMore: found > COUNTED_MAX,
      }));
      return { status: 200, json: { states } };
    },
  });
}

const moveSchema = z
  .object({
    name: z.string(),
    to: z.string(),
    allowed: z.boolean().nullable().meta({
      description:
        "What the guard says if the data stays as it is; null: this server does not have the workflow's code.",
    }),
    why: z.string().nullable().meta({ description: "Why the guard refuses." }),
  })
  .meta({ id: "LegalMove", description: "A move that leads on from the item's state." });

/** Without the code, the moves are those of the stored declaration. */
async function movesOf(
  { items, runtime, known }: WorkflowRouteParts,
  item: StoredItem,
  actor: string,
): Promise<LegalMove[]> {
  const code = known.get(item.workflow);
  if (code !== undefined) {
    const parent = item.parent === null ? null : await items.find(item.parent);
    return legalMoves(code, runtime, { item, parent, actor, now: runtime.now() });
  }
  const declared = await items.findWorkflow(item.workflow);
  const moves = (declared?.moves ?? []).filter(({ from }) => from === item.status);
  return moves.map(({ name, to }) => ({ name, to, allowed: null, why: null }));
}

function itemRoutes(parts: WorkflowRouteParts): Route[] {
  const { items, workflows } = parts;
  return [
    route({
      ...READ,
      path: "/api/v1/items",
      name: "listItems",
      summary: "List items, newest first",
      query: {
        workflow: s.name.optional().meta({ description: "Required with `status` or `tenant`." }),
        status: s.name.optional(),
        tenant: s.name.optional(),
        identifier: s.key.optional(),
        parent: s.id.optional(),
        before: s.id.optional().meta({ description: "`next` from the previous page." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "Items without their data. `next` is null on the last page.",
          schema: z.object({ items: z.array(itemSummarySchema), next: s.id.nullable() }),
        },
      },
      run: async ({ query }) => {
        const { limit = PAGE, ...filter } = query;
        if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
          const detail = "status and tenant require a workflow. Add workflow to the query.";
          throw new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "workflow" });
        }
        const page = await items.list({ ...filter, limit } as ItemFilter);
        const next = page.length === limit ? (page.at(-1)?.id ?? null) : null;
        return { status: 200, json: { items: page.map(summaryOf), next } };
      },
    }),
    route({
      ...READ,
      path: "/api/v1/items/{id}",
      name: "getItem",
      summary: "One item with its data, legal moves, child counts and history",
      params: { id: s.id },
      answers: {
        200: {
          description: "The item, with the first page of its history.",
          schema: z.object({
            item: itemSchema,
            moves: z.array(moveSchema),
            movable: z.boolean().meta({
              description: "Whether this server has the workflow's code and can change the item.",
            }),
            progress: z.array(childrenInSchema),
            history: z.array(itemLineSchema),
          }),
        },
      },
      run: async ({ params: { id }, principal }) => {
        const item = await items.find(id);
        if (item === null) throw new ItemNotFoundError({ id });
        const [progress, history] = [await workflows.progress(id), await workflows.history(id)];
        const movable = parts.known.has(item.workflow);
        const moves = await movesOf(parts, item, principal.name);
        return { status: 200, json: { item: itemOf(item), moves, movable, progress, history } };
      },
    }),
  ];
}

function historyRoute({ workflows }: WorkflowRouteParts): Route {
  return route({
    ...READ,
    path: "/api/v1/items/{id}/history",
    name: "itemHistory",
    summary: "The history of an item, oldest first",
    params: { id: s.id },
    query: {
      after: z.int().min(0).optional().meta({ description: "`next` from the previous page." }),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page of entries.",
        schema: z.object({ history: z.array(itemLineSchema), next: z.int().nullable() }),
      },
    },
    run: async ({ params: { id }, query }) => {
      const { limit = PAGE, after } = query;
      const options = { limit, ...(after === undefined ? {} : { after }) } as HistoryOptions;
      const history = await workflows.history(id, options);
      const next = history.length === limit ? (history.at(-1)?.seq ?? null) : null;
      return { status: 200, json: { history, next } };
    },
  });
}

function summaryOf(
  item: StoredItem,
): Omit<StoredItem, "data" | "depth" | "auditSeq" | "auditHash"> {
  const { data: _data, depth: _depth, auditSeq: _seq, auditHash: _hash, ...summary } = item;
  return summary;
}

export function itemOf(item: StoredItem): object {
  return { ...summaryOf(item), data: readable(item.data) };
}

/** Data written to the table by hand may not be JSON; then it is returned as text. */
function readable(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return text;
  }
}
