/**
 * A time limit for reads: the database stops a statement that takes longer.
 *
 * A person who waits for a page has given up by then, and a slow statement must not occupy a connection that others need.
 * The limit applies to every read that a function starts, however deep, so that no reader has to pass it on. SQLite cannot
 * interrupt a statement in its own thread: there, the row limits of the statements are the bound.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const limits = new AsyncLocalStorage<number>();

export function withReadLimit<T>(limitMs: number, body: () => Promise<T>): Promise<T> {
  return limits.run(limitMs, body);
}

/** Undefined: the usual limits of the engine. */
export function readLimitMs(): number | undefined {
  return limits.getStore();
}
