/**
 * The monitor: observes the database at an interval, logs a summary, and passes each observation to the alert rules.
 *
 * Every process may have one. The first one due counts for all and logs the summary; the others use its counts.
 */
import { type Duration, formatMs } from "../core/duration.ts";
import { StoreUnavailableError } from "../core/errors.ts";
import type { Finding } from "../database/check.ts";
import { Loop } from "../core/loop.ts";
import { duration, optionsOf, passed } from "../core/options.ts";
import type { Locks } from "../locks/locks.ts";
import type { LockStatistics, LockTimes } from "../locks/stats.ts";
import type { Counts } from "../stats/counts.ts";
import type { MinuteStats } from "../stats/spans.ts";
import { MINUTES_KEEP_MS, type StatsStore } from "../stats/store.ts";
import { Canaries, type CanaryHost, type CanaryOptions, type CanaryReport } from "./canary.ts";
import { MONITOR_INTERVAL_MS } from "./interval.ts";

/** How far back lock statistics are read. */
export const LOCKS_OBSERVED_MS = 5 * 60_000;

/** The delay after the first observation, which sees a service that is still starting. */
const SOON_MS = 5_000;

/** Shorter than the loop's shortest wait; otherwise a single monitor would find every second count not due. */
const COUNT_SHARE = 0.85;

/** Minutes folded in one cycle to catch up after a pause. */
const FOLD_BATCH = 60;

const FOLDS_MAX = 5;

const PRUNE_BATCH = 1_000;

/** The period that an observation and the log line cover. */
const OBSERVED_MS = 15 * 60_000;

const OBSERVED_ROWS_MAX = 20_000;

/** One observation; alerts are decided by it. */
export interface Observation {
  /** By the clock of this process. */
  readonly at: number;
  /** Null: jobs have not been counted yet. */
  readonly counts: Counts | null;
  /** The last 15 minutes, oldest first. */
  readonly minutes: readonly MinuteStats[];
  /** The findings of the cheap checks. */
  readonly findings: readonly Finding[];
  /** False: the checks could not run this time, so an empty list means nothing. Default true. */
  readonly examined?: boolean;
  /** Lock statistics of the last five minutes, by type. Null or omitted: they could not be read. */
  readonly locks?: readonly LockTimes[] | null;
  /** The last canary of each queue; empty: none are sent. */
  readonly canaries: readonly CanaryReport[];
}

/** How often to observe, and what to do with an observation. */
export interface MonitorOptions {
  /** The time between observations. Default 30 s. */
  readonly interval?: Duration;
  /** Runs the cheap checks. */
  readonly examine?: () => Promise<readonly Finding[]>;
  /** Receives every observation. Errors it throws are logged. */
  readonly onObservation?: (observation: Observation) => Promise<void>;
  /** Also sends canaries. Default: none. */
  readonly canary?: CanaryOptions;
  /** @internal The pause after a count, as a multiple of the time that it took. */
  readonly rest?: number;
}

const monitorOptions = optionsOf<MonitorOptions>()({
  interval: duration({ least: 1_000 }, MONITOR_INTERVAL_MS),
  examine: passed<NonNullable<MonitorOptions["examine"]>>(),
  onObservation: passed<NonNullable<MonitorOptions["onObservation"]>>(),
  canary: passed<CanaryOptions>(),
  rest: passed<number>(),
});

/** What a monitor needs of a Holdfast. */
export interface MonitorHost extends CanaryHost {
  /** @internal */
  readonly store: CanaryHost["store"] & { readonly stats: StatsStore };
  /** Its lock statistics are read. */
  readonly locks: Locks;
}

/** Observes every `interval` until stopped. Stop it before closing the Holdfast. */
export function startMonitor(holdfast: MonitorHost, options: MonitorOptions = {}): Monitor {
  return new Monitor(holdfast, options);
}

/** Observes a database until it is stopped. Made by `startMonitor()`. */
export class Monitor {
  readonly #host: MonitorHost;
  readonly #options: MonitorOptions;
  readonly #intervalMs: number;
  readonly #canaries: Canaries | null;
  readonly #loop: Loop;
  /** Parts that failed last time; each failure is logged once. */
  readonly #failing = new Set<string>();
  #latest: Observation | null = null;
  /** The wait before this cycle. */
  #waitedMs: number;

  constructor(host: MonitorHost, options: MonitorOptions) {
    this.#intervalMs = monitorOptions.read(options).intervalMs;
    this.#waitedMs = this.#intervalMs;
    this.#host = host;
    this.#options = options;
    this.#canaries = options.canary === undefined ? null : new Canaries(host, options.canary);
    const { runtime, logger } = host;
    const once = (): Promise<number> => this.#once();
    this.#loop = new Loop({ name: "monitor", runtime, logger, once, background: true });
  }

  /** The last observation; null: none yet. */
  latest(): Observation | null {
    return this.#latest;
  }

  /** Stops the monitor. */
  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#canaries?.stop()]);
  }

  async #once(): Promise<number> {
    const { store } = this.#host;
    const everyMs = Math.floor(this.#waitedMs * COUNT_SHARE);
    const { rest } = this.#options;
    const isFirst = this.#latest === null;
    await this.#fold();
    const counted = await store.stats.takeCounts({
      everyMs,
      ...(rest === undefined ? {} : { rest }),
    });
    // One batch per cycle is more than is added in a cycle.
    if (counted !== null)
      await store.stats.pruneMinutes({ forMs: MINUTES_KEEP_MS, limit: PRUNE_BATCH });
    const observation = await this.#observe(counted ?? (await store.stats.counts()));
    this.#latest = observation;
    if (counted !== null) {
      const summary = summaryOf(counted, observation.minutes);
      this.#host.logger.info({ event: "queues:counted", ...summary }, sentenceOf(summary));
    }
    const { onObservation = async () => {} } = this.#options;
    await this.#guarded("onObservation", () => onObservation(observation));
    this.#waitedMs = isFirst ? Math.min(SOON_MS, this.#intervalMs) : this.#intervalMs;
    return this.#waitedMs;
  }

  async #fold(): Promise<void> {
    for (let folds = 0; folds < FOLDS_MAX; folds += 1) {
      const folded = await this.#host.store.stats.foldMinutes({ limit: FOLD_BATCH });
      if (folded < FOLD_BATCH) return;
    }
  }

  async #observe(counts: Counts | null): Promise<Observation> {
    const { store, runtime, locks } = this.#host;
    const lockStats = (): Promise<LockStatistics> => locks.stats({ last: LOCKS_OBSERVED_MS });
    const { examine = async () => null } = this.#options;
    const findings = await this.#guarded("examine", examine);
    return {
      at: runtime.now(),
      counts,
      minutes: await store.stats.minutes({ forMs: OBSERVED_MS, limit: OBSERVED_ROWS_MAX }),
      findings: findings ?? [],
      examined: findings !== null,
      locks: (await this.#guarded("locks", lockStats))?.types ?? null,
      canaries: (await this.#canaries?.reports()) ?? [],
    };
  }

  /** A failing callback must not hide the rest of the observation. The loop reports an unavailable database. */
  async #guarded<T>(part: string, run: () => Promise<T>): Promise<T | null> {
    try {
      const value = await run();
      this.#failing.delete(part);
      return value;
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error;
      if (!this.#failing.has(part)) {
        const facts = { event: "monitor:failed", part, err: error };
        this.#host.logger.error(facts, `monitor: ${part} failed`);
      }
      this.#failing.add(part);
      return null;
    }
  }
}

/** The summary in the log line. */
interface Summary {
  readonly pending: number;
  readonly processing: number;
  /** Age of the oldest pending job; null: none is pending. */
  readonly oldestPendingMs: number | null;
  /** Within the last 15 minutes. */
  readonly done: number;
  readonly failed: number;
  /** The share of ended jobs that were done; null: none ended. */
  readonly successRate: number | null;
}

function summaryOf({ countedAt, queues }: Counts, minutes: readonly MinuteStats[]): Summary {
  const oldest = queues.flatMap(({ oldestPendingAt }) => oldestPendingAt ?? []);
  const done = sum(minutes.map((minute) => minute.done));
  const failed = sum(minutes.map((minute) => minute.failed));
  return {
    pending: sum(queues.map(({ counts }) => counts.pending)),
    processing: sum(queues.map(({ counts }) => counts.processing)),
    oldestPendingMs: oldest.length === 0 ? null : Math.max(0, countedAt - Math.min(...oldest)),
    done,
    failed,
    successRate: done + failed === 0 ? null : done / (done + failed),
  };
}

function sentenceOf(summary: Summary): string {
  const { pending, processing, oldestPendingMs, done, failed, successRate } = summary;
  const oldest = oldestPendingMs === null ? "" : ` (the oldest for ${formatMs(oldestPendingMs)})`;
  const rate = successRate === null ? "" : ` (${(100 * successRate).toFixed(1)} %)`;
  const ended = `${done} done, ${failed} failed in 15 minutes${rate}`;
  return `queues: ${pending} pending${oldest}, ${processing} processing; ${ended}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
