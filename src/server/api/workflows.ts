/** Workflows and their items, for readers; item-changes.ts has the routes that write. */
import { z } from "zod";
import { decode } from "../../core/json.ts";
import { ItemNotFound } from "../../core/workflow-errors.ts";
import type { HistoryOptions } from "../../queue/item-options.ts";
import type { ItemFilter, StoredItem } from "../../store/workflows.ts";
import type { RouteParts } from "../parts.ts";
import { notFound, Problem } from "../problem.ts";
import { route, type Route } from "../route.ts";
import * as s from "../schemas.ts";

const TAG = "workflows";
const WORKFLOWS_MAX = 200;
const PAGE = 50;

export function workflowRoutes(parts: RouteParts): Route[] {
  return [...declarationRoutes(parts), ...itemRoutes(parts), historyRoute(parts)];
}

function declarationRoutes(parts: RouteParts): Route[] {
  const { holdfast, workflows: known } = parts;
  const find = async (name: string): Promise<object | null> => {
    const found = await holdfast.store.findWorkflow(name);
    return found === null ? null : { ...found, movable: known.has(name) };
  };
  return [
    route({
      method: "GET",
      path: "/api/v1/workflows",
      name: "listWorkflows",
      tag: TAG,
      summary: "The workflows that were declared",
      access: "viewer",
      answers: {
        200: { description: "By name.", schema: z.object({ workflows: z.array(s.workflow) }) },
      },
      run: async () => {
        const names = await holdfast.store.workflowNames({ limit: WORKFLOWS_MAX });
        const workflows = await Promise.all(names.map(find));
        return { status: 200, json: { workflows: workflows.filter((one) => one !== null) } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/workflows/{name}",
      name: "getWorkflow",
      tag: TAG,
      summary: "One workflow: its states and moves",
      access: "viewer",
      params: { name: s.name },
      answers: {
        200: { description: "The workflow.", schema: z.object({ workflow: s.workflow }) },
      },
      run: async ({ params }) => {
        const workflow = await find(params.name);
        if (workflow === null) throw notFound("such workflow");
        return { status: 200, json: { workflow } };
      },
    }),
  ];
}

function itemRoutes({ holdfast }: RouteParts): Route[] {
  return [
    route({
      method: "GET",
      path: "/api/v1/items",
      name: "listItems",
      tag: TAG,
      summary: "A page of items, newest first",
      access: "viewer",
      query: {
        workflow: s.name.optional().meta({ description: "Needed with status and tenant." }),
        status: s.name.optional(),
        tenant: s.name.optional(),
        identifier: s.key.optional(),
        parent: s.id.optional(),
        before: s.id.optional().meta({ description: "`next` of the page before." }),
        limit: s.pageLimit.optional(),
      },
      answers: {
        200: {
          description: "Without their data. `next` null: there are no more.",
          schema: z.object({ items: z.array(s.itemSummary), next: s.id.nullable() }),
        },
      },
      run: async ({ query }) => {
        const { limit = PAGE, ...filter } = query;
        if (filter.workflow === undefined && (filter.status ?? filter.tenant) !== undefined) {
          const detail = "status and tenant go with a workflow: say which.";
          throw new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field: "workflow" });
        }
        const items = await holdfast.store.listItems({ ...filter, limit } as ItemFilter);
        const next = items.length === limit ? (items.at(-1)?.id ?? null) : null;
        return { status: 200, json: { items: items.map(summaryOf), next } };
      },
    }),
    route({
      method: "GET",
      path: "/api/v1/items/{id}",
      name: "getItem",
      tag: TAG,
      summary: "One item: its data, those below it, and what was done to it",
      access: "viewer",
      params: { id: s.id },
      answers: {
        200: {
          description: "The item, with the first page of its history.",
          schema: z.object({
            item: s.item,
            progress: z.array(s.childrenIn),
            history: z.array(s.itemLine),
          }),
        },
      },
      run: async ({ params: { id } }) => {
        const item = await holdfast.store.findItem(id);
        if (item === null) throw new ItemNotFound({ id });
        const { workflows } = holdfast;
        const [progress, history] = [await workflows.progress(id), await workflows.history(id)];
        return { status: 200, json: { item: itemOf(item), progress, history } };
      },
    }),
  ];
}

function historyRoute({ holdfast }: RouteParts): Route {
  return route({
    method: "GET",
    path: "/api/v1/items/{id}/history",
    name: "itemHistory",
    tag: TAG,
    summary: "What was done to an item, oldest first",
    access: "viewer",
    params: { id: s.id },
    query: {
      after: z.int().min(0).optional().meta({ description: "`next` of the page before." }),
      limit: s.pageLimit.optional(),
    },
    answers: {
      200: {
        description: "A page of lines.",
        schema: z.object({ history: z.array(s.itemLine), next: z.int().nullable() }),
      },
    },
    run: async ({ params: { id }, query }) => {
      const { limit = PAGE, after } = query;
      const options = { limit, ...(after === undefined ? {} : { after }) } as HistoryOptions;
      const history = await holdfast.workflows.history(id, options);
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

/** What somebody wrote into the table by hand may be no JSON; then it is shown as it is. */
function readable(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return text;
  }
}
