/** Marks the thread or process of an isolated task, for every copy of the library in it. */
const MARK = Symbol.for("holdfast.isolated");

export function markIsolated(): void {
  Object.defineProperty(globalThis, MARK, { value: true });
}

/** A module that starts a worker when it is imported would start one in every child. */
export function isIsolated(): boolean {
  return MARK in globalThis;
}
