/** Waits for an answer, and not any longer than a limit: whoever would give it may hang. */
import { StoreUnavailable } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";

export async function answerWithin<T>(
  runtime: Runtime,
  limitMs: number,
  answer: Promise<T>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = runtime.timer(limitMs, () =>
    late.reject(
      new StoreUnavailable({
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
