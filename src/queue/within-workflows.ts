/** Workflows inside of a transaction of the user's. */
import { InvalidArgument } from "../core/errors.ts";
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Store } from "../store/store.ts";
import type { HistoryFilter, ItemFilter, ItemsChange, StoredItem } from "../store/workflows.ts";
import { Workflows } from "./workflows.ts";

export class GuestWorkflows extends Workflows {
  readonly #tx: unknown;
  readonly #outside: Workflows;

  constructor(parts: {
    readonly store: Store;
    readonly runtime: Runtime;
    readonly newId: () => string;
    readonly workflows: Workflows;
    readonly tx: unknown;
  }) {
    const { store, runtime, newId } = parts;
    super({ store, runtime, newId, locks: null });
    this.#tx = parts.tx;
    this.#outside = parts.workflows;
  }

  /** It would have to wait for the user's transaction, on some databases for ever. */
  override async declare(workflow: AnyWorkflow): Promise<void> {
    if (this.#outside.isDeclared(workflow)) return;
    const problem =
      "it is not declared yet: await holdfast.workflows.declare() before the transaction begins.";
    throw new InvalidArgument({ field: "workflow", problem });
  }

  protected override write(change: ItemsChange): Promise<StoredItem[]> {
    return this.parts.store.within(this.#tx, (guest) => guest.changeItems(change));
  }

  protected override find(id: string): Promise<StoredItem | null> {
    return this.parts.store.within(this.#tx, (guest) => guest.findItem(id));
  }

  protected override read(filter: ItemFilter): Promise<StoredItem[]> {
    return this.parts.store.within(this.#tx, (guest) => guest.listItems(filter));
  }

  protected override readHistory(filter: HistoryFilter): Promise<ItemEntry[]> {
    return this.parts.store.within(this.#tx, (guest) => guest.itemHistory(filter));
  }

  protected override readProgress(item: string): Promise<ChildrenIn[]> {
    return this.parts.store.within(this.#tx, (guest) => guest.progressOf(item));
  }
}
