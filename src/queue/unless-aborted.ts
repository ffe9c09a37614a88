/** Waits for something, and not any longer when a signal aborts: then its reason is thrown. */
export async function unlessAborted<T>(signal: AbortSignal, body: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([body(), aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
