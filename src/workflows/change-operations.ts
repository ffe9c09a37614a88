/**
 * Starts, moves and updates items of workflows whose code this process has; guards are functions.
 *
 * Every change is stored under an id of its request, so a repeated request finds its own result.
 */
import type { ItemRecord } from "../core/item.ts";
import { HoldfastError } from "../core/errors.ts";
import { Problem } from "../http-kernel/problem.ts";
import type { Caller } from "../operations/operation.ts";
import * as s from "../operations/shape.ts";
import { ItemNotFoundError } from "./errors.ts";
import { itsId } from "./item-operations.ts";
import { item, itemOf, workflowOperation, type WorkflowsApp } from "./operations.ts";
import type { AnyWorkflow } from "./workflow.ts";
import { ITEMS_BATCH_MAX } from "./workflows.ts";

const fields = s.map(s.text(), s.anything());

const expect = s
  .integer({ min: 0 })
  .optional()
  .about("The revision the change is based on; a different current revision is a conflict.");

const newItem = {
  data: fields,
  type: s.name.optional().about("Default: the first type of the workflow."),
  tenant: s.name.optional().about("Default: the parent's tenant, or `default` without a parent."),
  identifier: s.key.optional().about("Your own identifier. Default: the item's id."),
  parent: s.id.optional().about("Required if the workflow has a parent workflow."),
};

const change = {
  id: s.id,
  move: s.name.optional(),
  patch: fields.optional(),
  expect,
};

const shared = { access: "operator", isAudited: true } as const;
const changed = { ...shared, returns: "The changed item.", result: s.object({ item }) } as const;
const changeFlags = {
  patch: { about: "the fields of the data that change, as a JSON object" },
  expect: { about: "refuse the change if the item has another revision" },
};
const several = {
  ...shared,
  returns: "The items, in the order of the request.",
  result: s.object({ items: s.list(item) }),
} as const;
const post = { method: "POST", problems: [409, 413] } as const;

const UNKNOWN_WORKFLOW = "UNKNOWN_WORKFLOW";

export const itemChangeOperations = {
  start: workflowOperation({
    ...shared,
    name: "startItem",
    summary: "Start an item in the initial state of its workflow",
    input: { name: s.name, ...newItem },
    returns: "The item.",
    result: s.object({ item }),
    run: async (app, { name, ...wanted }, caller) => {
      const [started] = await start(app, name, [wanted], caller);
      return { item: started as ItemRecord };
    },
    http: {
      ...post,
      path: "/api/v1/workflows/{name}/items",
      status: 201,
      idCount: () => 2,
      location: ({ item: { id } }) => `/api/v1/items/${id}`,
    },
  }),

  startMany: workflowOperation({
    ...several,
    name: "startItems",
    summary: "Start several items with the same parent, or without one; all or none",
    input: { name: s.name, items: s.list(s.strict(newItem), { min: 1, max: ITEMS_BATCH_MAX }) },
    run: async (app, { name, items }, caller) => ({ items: await start(app, name, items, caller) }),
    http: {
      ...post,
      path: "/api/v1/workflows/{name}/items/bulk",
      status: 201,
      idCount: ({ items }) => items.length + 1,
    },
  }),

  move: workflowOperation({
    ...changed,
    name: "moveItem",
    summary: "Move an item",
    input: { ...change, move: s.name },
    run: changeOne,
    http: { ...post, path: "/api/v1/items/{id}/moves" },
    cli: {
      ...itsId,
      command: "items move",
      about: "move an item, by the rules of its workflow",
      arguments: { ...itsId.arguments, move: "the name of the move" },
      flags: changeFlags,
      examples: [`items move 01890a5d pay --patch '{"paidBy":"ada"}'`],
      show: showChanged,
    },
  }),

  update: workflowOperation({
    ...changed,
    name: "updateItem",
    summary: "Change an item's data without changing its state",
    input: { id: s.id, patch: fields, expect },
    run: changeOne,
    http: { ...post, path: "/api/v1/items/{id}/update" },
    cli: {
      ...itsId,
      command: "items update",
      about: "change an item's data without changing its state",
      flags: { ...changeFlags, patch: { ...changeFlags.patch, isRequired: true } },
      examples: [`items update 01890a5d --patch '{"cents":1799}' --expect 3`],
      show: showChanged,
    },
  }),

  children: workflowOperation({
    ...several,
    name: "changeChildren",
    summary: "Move or update several children of an item; all or none",
    input: { id: s.id, changes: s.list(s.strict(change), { min: 1, max: ITEMS_BATCH_MAX }) },
    run: async (app, { id, changes }, { by, ids: [once] }) => {
      const workflow = await workflowOf(app, changes[0]?.id ?? "");
      await app.workflows.updateChildren(workflow, id, changes, by, once);
      const children = changes.map((one) => one.id);
      return { items: await readAll(app, children) };
    },
    http: { ...post, path: "/api/v1/items/{id}/children" },
  }),
};

function showChanged({ item: { id, status, revision } }: { readonly item: ItemRecord }): string[] {
  return [`Item ${id} is '${status}' now, revision ${revision}.`];
}

async function start(
  app: WorkflowsApp,
  name: string,
  items: readonly s.Infer<typeof newItem>[],
  { by, ids }: Caller,
): Promise<ItemRecord[]> {
  const started = await app.workflows.startMany(codeOf(app, name), items, by, ids);
  const inOrder = started.map(({ id }) => id);
  return readAll(app, inOrder);
}

async function changeOne(
  app: WorkflowsApp,
  { id, ...wanted }: s.Infer<typeof change>,
  { by, ids: [once] }: Caller,
): Promise<{ item: ItemRecord }> {
  await app.workflows.change(await workflowOf(app, id), id, { ...wanted, ...by }, once);
  const [found] = await readAll(app, [id]);
  return { item: found as ItemRecord };
}

async function workflowOf(app: WorkflowsApp, id: string): Promise<AnyWorkflow> {
  const found = await app.store.items.find(id);
  if (found === null) throw new ItemNotFoundError({ id });
  return codeOf(app, found.workflow);
}

function codeOf({ known, module }: WorkflowsApp, name: string): AnyWorkflow {
  const workflow = known?.get(name);
  if (workflow !== undefined) return workflow;
  if (module !== undefined) {
    const problem = `${module} exports no workflow '${name}', whose guards must run.`;
    throw new HoldfastError(UNKNOWN_WORKFLOW, `${problem} Name its module with --tasks.`);
  }
  const detail = `This server does not have the code of workflow '${name}', whose guards must run. Start the server with a module that exports the workflow.`;
  throw new Problem({ status: 409, code: UNKNOWN_WORKFLOW, detail });
}

async function readAll(
  { store: { items } }: WorkflowsApp,
  ids: readonly string[],
): Promise<ItemRecord[]> {
  const found = await Promise.all(ids.map((id) => items.find(id)));
  return found.flatMap((one) => (one === null ? [] : [itemOf(one)]));
}
