/**
 * Closes the rows of dead workers. Every live worker does this.
 *
 * A worker without a heartbeat may still run, so its leases are left to expire. If its process is known to be gone, its jobs
 * are reclaimed at once.
 */
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import { isGone } from "../registry/heartbeat.ts";
import { endingOf, type WorkersStore } from "../registry/store.ts";
import type { ClosedWorker, HeartbeatWrite, WorkerRecord } from "../registry/worker-record.ts";
import type { WorkerSettings } from "./options.ts";
import type { Reporter } from "./reporter.ts";

/** How many workers are read, most recently started first. */
const SEEN_MAX = 1_000;

/**
 * For so long after the end of a worker its jobs are looked for. The server may still hold the locks of a session whose
 * process is gone, and may still carry out a claim that it has received.
 */
const GONE_LOOK_MS = 60_000;

/** Jobs reclaimed in one transaction. */
const RECLAIM_BATCH = 500;

/** After this many intervals a heartbeat counts as missed. */
const LATE_HEARTBEATS = 2;

const FOREVER_MS = Number.MAX_SAFE_INTEGER;
const PRUNE_EVERY_MS = 60 * 60_000;

/** How long the row of a stopped worker is kept. */
const KEEP_MS = 7 * 24 * 3_600_000;

interface ReaperParts {
  readonly worker: string;
  readonly store: { readonly jobs: JobsStore; readonly workers: WorkersStore };
  readonly runtime: Runtime;
  readonly settings: WorkerSettings;
  readonly reporter: Reporter;
  /** Dead workers whose rows were closed when this one registered. */
  readonly closed: readonly ClosedWorker[];
}

export class Reaper {
  readonly #parts: ReaperParts;
  /** The other workers, as last read. */
  #others: readonly WorkerRecord[] = [];
  /** The answer to the last heartbeat, and the answer at the time when the others were read. */
  #latest: HeartbeatWrite | null = null;
  #known: HeartbeatWrite | null = null;
  #latestAt: number;
  /** Since when no heartbeat was missed. */
  #since: number;
  #prunedAt: number;
  /** Workers whose rows are closed, but that are not reported yet. */
  #unreported: readonly ClosedWorker[];
  /** Workers that are gone, and when that was noticed. They stay here while the database is unavailable. */
  readonly #gone = new Map<string, number>();

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    this.#unreported = parts.closed;
    this.#latestAt = parts.runtime.monotonic();
    this.#since = this.#latestAt;
    this.#prunedAt = this.#latestAt;
  }

  /** Every heartbeat returns a summary of the other workers, so they are read only after a change. */
  onHeartbeat(heartbeat: HeartbeatWrite): void {
    const { runtime, settings } = this.#parts;
    const now = runtime.monotonic();
    if (now - this.#latestAt > LATE_HEARTBEATS * settings.heartbeatMs) this.#since = now;
    this.#latestAt = now;
    this.#latest = heartbeat;
  }

  async once(): Promise<number> {
    const { store, settings } = this.#parts;
    // First of all: only this worker's memory knows whose jobs these are.
    await this.#settleClosed();
    if (this.#hasChanged()) await this.#readOthers();
    const gone = this.#others.filter(isGone).map(({ id }) => id);
    const silence = { ...this.#silenceLimits(), gone };
    if (this.#others.some((other) => endingOf(other, silence) !== null)) {
      this.#unreported = await store.workers.closeDead(silence);
      this.#known = null; // the others have changed
      await this.#settleClosed();
    }
    if (this.#isTimeToPrune()) await store.workers.prune(KEEP_MS);
    return settings.heartbeatMs;
  }

  #hasChanged(): boolean {
    const [latest, known] = [this.#latest, this.#known];
    if (latest === null) return false;
    const { heartbeatTimeoutMs: staleMs, stoppingTimeoutMs: hungMs } = this.#parts.settings;
    if (latest.silentMsMax > Math.min(staleMs, hungMs)) return true;
    return latest.others !== known?.others || latest.newestAt !== known.newestAt;
  }

  async #readOthers(): Promise<void> {
    const { store, worker } = this.#parts;
    const latest = this.#latest;
    const alive =
      latest?.others === 0 ? [] : await store.workers.list({ alive: true, limit: SEEN_MAX });
    this.#others = alive.filter(({ id }) => id !== worker);
    this.#known = latest;
  }

  /** While the database was unavailable, no worker could send a heartbeat. So it must have answered for the whole time. */
  #silenceLimits(): { staleMs: number; hungMs: number } {
    const { heartbeatTimeoutMs: staleMs, stoppingTimeoutMs: hungMs } = this.#parts.settings;
    const watched = this.#latestAt - this.#since >= staleMs;
    return watched ? { staleMs, hungMs } : { staleMs: FOREVER_MS, hungMs: FOREVER_MS };
  }

  /** Reports the workers whose rows were closed, and reclaims the jobs of those that are gone. */
  async #settleClosed(): Promise<void> {
    const { reporter, runtime } = this.#parts;
    const now = runtime.monotonic();
    for (const worker of this.#unreported) {
      reporter.reaped(worker);
      if (worker.ending === "gone") this.#gone.set(worker.id, now);
    }
    this.#unreported = [];
    if (this.#gone.size > 0) await this.#reclaimFrom([...this.#gone.keys()]);
    for (const [id, noticedAt] of this.#gone) {
      if (now - noticedAt >= GONE_LOOK_MS) this.#gone.delete(id);
    }
  }

  async #reclaimFrom(workers: readonly string[]): Promise<void> {
    const { store, reporter, settings } = this.#parts;
    const { maxCrashes } = settings;
    for (;;) {
      const reclaimed = await store.jobs.reclaimFrom({ workers, maxCrashes, limit: RECLAIM_BATCH });
      for (const job of reclaimed) reporter.recovered(job, "its worker is gone");
      if (reclaimed.length < RECLAIM_BATCH) return;
    }
  }

  #isTimeToPrune(): boolean {
    if (this.#latestAt - this.#prunedAt < PRUNE_EVERY_MS) return false;
    this.#prunedAt = this.#latestAt;
    return true;
  }
}
