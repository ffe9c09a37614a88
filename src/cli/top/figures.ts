/**
 * What `holdfast top` shows, gathered with little asking.
 *
 * Counting rows is the dear part: it is done at most for a hundredth of the time, so seldom in a large table, and the rest is a few rows by an index.
 */
import { severities, type Severity } from "../../core/finding.ts";
import { listAlerts } from "../../ops/alert-list.ts";
import type { Holdfast } from "../../worker/holdfast.ts";
import type { WorkerRecord } from "../../store/registry.ts";
import type { JobSummary } from "../../queue/jobs.ts";
import type { QueueStats } from "../../store/store.ts";

const COUNT_EVERY_MS = 1_000;
/** Counting takes one part in so many of the time at most. */
const COUNT_SHARE = 100;
const RATES_MAX = 120;
const WORKERS_MAX = 100;
const FAILURES_MAX = 20;
const ALERTS_MAX = 20;
const CENSUS_MS_MAX = 120_000;
const COUNTED_MAX = 50_000;

export interface Failure extends JobSummary {
  /** As much of its id as has to be typed. */
  readonly short: string;
}

export interface RaisedAlert {
  readonly severity: Severity;
  readonly message: string;
}

export interface Figures {
  readonly database: string;
  /** By this host's clock. */
  readonly at: number;
  readonly queues: readonly QueueStats[];
  /** How long ago the queues were counted. */
  readonly countedMsAgo: number;
  /** Jobs that ended, a second, oldest first. */
  readonly rates: readonly number[];
  readonly workers: readonly WorkerRecord[];
  readonly failures: readonly Failure[];
  /** The worst first. */
  readonly alerts: readonly RaisedAlert[];
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

  async look(): Promise<Figures> {
    const { workers, runtime, store } = this.#holdfast;
    await this.#count();
    const [alive, failures, alerts] = await Promise.all([
      workers.list({ limit: WORKERS_MAX }),
      failuresOf(this.#holdfast),
      alertsOf(this.#holdfast),
    ]);
    return {
      database: store.name,
      at: runtime.now(),
      queues: this.#queues,
      countedMsAgo: Math.max(0, runtime.monotonic() - this.#countedAt),
      rates: [...this.#rates],
      workers: alive,
      failures,
      alerts,
    };
  }

  /** Counts if it is time to, and notes how many ended since the last time. */
  async #count(): Promise<void> {
    const { runtime } = this.#holdfast;
    const before = runtime.monotonic();
    if (before < this.#nextCountAt) return;
    this.#queues = await depths(this.#holdfast);
    const now = runtime.monotonic();
    const ended = endedIn(this.#queues);
    if (this.#ended !== null) {
      const seconds = (now - this.#countedAt) / 1_000;
      // What is pruned meanwhile is missing from the count.
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

/** Where there are many, what a monitor has counted is good enough. */
async function depths(holdfast: Holdfast): Promise<readonly QueueStats[]> {
  const census = await holdfast.figures.census();
  if (census === null || census.ageMs > CENSUS_MS_MAX) return holdfast.stats();
  const jobs = census.queues.flatMap(({ counts }) => Object.values(counts));
  const isLarge = jobs.reduce((sum, count) => sum + count, 0) > COUNTED_MAX;
  return isLarge ? census.queues : holdfast.stats();
}

async function alertsOf({ store }: Holdfast): Promise<readonly RaisedAlert[]> {
  const raised = await listAlerts(store, { which: "raised", limit: ALERTS_MAX });
  return raised
    .map(({ severity, message }) => ({ severity, message }))
    .toSorted((a, b) => severities.indexOf(b.severity) - severities.indexOf(a.severity));
}

function endedIn(queues: readonly QueueStats[]): number {
  return queues.reduce(
    (sum, { counts }) => sum + counts.done + counts.failed + counts.cancelled,
    0,
  );
}
