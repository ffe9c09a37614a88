/**
 * Starts, moves and updates items of workflows whose code this server has; guards are functions.
 *
 * Every change is stored under an id of its request, so a repeated request finds its own result.
 */
import { z } from "zod";
import { Problem } from "../http-kernel/problem.ts";
import { auditedBy, type Call, route, type Route, withoutUndefined } from "../http-kernel/route.ts";
import * as s from "../http-kernel/route.ts";
import { zodOf } from "../operations/route.ts";
import { ItemNotFoundError } from "./errors.ts";
import type { StoredItem } from "./item-record.ts";
import { item as itemShape, itemOf, type WorkflowsApp } from "./operations.ts";
import type { AnyWorkflow } from "./workflow.ts";
import { ITEMS_BATCH_MAX } from "./workflows.ts";

const itemSchema = zodOf(itemShape);

const common = {
  method: "POST",
  tag: "workflows",
  access: "operator",
  problems: [409, 413],
} as const;

const fields = z.record(z.string(), z.unknown());

const expect = z.int().min(0).optional().meta({
  description: "The revision the change is based on; a different current revision is a conflict.",
});

const reason = s.reason.optional();

const itemsAnswer = {
  description: "The items, in the order of the request.",
  schema: z.object({ items: z.array(itemSchema) }),
};

const newItem = {
  data: fields,
  type: s.name.optional().meta({ description: "Default: the first type of the workflow." }),
  tenant: s.name
    .optional()
    .meta({ description: "Default: the parent's tenant, or `default` without a parent." }),
  identifier: s.key
    .optional()
    .meta({ description: "Your own identifier. Default: the item's id." }),
  parent: s.id.optional().meta({ description: "Required if the workflow has a parent workflow." }),
};

export function itemChangeRoutes(parts: WorkflowsApp): Route[] {
  return [startRoute(parts), startManyRoute(parts), ...changeRoutes(parts), childrenRoute(parts)];
}

function startRoute(parts: WorkflowsApp): Route {
  return route({
    ...common,
    path: "/api/v1/workflows/{name}/items",
    name: "startItem",
    summary: "Start an item in the initial state of its workflow",
    params: { name: s.name },
    body: z.strictObject({ ...newItem, reason }),
    answers: { 201: { description: "The item.", schema: z.object({ item: itemSchema }) } },
    idCount: () => 2,
    location: (json) => `/api/v1/items/${(json as { item: StoredItem }).item.id}`,
    run: async (call) => {
      const { reason: _reason, ...item } = call.body;
      const items = await start(parts, call, [item]);
      return { status: 201, json: { item: items[0] } };
    },
  });
}

function startManyRoute(parts: WorkflowsApp): Route {
  return route({
    ...common,
    path: "/api/v1/workflows/{name}/items/bulk",
    name: "startItems",
    summary: "Start several items with the same parent, or without one; all or none",
    params: { name: s.name },
    body: z.strictObject({
      items: z.array(z.strictObject(newItem)).min(1).max(ITEMS_BATCH_MAX),
      reason,
    }),
    answers: { 201: itemsAnswer },
    idCount: ({ items }) => items.length + 1,
    run: async (call) => ({
      status: 201,
      json: { items: await start(parts, call, call.body.items) },
    }),
  });
}

interface Reasoned {
  readonly reason?: string | undefined;
}

async function start(
  parts: WorkflowsApp,
  call: Call<{ name: string }, unknown, Reasoned>,
  items: readonly z.output<z.ZodObject<typeof newItem>>[],
): Promise<object[]> {
  const workflow = codeOf(parts, call.params.name);
  const wanted = items.map(withoutUndefined) as { data: object }[];
  const started = await parts.workflows.startMany(workflow, wanted, auditedBy(call), call.ids);
  return readAll(
    parts,
    started.map(({ id }) => id),
  );
}

const change = { patch: fields.optional(), expect, reason };

function changeRoutes(parts: WorkflowsApp): Route[] {
  const one = {
    ...common,
    params: { id: s.id },
    answers: { 200: { description: "The changed item.", schema: z.object({ item: itemSchema }) } },
  };
  return [
    route({
      ...one,
      path: "/api/v1/items/{id}/moves",
      name: "moveItem",
      summary: "Move an item",
      body: z.strictObject({ move: s.name, ...change }),
      run: async (call) => changed(parts, call),
    }),
    route({
      ...one,
      path: "/api/v1/items/{id}/update",
      name: "updateItem",
      summary: "Change an item's data without changing its state",
      body: z.strictObject({ ...change, patch: fields }),
      run: async (call) => changed(parts, call),
    }),
  ];
}

async function changed(
  parts: WorkflowsApp,
  call: Call<{ id: string }, unknown, Reasoned>,
): Promise<{ status: 200; json: { item: object | undefined } }> {
  const { id } = call.params;
  const { reason: _reason, ...wanted } = call.body;
  const workflow = await workflowOf(parts, id);
  const asked = { ...withoutUndefined(wanted), ...auditedBy(call) };
  await parts.workflows.change(workflow, id, asked, call.ids[0]);
  const [item] = await readAll(parts, [id]);
  return { status: 200, json: { item } };
}

function childrenRoute(parts: WorkflowsApp): Route {
  return route({
    ...common,
    path: "/api/v1/items/{id}/children",
    name: "changeChildren",
    summary: "Move or update several children of an item; all or none",
    params: { id: s.id },
    body: z.strictObject({
      changes: z
        .array(
          z.strictObject({ id: s.id, move: s.name.optional(), patch: fields.optional(), expect }),
        )
        .min(1)
        .max(ITEMS_BATCH_MAX),
      reason,
    }),
    answers: { 200: itemsAnswer },
    run: async (call) => {
      const { changes } = call.body;
      const workflow = await workflowOf(parts, changes[0]?.id ?? "");
      const wanted = changes.map(withoutUndefined) as { id: string }[];
      const by = auditedBy(call);
      await parts.workflows.updateChildren(workflow, call.params.id, wanted, by, call.ids[0]);
      const items = await readAll(
        parts,
        changes.map(({ id }) => id),
      );
      return { status: 200, json: { items } };
    },
  });
}

async function workflowOf(parts: WorkflowsApp, item: string): Promise<AnyWorkflow> {
  const found = await parts.store.items.find(item);
  if (found === null) throw new ItemNotFoundError({ id: item });
  return codeOf(parts, found.workflow);
}

function codeOf({ known }: WorkflowsApp, name: string): AnyWorkflow {
  const workflow = known?.get(name);
  if (workflow !== undefined) return workflow;
  const detail = `This server does not have the code of workflow '${name}', whose guards must run. Start the server with a module that exports the workflow.`;
  throw new Problem({ status: 409, code: "UNKNOWN_WORKFLOW", detail });
}

async function readAll(
  { store: { items } }: WorkflowsApp,
  ids: readonly string[],
): Promise<object[]> {
  const found = await Promise.all(ids.map((id) => items.find(id)));
  return found.flatMap((item) => (item === null ? [] : [itemOf(item)]));
}
