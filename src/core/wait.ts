/** Waits with a limit: of time, or until a signal aborts. What is waited for continues. */
import { StoreUnavailableError } from "./errors.ts";
import { type Runtime, sleep } from "./runtime.ts";

/** Throws StoreUnavailableError after the limit: a server may hang. */
export async function answerWithin<T>(
  runtime: Runtime,
  limitMs: number,
  answer: Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = runtime.timer(limitMs, () =>
    late.reject(
      new StoreUnavailableError({
        problem: `No response within ${Math.round(limitMs)} ms.`,
        remedy: "Check the server.",
      }),
    ),
  );
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    timer.cancel();
  }
}

/** Throws the reason of the signal when it aborts. */
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

/** Whether it ended in time. Throws what it throws in time. */
export async function withinLimit(
  runtime: Runtime,
  limitMs: number,
  body: () => Promise<void>,
): Promise<boolean> {
  const done = new AbortController();
  const waiting = body().finally(() => done.abort());
  await Promise.race([waiting, sleep(runtime, limitMs, { signal: done.signal })]);
  return done.signal.aborted;
}
