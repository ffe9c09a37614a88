/** SIGINT, SIGTERM and SIGHUP: the first asks a command to come to an end, the second ends it at once. */
import { constants } from "node:os";
import { endBySignal } from "../worker/signals.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export type EndSignal = (typeof SIGNALS)[number];

/** What a shell reports for a process that a signal ended. */
export function exitCodeAfter(signal: EndSignal): number {
  return 128 + constants.signals[signal];
}

export interface Signals extends Disposable {
  /** The first one. */
  readonly first: Promise<EndSignal>;
}

/** Listens until it is disposed of. `beforeEnd` is called when the second comes. */
export function listenForSignals(beforeEnd: (signal: EndSignal) => void = () => {}): Signals {
  const { promise: first, resolve } = Promise.withResolvers<EndSignal>();
  let asked = false;
  const hear = (signal: EndSignal): void => {
    if (asked) {
      beforeEnd(signal);
      return endBySignal(signal);
    }
    asked = true;
    resolve(signal);
  };
  for (const signal of SIGNALS) process.on(signal, hear);
  return {
    first,
    [Symbol.dispose]() {
      for (const signal of SIGNALS) process.off(signal, hear);
    },
  };
}
