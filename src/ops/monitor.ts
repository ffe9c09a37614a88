/**
 * The monitor: looks at the whole now and then, tells a log line about it, and hands what it saw to whoever decides about
 * alerts.
 *
 * Every process may have one. Whoever comes first when it is time counts for all of them and writes the line; the others
 * make their observations from what it counted. No monitor counts rows otherwise.
 */
import { checkKnown } from "../core/check.ts";
import { formatMs, toMs, type Duration } from "../core/duration.ts";
import { StoreUnavailable } from "../core/errors.ts";
import type { Finding } from "../core/finding.ts";
import { Loop } from "../core/loop.ts";
import type { Client } from "../queue/client.ts";
import { MINUTES_KEEP_MS } from "../queue/figures.ts";
import type { LockFigures } from "../queue/lock-stats.ts";
import type { Census, MinuteFigures } from "../store/figures.ts";
import { Canaries, type CanaryOptions } from "./canary.ts";
import { LOCKS_OBSERVED_MS, type Observation } from "./observation.ts";

const DEFAULT_INTERVAL = "30s";
const INTERVAL_MS_MIN = 1_000;
/** The first look is at a service that is still starting: the next comes so soon. */
const SOON_MS = 5_000;
/** Less than the shortest wait of the loop, or a monitor that is alone would find every second count not due. */
const COUNT_SHARE = 0.85;
/** Minutes that are made up for in one turn, after nobody did for long. */
const FOLD_BATCH = 60;
const FOLDS_MAX = 5;
const PRUNE_BATCH = 1_000;
/** What an observation tells about, and the line. */
const OBSERVED_MS = 15 * 60_000;
const OBSERVED_ROWS_MAX = 20_000;

const KNOWN = new Set(["interval", "examine", "onObservation", "canary"]);

export interface MonitorOptions {
  /** How often it looks. Default 30 s. */
  readonly interval?: Duration;
  /** The checks that run all the time. */
  readonly examine?: () => Promise<readonly Finding[]>;
  /** Is given every observation. What it throws is logged. */
  readonly onObservation?: (observation: Observation) => Promise<void>;
  /** Sends canaries, too. Default: none. */
  readonly canary?: CanaryOptions;
}

/** Looks every `interval` until it is stopped; stop it before the Holdfast is closed. */
export function startMonitor(holdfast: Client, options: MonitorOptions = {}): Monitor {
  return new Monitor(holdfast, options);
}

export class Monitor {
  readonly #holdfast: Client;
  readonly #options: MonitorOptions;
  readonly #intervalMs: number;
  readonly #canaries: Canaries | null;
  readonly #loop: Loop;
  /** The parts that failed the last time they were asked: each is complained about once. */
  readonly #failing = new Set<string>();
  #latest: Observation | null = null;
  /** For how long it waited before this look. */
  #waitedMs: number;

  constructor(holdfast: Client, options: MonitorOptions) {
    checkKnown(options, KNOWN);
    const interval = options.interval ?? DEFAULT_INTERVAL;
    this.#intervalMs = toMs("interval", interval, { min: INTERVAL_MS_MIN });
    this.#waitedMs = this.#intervalMs;
    this.#holdfast = holdfast;
    this.#options = options;
    this.#canaries = options.canary === undefined ? null : new Canaries(holdfast, options.canary);
    const { runtime, logger } = holdfast;
    const once = (): Promise<number> => this.#once();
    this.#loop = new Loop({ name: "monitor", runtime, logger, once, background: true });
  }

  /** What it saw last; null: nothing yet. */
  latest(): Observation | null {
    return this.#latest;
  }

  async stop(): Promise<void> {
    await Promise.all([this.#loop.stop(), this.#canaries?.stop()]);
  }

  async #once(): Promise<number> {
    const { store } = this.#holdfast;
    const everyMs = Math.floor(this.#waitedMs * COUNT_SHARE);
    const isFirst = this.#latest === null;
    await this.#fold();
    const counted = await store.takeCensus({ everyMs });
    if (counted !== null) await this.#prune();
    const observation = await this.#observe(counted ?? (await store.census()));
    this.#latest = observation;
    if (counted !== null) this.#tell(counted, observation.minutes);
    const { onObservation = async () => {} } = this.#options;
    await this.#guarded("onObservation", () => onObservation(observation));
    this.#waitedMs = isFirst ? Math.min(SOON_MS, this.#intervalMs) : this.#intervalMs;
    return this.#waitedMs;
  }

  async #fold(): Promise<void> {
    for (let folds = 0; folds < FOLDS_MAX; folds += 1) {
      const folded = await this.#holdfast.store.foldMinutes({ limit: FOLD_BATCH });
      if (folded < FOLD_BATCH) return;
    }
  }

  /** A batch in every turn is more than what is added in one. */
  async #prune(): Promise<void> {
    await this.#holdfast.store.pruneMinutes({ forMs: MINUTES_KEEP_MS, limit: PRUNE_BATCH });
  }

  async #observe(census: Census | null): Promise<Observation> {
    const { store, runtime } = this.#holdfast;
    const { examine = async () => null } = this.#options;
    const findings = await this.#guarded("examine", examine);
    return {
      at: runtime.now(),
      census,
      minutes: await store.minutes({ forMs: OBSERVED_MS, limit: OBSERVED_ROWS_MAX }),
      findings: findings ?? [],
      examined: findings !== null,
      locks: await this.#guarded("locks", () => this.#lockFigures()),
      canaries: (await this.#canaries?.reports()) ?? [],
    };
  }

  async #lockFigures(): Promise<readonly LockFigures[]> {
    const { types } = await this.#holdfast.locks.stats({ last: LOCKS_OBSERVED_MS });
    return types;
  }

  /** What others hand in must not keep anybody from seeing the rest. A database that is away is the loop's to tell. */
  async #guarded<T>(part: string, run: () => Promise<T>): Promise<T | null> {
    try {
      const value = await run();
      this.#failing.delete(part);
      return value;
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      if (!this.#failing.has(part)) {
        const facts = { event: "monitor:failed", part, err: error };
        this.#holdfast.logger.error(facts, `monitor: ${part} failed`);
      }
      this.#failing.add(part);
      return null;
    }
  }

  #tell(census: Census, minutes: readonly MinuteFigures[]): void {
    const summary = summaryOf(census, minutes);
    this.#holdfast.logger.info({ event: "queues:counted", ...summary }, sentenceOf(summary));
  }
}

/** What the line tells. */
export interface Summary {
  readonly pending: number;
  readonly processing: number;
  /** For how long the job has been pending that has been for longest; null: none is. */
  readonly oldestPendingMs: number | null;
  /** Within the last quarter of an hour. */
  readonly completed: number;
  readonly failed: number;
  /** The share of those that were completed; null: none ended. */
  readonly successRate: number | null;
}

export function summaryOf(
  { countedAt, queues }: Census,
  minutes: readonly MinuteFigures[],
): Summary {
  const oldest = queues.flatMap(({ oldestPendingAt }) => oldestPendingAt ?? []);
  const completed = sum(minutes.map(({ done }) => done));
  const failed = sum(minutes.map((minute) => minute.failed));
  return {
    pending: sum(queues.map(({ counts }) => counts.pending)),
    processing: sum(queues.map(({ counts }) => counts.processing)),
    oldestPendingMs: oldest.length === 0 ? null : Math.max(0, countedAt - Math.min(...oldest)),
    completed,
    failed,
    successRate: completed + failed === 0 ? null : completed / (completed + failed),
  };
}

function sentenceOf(summary: Summary): string {
  const { pending, processing, oldestPendingMs, completed, failed, successRate } = summary;
  const oldest = oldestPendingMs === null ? "" : ` (the oldest for ${formatMs(oldestPendingMs)})`;
  const rate = successRate === null ? "" : ` (${(100 * successRate).toFixed(1)} %)`;
  const ended = `${completed} completed, ${failed} failed in 15 minutes${rate}`;
  return `queues: ${pending} pending${oldest}, ${processing} processing; ${ended}`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
