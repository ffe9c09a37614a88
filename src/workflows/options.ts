/** Options of the item methods, checked before anything is locked. */
import { type Audited, OPERATOR_OPTIONS } from "../audit/entry.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { isId } from "../core/id.ts";
import { checkFields, type ItemRecord } from "../core/item.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
import type { HistoryFilter, ItemFilter, Seen } from "./item-record.ts";
import type { Asked, Started } from "./plan.ts";
import type { AnyWorkflow } from "./workflow.ts";

const PATCH = { what: "patch of an item", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** Who makes a change and why, what it changes, and what it expects. */
export interface ItemChange<Data> extends Audited {
  /** Fields of the data to replace; an undefined field is removed. */
  readonly patch?: Partial<Data>;
  /** The revision that the caller read: any other is refused with ItemChangedError. */
  readonly expect?: number;
  /** The `enteredAt` that the caller read: an item that left its state since is refused with ItemChangedError. */
  readonly since?: number;
}

/** A change of the children of an item, and perhaps of the item itself. */
export interface ChildChange<Move extends string, Data> extends ItemChange<Data> {
  /** The move of the child. Default: none, only its data changes. */
  readonly move?: Move;
  /** A change of its parent in the same transaction. */
  readonly parent?: {
    /** The move of the parent. Default: none. */
    readonly move?: string;
    /** The fields of the parent's data that change. */
    readonly patch?: Readonly<Record<string, unknown>>;
  };
}

/** A change of one child: its move, its new data, and the revision it is based on. */
export interface ChildPatch<Move extends string, Data> {
  /** The id of the child. */
  readonly id: string;
  /** Its move. Default: none, only its data changes. */
  readonly move?: Move;
  /** The fields of its data that change. */
  readonly patch?: Partial<Data>;
  /** The revision that it must still have. Default: any. */
  readonly expect?: number;
}

/** What an item is: its data, its type, its parent. */
export interface ItemContent<Data, Type extends string> {
  /** What the item is about; validated by the schema of the workflow. */
  readonly data: Data;
  /** Default: the first type of the workflow. */
  readonly type?: Type;
  /** Default: the parent's; without a parent `default`. */
  readonly tenant?: string;
  /** The caller's own identifier. Default: the item's id. */
  readonly identifier?: string;
  /** Required if the workflow has a `parent`. */
  readonly parent?: string | ItemRecord;
}

/** A new item: its data, its type, its parent, and who starts it. */
export interface NewItem<Data, Type extends string> extends ItemContent<Data, Type>, Audited {}

/** An item of another system, in its state there. */
export interface ImportedItem<State extends string, Data, Type extends string> extends ItemContent<
  Data,
  Type
> {
  /** The state that it is in; no move leads there. */
  readonly status: State;
  /** Default: `enteredAt`. */
  readonly createdAt?: Date | number;
  /** When it entered this state: the state's limit counts from then. Default: now. */
  readonly enteredAt?: Date | number;
  /** Enqueues the jobs that the state enqueues on entry. Default: false, because they ran in the other system. */
  readonly enter?: boolean;
}

/** Which items to list, and how many. */
export interface ItemsFilter<State extends string> {
  /** Items in this state. */
  readonly status?: State;
  /** Items of this tenant. */
  readonly tenant?: string;
  /** Items with this identifier. */
  readonly identifier?: string;
  /** The children of this item. */
  readonly parent?: string;
  /** The last id of the page before. */
  readonly before?: string;
  /** The most items of the page. Default 100, at most 1,000. */
  readonly limit?: number;
}

/** A page of the history of an item. */
export interface HistoryOptions {
  /** The number of the last line of the page before. */
  readonly after?: number;
  /** The most entries of the page. */
  readonly limit?: number;
}

const NEW_ITEM = ["data", "type", "tenant", "identifier", "parent"];
export const START_OPTIONS = new Set([...NEW_ITEM, ...OPERATOR_OPTIONS]);
const IMPORT_OPTIONS = new Set([...NEW_ITEM, "status", "createdAt", "enteredAt", "enter"]);
const CHANGE = ["patch", "expect", "since", "move", "parent"];
export const CHANGE_OPTIONS = new Set([...OPERATOR_OPTIONS, ...CHANGE]);
export const CHILD_OPTIONS = new Set(["id", "move", "patch", "expect"]);
const PARENT_OPTIONS = new Set(["move", "patch"]);
const LIST_OPTIONS = new Set(["status", "tenant", "identifier", "parent", "before", "limit"]);
const HISTORY_OPTIONS = new Set(["after", "limit"]);

export function startedOf(
  workflow: AnyWorkflow,
  item: ItemContent<unknown, string>,
  id: string,
): Started {
  checkKnown(item, START_OPTIONS);
  const { type = workflow.types[0] ?? "", tenant, identifier = id, parent, data } = item;
  if (!workflow.types.includes(type)) {
    const problem = `unknown type '${type}'. Types: ${workflow.types.join(", ")}.`;
    throw new InvalidArgumentError({ field: "type", problem });
  }
  if (parent === undefined && workflow.parent !== null) {
    const problem = `an item of '${workflow.name}' needs a parent of '${workflow.parent.name}'.`;
    throw new InvalidArgumentError({ field: "parent", problem });
  }
  const above = typeof parent === "object" ? parent?.id : parent;
  return {
    workflow,
    id,
    type,
    tenant: tenant === undefined ? null : checkName("tenant", tenant),
    identifier: checkKey("identifier", identifier),
    parent: parent === undefined ? null : checkText("parent", above as string),
    data,
  };
}

export function importedOf(
  workflow: AnyWorkflow,
  item: ImportedItem<string, unknown, string>,
  id: string,
): Started {
  checkKnown(item, IMPORT_OPTIONS);
  const { status, createdAt, enteredAt, enter = false, ...rest } = item;
  checkState(workflow, status);
  const imported = {
    status,
    createdAt: instantOf("createdAt", createdAt),
    enteredAt: instantOf("enteredAt", enteredAt),
    enter,
  };
  return { ...startedOf(workflow, rest, id), imported };
}

function checkState({ name, states }: AnyWorkflow, status: string): void {
  if (states.has(status)) return;
  const problem = `workflow '${name}' has no state '${status}'. It has: ${[...states.keys()].join(", ")}.`;
  throw new InvalidArgumentError({ field: "status", problem });
}

function instantOf(field: string, instant: Date | number | undefined): number | null {
  if (instant === undefined) return null;
  const ms = instant instanceof Date ? instant.getTime() : instant;
  return checkWhole(field, ms, { least: 1, most: Number.MAX_SAFE_INTEGER });
}

/** The given fields of a filter. */
export function filterOf(
  workflow: AnyWorkflow,
  filter: ItemsFilter<string>,
): Omit<ItemFilter, "workflow" | "limit"> {
  checkKnown(filter, LIST_OPTIONS);
  const { limit: _limit, ...texts } = filter;
  const given = Object.entries(texts).filter(([, text]) => text !== undefined);
  for (const [field, text] of given) checkText(field, text);
  if (filter.status !== undefined) checkState(workflow, filter.status);
  for (const [field, id] of Object.entries({ parent: filter.parent, before: filter.before })) {
    if (id === undefined || isId(id)) continue;
    throw new InvalidArgumentError({ field, problem: "must be the id of an item." });
  }
  return Object.fromEntries(given);
}

export function askedOf(
  workflow: AnyWorkflow,
  id: string,
  change: {
    readonly move?: string;
    readonly patch?: unknown;
    readonly expect?: number;
    readonly since?: number;
  },
): Asked {
  const { move, patch, expect, since } = change;
  if (move === undefined && patch === undefined) {
    throw new InvalidArgumentError({ field: "patch", problem: "pass a move, a patch, or both." });
  }
  if (patch !== undefined) encode(checkFields("patch", patch), PATCH);
  const whole = { least: 0, most: Number.MAX_SAFE_INTEGER };
  return {
    workflow,
    id: checkText("id", id),
    move: move === undefined ? null : checkText("move", move),
    patch,
    expect: expect === undefined ? null : checkWhole("expect", expect, whole),
    since: since === undefined ? null : checkWhole("since", since, whole),
  };
}

export function parentAsked(
  workflow: AnyWorkflow,
  item: ItemRecord,
  change: { readonly move?: string; readonly patch?: unknown },
): Asked {
  checkKnown(change, PARENT_OPTIONS);
  const above = workflow.nests ? workflow : workflow.parent;
  if (above === null || item.parent === null) {
    throw new InvalidArgumentError({ field: "parent", problem: `item ${item.id} has no parent.` });
  }
  return askedOf(above, item.parent, change);
}

export function checkBelow(seen: Seen, id: string, parent: string): void {
  if (seen.items.get(id)?.parent === parent) return;
  const problem = `item ${id} is not a child of ${parent}.`;
  throw new InvalidArgumentError({ field: "changes", problem });
}

const HISTORY_LIMITS = { most: 1_000, usual: 100 };

/** Each line may have jobs, and each job attempts. */
export const TRAIL_LIMITS = { most: 200, usual: 50 };

export function historyPage(
  id: string,
  options: HistoryOptions,
  { most, usual } = HISTORY_LIMITS,
): HistoryFilter {
  checkKnown(options, HISTORY_OPTIONS);
  const { after = 0, limit = usual } = options;
  return {
    item: checkText("id", id),
    after: checkWhole("after", after, { least: 0, most: Number.MAX_SAFE_INTEGER }),
    limit: checkWhole("limit", limit, { least: 1, most }),
  };
}

/** The given fields only. */
export function auditedOf({ actor, reason, trace }: Audited): Audited {
  return {
    actor,
    ...(reason === undefined ? {} : { reason }),
    ...(trace === undefined ? {} : { trace }),
  };
}
