/** Workflows whose distributed lock lasts for a second and is waited for half as long, so that faults take seconds. */
import { makeIds } from "../../src/core/id.ts";
import type { Holdfast, Workflows } from "../../src/index.ts";
import type { Lock } from "../../src/queue/lock.ts";
import { Workflows as Made, type LockLayer } from "../../src/queue/workflows.ts";

export const TTL_MS = 1_000;
export const WAIT_MS = 500;
/** Where nobody answers at all, that is what an answer is waited for, however short the wait. */
export const ANSWER_MS = 1_000;

export interface Hooks {
  /** Default WAIT_MS. */
  readonly waitMs?: number;
  /** Awaited by whoever has the lock, before anything is done. */
  readonly onLocked?: (lock: Lock) => Promise<void>;
  /** Awaited in the transaction, when it is decided what to write, and nothing is written yet. */
  readonly onDecided?: () => Promise<void>;
}

export function impatient(holdfast: Holdfast, hooks: Hooks = {}): Workflows {
  const { waitMs = WAIT_MS, onLocked, onDecided } = hooks;
  const { store, runtime, locks } = holdfast;
  const layer: LockLayer = {
    with: (key, options, body) =>
      locks.with(key, { ...options, ttl: TTL_MS, wait: waitMs }, async (lock) => {
        await onLocked?.(lock);
        return body(lock);
      }),
  };
  const asked = Object.create(store) as typeof store;
  asked.changeItems = (change) =>
    store.changeItems({
      ...change,
      async decide(seen) {
        const writes = await change.decide(seen);
        await onDecided?.();
        return writes;
      },
    });
  return new Made({ store: asked, runtime, newId: makeIds(runtime), locks: layer });
}
