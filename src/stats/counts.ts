/**
 * Counts jobs by queue and status: one process for all, one statement, one instant.
 *
 * A compare-and-set on the one row of `counts` decides which process counts. If that process dies, another one counts when
 * the next count is due. The interval depends on how long a count took, so counting uses at most a hundredth of the time,
 * however many jobs there are. This holds for failed counts too; otherwise a table that is too large to be counted would
 * be counted all the time.
 */
import { type FinalStatus, finalStatuses, type Status, statuses } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import { writeOrLookUp } from "../database/database.ts";
import type { Engine, Row } from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { byQueue, type Count, countLive } from "../jobs/list.ts";
import type { QueueStats } from "../jobs/store.ts";
import { capQueues, countOpenMinutes, standing, type Standing } from "./minute-totals.ts";

/** The pause after a count, as a multiple of the time that it took. */
const REST = 100;

export interface CountOptions {
  readonly everyMs: number;
  /** Instead of REST, for a demo that is over in seconds. */
  readonly rest?: number;
}

export async function takeCounts(
  engine: Engine,
  { everyMs, rest = REST }: CountOptions,
): Promise<Counts | null> {
  const before = await standing(engine);
  if (!isDue(before, Math.max(everyMs, rest * before.tookMs))) return null;
  const begunAt = before.now;
  if (!(await begin(engine, before.begunAt, begunAt))) return null;
  const startedAt = engine.runtime.monotonic();
  const tookMs = (): number => Math.ceil(engine.runtime.monotonic() - startedAt);
  try {
    const live = await countLive(engine);
    await countOpenMinutes(engine);
    const all = byQueue([...live, ...(await addUpEnded(engine))]);
    const weight = ({ counts: by }: QueueDepth): number =>
      statuses.reduce((sum, status) => sum + by[status], 0);
    const queues = capQueues(all, { weight, add: together });
    queues.sort((a, b) => (a.queue < b.queue ? -1 : 1));
    const counts: Counts = { countedAt: begunAt, tookMs: tookMs(), queues };
    return (await keep(engine, counts)) ? counts : null;
  } catch (error) {
    await noteTime(engine, begunAt, tookMs()).catch(() => {}); // The first error matters.
    throw error;
  }
}

/** A clock that was set back must not delay the count until it has caught up. */
function isDue({ begunAt, now }: Standing, everyMs: number): boolean {
  return begunAt > now + everyMs || now - begunAt >= everyMs;
}

function begin(engine: Engine, seen: number, begunAt: number): Promise<boolean> {
  return writeOrLookUp(
    engine,
    async () => {
      const won = await engine.run(sql`
        update holdfast.counts set begun_at = ${begunAt} where id = 1 and begun_at = ${seen}`);
      return won > 0;
    },
    async () => (await standing(engine)).begunAt === begunAt,
  );
}

/** A failed count is followed by a pause, too. */
async function noteTime(engine: Engine, begunAt: number, tookMs: number): Promise<void> {
  await engine.run(sql`
    update holdfast.counts set took_ms = ${tookMs} where id = 1 and begun_at = ${begunAt}`);
}

async function addUpEnded(engine: Engine): Promise<Count[]> {
  const rows = await engine.all<{ queue: string } & Record<FinalStatus, number | string>>(sql`
    select queue, sum(done) as done, sum(failed) as failed, sum(cancelled) as cancelled,
           sum(expired) as expired
      from holdfast.minute_total
     group by queue`);
  return rows.flatMap((row) =>
    finalStatuses.map((status) => {
      return { queue: row.queue, status, n: Number(row[status]), oldest: null };
    }),
  );
}

function together(a: QueueDepth, b: QueueDepth): QueueDepth {
  const counts = statuses.map((status) => [status, a.counts[status] + b.counts[status]]);
  const oldest = [a, b].flatMap(({ oldestPendingAt }) => oldestPendingAt ?? []);
  return {
    queue: a.queue,
    counts: Object.fromEntries(counts) as Record<Status, number>,
    oldestPendingAt: oldest.length === 0 ? null : Math.min(...oldest),
  };
}

/** False: it took so long that another process counts by now. Idempotent. */
function keep(engine: Engine, { countedAt, tookMs, queues }: Counts): Promise<boolean> {
  const rows = queues.flatMap(rowsOf);
  const write = (): Promise<boolean> =>
    engine.transaction(async (tx) => {
      const ours = await tx.run(sql`
        update holdfast.counts
           set counted_at = ${countedAt}, took_ms = ${tookMs}
         where id = 1
           and begun_at = ${countedAt}`);
      if (ours === 0) return false;
      await tx.run(sql`delete from holdfast.depth`);
      await tx.insert("depth", rows);
      return true;
    });
  return writeOrLookUp(engine, write, write);
}

function rowsOf({ queue, counts, oldestPendingAt }: QueueDepth): Row[] {
  return statuses
    .filter((status) => counts[status] > 0)
    .map((status) => {
      const oldest = status === "pending" ? oldestPendingAt : null;
      return { queue, status, jobs: counts[status], oldest_at: oldest };
    });
}

interface DepthRow {
  readonly countedAt: number;
  readonly tookMs: number;
  readonly ageMs: number;
  readonly queue: string | null;
  readonly status: Status;
  readonly n: number;
  readonly oldest: number | null;
}

/** In one statement, because the counts and their time belong together. */
export async function lastCounts(engine: Engine): Promise<AgedCounts | null> {
  const rows = await engine.all<DepthRow>(sql`
    select c.counted_at as "countedAt", c.took_ms as "tookMs", ${engine.now()} - c.counted_at as "ageMs",
           d.queue, d.status, d.jobs as n, d.oldest_at as oldest
      from holdfast.counts c
      left join holdfast.depth d on 1 = 1
     where c.id = 1`);
  const [first] = rows;
  if (first === undefined || first.countedAt === 0) return null;
  const { countedAt, tookMs, ageMs } = first;
  const counts = rows.filter((row): row is DepthRow & { queue: string } => row.queue !== null);
  return { countedAt, tookMs, ageMs, queues: byQueue(counts) };
}

/** How many jobs each queue has, by status, and when that was counted. */
export interface Counts {
  /** The instant of the count, by the database's clock. */
  readonly countedAt: number;
  /** How long the count took, in milliseconds. */
  readonly tookMs: number;
  /** By name. Of very many queues, those with the most jobs, and all others as one: see `capQueues`. */
  readonly queues: readonly QueueDepth[];
}

/** Counts, and how old they are. */
export interface AgedCounts extends Counts {
  /** How long ago that was, by the database's clock. */
  readonly ageMs: number;
}

/** How many jobs of a queue have each status, and since when the oldest is pending. */
export interface QueueDepth {
  /** The name of the queue. */
  readonly queue: string;
  /**
   * Live jobs were counted at one instant. Jobs that are done, failed or cancelled are never counted: these are the sums of
   * the minute totals, so they cover the time that minute totals are kept (7 days).
   */
  readonly counts: Readonly<Record<Status, number>>;
  /** When the longest pending job became pending (ms since 1970); null: none is pending. */
  readonly oldestPendingAt: number | null;
}

// The last counts of jobs that are known without counting, if there are any.

/** Without a monitor, requests within this time share one count. */
const COUNT_EVERY_MS = 2_000;

/** Requests within this time share one look at the stored counts. */
const LOOK_EVERY_MS = 1_000;

/** Stored counts that are older are counted again, in the background. */
const STALE_MS = 60_000;

interface Counted {
  readonly countedAt: number;
  readonly queues: readonly QueueStats[];
}

interface LatestParts {
  readonly runtime: Runtime;
  /** The monitor of this process, if one runs. */
  readonly monitor: { latest(): { readonly counts: Counted | null } | null } | undefined;
  /** The counts that a monitor of any process has stored. */
  readonly stored: () => Promise<AgedCounts | null>;
  /** Counts as a monitor does: not more often than is due. */
  readonly take: () => Promise<Counts | null>;
  /** Counts everything, which takes long if there are many finished jobs. */
  readonly count: () => Promise<readonly QueueStats[]>;
}

export class LatestCounts {
  readonly #parts: LatestParts;
  #counting: Promise<Counted> | null = null;
  #countedAt = Number.NEGATIVE_INFINITY;
  #stored: { readonly counts: Promise<AgedCounts | null>; readonly at: number } | null = null;
  #isTaking = false;

  constructor(parts: LatestParts) {
    this.#parts = parts;
  }

  async counts(): Promise<Counted> {
    const { monitor } = this.#parts;
    const seen = monitor?.latest()?.counts ?? null;
    if (seen !== null) return { queues: seen.queues, countedAt: seen.countedAt };
    const stored = await this.#look();
    if (stored === null) return this.#count();
    if (stored.ageMs > STALE_MS) this.#take();
    return { queues: stored.queues, countedAt: stored.countedAt };
  }

  #look(): Promise<AgedCounts | null> {
    const now = this.#parts.runtime.monotonic();
    if (this.#stored === null || now - this.#stored.at > LOOK_EVERY_MS) {
      const counts = this.#parts.stored();
      counts.catch(() => void (this.#stored = null));
      this.#stored = { counts, at: now };
    }
    return this.#stored.counts;
  }

  /** No request waits for it, and a failure shows as counts that grow older. */
  #take(): void {
    if (this.#isTaking) return;
    this.#isTaking = true;
    void this.#parts
      .take()
      .catch(() => {})
      .finally(() => void (this.#isTaking = false));
  }

  /** One count at a time, however long it takes. */
  #count(): Promise<Counted> {
    const { runtime, count } = this.#parts;
    const isFresh = runtime.monotonic() - this.#countedAt < COUNT_EVERY_MS;
    if (this.#counting !== null && isFresh) return this.#counting;
    this.#countedAt = Number.POSITIVE_INFINITY;
    this.#counting = (async () => {
      const queues = await count();
      this.#countedAt = runtime.monotonic();
      return { queues, countedAt: runtime.now() };
    })();
    this.#counting.catch(() => void (this.#counting = null));
    return this.#counting;
  }
}

// What commands show: the monitor's last count if it is recent, so they are fast for any number of jobs.

/** Older counts are not used. */
const RECENT_MS = 2 * 60_000;

export interface CountsApp {
  readonly metrics: { counts(): Promise<AgedCounts | null> };
  /** Counts now. */
  stats(): Promise<QueueDepth[]>;
}

interface RecentCounts {
  readonly queues: readonly QueueDepth[];
  /** By the database's clock; null: now. */
  readonly countedAt: number | null;
  readonly ageMs: number;
}

/** A count that found no jobs is not used: to count again is cheap, and a job may have been enqueued since then. */
export async function recentCounts(app: CountsApp, isExact = false): Promise<RecentCounts> {
  const last = isExact ? null : await app.metrics.counts();
  const isRecent = last !== null && last.queues.length > 0 && Math.abs(last.ageMs) < RECENT_MS;
  return isRecent ? last : { queues: await app.stats(), countedAt: null, ageMs: 0 };
}
