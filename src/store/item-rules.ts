/** What every database enforces about items, as far as it is spelt the same everywhere. */

/** How an item says what its last change was: the database makes the line of the audit from these. */
const TOLD = [
  "change_id",
  "actor",
  "action",
  "move",
  "reason",
  "lock_wait_us",
  "trace_id",
  "jobs",
  "data_hash",
];

/** What changes with a line in the audit and never without. */
const AUDITED = ["status", "data", "entered_at", "audit_hash", ...TOLD];

/** What an item keeps from its start to its end. */
const KEPT = [
  "id",
  "workflow",
  "type",
  "tenant",
  "identifier",
  "parent_id",
  "root_id",
  "depth",
  "created_at",
];

const of =
  (columns: readonly string[]) =>
  (row: "new" | "old"): string =>
    `(${columns.map((column) => `${row}.${column}`).join(", ")})`;

export const audited = of(AUDITED);
export const kept = of(KEPT);

/** `old` is null where the item is started: there is no line before. */
export const audit = (table: string, old: { status: string; hash: string }): string => `
  insert into ${table}
         (item_id, seq, at, old_status, new_status, revision, previous_hash, hash, ${TOLD.join(", ")})
  values (new.id, new.audit_seq, new.updated_at, ${old.status}, new.status, new.revision, ${old.hash}, new.audit_hash,
          ${TOLD.map((column) => `new.${column}`).join(", ")});`;

/** The words of the refusals, the same on every database. */
export const words = {
  initial:
    "an item begins in the initial state of its workflow, or is imported into a declared one, at revision 1",
  type: "the workflow declares no such type",
  orphan: "an item of this workflow needs a parent",
  parent: "there is no such parent",
  family: "the parent is of another workflow than declared",
  place: "an item stands below its parent",
  ended: "the parent has ended",
  behind: "a parent is never behind its children",
  move: "the workflow declares no such move",
  stay: "an item is in a state since the move that brought it there",
  keeps: "an item keeps its workflow, type, tenant, identifier and parent",
  revision: "a revision goes up by one with every change, and time does not go back",
  audited: "every change of an item leaves one line in its audit",
  retention: "items and their audit are deleted by their retention only",
  living: "only what has ended is deleted, and nothing of a workflow that keeps its items for ever",
  keep: "a workflow with items stays, and how long it keeps them changes with a line of the audit that says so",
  written: "what is in the audit stays as it is",
  told: "the audit is written by the database, with the change that it tells of",
} as const;
