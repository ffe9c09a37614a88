/** An item: one row of a workflow, as it is read; and what is kept about its changes. */
import { InvalidArgumentError } from "./errors.ts";
import type { Json } from "./json.ts";

/** How many items stand above one another at most, the root among them. */
export const ITEM_LEVELS_MAX = 8;

export interface ItemRecord<
  State extends string = string,
  Data = unknown,
  Type extends string = string,
> {
  readonly id: string;
  readonly workflow: string;
  readonly type: Type;
  readonly tenant: string;
  /** The caller's own name for it. */
  readonly identifier: string;
  /** The item that it belongs to. */
  readonly parent: string | null;
  /** The one at the top; its own id if it has no parent. */
  readonly root: string;
  readonly status: State;
  readonly data: Data;
  /** 1 when it is started, and one more with every change of its own or of an item below it. */
  readonly revision: number;
  readonly createdAt: number;
  /** Never behind that of an item below it. */
  readonly updatedAt: number;
  /** Since when it has this status. */
  readonly enteredAt: number;
}

/** How many items below one are in which state. */
export interface ChildrenIn {
  readonly workflow: string;
  readonly status: string;
  readonly isFinal: boolean;
  readonly children: number;
}

export const itemActions = ["start", "import", "move", "update"] as const;
export type ItemAction = (typeof itemActions)[number];

/** Whether a line is the first of its item. */
export function begins({ action }: { readonly action: ItemAction }): boolean {
  return action === "start" || action === "import";
}

/** One line of an item's history. The lines of an item have no gaps, and each carries the hash of the one before. */
export interface ItemEntry {
  readonly item: string;
  /** From 1. */
  readonly seq: number;
  readonly at: number;
  readonly actor: string;
  readonly action: ItemAction;
  /** The name of the move; null: it was none. */
  readonly move: string | null;
  /** Null when it was started. */
  readonly oldStatus: string | null;
  readonly newStatus: string;
  readonly revision: number;
  readonly reason: string | null;
  /** How long the distributed lock took; null: none was taken. */
  readonly lockWaitMs: number | null;
  /** The attempt that did it, or whatever the caller traces by. */
  readonly traceId: string | null;
  /** The jobs that were enqueued with it. */
  readonly jobs: readonly string[];
  /** Of the data, as it was written. */
  readonly dataHash: string;
  readonly previousHash: string;
  readonly hash: string;
}

export type Fields = Readonly<Record<string, Json | undefined>>;

/** The named fields replace those of the data; one that is undefined is taken out. */
export function patched(data: unknown, patch: unknown): Fields {
  const merged = { ...checkFields("data", data), ...checkFields("patch", patch) };
  return Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined));
}

export function checkFields(field: string, value: unknown): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new InvalidArgumentError({ field, problem: "give an object with named fields." });
}
