/** Waiting for a signal, with a limit: nothing in the tests waits for a time. */
import { setTimeout as pause } from "node:timers/promises";

/** The promise's value, or null when it did not come within the limit. */
export async function within<T>(limitMs: number, promise: Promise<T>): Promise<T | null> {
  const settled = new AbortController();
  const late = pause(limitMs, null, { signal: settled.signal }).catch(() => null);
  try {
    return await Promise.race([promise, late]);
  } finally {
    settled.abort();
  }
}
