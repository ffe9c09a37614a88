/** Options of the item methods, checked before anything is locked. */
import { type Audited, auditedFields, operatorFields } from "../audit/entry.ts";
import { invalid } from "../core/errors.ts";
import { checkFields, type ItemRecord } from "../core/item.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkKey, checkName } from "../core/name.ts";
import {
  by,
  type Checked,
  checkText,
  idOf,
  instant,
  needed,
  optionsOf,
  passed,
  whole,
  yes,
} from "../core/options.ts";
import type { ItemFilter, Seen } from "./item-record.ts";
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
  /** The number of the last line of the page before. Default 0: the first page. */
  readonly after?: number;
  /** The most entries of the page. */
  readonly limit?: number;
}

const itemFields = {
  data: passed<unknown>(),
  type: passed<string>(),
  tenant: by(checkName),
  identifier: by(checkKey),
  parent: by((field, parent: string | ItemRecord) =>
    checkText(field, typeof parent === "object" ? parent?.id : parent),
  ),
};

/** An item that is started alone is given with its operator. */
const startOptions = optionsOf<ItemContent<unknown, string> & Partial<Audited>>()({
  ...itemFields,
  ...operatorFields,
});

const importOptions = optionsOf<ImportedItem<string, unknown, string>>()({
  ...itemFields,
  status: needed(passed<string>()),
  createdAt: instant(1),
  enteredAt: instant(1),
  enter: yes(false),
});

const itemId = idOf("an item");

const listOptions = optionsOf<ItemsFilter<string>>()({
  status: by(checkText),
  tenant: by(checkText),
  identifier: by(checkText),
  parent: itemId,
  before: itemId,
  limit: whole(1, 1_000, 100),
});

const count = whole(0, Number.MAX_SAFE_INTEGER);

const changeFields = { move: by(checkText), patch: by(checkPatch) };

export const changeOptions = optionsOf<ChildChange<string, object>>()({
  ...changeFields,
  expect: count,
  since: count,
  parent: optionsOf<NonNullable<ChildChange<string, object>["parent"]>>()(changeFields).nested(),
  ...auditedFields,
});

export const childOptions = optionsOf<ChildPatch<string, object>>()({
  ...changeFields,
  id: needed(by(checkText)),
  expect: count,
});

const pageOf = (most: number, usual: number) =>
  optionsOf<HistoryOptions>()({
    after: whole(0, Number.MAX_SAFE_INTEGER, 0),
    limit: whole(1, most, usual),
  });

export const historyOptions = pageOf(1_000, 100);

/** Each line may have jobs, and each job attempts. */
export const trailOptions = pageOf(200, 50);

export function startedOf(
  workflow: AnyWorkflow,
  item: ItemContent<unknown, string>,
  id: string,
): Started {
  return contentOf(workflow, startOptions.read(item), id);
}

export function importedOf(
  workflow: AnyWorkflow,
  item: ImportedItem<string, unknown, string>,
  id: string,
): Started {
  const { status, createdAt, enteredAt, enter, ...content } = importOptions.read(item);
  checkState(workflow, status);
  const times = { createdAt: createdAt ?? null, enteredAt: enteredAt ?? null };
  return { ...contentOf(workflow, content, id), imported: { status, enter, ...times } };
}

function contentOf(
  workflow: AnyWorkflow,
  content: Checked<typeof itemFields>,
  id: string,
): Started {
  const { type = workflow.types[0] ?? "", tenant, identifier = id, parent, data } = content;
  if (!workflow.types.includes(type)) {
    throw invalid("type", `unknown type '${type}'. Types: ${workflow.types.join(", ")}.`);
  }
  if (parent === undefined && workflow.parent !== null) {
    const problem = `an item of '${workflow.name}' needs a parent of '${workflow.parent.name}'.`;
    throw invalid("parent", problem);
  }
  return { workflow, id, type, tenant: tenant ?? null, identifier, parent: parent ?? null, data };
}

function checkState({ name, states }: AnyWorkflow, status: string): void {
  if (states.has(status)) return;
  const problem = `workflow '${name}' has no state '${status}'. It has: ${[...states.keys()].join(", ")}.`;
  throw invalid("status", problem);
}

export function filterOf(
  workflow: AnyWorkflow,
  filter: ItemsFilter<string>,
): Omit<ItemFilter, "workflow"> {
  const checked = listOptions.read(filter);
  if (checked.status !== undefined) checkState(workflow, checked.status);
  return checked;
}

function checkPatch<Patch>(field: string, patch: Patch): Patch {
  encode(checkFields(field, patch), PATCH);
  return patch;
}

interface CheckedChange {
  readonly move?: string;
  readonly patch?: unknown;
  readonly expect?: number;
  readonly since?: number;
}

export function askedOf(workflow: AnyWorkflow, id: string, change: CheckedChange): Asked {
  const { move, patch, expect, since } = change;
  if (move === undefined && patch === undefined) {
    throw invalid("patch", "pass a move, a patch, or both.");
  }
  const seen = { expect: expect ?? null, since: since ?? null };
  return { workflow, id: checkText("id", id), move: move ?? null, patch, ...seen };
}

export function parentAsked(workflow: AnyWorkflow, item: ItemRecord, change: CheckedChange): Asked {
  const above = workflow.nests ? workflow : workflow.parent;
  if (above === null || item.parent === null) {
    throw invalid("parent", `item ${item.id} has no parent.`);
  }
  return askedOf(above, item.parent, change);
}

export function checkBelow(seen: Seen, id: string, parent: string): void {
  if (seen.items.get(id)?.parent === parent) return;
  throw invalid("changes", `item ${id} is not a child of ${parent}.`);
}
