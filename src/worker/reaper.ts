/**
 * Closes the rows of workers that died: whoever is alive looks after the others.
 *
 * Of a worker that is only silent nobody knows whether it still works, so its leases are left to run out. One whose process
 * is seen to be gone works no more, and its jobs are taken back at once.
 */
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import { isGone } from "../registry/process-identity.ts";
import { endingOf, type WorkersStore } from "../registry/store.ts";
import type { ClosedWorker, HeartbeatWrite, WorkerRecord } from "../registry/worker-record.ts";
import type { WorkerSettings } from "./options.ts";
import type { Reporter } from "./reporter.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly jobs: JobsStore;
  readonly workers: WorkersStore;
}

/** How many rows are looked at; those that started last are looked at first. */
const SEEN_MAX = 1_000;

/** Jobs taken back in one transaction. */
const RECLAIM_BATCH = 500;

/** A sign of life that comes so many times later than the last was missed. */
const LATE_HEARTBEATS = 2;

const FOREVER_MS = Number.MAX_SAFE_INTEGER;

const PRUNE_EVERY_MS = 60 * 60_000;

/** For how long the row of a worker that stopped is kept. */
const KEEP_MS = 7 * 24 * 3_600_000;

export interface ReaperParts {
  /** Whoever looks is alive. */
  readonly worker: string;
  readonly store: Stores;
  readonly runtime: Runtime;
  readonly settings: WorkerSettings;
  readonly reporter: Reporter;
  /** Dead workers whose rows were closed when this one registered. */
  readonly closed: readonly ClosedWorker[];
}

export class Reaper {
  readonly #parts: ReaperParts;
  /** The other workers, as they were when they were last looked at. */
  #others: readonly WorkerRecord[] = [];
  /** What the last sign of life told, and what had been told when the others were looked at. */
  #told: HeartbeatWrite | null = null;
  #known: HeartbeatWrite | null = null;
  #toldAt: number;
  /** Since when no sign of life was missed. */
  #since: number;
  #prunedAt: number;
  /** Workers whose rows are closed, and who have not been reported yet. */
  #unreported: readonly ClosedWorker[];
  /** Workers that are gone and whose jobs have yet to be taken back. A database that is away keeps them here. */
  readonly #gone = new Set<string>();

  constructor(parts: ReaperParts) {
    this.#parts = parts;
    this.#unreported = parts.closed;
    this.#toldAt = parts.runtime.monotonic();
    this.#since = this.#toldAt;
    this.#prunedAt = this.#toldAt;
  }

  /** Every sign of life of this worker brings news of the others, so they are looked at only when there are some. */
  hear(beat: HeartbeatWrite): void {
    const { runtime, settings } = this.#parts;
    const now = runtime.monotonic();
    if (now - this.#toldAt > LATE_HEARTBEATS * settings.heartbeatMs) this.#since = now;
    this.#toldAt = now;
    this.#told = beat;
  }

  async once(): Promise<number> {
    const { store, settings } = this.#parts;
    // Before all else: nothing but this worker's memory says whose jobs these are.
    await this.#settleClosed();
    if (this.#isNews()) await this.#look();
    const gone = this.#others.filter(isGone).map(({ id }) => id);
    const silence = { ...this.#budget(), gone };
    if (this.#others.some((other) => endingOf(other, silence) !== null)) {
      this.#unreported = await store.workers.closeDead(silence);
      this.#known = null; // whoever was closed is not among the others any more
      await this.#settleClosed();
    }
    if (this.#isTimeToPrune()) await store.workers.prune(KEEP_MS);
    return settings.heartbeatMs;
  }

  #isNews(): boolean {
    const [told, known] = [this.#told, this.#known];
    if (told === null) return false;
    const { staleMs, hungMs } = this.#parts.settings;
    if (told.silentMsMax > Math.min(staleMs, hungMs)) return true;
    return told.others !== known?.others || told.newestAt !== known.newestAt;
  }

  async #look(): Promise<void> {
    const { store, worker } = this.#parts;
    const told = this.#told;
    const alive =
      told?.others === 0 ? [] : await store.workers.list({ alive: true, limit: SEEN_MAX });
    this.#others = alive.filter(({ id }) => id !== worker);
    this.#known = told;
  }

  /**
   * While the database was away nobody could give a sign of life. So silence counts only for one who has seen the database
   * answer all the time that it takes to be stale.
   */
  #budget(): { staleMs: number; hungMs: number } {
    const { staleMs, hungMs } = this.#parts.settings;
    const watched = this.#toldAt - this.#since >= staleMs;
    return watched ? { staleMs, hungMs } : { staleMs: FOREVER_MS, hungMs: FOREVER_MS };
  }

  /** Reports the workers whose rows were closed, and takes back the jobs of those that are gone. */
  async #settleClosed(): Promise<void> {
    const { reporter } = this.#parts;
    for (const worker of this.#unreported) {
      reporter.reaped(worker);
      if (worker.ending === "gone") this.#gone.add(worker.id);
    }
    this.#unreported = [];
    if (this.#gone.size > 0) await this.#takeBack([...this.#gone]);
    this.#gone.clear();
  }

  async #takeBack(workers: readonly string[]): Promise<void> {
    const { store, reporter, settings } = this.#parts;
    const { crashesMax } = settings;
    for (;;) {
      const reclaimed = await store.jobs.reclaimFrom({ workers, crashesMax, limit: RECLAIM_BATCH });
      for (const job of reclaimed) reporter.recovered(job, "its worker is gone");
      if (reclaimed.length < RECLAIM_BATCH) return;
    }
  }

  #isTimeToPrune(): boolean {
    if (this.#toldAt - this.#prunedAt < PRUNE_EVERY_MS) return false;
    this.#prunedAt = this.#toldAt;
    return true;
  }
}
