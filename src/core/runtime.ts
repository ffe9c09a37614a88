/**
 * Everything that is not a pure function of its arguments: time, timers, randomness.
 *
 * The rest of the library is given a Runtime and never uses the globals (a lint rule checks it), so a whole run can be
 * simulated from a seed and no test has to wait for a real clock.
 */
import { getRandomValues } from "node:crypto";
import { constants } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Time, timers and randomness: the real ones, or those of a test. */
export interface Runtime {
  /** Milliseconds since the epoch by the host's clock. It may jump; never measure durations with it. */
  now(): number;
  /** Milliseconds on a clock that only goes forward and is the same in every thread of this process. */
  monotonic(): number;
  /** Uniform in [0, 1). Not for secrets. */
  random(): number;
  /** Fills the bytes with random values, good enough for ids. */
  fillRandom(bytes: Uint8Array): void;
  /** Calls back once after `ms`. A background timer does not keep the process alive. */
  timer(ms: number, call: () => void, kind?: "background"): Timer;
  /** Calls back after everything that is ready has run: sockets, timers and signals. */
  afterIo(call: () => void): void;
  /** Begins to measure this process. */
  gauge(): Gauge;
  /** Only for a test clock: calls back repeatedly while nothing advances it, since a wait for time would never end. */
  whileStill?(call: () => void): Timer;
}

/** Measures this process. */
export interface Gauge {
  /** The mean delay of the event loop since the last call, in whole milliseconds. */
  loopDelayMs(): number;
  /** The memory that the process uses. */
  memoryBytes(): number;
  /** Stops measuring. */
  stop(): void;
}

/** A timer that can be cancelled. */
export interface Timer {
  /** Prevents the call, if it has not happened. */
  cancel(): void;
}

/** The longest duration of a timer; Node fires longer ones at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
const NS_PER_MS = 1e6;
const US_PER_MS = 1e3;
/** Each measurement wakes the process: at 20 ms, that was half of what an idle worker cost. */
const LOOP_DELAY_RESOLUTION_MS = 100;

/** Those of Node, also after a test replaced the globals by fake ones: nothing would advance ours. */
const { clearTimeout, performance, setImmediate, setTimeout } = globalThis;

/** `performance.now()` is the fast way to read the clock, but counts from the start of its own thread. */
const threadStartMs = Number(process.hrtime.bigint()) / NS_PER_MS - performance.now();

export const systemRuntime: Runtime = {
  now: () => Date.now(),
  monotonic: () => threadStartMs + performance.now(),
  random: () => Math.random(),
  fillRandom: (bytes) => void getRandomValues(bytes),
  timer(ms, call, kind) {
    const handle = setTimeout(call, Math.min(ms, TIMER_MS_MAX));
    if (kind === "background") handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
  afterIo: (call) => void setImmediate(call),
  gauge() {
    const gauge = fineGauge();
    return { ...gauge, loopDelayMs: () => Math.round(gauge.loopDelay().meanMs) };
  },
};

export type FineGauge = ReturnType<typeof fineGauge>;

/** Measures this process by the real clock. */
export function fineGauge() {
  const delay = monitorEventLoopDelay({ resolution: LOOP_DELAY_RESOLUTION_MS });
  delay.enable();
  const late = (ns: number): number => {
    const ms = ns / NS_PER_MS - LOOP_DELAY_RESOLUTION_MS;
    return Number.isFinite(ms) ? Math.max(0, ms) : 0;
  };
  return {
    /** The delay of the event loop since the last call. */
    loopDelay() {
      const { mean, max } = delay;
      const delays = { meanMs: late(mean), p99Ms: late(delay.percentile(99)), maxMs: late(max) };
      delay.reset();
      return delays;
    },
    heapBytes: () => process.memoryUsage().heapUsed,
    memoryBytes: () => process.memoryUsage.rss(),
    /** Of all threads, since the process started. */
    cpuMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / US_PER_MS;
    },
    startedAt: () => performance.timeOrigin,
    stop: () => void delay.disable(),
  };
}

/** For simulated processes, which have nothing to measure. */
export const noGauge: Gauge = { loopDelayMs: () => 0, memoryBytes: () => 0, stop: () => {} };

/** Resolves after `ms`. With a signal it resolves early when the signal aborts; it never rejects. */
export function sleep(
  runtime: Runtime,
  ms: number,
  options: { signal?: AbortSignal; kind?: "background" } = {},
): Promise<void> {
  const { signal, kind } = options;
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const wake = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", wake);
      resolve();
    };
    const timer = runtime.timer(ms, wake, kind);
    signal?.addEventListener("abort", wake, { once: true });
  });
}

/** Ends the process as the signal would without a listener, so that its parent sees what ended it. */
export function endBySignal(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // The kernel does not deliver it to the first process of a container, so that one exits by itself.
  // oxlint-disable-next-line unicorn/no-process-exit -- a forced end waits for nothing
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
}
