/** The verbs about locks. Each of them made twice is the same as once, so that is how a lost answer is looked up. */
import type { LockFilter, LockHold, LockRecord, LockRequest } from "../core/lock.ts";
import * as rows from "./lock-rows.ts";
import type { LockRows, LockStanding } from "./lock-rows.ts";
import * as stats from "./lock-stats.ts";
import type { LockStatFilter, LockStatRow, LockStatRows } from "./lock-stats.ts";
import { SqlJournal } from "./sql-journal.ts";
import { writeOrLookUp } from "./unknown.ts";

export class SqlLocks extends SqlJournal implements LockRows, LockStatRows {
  takeLock(request: LockRequest): Promise<number | null> {
    return this.#twice(() => rows.takeLock(this.engine, request));
  }

  noteNext(request: LockRequest, forMs: number): Promise<LockStanding | null> {
    return this.#twice(() => rows.noteNext(this.engine, request, forMs));
  }

  lockStanding(key: string): Promise<LockStanding | null> {
    return rows.lockStanding(this.engine, key);
  }

  extendLock(hold: LockHold, ttlMs: number): Promise<boolean> {
    return this.#twice(() => rows.extendLock(this.engine, hold, ttlMs));
  }

  releaseLock(hold: LockHold): Promise<boolean> {
    return this.#twice(() => rows.releaseLock(this.engine, hold));
  }

  abandonLock(key: string, holder: string): Promise<void> {
    return this.#twice(() => rows.abandonLock(this.engine, key, holder));
  }

  findLock(key: string): Promise<LockRecord | null> {
    return rows.findLock(this.engine, key);
  }

  locks(filter: LockFilter): Promise<LockRecord[]> {
    return rows.listLocks(this.engine, filter);
  }

  pruneLocks(chore: { forMs: number; limit: number }): Promise<number> {
    return rows.pruneLocks(this.engine, chore);
  }

  async putLockStats(news: readonly LockStatRow[]): Promise<void> {
    for (const row of news) await this.#twice(() => stats.putLockStat(this.engine, row));
  }

  lockStats(filter: LockStatFilter): Promise<LockStatRow[]> {
    return stats.lockStats(this.engine, filter);
  }

  pruneLockStats(chore: { forMs: number; limit: number }): Promise<number> {
    return stats.pruneLockStats(this.engine, chore);
  }

  #twice<T>(write: () => Promise<T>): Promise<T> {
    return writeOrLookUp(this.engine, write, write);
  }
}
