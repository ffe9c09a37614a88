/**
 * Workflows and items for tests of the store: every fact has a default, and a test names only those it is about.
 *
 * Above the store stand the rules of a workflow (src/workflows/plan.ts). Here a test says itself what is written.
 */
import assert from "node:assert/strict";
import type { NewJob } from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import { NO_HASH } from "../../src/audit/entry.ts";
import type { Declaration, ItemWrite, StoredItem } from "../../src/workflows/item-record.ts";
import { nextId } from "./jobs.ts";

const state = (name: string, is: { initial?: boolean; final?: boolean } = {}) => ({
  name,
  isInitial: is.initial === true,
  isFinal: is.final === true,
});

/** open, then paid, then shipped; cancelled from wherever it is not ended. */
export function orders(facts: Partial<Declaration> = {}): Declaration {
  return {
    name: "order",
    version: 1,
    parent: null,
    keepMs: null,
    types: ["order", "return"],
    states: [
      state("open", { initial: true }),
      state("paid"),
      state("shipped", { final: true }),
      state("cancelled", { final: true }),
    ],
    moves: [
      { name: "pay", from: "open", to: "paid" },
      { name: "ship", from: "paid", to: "shipped" },
      { name: "cancel", from: "open", to: "cancelled" },
      { name: "cancel", from: "paid", to: "cancelled" },
    ],
    ...facts,
  };
}

/** Lines of orders: new, then packed. */
export function lines(facts: Partial<Declaration> = {}): Declaration {
  return {
    name: "line",
    version: 1,
    parent: "order",
    keepMs: null,
    types: ["line"],
    states: [state("new", { initial: true }), state("packed", { final: true })],
    moves: [{ name: "pack", from: "new", to: "packed" }],
    ...facts,
  };
}

/** Folders, which may stand in folders. */
export function folders(facts: Partial<Declaration> = {}): Declaration {
  return {
    ...lines({ name: "folder", parent: "folder", types: ["folder"] }),
    ...facts,
  };
}

export async function declareAll(store: Store): Promise<void> {
  for (const one of [orders(), lines(), folders()]) await store.items.declare(one);
}

const signature = { actor: "ada", reason: null, lockWaitMs: null, traceId: null };

export interface StartFacts {
  readonly workflow?: string;
  readonly type?: string;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: StoredItem;
  readonly data?: string;
  readonly jobs?: readonly NewJob[];
  readonly awaitsJobs?: boolean;
  readonly limitMs?: number;
}

const initial: Readonly<Record<string, string>> = { order: "open", line: "new", folder: "new" };

/** An item as it is before it is started. */
export function newItem(facts: StartFacts = {}): StoredItem {
  const id = nextId();
  const { workflow = "order", parent } = facts;
  return {
    id,
    workflow,
    type: facts.type ?? workflow,
    tenant: facts.tenant ?? "default",
    identifier: facts.identifier ?? id,
    parent: parent?.id ?? null,
    root: parent?.root ?? id,
    depth: parent === undefined ? 0 : parent.depth + 1,
    status: initial[workflow] ?? "",
    data: facts.data ?? "{}",
    revision: 0,
    createdAt: 0,
    updatedAt: 0,
    enteredAt: 0,
    auditSeq: 0,
    auditHash: NO_HASH,
  };
}

function started(item: StoredItem, { jobs = [], awaitsJobs = false, limitMs }: StartFacts) {
  const { status, data } = item;
  const line = { ...signature, action: "start", move: null } as const;
  return { item, line, status, data, jobs, awaitsJobs, limitMs: limitMs ?? null };
}

export async function startItem(store: Store, facts: StartFacts = {}): Promise<StoredItem> {
  const [item] = await startItems(store, [facts]);
  return item as StoredItem;
}

/** All of one parent, in one step. */
export function startItems(store: Store, facts: readonly StartFacts[]): Promise<StoredItem[]> {
  const parent = facts[0]?.parent;
  return store.items.change({
    id: nextId(),
    items: parent === undefined ? [] : [parent.id],
    decide: async () => facts.map((one) => started(newItem(one), one)),
  });
}

export interface ChangeFacts {
  readonly to?: string;
  readonly move?: string;
  readonly data?: string;
  readonly jobs?: readonly NewJob[];
  readonly awaitsJobs?: boolean;
  readonly limitMs?: number;
  readonly line?: Partial<ItemWrite["line"]>;
}

/** With `move` and `to`, a move; otherwise a change of its data. */
export function writeOf(item: StoredItem, facts: ChangeFacts): ItemWrite {
  const { to, move, data = item.data, jobs = [], awaitsJobs = false, limitMs = null } = facts;
  const action = move === undefined ? "update" : "move";
  const line = { ...signature, action, move: move ?? null, ...facts.line } as const;
  return { item, line, status: to ?? item.status, data, jobs, awaitsJobs, limitMs };
}

/** Changes one item, or several in one step. */
export async function changeItem(
  store: Store,
  { id }: { id: string },
  facts: ChangeFacts,
): Promise<StoredItem> {
  const [item] = await store.items.change({
    id: nextId(),
    items: [id],
    decide: async ({ items }) => [writeOf(items.get(id) as StoredItem, facts)],
  });
  return item as StoredItem;
}

export const pay = { move: "pay", to: "paid" };
export const ship = { move: "ship", to: "shipped" };
export const cancelled = { move: "cancel", to: "cancelled" };
export const pack = { move: "pack", to: "packed" };

export async function mustFindItem(store: Store, { id }: { id: string }): Promise<StoredItem> {
  const item = await store.items.find(id);
  assert.ok(item !== null, `there is no item ${id}`);
  return item;
}

/** All that the store tells about items: two pictures are equal when nothing happened in between. */
export async function pictureOfItems(
  store: Store,
  items: readonly { id: string }[],
): Promise<unknown[]> {
  return Promise.all(
    items.map(async ({ id }) => ({
      item: await store.items.find(id),
      history: await store.items.history({ item: id, after: 0, limit: 100 }),
      progress: await store.items.progressOf(id),
      jobs: await store.items.jobsOf(id),
    })),
  );
}
