/** The verbs about workflows. */
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import { declareWorkflow, findWorkflow } from "./declarations.ts";
import { dueItems, itemJobs, postponeItem } from "./item-due.ts";
import * as lists from "./item-lists.ts";
import { pruneItems } from "./item-pruning.ts";
import { changeItems, progressOf, type Changed } from "./items.ts";
import { SqlReports } from "./sql-reports.ts";
import { writeOrLookUp } from "./unknown.ts";
import type {
  Declaration,
  DueItem,
  HistoryFilter,
  ItemFilter,
  ItemJob,
  ItemsChange,
  StoredItem,
  StoredWorkflow,
  Workflows,
} from "./workflows.ts";

export class SqlWorkflows extends SqlReports implements Workflows {
  declareWorkflow(declaration: Declaration): Promise<void> {
    const declare = (): Promise<void> => declareWorkflow(this.engine, declaration);
    return writeOrLookUp(this.engine, declare, declare); // twice is once
  }

  findWorkflow(name: string): Promise<StoredWorkflow | null> {
    return findWorkflow(this.engine, name);
  }

  async changeItems(change: ItemsChange): Promise<StoredItem[]> {
    const { engine } = this;
    const write = (): Promise<Changed> => changeItems(engine, change);
    const { items, hints } = await writeOrLookUp<Changed>(engine, write, async () => {
      const written = await lists.itemsOfChange(engine, change.id);
      // What it enqueued is pending, and nobody may have been told.
      return written.length === 0 ? write() : { items: written, hints: [{ kind: "unknown" }] };
    });
    for (const hint of hints) this.announce(hint);
    return items;
  }

  async findItem(id: string): Promise<StoredItem | null> {
    const [item] = await lists.findItems(this.engine, this.engine, [id]);
    return item ?? null;
  }

  listItems(filter: ItemFilter): Promise<StoredItem[]> {
    return lists.listItems(this.engine, this.engine, filter);
  }

  progressOf(item: string): Promise<ChildrenIn[]> {
    return progressOf(this.engine, this.engine, item);
  }

  itemHistory(filter: HistoryFilter): Promise<ItemEntry[]> {
    return lists.itemHistory(this.engine, this.engine, filter);
  }

  itemsAfter(id: string | null, limit: number): Promise<StoredItem[]> {
    return lists.itemsAfter(this.engine, id, limit);
  }

  dueItems(filter: { readonly workflows: readonly string[]; readonly limit: number }) {
    return dueItems(this.engine, filter);
  }

  itemJobs(item: string): Promise<ItemJob[]> {
    return itemJobs(this.engine, item);
  }

  postponeItem(item: DueItem, ms: number): Promise<void> {
    return postponeItem(this.engine, item, ms);
  }

  pruneItems(limit: number): Promise<number> {
    return pruneItems(this.engine, limit);
  }
}
