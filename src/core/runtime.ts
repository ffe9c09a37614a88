/**
 * Everything that is not a pure function of its arguments: time, timers, randomness.
 *
 * The rest of the library receives a Runtime and never touches the globals (a lint rule sees to it), so a
 * whole run can be simulated from a seed and no test has to wait for a real clock.
 */
import { getRandomValues } from "node:crypto";
import { constants } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";

export interface Runtime {
  /** Milliseconds since the epoch by the host's clock. It may jump; never measure spans with it. */
  now(): number;
  /** Milliseconds on a clock that only goes forward and is the same in every thread of this process. */
  monotonic(): number;
  /** Uniform in [0, 1). Not for secrets. */
  random(): number;
  /** Fills the bytes with randomness good enough for ids. */
  fillRandom(bytes: Uint8Array): void;
  /** Calls back once after `ms`. A background timer does not keep the process alive. */
  timer(ms: number, call: () => void, kind?: "background"): Timer;
  /** Calls back once everything that is ready to run has run: lets sockets, timers and signals through. */
  afterIo(call: () => void): void;
  /** Begins to measure this process. */
  gauge(): Gauge;
  /**
   * Of a clock that a test moves: calls back again and again while nothing moves it. A wait that only time can end would
   * be endless then.
   */
  whileStill?(call: () => void): Timer;
}

/** What the host tells about this process. */
export interface Gauge {
  /** How late the event loop was on average since this was last asked, in whole milliseconds. */
  loopDelayMs(): number;
  memoryBytes(): number;
  stop(): void;
}

/** The same, as exact as it can be had. */
export interface FineGauge {
  /** How late the event loop was since this was last asked, in milliseconds. */
  loopDelay(): LoopDelay;
  heapBytes(): number;
  memoryBytes(): number;
  /** Of all threads, since the process started. */
  cpuMs(): number;
  /** When the process started, by the host's clock. */
  startedAt(): number;
  stop(): void;
}

export interface LoopDelay {
  readonly meanMs: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Timer {
  cancel(): void;
}

/** The longest span a timer takes; Node fires longer ones at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

const NS_PER_MS = 1e6;
const US_PER_MS = 1e3;
const LOOP_DELAY_RESOLUTION_MS = 20;

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
    const delay = monitorEventLoopDelay({ resolution: LOOP_DELAY_RESOLUTION_MS });
    delay.enable();
    return {
      loopDelayMs() {
        const ms = delay.mean / NS_PER_MS - LOOP_DELAY_RESOLUTION_MS;
        delay.reset();
        return Number.isFinite(ms) ? Math.max(0, Math.round(ms)) : 0;
      },
      memoryBytes: () => process.memoryUsage.rss(),
      stop: () => void delay.disable(),
    };
  },
};

/** Of this process, whatever clock its jobs go by. */
export function fineGauge(): FineGauge {
  const delay = monitorEventLoopDelay({ resolution: LOOP_DELAY_RESOLUTION_MS });
  delay.enable();
  const late = (ns: number): number => {
    const ms = ns / NS_PER_MS - LOOP_DELAY_RESOLUTION_MS;
    return Number.isFinite(ms) ? Math.max(0, ms) : 0;
  };
  return {
    loopDelay() {
      const { mean, max } = delay;
      const told = { meanMs: late(mean), p99Ms: late(delay.percentile(99)), maxMs: late(max) };
      delay.reset();
      return told;
    },
    heapBytes: () => process.memoryUsage().heapUsed,
    memoryBytes: () => process.memoryUsage.rss(),
    cpuMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / US_PER_MS;
    },
    startedAt: () => performance.timeOrigin,
    stop: () => void delay.disable(),
  };
}

/** For runtimes of tests: of a process that does not exist there is nothing to measure. */
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

/** Ends the process as the signal would have without a listener, so that its parent sees what ended it. */
export function endBySignal(signal: NodeJS.Signals): void {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // The kernel spares the first process of a container, so that one has to go by itself.
  // oxlint-disable-next-line unicorn/no-process-exit -- a forced end waits for nothing
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
}
