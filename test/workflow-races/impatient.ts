/** Workflows whose distributed lock lasts for a second and is waited for half as long, so that faults take seconds. */
import { makeIds } from "../../src/core/id.ts";
import type { Holdfast } from "../../src/index.ts";
import type { Workflows } from "../../src/workflows/index.ts";
import type { Lock } from "../../src/locks/lock.ts";
import { Workflows as Made, type LockLayer } from "../../src/workflows/workflows.ts";

export const TTL_MS = 1_000;
export const WAIT_MS = 500;
/** If no server answers at all: how long an answer is waited for, however short the wait for the lock. */
export const ANSWER_MS = 1_000;

export interface Hooks {
  /** Default WAIT_MS. */
  readonly waitMs?: number;
  /** The holder of the lock awaits it first. */
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
  const change: typeof store.items.change = (asked) =>
    store.items.change({
      ...asked,
      async decide(seen) {
        const writes = await asked.decide(seen);
        await onDecided?.();
        return writes;
      },
    });
  const items = new Proxy(store.items, {
    get(target, name) {
      if (name === "change") return change;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const asked = { ...store, items };
  return new Made({ store: asked, runtime, newId: makeIds(runtime), locks: layer });
}
