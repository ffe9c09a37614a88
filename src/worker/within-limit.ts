/** Waits for something, and not any longer than a limit. It goes on by itself then. */
import { sleep, type Runtime } from "../core/runtime.ts";

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
