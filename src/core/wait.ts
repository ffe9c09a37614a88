/** Waits for an answer, and not any longer than a limit: whoever would give it may hang. */
import { StoreUnavailableError } from "./errors.ts";
import { type Runtime, sleep } from "./runtime.ts";

export async function answerWithin<T>(
  runtime: Runtime,
  limitMs: number,
  answer: Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = runtime.timer(limitMs, () =>
    late.reject(
      new StoreUnavailableError({
        problem: `There was no answer within ${Math.round(limitMs)} ms.`,
        remedy: "Look after the server.",
      }),
    ),
  );
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    timer.cancel();
  }
}

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

// Waits for something, and not any longer than a limit. It goes on by itself then.

/** Whether it came to its end in time. What it throws is thrown here, if it comes in time. */
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
