/** An item of a workflow as an application reads it, and the history of its changes. */
import { invalid } from "./errors.ts";
import type { Json } from "./json.ts";

/** The most levels of a tree of items, including the root. */
export const ITEM_LEVELS_MAX = 8;

/** An item of a workflow, as plain data. */
export interface ItemRecord<
  State extends string = string,
  Data = unknown,
  Type extends string = string,
> {
  /** Its UUID. */
  readonly id: string;
  /** The name of its workflow. */
  readonly workflow: string;
  /** One of the types of the workflow. */
  readonly type: Type;
  /** The customer that it belongs to; `default` if none was given. */
  readonly tenant: string;
  /** The application's own name for it. */
  readonly identifier: string;
  /** The id of the item that it belongs to. */
  readonly parent: string | null;
  /** The id of the topmost item; its own if it has no parent. */
  readonly root: string;
  /** The state that it is in. */
  readonly status: State;
  /** The application's own data, as the schema of the workflow describes it. */
  readonly data: Data;
  /** 1 at the start; every change of the item or of an item below it adds one. */
  readonly revision: number;
  /** When it was started (ms since 1970). */
  readonly createdAt: number;
  /** Never earlier than that of an item below it. */
  readonly updatedAt: number;
  /** Since when it has had this status. */
  readonly enteredAt: number;
}

/** How many items below an item are in a state. */
export interface ChildrenIn {
  /** The name of the workflow of the children. */
  readonly workflow: string;
  /** The state that they are in. */
  readonly status: string;
  /** Whether no move leads out of the state. */
  readonly isFinal: boolean;
  /** How many items are in it. */
  readonly children: number;
}

export const itemActions = ["start", "import", "move", "update"] as const;
/** What an entry of an item's history records. */
export type ItemAction = (typeof itemActions)[number];

/** Whether a line is the first of its item. */
export function begins({ action }: { readonly action: ItemAction }): boolean {
  return action === "start" || action === "import";
}

/** One line of an item's history. The lines of an item have no gaps, and each carries the hash of the one before. */
export interface ItemEntry {
  /** The id of the item. */
  readonly item: string;
  /** From 1. */
  readonly seq: number;
  /** When it was written (ms since 1970, the database's clock). */
  readonly at: number;
  /** Who made the change: a person, a program, or a job. */
  readonly actor: string;
  /** What kind of change it was. */
  readonly action: ItemAction;
  /** The name of the move; null: the change was not a move. */
  readonly move: string | null;
  /** Null for the first line. */
  readonly oldStatus: string | null;
  /** The state after the change. */
  readonly newStatus: string;
  /** The revision of the item after the change. */
  readonly revision: number;
  /** What the caller gave as `reason`; null: nothing. */
  readonly reason: string | null;
  /** How long the distributed lock took; null: none was taken. */
  readonly lockWaitMs: number | null;
  /** The trace id of the attempt, or one that the application gave. */
  readonly traceId: string | null;
  /** The jobs that the change enqueued. */
  readonly jobs: readonly string[];
  /** The hash of the data. */
  readonly dataHash: string;
  /** The hash of the line before it, which a verification compares. */
  readonly previousHash: string;
  /** The SHA-256 of this line and the hash before it. */
  readonly hash: string;
}

export type Fields = Readonly<Record<string, Json | undefined>>;

/** The data with the fields of the patch; a field that is undefined is removed. */
export function patched(data: unknown, patch: unknown): Fields {
  const merged = { ...checkFields("data", data), ...checkFields("patch", patch) };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
}

export function checkFields(field: string, value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw invalid(field, "must be an object with named fields.");
}
