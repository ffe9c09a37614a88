/** An item as an application holds it: as it was when it was read, and what can be done with it. */
import type { ChildrenIn, ItemEntry, ItemRecord } from "../core/item.ts";
import type { Workflow } from "../core/workflow.ts";
import type { HistoryOptions, ItemChange } from "./item-options.ts";
import type { Workflows } from "./workflows.ts";

export class Item<
  State extends string,
  Move extends string,
  Data,
  Type extends string,
> implements ItemRecord<State, Data, Type> {
  readonly id: string;
  readonly workflow: string;
  readonly type: Type;
  readonly tenant: string;
  readonly identifier: string;
  readonly parent: string | null;
  readonly root: string;
  readonly status: State;
  readonly data: Data;
  readonly revision: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly enteredAt: number;
  readonly #of: Workflow<State, Move, Data, Type>;
  readonly #workflows: Workflows;

  constructor(
    record: ItemRecord<State, Data, Type>,
    parts: { workflow: Workflow<State, Move, Data, Type>; workflows: Workflows },
  ) {
    this.id = record.id;
    this.workflow = record.workflow;
    this.type = record.type;
    this.tenant = record.tenant;
    this.identifier = record.identifier;
    this.parent = record.parent;
    this.root = record.root;
    this.status = record.status;
    this.data = record.data;
    this.revision = record.revision;
    this.createdAt = record.createdAt;
    this.updatedAt = record.updatedAt;
    this.enteredAt = record.enteredAt;
    this.#of = parts.workflow;
    this.#workflows = parts.workflows;
  }

  /** Makes the move, wherever the item is by now. Gives back the item as it is then. */
  move(name: Move, change: ItemChange<Data>): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.change(this.#of, this, { ...change, move: name });
  }

  /** Replaces fields of its data. */
  update(
    patch: Partial<Data>,
    change: Omit<ItemChange<Data>, "patch">,
  ): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.change(this.#of, this, { ...change, patch });
  }

  /** As it is now. */
  refresh(): Promise<Item<State, Move, Data, Type>> {
    return this.#workflows.item(this.#of, this.id);
  }

  /** How many items directly below it are in which state, now. */
  progress(): Promise<ChildrenIn[]> {
    return this.#workflows.progress(this.id);
  }

  /** What it holds, as a plain object. */
  toJSON(): ItemRecord<State, Data, Type> {
    return Object.assign({}, this);
  }

  history(options?: HistoryOptions): Promise<ItemEntry[]> {
    return this.#workflows.history(this.id, options);
  }
}

/** An item's record in place of the item, and those of a list of items. Anything else is as it was. */
export function recordsOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => recordOf(each));
  return recordOf(value);
}

function recordOf(value: unknown): unknown {
  return value instanceof Item ? value.toJSON() : value;
}
