/** Locks in rows of the database that the jobs are in. */
import type { LockAnswer, LockFilter, LockHold, LockRecord, LockRequest } from "../core/lock.ts";
import { NEXT_MS, type LockPlace } from "./lock.ts";

/** How a lock stands; see store/lock-rows.ts. */
interface Standing {
  readonly owner: string;
  readonly endsInMs: number;
  readonly next: string | null;
  readonly nextInMs: number;
}

/** What a store can do with the rows of locks. Said here, because the store is on the same floor. */
export interface LockRows {
  takeLock(request: LockRequest): Promise<number | null>;
  noteNext(request: LockRequest, forMs: number): Promise<Standing | null>;
  lockStanding(key: string): Promise<Standing | null>;
  extendLock(hold: LockHold, ttlMs: number): Promise<boolean>;
  releaseLock(hold: LockHold): Promise<boolean>;
  abandonLock(key: string, holder: string): Promise<void>;
  findLock(key: string): Promise<LockRecord | null>;
  locks(filter: LockFilter): Promise<LockRecord[]>;
}

export class SqlLock implements LockPlace {
  readonly kind = "sql";
  readonly #rows: LockRows;

  constructor(rows: LockRows) {
    this.#rows = rows;
  }

  /** Whoever asks again looks first: many may wait for one lock, and a look costs them all the least. */
  async take(request: LockRequest, again: boolean): Promise<LockAnswer> {
    const seen = again ? await this.#rows.lockStanding(request.key) : null;
    if (seen === null || isFreeFor(request, seen)) {
      const token = await this.#rows.takeLock(request);
      if (token !== null) return { taken: true, token };
    }
    return this.#comeNext(request, seen);
  }

  extend(hold: LockHold, ttlMs: number): Promise<boolean> {
    return this.#rows.extendLock(hold, ttlMs);
  }

  release(hold: LockHold): Promise<boolean> {
    return this.#rows.releaseLock(hold);
  }

  abandon(key: string, holder: string): Promise<void> {
    return this.#rows.abandonLock(key, holder);
  }

  find(key: string): Promise<LockRecord | null> {
    return this.#rows.findLock(key);
  }

  list(filter: LockFilter): Promise<LockRecord[]> {
    return this.#rows.locks(filter);
  }

  /** The rows are closed with their store. */
  async close(): Promise<void> {}

  async #comeNext(request: LockRequest, seen: Standing | null): Promise<LockAnswer> {
    if (seen !== null && seen.next !== null && seen.nextInMs > 0) {
      const isNext = seen.next === request.contender;
      if (!isNext || seen.nextInMs > NEXT_MS / 2) return notTaken(seen, isNext);
    }
    const noted = await this.#rows.noteNext(request, NEXT_MS);
    if (noted !== null) return notTaken(noted, true);
    return notTaken(await this.#rows.lockStanding(request.key), false);
  }
}

function isFreeFor({ contender }: LockRequest, { endsInMs, next, nextInMs }: Standing): boolean {
  return endsInMs <= 0 && (next === null || next === contender || nextInMs <= 0);
}

function notTaken(standing: Standing | null, isNext: boolean): LockAnswer {
  const owner = standing !== null && standing.endsInMs > 0 ? standing.owner : null;
  return { taken: false, owner, isNext };
}
