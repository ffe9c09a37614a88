/**
 * Starts, moves and updates items whose workflow this server has the code of: guards are functions.
 *
 * Every change is written under an id of its request, so a request that is sent again finds what it wrote.
 */
import { z } from "zod";
import { ItemNotFound } from "../../core/workflow-errors.ts";
import type { AnyWorkflow } from "../../core/workflow.ts";
import type { Signed } from "../../queue/item-options.ts";
import { ITEMS_BATCH_MAX } from "../../queue/workflows.ts";
import type { StoredItem } from "../../store/workflows.ts";
import type { RouteParts } from "../parts.ts";
import { Problem } from "../problem.ts";
import { route, type Call, type Route } from "../route.ts";
import * as s from "../schemas.ts";
import { itemOf } from "./workflows.ts";

const TAG = "workflows";

const fields = z.record(z.string(), z.unknown());
const expect = z.int().min(0).optional().meta({ description: "The revision you decided by." });
const reason = s.reason.optional();

const newItem = {
  data: fields,
  type: s.name.optional().meta({ description: "Default: the first type of the workflow." }),
  tenant: s.name
    .optional()
    .meta({ description: "Default: its parent's; without a parent `default`." }),
  identifier: s.key.optional().meta({ description: "Your own name for it. Default: its id." }),
  parent: s.id.optional().meta({ description: "Needed if the workflow has a parent." }),
};

export function itemChangeRoutes(parts: RouteParts): Route[] {
  return [startRoute(parts), startManyRoute(parts), ...changeRoutes(parts), childrenRoute(parts)];
}

function startRoute(parts: RouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/workflows/{name}/items",
    name: "startItem",
    tag: TAG,
    summary: "Start an item in the initial state of its workflow",
    access: "operator",
    params: { name: s.name },
    body: z.strictObject({ ...newItem, reason }),
    answers: { 201: { description: "The item.", schema: z.object({ item: s.item }) } },
    problems: [409, 413],
    idCount: () => 2,
    location: (json) => `/api/v1/items/${(json as { item: StoredItem }).item.id}`,
    run: async (call) => {
      const { reason: why, ...item } = call.body;
      const items = await start(parts, call, { items: [item], why });
      return { status: 201, json: { item: items[0] } };
    },
  });
}

function startManyRoute(parts: RouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/workflows/{name}/items/bulk",
    name: "startItems",
    tag: TAG,
    summary: "Start items of one parent, or of none: all or none",
    access: "operator",
    params: { name: s.name },
    body: z.strictObject({
      items: z.array(z.strictObject(newItem)).min(1).max(ITEMS_BATCH_MAX),
      reason,
    }),
    answers: {
      201: { description: "In the order given.", schema: z.object({ items: z.array(s.item) }) },
    },
    problems: [409, 413],
    idCount: ({ items }) => items.length + 1,
    run: async (call) => {
      const { items, reason: why } = call.body;
      return { status: 201, json: { items: await start(parts, call, { items, why }) } };
    },
  });
}

type NewItems = readonly z.output<z.ZodObject<typeof newItem>>[];

async function start(
  parts: RouteParts,
  call: Pick<Call<{ name: string }, unknown, unknown>, "params" | "asker" | "requestId" | "ids">,
  { items, why }: { items: NewItems; why: string | undefined },
): Promise<object[]> {
  const workflow = known(parts, call.params.name);
  const wanted = items.map(given) as { data: object }[];
  const started = await parts.holdfast.workflows.startMany(
    workflow,
    wanted,
    signedBy(call, why),
    call.ids,
  );
  return readAll(
    parts,
    started.map(({ id }) => id),
  );
}

const change = { patch: fields.optional(), expect, reason };

function changeRoutes(parts: RouteParts): Route[] {
  const common = {
    method: "POST",
    tag: TAG,
    access: "operator",
    params: { id: s.id },
    answers: { 200: { description: "The item, changed.", schema: z.object({ item: s.item }) } },
    problems: [409, 413],
  } as const;
  return [
    route({
      ...common,
      path: "/api/v1/items/{id}/moves",
      name: "moveItem",
      summary: "Move an item",
      body: z.strictObject({ move: s.name, ...change }),
      run: async (call) => changed(parts, call),
    }),
    route({
      ...common,
      path: "/api/v1/items/{id}/update",
      name: "updateItem",
      summary: "Change the data of an item; its state stays",
      body: z.strictObject({ ...change, patch: fields }),
      run: async (call) => changed(parts, call),
    }),
  ];
}

type ChangeCall = Call<{ id: string }, unknown, { readonly reason?: string | undefined }>;

async function changed(
  parts: RouteParts,
  call: ChangeCall,
): Promise<{ status: 200; json: { item: object | undefined } }> {
  const { id } = call.params;
  const { reason: why, ...wanted } = call.body;
  const workflow = await workflowOf(parts, id);
  const asked = { ...given(wanted), ...signedBy(call, why) };
  await parts.holdfast.workflows.change(workflow, id, asked, call.ids[0]);
  const [item] = await readAll(parts, [id]);
  return { status: 200, json: { item } };
}

function childrenRoute(parts: RouteParts): Route {
  return route({
    method: "POST",
    path: "/api/v1/items/{id}/children",
    name: "changeChildren",
    tag: TAG,
    summary: "Move or update several children of an item: all or none",
    access: "operator",
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
    answers: {
      200: { description: "In the order given.", schema: z.object({ items: z.array(s.item) }) },
    },
    problems: [409, 413],
    run: async (call) => {
      const { changes, reason: why } = call.body;
      const workflow = await workflowOf(parts, changes[0]?.id ?? "");
      const wanted = changes.map(given) as { id: string }[];
      const by = signedBy(call, why);
      await parts.holdfast.workflows.updateChildren(
        workflow,
        call.params.id,
        wanted,
        by,
        call.ids[0],
      );
      const items = await readAll(
        parts,
        changes.map(({ id }) => id),
      );
      return { status: 200, json: { items } };
    },
  });
}

function signedBy(
  { asker, requestId }: Pick<Call<unknown, unknown, unknown>, "asker" | "requestId">,
  why: string | undefined,
): Signed {
  return { actor: asker.name, trace: requestId, ...given({ reason: why }) };
}

/** Without the fields that the request left out: the library takes undefined for a value. */
function given(fieldsGiven: object): object {
  return Object.fromEntries(Object.entries(fieldsGiven).filter(([, value]) => value !== undefined));
}

async function workflowOf(parts: RouteParts, item: string): Promise<AnyWorkflow> {
  const found = await parts.holdfast.store.findItem(item);
  if (found === null) throw new ItemNotFound({ id: item });
  return known(parts, found.workflow);
}

function known({ workflows }: RouteParts, name: string): AnyWorkflow {
  const workflow = workflows.get(name);
  if (workflow !== undefined) return workflow;
  const detail = `This server does not have the code of workflow '${name}', whose guards decide. Start it with a module that exports it.`;
  throw new Problem({ status: 409, code: "UNKNOWN_WORKFLOW", detail });
}

async function readAll({ holdfast }: RouteParts, ids: readonly string[]): Promise<object[]> {
  const found = await Promise.all(ids.map((id) => holdfast.store.findItem(id)));
  return found.flatMap((item) => (item === null ? [] : [itemOf(item)]));
}
