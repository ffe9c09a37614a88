/** Errors of workflows and items. */
import { countRefusal, HoldfastError } from "../core/errors.ts";

/** There is no such item. */
export class ItemNotFoundError extends HoldfastError {
  /** The id that was looked for. */
  readonly id: string;

  constructor(facts: { id: string; workflow?: string }) {
    const of = facts.workflow === undefined ? "" : ` of workflow '${facts.workflow}'`;
    super("ITEM_NOT_FOUND", `There is no item ${facts.id}${of}.`);
    this.id = facts.id;
  }
}

/** The workflow does not declare this move from the item's state. */
export class InvalidMoveError extends HoldfastError {
  /** The id of the item. */
  readonly item: string;
  /** The name of the move that was asked for. */
  readonly move: string;
  /** The state that the item is in. */
  readonly from: string;
  /** The declared moves from that state. */
  readonly allowed: readonly string[];

  constructor(facts: {
    item: string;
    workflow: string;
    move: string;
    from: string;
    allowed: readonly string[];
  }) {
    const allowed = facts.allowed.length === 0 ? "none" : facts.allowed.join(", ");
    super(
      "INVALID_MOVE",
      `Item ${facts.item} is '${facts.from}': workflow '${facts.workflow}' has no move '${facts.move}' from there. ` +
        `There are: ${allowed}.`,
    );
    this.item = facts.item;
    this.move = facts.move;
    this.from = facts.from;
    this.allowed = facts.allowed;
    countRefusal(this.code);
  }
}

/** A guard refused the move. */
export class MoveRefusedError extends HoldfastError {
  /** The id of the item. */
  readonly item: string;
  /** The name of the move. */
  readonly move: string;
  /** The sentence that the guard returned; null: it returned false. */
  readonly reason: string | null;

  constructor(facts: { item: string; move: string; reason: string | null }) {
    const why = facts.reason ?? "The guard gave no reason.";
    super("MOVE_REFUSED", `Item ${facts.item} cannot make the move '${facts.move}'. ${why}`);
    this.item = facts.item;
    this.move = facts.move;
    this.reason = facts.reason;
    countRefusal(this.code);
  }
}

/** The item changed since the caller read it. */
export class ItemChangedError extends HoldfastError {
  /** The id of the item. */
  readonly item: string;
  /** Null: the caller expected a status, not a revision. */
  readonly expected: number | null;
  /** The revision that the item has now. */
  readonly found: number;

  constructor(facts: { item: string; expected: number | null; found: number }) {
    const not = facts.expected === null ? "" : `, not ${facts.expected}`;
    super(
      "ITEM_CHANGED",
      `Item ${facts.item} has revision ${facts.found}${not}: it was changed in the meantime. Read it again, then decide.`,
    );
    this.item = facts.item;
    this.expected = facts.expected;
    this.found = facts.found;
    countRefusal(this.code);
  }
}

/** The database refused to write an item because it would violate a rule. Nothing was written. */
export class IntegrityViolationError extends HoldfastError {
  constructor(facts: { problem: string }, cause?: unknown) {
    super("INTEGRITY_VIOLATION", `The item was not changed. ${facts.problem}`, cause);
    countRefusal(this.code);
  }
}

/** The database has a different declaration of the same version. */
export class WorkflowConflictError extends HoldfastError {
  /** The name of the workflow. */
  readonly workflow: string;
  /** The version that the database has with another content. */
  readonly version: number;

  constructor(facts: { workflow: string; version: number }) {
    super(
      "WORKFLOW_CONFLICT",
      `Workflow '${facts.workflow}' is declared differently in the database as version ${facts.version}. ` +
        `Raise its version when you change it.`,
    );
    this.workflow = facts.workflow;
    this.version = facts.version;
  }
}

/** Items that a changed workflow has no place for. */
export interface Strand {
  /** The part that is missing in the new declaration, such as `state 'open'`. */
  readonly lacks: string;
  /** How many items need the missing part. */
  readonly items: number;
  /** Some of their ids. */
  readonly examples: readonly string[];
}

/** Living items do not fit the new declaration of their workflow, which was not stored. */
export class ItemsStrandedError extends HoldfastError {
  /** The name of the workflow. */
  readonly workflow: string;
  /** What the new declaration lacks, and which items need it. */
  readonly stranded: readonly Strand[];

  constructor(facts: { workflow: string; version: number; stranded: readonly Strand[] }) {
    const list = facts.stranded.map(
      ({ lacks, items, examples }) => `${items} with ${lacks} (${examples.join(", ")})`,
    );
    super(
      "ITEMS_STRANDED",
      `Version ${facts.version} of workflow '${facts.workflow}' would strand items: ${list.join("; ")}. ` +
        `Move them first, or keep the missing parts in the declaration.`,
    );
    this.workflow = facts.workflow;
    this.stranded = facts.stranded;
  }
}
