/** What the store promises about workflows: declarations, items, and the audit of their changes. */
import type { ChildrenIn, ItemAction, ItemRecord } from "../core/item.ts";
import { decode } from "../core/json.ts";
import type { NewJob } from "../jobs/store.ts";

export interface Declaration {
  readonly name: string;
  readonly version: number;
  /** The workflow of the parents of its items; its own name: they may have one of their own kind. */
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

/** As it stands in its table; its data is text. */
export interface StoredItem extends Omit<ItemRecord, "data"> {
  readonly data: string;
  readonly depth: number;
  /** The number and the hash of the last line in its audit. */
  readonly auditSeq: number;
  readonly auditHash: string;
}

export interface ItemsChange {
  /** By which the change is recognised when its answer was lost. */
  readonly id: string;
  /** Somebody may have made it before under this id: then nothing is written, and the items come back as they are. */
  readonly once?: boolean;
  /** Whom it is about. All of them must be there. */
  readonly items: readonly string[];
  /** Those above them, where the caller knows; their top first. Otherwise they are looked for. */
  readonly above?: readonly string[];
  decide(seen: Seen): Promise<readonly ItemWrite[]>;
}

/** What `decide` goes by: nobody else changes any of it until the change is written. */
export interface Seen {
  readonly now: number;
  /** Those it is about, and all above them. */
  readonly items: ReadonlyMap<string, StoredItem>;
  progress(item: string): Promise<ChildrenIn[]>;
}

export interface ItemWrite {
  /** As it was seen, or as it is to be started. */
  readonly item: StoredItem;
  readonly line: NewLine;
  readonly status: string;
  readonly data: string;
  readonly jobs: readonly NewJob[];
  /** It makes a move of its own when all these jobs have ended. */
  readonly awaitsJobs: boolean;
  /** After so long in the state it makes a move of its own; null: it may stay. */
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
  /** Needed for lists by status or tenant: without, no index has them in order. */
  readonly workflow?: string;
  readonly status?: string;
  readonly tenant?: string;
  readonly identifier?: string;
  readonly parent?: string;
  /** Only items whose id begins so: in either case, with or without dashes. */
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
  /** Its time in the state is over, or its jobs have ended. */
  readonly reason: "limit" | "jobs";
  /** Since when it is in the state that this is about. */
  readonly enteredAt: number;
  readonly dueAt: number;
}

export interface ItemJob {
  readonly job: string;
  /** Null: it has not ended. */
  readonly status: string | null;
}

// An item as guards and callers see it.

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
