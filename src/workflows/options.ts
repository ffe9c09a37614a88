/** What a caller may say about items, checked before anything is locked. */
import type { Actor, Audited } from "../audit/operator.ts";
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

export interface ItemChange<Data> extends Audited {
  /** Fields of the data that are replaced; one that is undefined is taken out. */
  readonly patch?: Partial<Data>;
  /** The revision that the caller decided by: any other is refused with ItemChangedError. */
  readonly expect?: number;
  /** `enteredAt` as the caller saw it: an item that left its state since then is refused with ItemChangedError. */
  readonly since?: number;
}

export interface ChildChange<Move extends string, Data> extends ItemChange<Data> {
  readonly move?: Move;
  /** What its parent does in the same step. */
  readonly parent?: { readonly move?: string; readonly patch?: Readonly<Record<string, unknown>> };
}

/** One of several children that are changed together. */
export interface ChildPatch<Move extends string, Data> {
  readonly id: string;
  readonly move?: Move;
  readonly patch?: Partial<Data>;
  readonly expect?: number;
}

export interface NewItem<Data, Type extends string> extends Audited {
  readonly data: Data;
  /** Default: the first that the workflow declares. */
  readonly type?: Type;
  /** Default: its parent's; without a parent `default`. */
  readonly tenant?: string;
  /** The caller's own name for it. Default: its id. */
  readonly identifier?: string;
  /** The item that it belongs to; needed if the workflow has a `parent`. */
  readonly parent?: string | ItemRecord;
}

/** An item of another system, in the state that it has there. */
export interface ImportedItem<State extends string, Data, Type extends string> extends Omit<
  NewItem<Data, Type>,
  keyof Audited
> {
  readonly status: State;
  /** Default: `enteredAt`. */
  readonly createdAt?: Date | number;
  /** Since when it has this status: the state's limit counts from then. Default: now. */
  readonly enteredAt?: Date | number;
  /** Enqueues the jobs that the state enqueues on entry. Default: false, because they ran in the other system. */
  readonly enter?: boolean;
}

export interface ItemsFilter<State extends string> {
  readonly status?: State;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: string;
  /** The last id of the page before. */
  readonly before?: string;
  readonly limit?: number;
}

export interface HistoryOptions {
  /** The number of the last line of the page before. */
  readonly after?: number;
  readonly limit?: number;
}

export const START_OPTIONS = new Set([
  "data",
  "type",
  "tenant",
  "identifier",
  "parent",
  "actor",
  "reason",
  "trace",
]);

export const CHANGE_OPTIONS = new Set([
  "actor",
  "reason",
  "trace",
  "patch",
  "expect",
  "since",
  "move",
  "parent",
]);

export const CHILD_OPTIONS = new Set(["id", "move", "patch", "expect"]);

const PARENT_OPTIONS = new Set(["move", "patch"]);

const LIST_OPTIONS = new Set(["status", "tenant", "identifier", "parent", "before", "limit"]);

const HISTORY_OPTIONS = new Set(["after", "limit"]);

export function startedOf(
  workflow: AnyWorkflow,
  item: Omit<NewItem<unknown, string>, keyof Audited>,
  id: string,
): Started {
  checkKnown(item, START_OPTIONS);
  const { type = workflow.types[0] ?? "", tenant, identifier = id, parent, data } = item;
  if (!workflow.types.includes(type)) {
    const problem = `there is no type '${type}'. There are: ${workflow.types.join(", ")}.`;
    throw new InvalidArgumentError({ field: "type", problem });
  }
  if (parent === undefined && workflow.parent !== null) {
    const problem = `an item of '${workflow.name}' stands below one of '${workflow.parent.name}': give parent.`;
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

const IMPORT_OPTIONS = new Set([
  "data",
  "type",
  "tenant",
  "identifier",
  "parent",
  "status",
  "createdAt",
  "enteredAt",
  "enter",
]);

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

/** What a list is asked for, without what is not said. */
export function filterOf(
  workflow: AnyWorkflow,
  filter: ItemsFilter<string>,
): Omit<ItemFilter, "workflow" | "limit"> {
  checkKnown(filter, LIST_OPTIONS);
  const { limit: _limit, ...texts } = filter;
  const said = Object.entries(texts).filter(([, text]) => text !== undefined);
  for (const [field, text] of said) checkText(field, text);
  if (filter.status !== undefined) checkState(workflow, filter.status);
  for (const [field, id] of Object.entries({ parent: filter.parent, before: filter.before })) {
    if (id === undefined || isId(id)) continue;
    throw new InvalidArgumentError({ field, problem: "give the id of an item." });
  }
  return Object.fromEntries(said);
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
    throw new InvalidArgumentError({ field: "patch", problem: "give a move, a patch, or both." });
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
  throw new InvalidArgumentError({
    field: "changes",
    problem: `item ${id} is not below ${parent}.`,
  });
}

const HISTORY_LIMITS = { most: 1_000, usual: 100 };

/** Each line may lead to jobs, and each job to attempts. */
const TRAIL_LIMITS = { most: 200, usual: 50 };

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

export function trailPage(id: string, options: HistoryOptions): HistoryFilter {
  return historyPage(id, options, TRAIL_LIMITS);
}

/** Without what is not said. */
export function auditedOf(signed: {
  readonly actor: Actor;
  readonly reason: string | undefined;
  readonly trace: string | undefined;
}): Audited {
  const { actor, reason, trace } = signed;
  return {
    actor,
    ...(reason === undefined ? {} : { reason }),
    ...(trace === undefined ? {} : { trace }),
  };
}
