/** What the store promises about the audit: what operators did, and the lines of all items in one stream. */
import type { AuditEntry } from "../core/audit.ts";
import type { ItemEntry } from "../core/item.ts";

export interface Actions {
  /** Adds a line by itself, about something that this database does not know of. */
  noteAction(signature: Signature, action: NewAction): Promise<void>;

  /** A page of what operators did, in order. */
  actions(filter: ActionFilter): Promise<AuditEntry[]>;

  /** The last line that was written, and the last that was pruned. Null: an operator of the database deleted the head. */
  auditHead(): Promise<AuditHead | null>;

  /**
   * Lets go of the oldest lines, up to `limit` of them, as far as all are older than `keepMs`; that is an action itself, and
   * leaves a line. Returns how many went.
   */
  pruneActions(pruning: Pruning): Promise<number>;

  /** The lines of items, in the order of their ids, for whoever looks through all of them. */
  itemLines(range: LineRange): Promise<ItemEntry[]>;
}

/** What somebody did as an operator. */
export interface NewAction {
  /** Such as `job.cancel`. */
  readonly action: string;
  /** As in `subjects`. */
  readonly subject: string;
  readonly oldStatus?: string | null;
  readonly newStatus?: string | null;
  readonly detail?: string | null;
}

/** Who acts as an operator, and why. */
export interface Signature {
  /** Of the line in the audit: by it an action is recognised whose answer was lost. */
  readonly id: string;
  readonly actor: string;
  readonly reason?: string | null;
  readonly traceId?: string | null;
}

export interface ActionFilter {
  readonly subject?: string;
  readonly actor?: string;
  /** The first lines behind this one. Without: the last there are, or the last before `before`. */
  readonly after?: number;
  readonly before?: number;
  readonly limit: number;
}

/** Where the chain begins and where it ends. */
export interface AuditHead {
  readonly seq: number;
  readonly hash: string;
  /** The last line that was pruned, and the hash that the next one carries. */
  readonly prunedSeq: number;
  readonly prunedHash: string;
  /** The newest line about a pruning. It says the same, or lines were removed without one. */
  readonly pruning: PruneLine | null;
}

export type PruneLine = Pick<AuditEntry, "seq" | "at" | "actor" | "detail">;

export interface Pruning extends Signature {
  readonly keepMs: number;
  readonly limit: number;
}

export interface LineRange {
  /** The last line of the page before, or of the range before. */
  readonly after: { readonly item: string; readonly seq: number } | null;
  /** The last item of the range; null: to the end. */
  readonly upTo: string | null;
  readonly limit: number;
}
