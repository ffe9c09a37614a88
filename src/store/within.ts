/** What can be done inside of a transaction of the user's: it is there if, and when, they commit. */
import { JobCancelled, LeaseLost, StoreBusy, StoreRefused } from "../core/errors.ts";
import type { ChildrenIn, ItemEntry } from "../core/item.ts";
import type { Fence, Status } from "../core/job.ts";
import type { Engine, Row, Transaction } from "./engine.ts";
import { enqueueIn, minds, refuseTaken } from "./enqueue.ts";
import { isDeclared, say } from "./events.ts";
import { findItems, itemHistory, listItems } from "./item-lists.ts";
import { changeIn, orViolation, progressOf, type Changed } from "./items.ts";
import { cancelWhereItStands } from "./jobs.ts";
import { settleIn } from "./settle.ts";
import { insertReports } from "./sql-reports.ts";
import type { Emitted, NewEvent } from "./journal.ts";
import type { NewReport } from "./reports.ts";
import type { HistoryFilter, ItemFilter, ItemsChange, StoredItem } from "./workflows.ts";
import { sql } from "./sql.ts";
import type { Enqueued, Hint, NewJob } from "./store.ts";

/** The store, as a guest in somebody's transaction. */
export class Guest {
  readonly #engine: Engine;
  readonly #tx: Transaction;
  readonly #onTold: (hint: Hint) => void;

  constructor(engine: Engine, tx: Transaction, onTold: (hint: Hint) => void) {
    this.#engine = engine;
    this.#tx = tx;
    this.#onTold = onTold;
  }

  /** All of them or none, unless somebody takes one of their keys at this moment: then the user has to begin again. */
  async enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    if (jobs.length > 1 && jobs.some(minds)) await refuseTaken(this.#engine, this.#tx, jobs);
    try {
      const { enqueued, hints } = await enqueueIn(this.#engine, this.#tx, jobs);
      for (const hint of hints) await this.#tell(hint);
      return enqueued;
    } catch (error) {
      throw this.#asBusy(error);
    }
  }

  async emit(event: NewEvent): Promise<Emitted> {
    const of = { event: event.name, key: event.key };
    if (!(await isDeclared(this.#tx, of, this.#engine.lockRows()))) {
      await this.#insertOnce("event", { name: of.event, event_key: of.key, awaited: 0 });
    }
    const { queues, ...emitted } = await say(this.#engine, this.#tx, event);
    await this.#tellPending(queues);
    return emitted;
  }

  async cancel(id: string): Promise<Status | null> {
    if (!this.#engine.mayBeId(id)) return null;
    const { status, queues } = await cancelWhereItStands(this.#engine, this.#tx, id);
    await this.#tellPending(queues);
    if (status === "processing") await this.#tell({ kind: "cancel" });
    if (status === "cancelled") await this.#tell({ kind: "finished" });
    return status;
  }

  async report(fence: Fence, reports: readonly NewReport[]): Promise<void> {
    await this.#tx.run(insertReports(this.#engine, fence, reports));
  }

  async changeItems(change: ItemsChange): Promise<StoredItem[]> {
    const changing = (): Promise<Changed> => changeIn(this.#engine, this.#tx, change);
    const { items, hints } = await orViolation(changing);
    for (const hint of hints) await this.#tell(hint);
    return items;
  }

  async findItem(id: string): Promise<StoredItem | null> {
    const [item] = await findItems(this.#engine, this.#tx, [id]);
    return item ?? null;
  }

  listItems(filter: ItemFilter): Promise<StoredItem[]> {
    return listItems(this.#engine, this.#tx, filter);
  }

  itemHistory(filter: HistoryFilter): Promise<ItemEntry[]> {
    return itemHistory(this.#engine, this.#tx, filter);
  }

  progressOf(item: string): Promise<ChildrenIn[]> {
    return progressOf(this.#engine, this.#tx, item);
  }

  /** The lease is locked first: whoever wants the job cancelled from now on waits for the user's transaction. */
  async complete(fence: Fence, result: string | null): Promise<void> {
    const { id, worker, epoch } = fence;
    const [lease] = await this.#tx.all<{ cancelled: number | null }>(sql`
      select l.cancel_requested_at as cancelled
        from (select cancel_requested_at
                from holdfast.lease
               where id = ${id} and locked_by = ${worker} and epoch = ${epoch}
               ${this.#engine.lockRows()}) l`);
    if (lease === undefined) throw new LeaseLost(fence);
    if (lease.cancelled !== null) throw new JobCancelled({ id });
    const outcome = { kind: "done", result } as const;
    const { settled, queues } = await settleIn(this.#engine, this.#tx, { ...fence, outcome });
    if (settled.length === 0) throw new LeaseLost(fence);
    await this.#tellPending(queues);
    await this.#tell({ kind: "finished" });
  }

  /** Somebody else may do the same at this moment, in a transaction of theirs. */
  async #insertOnce(table: string, row: Row): Promise<void> {
    try {
      await this.#tx.insert(table, [row]);
    } catch (error) {
      throw this.#asBusy(error);
    }
  }

  #asBusy(error: unknown): unknown {
    if (!(error instanceof StoreRefused)) return error;
    return new StoreBusy({ store: this.#engine.name, waitedMs: 0 }, error);
  }

  async #tellPending(queues: readonly string[]): Promise<void> {
    for (const queue of new Set(queues)) await this.#tell({ kind: "pending", queue });
  }

  async #tell(hint: Hint): Promise<void> {
    await this.#engine.tellInside(this.#tx, hint);
    this.#onTold(hint);
  }
}
