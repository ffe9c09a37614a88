/**
 * Closes the rows of workers that died: whoever is alive looks after the others.
 *
 * Of a worker that is only silent nobody knows whether it still works, so its leases are left to run out. One whose process
 * is seen to be gone works no more, and its jobs are taken back at once.
 */
import { endingOf } from "../store/workers.ts";
import type { Beat, ClosedWorker, WorkerRecord } from "../store/registry.ts";
import type { Store } from "../store/store.ts";
import type { Runtime } from "../core/runtime.ts";
import { isGone } from "./process-trace.ts";
import type { Reporter } from "./reporter.ts";
import type { WorkerSettings } from "./settings.ts";

/** How many rows are looked at; those that started last are looked at first. */
const SEEN_MAX = 1_000;
/** Jobs taken back in one transaction. */
const RECLAIM_BATCH = 500;
/** A sign of life that comes so many times later than the last was missed. */
const LATE_BEATS = 2;
const FOREVER_MS = Number.MAX_SAFE_INTEGER;
const PRUNE_EVERY_MS = 60 * 60_000;
/** For how long the row of a worker that stopped is kept. */
const KEEP_MS = 7 * 24 * 3_600_000;

export interface UndertakerParts {
  /** Whoever looks is alive. */
  readonly worker: string;
  readonly store: Store;
  readonly runtime: Runtime;
  readonly settings: WorkerSettings;
  readonly reporter: Reporter;
  /** Dead workers whose rows were closed when this one registered. */
  readonly closed: readonly ClosedWorker[];
}

export class Undertaker {
  readonly #parts: UndertakerParts;
  /** The other workers, as they were when they were last looked at. */
  #others: readonly WorkerRecord[] = [];
  /** What the last sign of life told, and what had been told when the others were looked at. */
  #told: Beat | null = null;
  #known: Beat | null = null;
  #toldAt: number;
  /** Since when no sign of life was missed. */
  #since: number;
  #prunedAt: number;
  /** Workers whose rows are closed, and who have not been reported yet. */
  #unreported: readonly ClosedWorker[];
  /** Workers that are gone and whose jobs have yet to be taken back. A database that is away keeps them here. */
  readonly #gone = new Set<string>();

  constructor(parts: UndertakerParts) {
    this.#parts = parts;
    this.#unreported = parts.closed;
    this.#toldAt = parts.runtime.monotonic();
    this.#since = this.#toldAt;
    this.#prunedAt = this.#toldAt;
  }

  /** Every sign of life of this worker brings news of the others, so they are looked at only when there are some. */
  hear(beat: Beat): void {
    const { runtime, settings } = this.#parts;
    const now = runtime.monotonic();
    if (now - this.#toldAt > LATE_BEATS * settings.heartbeatMs) this.#since = now;
    this.#toldAt = now;
    this.#told = beat;
  }

  async once(): Promise<number> {
    const { store, settings } = this.#parts;
    // Before all else: nothing but this worker's memory says whose jobs these are.
    await this.#settleClosed();
    if (this.#isNews()) await this.#look();
    const gone = this.#others.filter(isGone).map(({ id }) => id);
    const silence = { ...this.#patience(), gone };
    if (this.#others.some((other) => endingOf(other, silence) !== null)) {
      this.#unreported = await store.closeDead(silence);
      this.#known = null; // whoever was closed is not among the others any more
      await this.#settleClosed();
    }
    if (this.#isTimeToPrune()) await store.pruneWorkers(KEEP_MS);
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
    const alive = told?.others === 0 ? [] : await store.workers({ alive: true, limit: SEEN_MAX });
    this.#others = alive.filter(({ id }) => id !== worker);
    this.#known = told;
  }

  /**
   * While the database was away nobody could give a sign of life. So silence counts only for one who has seen the database
   * answer all the time that it takes to be stale.
   */
  #patience(): { staleMs: number; hungMs: number } {
    const { staleMs, hungMs } = this.#parts.settings;
    const watched = this.#toldAt - this.#since >= staleMs;
    return watched ? { staleMs, hungMs } : { staleMs: FOREVER_MS, hungMs: FOREVER_MS };
  }

  /** Reports the workers whose rows were closed, and takes back the jobs of those that are gone. */
  async #settleClosed(): Promise<void> {
    const { reporter } = this.#parts;
    for (const worker of this.#unreported) {
      reporter.buried(worker);
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
      const reclaimed = await store.reclaimFrom({ workers, crashesMax, limit: RECLAIM_BATCH });
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
