/** The verbs about the audit. */
import type { AuditEntry } from "../core/audit.ts";
import type { ItemEntry } from "../core/item.ts";
import type {
  ActionFilter,
  Actions,
  AuditHead,
  LineRange,
  NewAction,
  Pruning,
  Signature,
} from "./actions.ts";
import * as audit from "./audit.ts";
import { itemLines } from "./item-lists.ts";
import { SqlRegistry } from "./sql-registry.ts";
import { actOrLookUp } from "./unknown.ts";

export class SqlAudit extends SqlRegistry implements Actions {
  noteAction(signature: Signature, action: NewAction): Promise<void> {
    const { engine } = this;
    const note = (): Promise<void> =>
      engine.transaction((tx) => audit.noteAction(engine, tx, signature, action));
    return actOrLookUp(engine, signature, note, async () => {});
  }

  actions(filter: ActionFilter): Promise<AuditEntry[]> {
    return audit.listActions(this.engine, filter);
  }

  auditHead(): Promise<AuditHead | null> {
    return audit.auditHead(this.engine);
  }

  pruneActions(pruning: Pruning): Promise<number> {
    const { engine } = this;
    const prune = (): Promise<number> => audit.pruneActions(engine, pruning);
    return actOrLookUp(engine, pruning, prune, async ({ detail }) => audit.countOf(detail));
  }

  itemLines(range: LineRange): Promise<ItemEntry[]> {
    return itemLines(this.engine, range);
  }
}
