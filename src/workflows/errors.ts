/** What can go wrong with workflows and their items. */
import { countRefusal, HoldfastError } from "../core/errors.ts";

/** There is no item of this id, or none of this workflow. */
export class ItemNotFoundError extends HoldfastError {
  readonly id: string;

  constructor(facts: { id: string; workflow?: string }) {
    const of = facts.workflow === undefined ? "" : ` of workflow '${facts.workflow}'`;
    super("ITEM_NOT_FOUND", `There is no item ${facts.id}${of}.`);
    this.id = facts.id;
  }
}

/** The workflow does not declare this move from the state that the item is in. */
export class InvalidMoveError extends HoldfastError {
  readonly item: string;
  readonly move: string;
  readonly from: string;
  /** The moves that there are from there. */
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

/** A guard does not let the item make the move. */
export class MoveRefusedError extends HoldfastError {
  readonly item: string;
  readonly move: string;
  readonly reason: string | null;

  constructor(facts: { item: string; move: string; reason: string | null }) {
    const why = facts.reason ?? "The guard gave no reason.";
    super("MOVE_REFUSED", `Item ${facts.item} may not '${facts.move}'. ${why}`);
    this.item = facts.item;
    this.move = facts.move;
    this.reason = facts.reason;
    countRefusal(this.code);
  }
}

/** Somebody else changed the item since it was read. */
export class ItemChangedError extends HoldfastError {
  readonly item: string;
  /** Null: it was its status that counted. */
  readonly expected: number | null;
  readonly found: number;

  constructor(facts: { item: string; expected: number | null; found: number }) {
    const not = facts.expected === null ? "" : `, not ${facts.expected}`;
    super(
      "ITEM_CHANGED",
      `Item ${facts.item} has revision ${facts.found}${not}: somebody changed it. Read it again, then decide.`,
    );
    this.item = facts.item;
    this.expected = facts.expected;
    this.found = facts.found;
    countRefusal(this.code);
  }
}

/** The database refused to write an item: a rule of its own would be broken. Nothing was written. */
export class IntegrityViolationError extends HoldfastError {
  constructor(facts: { problem: string }, cause?: unknown) {
    super("INTEGRITY_VIOLATION", `The item was not changed. ${facts.problem}`, cause);
    countRefusal(this.code);
  }
}

/** The database has another declaration of the same version. */
export class WorkflowConflictError extends HoldfastError {
  readonly workflow: string;
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

export interface Strand {
  /** What the new declaration lacks, such as `state 'open'`. */
  readonly lacks: string;
  readonly items: number;
  /** Some of their ids. */
  readonly examples: readonly string[];
}

/** Living items do not fit the new declaration of their workflow. It was not changed. */
export class ItemsStrandedError extends HoldfastError {
  readonly workflow: string;
  readonly stranded: readonly Strand[];

  constructor(facts: { workflow: string; version: number; stranded: readonly Strand[] }) {
    const list = facts.stranded.map(
      ({ lacks, items, examples }) => `${items} with ${lacks} (${examples.join(", ")})`,
    );
    super(
      "ITEMS_STRANDED",
      `Version ${facts.version} of workflow '${facts.workflow}' would strand items: ${list.join("; ")}. ` +
        `Move them first, or keep what they need in the declaration.`,
    );
    this.workflow = facts.workflow;
    this.stranded = facts.stranded;
  }
}
