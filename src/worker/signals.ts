/**
 * Handles SIGTERM and SIGINT: the first signal stops gracefully, the second ends the process.
 *
 * One listener serves all workers of the process with the option `signals`, while one of them runs. Without such a worker,
 * the process handles signals as usual.
 */
import { endBySignal } from "../core/runtime.ts";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Stops its workers and closes; the process ends after that. */
type Leave = () => Promise<void>;

/** How many workers of each are running. */
const leavers = new Map<Leave, number>();

let isLeaving = false;

/** Calls `leave` at the first signal, then ends the process. Returns the function that stops listening. */
export function leaveOnSignals(leave: Leave): () => void {
  if (leavers.size === 0) for (const signal of SIGNALS) process.on(signal, onSignal);
  leavers.set(leave, (leavers.get(leave) ?? 0) + 1);
  return () => {
    const left = (leavers.get(leave) ?? 0) - 1;
    if (left > 0) return void leavers.set(leave, left);
    leavers.delete(leave);
    if (leavers.size > 0 || isLeaving) return;
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}

function onSignal(signal: NodeJS.Signals): void {
  if (isLeaving) return endBySignal(signal);
  isLeaving = true;
  void leaveAll();
}

async function leaveAll(): Promise<void> {
  const left = await Promise.allSettled([...leavers.keys()].map((leave) => leave()));
  if (left.some(({ status }) => status === "rejected")) process.exitCode ??= 1;
  // oxlint-disable-next-line unicorn/no-process-exit -- a signal ends the process, whatever else still runs in it
  process.exit();
}
