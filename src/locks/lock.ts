/**
 * A place where locks are kept.
 *
 * What every place promises: of two that ask for a key, one gets it. Tokens of a key only grow. Nobody gets a lock whose time
 * is not over, or that is kept for somebody else at this moment. Time is the place's own. Every verb may be called again when
 * its answer was lost, and means the same. A place that cannot be asked throws StoreUnavailable, StoreBusy or OutcomeUnknown.
 */
import type { LockAnswer, LockFilter, LockHold, LockRecord, LockRequest } from "../core/lock.ts";

export interface LockPlace {
  readonly kind: "sql" | "redis";

  /**
   * Takes the lock if it is free. If not, it is kept for whoever asked, for a moment after it becomes free, unless it is
   * kept for another: so that nobody who lets go and asks again at once has it all the time. `again`: we asked before.
   */
  take(request: LockRequest, again: boolean): Promise<LockAnswer>;

  /** Moves its end to now + `ttlMs`, never backwards. False: it is not ours any more. */
  extend(hold: LockHold, ttlMs: number): Promise<boolean>;

  /** False: it was not ours any more. */
  release(hold: LockHold): Promise<boolean>;

  /** Gives back what somebody may have got without hearing of it. */
  abandon(key: string, holder: string): Promise<void>;

  /** Null: it is free. */
  find(key: string): Promise<LockRecord | null>;
  /** Those that were taken first first. */
  list(filter: LockFilter): Promise<LockRecord[]>;

  /** Calls `wake` when the lock is released, as far as this place can know. A hint: it may be missed. Returns how to stop. */
  onRelease?(key: string, wake: () => void): () => void;

  close(): Promise<void>;
}

/** For how long a lock is kept for whoever asked for it, after they last did. They ask much more often. */
export const NEXT_MS = 100;
