/** Workflows and items as the store reads and writes them. */
import type { ChildrenIn, ItemAction, ItemRecord } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { NewJob } from "../jobs/store.ts";

export interface Declaration {
  readonly name: string;
  readonly version: number;
  /** The workflow of its items' parents; its own name: items may have a parent of the same workflow. */
  readonly parent: string | null;
  readonly keepMs: number | null;
  readonly types: readonly string[];
  readonly states: readonly DeclaredState[];
  readonly moves: readonly DeclaredMove[];
}

interface DeclaredState {
  readonly name: string;
  readonly isInitial: boolean;
  readonly isFinal: boolean;
}

export interface DeclaredMove {
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

export interface StoredWorkflow extends Declaration {
  readonly declaredAt: number;
}

/** A row of the table; its data is text. */
export interface StoredItem extends Omit<ItemRecord, "data"> {
  readonly data: string;
  readonly depth: number;
  /** The number and the hash of the last line in its audit. */
  readonly auditSeq: number;
  readonly auditHash: string;
}

export interface ItemsChange {
  /** Identifies the change when its answer was lost. */
  readonly id: string;
  /** The change may have been made before under this id: then nothing is written, and the items are returned. */
  readonly once?: boolean;
  /** The items to change. All of them must exist. */
  readonly items: readonly string[];
  /** Their ancestors, root first, if the caller knows them. */
  readonly above?: readonly string[];
  decide(seen: Seen): Promise<readonly ItemWrite[]>;
}

/** The input of `decide`. It is locked until the change is written. */
export interface Seen {
  readonly now: number;
  /** The items to change, and their ancestors. */
  readonly items: ReadonlyMap<string, StoredItem>;
  progress(item: string): Promise<ChildrenIn[]>;
}

export interface ItemWrite {
  /** The item before the change, or the item to start. */
  readonly item: StoredItem;
  readonly line: NewLine;
  readonly status: string;
  readonly data: string;
  readonly jobs: readonly NewJob[];
  /** It moves automatically when all these jobs have ended. */
  readonly awaitsJobs: boolean;
  /** It moves automatically after this long in the state; null: never. */
  readonly limitMs: number | null;
}

export interface NewLine {
  readonly action: ItemAction;
  readonly move: string | null;
  readonly actor: string;
  readonly reason: string | null;
  readonly lockWaitMs: number | null;
  readonly traceId: string | null;
}

export interface ItemFilter {
  /** Required for lists by status or tenant: no other index has their order. */
  readonly workflow?: string;
  readonly status?: string;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: string;
  /** Only items whose id begins with this, in either case, with or without dashes. */
  readonly prefix?: string;
  readonly before?: string;
  readonly limit: number;
}

export interface HistoryFilter {
  readonly item: string;
  readonly after: number;
  readonly limit: number;
}

export interface DueItem {
  readonly item: string;
  readonly workflow: string;
  /** The time limit of its state, or its ended jobs. */
  readonly reason: "limit" | "jobs";
  /** When it entered the state. */
  readonly enteredAt: number;
  readonly dueAt: number;
}

export interface ItemJob {
  readonly job: string;
  /** Null: it has not ended. */
  readonly status: string | null;
}

/** An item as guards and callers see it. */
export function recordOf(item: StoredItem): ItemRecord {
  const { id, workflow, type, tenant, identifier, parent, root, status } = item;
  const { revision, createdAt, updatedAt, enteredAt } = item;
  const place = { id, workflow, type, tenant, identifier, parent, root, status };
  return { ...place, data: decode(item.data), revision, createdAt, updatedAt, enteredAt };
}

export function recordOrNull(item: StoredItem | null): ItemRecord | null {
  return item === null ? null : recordOf(item);
}

export interface LineRange {
  /** The last line of the page before, or of the range before. */
  readonly after: { readonly item: string; readonly seq: number } | null;
  /** The last item of the range; null: to the end. */
  readonly upTo: string | null;
  readonly limit: number;
}
