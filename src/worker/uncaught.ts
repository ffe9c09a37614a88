/**
 * Errors that a task throws where nobody can catch them: in a timer, in an emitter, in a promise it forgot.
 *
 * Node would end the process for them, and every other job with it. Each attempt runs in an async context of its own, so
 * the error can be traced to the attempt, and fails that one job. Errors that belong to no attempt are not ours: they
 * go on to the application's own listeners, or end the process as they always did.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** An attempt, as far as it is needed here: it is told of its task's errors. */
interface Traced {
  fail(error: unknown): void;
}

const running = new AsyncLocalStorage<Traced>();

let guards = 0;

export function runTraced(attempt: Traced & { start(): void }): void {
  traced(attempt, () => attempt.start());
}

/** Whatever the call sets in motion is traced to this attempt. */
export function traced(attempt: Traced, call: () => void): void {
  running.run(attempt, call);
}

/** Whether what is running now was set in motion by an attempt. */
export function belongsToAttempt(): boolean {
  return running.getStore() !== undefined;
}

/** Catches for as long as any worker of this process runs. Returns the function that ends it. */
export function guardProcess(): () => void {
  guards += 1;
  if (guards === 1) {
    process.on("uncaughtExceptionMonitor", onMonitor);
    process.on("uncaughtException", onException);
    process.on("unhandledRejection", onRejection);
  }
  return () => {
    guards -= 1;
    if (guards === 0) unguard();
  };
}

function unguard(): void {
  process.off("uncaughtExceptionMonitor", onMonitor);
  process.off("uncaughtException", onException);
  process.off("unhandledRejection", onRejection);
}

/**
 * Node calls this before it looks for listeners. Without ours it ends the process as usual, and shows the line that threw;
 * an error that we threw again would be shown at our line.
 */
function onMonitor(): void {
  if (belongsToAttempt() || process.listenerCount("uncaughtException") > 1) return;
  process.off("uncaughtException", onException);
}

/** What belongs to no attempt is for the application's own listeners: with none, this one is gone. */
function onException(error: Error): void {
  running.getStore()?.fail(error);
}

function onRejection(reason: unknown): void {
  const attempt = running.getStore();
  if (attempt !== undefined) return attempt.fail(reason);
  if (process.listenerCount("unhandledRejection") > 1) return;
  // As Node does it: a rejection that nobody listens for is an exception, and may have a listener as one.
  if (process.listenerCount("uncaughtException") === 1) return endAsUsual(reason);
  const error = reason instanceof Error ? reason : new Error(String(reason), { cause: reason });
  const emitter: NodeJS.EventEmitter = process;
  emitter.emit("uncaughtException", error, "unhandledRejection");
}

/** Without our listener the same rejection ends the process with Node's usual message and exit code. */
function endAsUsual(reason: unknown): void {
  process.off("unhandledRejection", onRejection);
  // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- it is whatever was rejected with
  void Promise.reject(reason);
}
