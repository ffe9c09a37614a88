/**
 * The stats that `holdfast top` shows, gathered with few queries.
 *
 * Counting rows is expensive, so it takes at most a hundredth of the time. The rest are a few rows read by an index.
 */
import { listAlerts } from "../alerts/alerts.ts";
import type { Holdfast } from "../app/holdfast.ts";
import { severities, type Severity } from "../core/finding.ts";
import type { JobSummary } from "../jobs/jobs.ts";
import type { QueueStats } from "../jobs/store.ts";
import type { WorkerRecord } from "../registry/worker-record.ts";

const COUNT_EVERY_MS = 1_000;

/** Counting takes at most one part in this many of the time. */
const COUNT_SHARE = 100;
const RATES_MAX = 120;
const WORKERS_MAX = 100;
const FAILURES_MAX = 20;
const ALERTS_MAX = 20;
const COUNTS_MS_MAX = 120_000;
const COUNTED_MAX = 50_000;

export interface Failure extends JobSummary {
  /** An unambiguous prefix of its id. */
  readonly short: string;
}

export interface Stats {
  readonly database: string;
  /** By this host's clock. */
  readonly at: number;
  readonly queues: readonly QueueStats[];
  /** How long ago the queues were counted. */
  readonly countedMsAgo: number;
  /** Finished jobs per second, oldest first. */
  readonly rates: readonly number[];
  readonly workers: readonly WorkerRecord[];
  readonly failures: readonly Failure[];
  /** The worst first. */
  readonly alerts: readonly { readonly severity: Severity; readonly message: string }[];
}

export class Observer {
  readonly #holdfast: Holdfast;
  readonly #rates: number[] = [];
  #queues: readonly QueueStats[] = [];
  #countedAt = Number.NEGATIVE_INFINITY;
  #nextCountAt = Number.NEGATIVE_INFINITY;
  #ended: number | null = null;

  constructor(holdfast: Holdfast) {
    this.#holdfast = holdfast;
  }

  async look(): Promise<Stats> {
    const { workers, runtime, store } = this.#holdfast;
    await this.#count();
    const [alive, failures, alerts] = await Promise.all([
      workers.list({ limit: WORKERS_MAX }),
      failuresOf(this.#holdfast),
      alertsOf(this.#holdfast),
    ]);
    return {
      database: store.db.name,
      at: runtime.now(),
      queues: this.#queues,
      countedMsAgo: Math.max(0, runtime.monotonic() - this.#countedAt),
      rates: [...this.#rates],
      workers: alive,
      failures,
      alerts,
    };
  }

  /** Counts if it is time to, and records how many jobs ended since the last count. */
  async #count(): Promise<void> {
    const { runtime } = this.#holdfast;
    const before = runtime.monotonic();
    if (before < this.#nextCountAt) return;
    this.#queues = await depths(this.#holdfast);
    const now = runtime.monotonic();
    const ended = this.#queues.reduce(
      (sum, { counts }) => sum + counts.done + counts.failed + counts.cancelled + counts.expired,
      0,
    );
    if (this.#ended !== null) {
      const seconds = (now - this.#countedAt) / 1_000;
      // Jobs pruned in the meantime are missing from the count.
      this.#rates.push(Math.max(0, ended - this.#ended) / seconds);
      if (this.#rates.length > RATES_MAX) this.#rates.shift();
    }
    this.#ended = ended;
    this.#countedAt = now;
    this.#nextCountAt = now + Math.max(COUNT_EVERY_MS / 2, (now - before) * COUNT_SHARE);
  }
}

async function failuresOf({ jobs }: Holdfast): Promise<Failure[]> {
  const failed = await jobs.list({ status: "failed", limit: FAILURES_MAX });
  const short = await jobs.shortIds(failed.map(({ id }) => id));
  return failed.map((job) => ({ ...job, short: short.get(job.id) ?? job.id }));
}

/** For a large number of jobs, the monitor's count is good enough. */
async function depths(holdfast: Holdfast): Promise<readonly QueueStats[]> {
  const counted = await holdfast.figures.counts();
  if (counted === null || counted.ageMs > COUNTS_MS_MAX) return holdfast.stats();
  const jobs = counted.queues.flatMap(({ counts }) => Object.values(counts));
  const isLarge = jobs.reduce((sum, count) => sum + count, 0) > COUNTED_MAX;
  return isLarge ? counted.queues : holdfast.stats();
}

async function alertsOf({ store }: Holdfast): Promise<Stats["alerts"]> {
  const raised = await listAlerts(store.alerts, { which: "raised", limit: ALERTS_MAX });
  return raised
    .map(({ severity, message }) => ({ severity, message }))
    .toSorted((a, b) => severities.indexOf(b.severity) - severities.indexOf(a.severity));
}
