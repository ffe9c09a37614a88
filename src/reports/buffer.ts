/**
 * Collects the reports of an attempt and writes them in batches, so that a task never waits for them or fails because of
 * them.
 *
 * Nothing is lost silently: reports beyond the limit are counted, and the stream says how many are missing. During an
 * outage of the database reports wait; after another worker has taken the job they are discarded.
 */
import { StoreRefusedError } from "../core/errors.ts";
import type { Fence } from "../core/job.ts";
import {
  type JobLogLevel,
  type Progress,
  type Said,
  sayDropped,
  sayLog,
  sayProgress,
  sayReport,
} from "../core/report.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import type { NewReport, ReportsStore } from "./store.ts";

/** Reports are written after this delay, in one batch … */
const FLUSH_MS = 200;

/** … or at once when there are this many. */
const BATCH_MAX = 100;

/** Progress is written at most this often; only the last value counts. */
const PROGRESS_MS = 1_000;

/** Log lines and reports of a job in one second; more are dropped. */
export const REPORTS_PER_SECOND_MAX = 100;

const SECOND_MS = 1_000;

/** How many reports may wait during an outage of the database. */
const PENDING_MAX = 300;

const RETRY_MS = 1_000;

/** How long the end of an attempt waits for its last reports; then the job is settled without them. */
const CLOSE_MS_MAX = 2_000;

const CLOSE_RETRY_MS = 100;

const HAND_OVER_MS_MAX = 200;

interface ReportBufferParts {
  readonly store: { readonly reports: ReportsStore };
  readonly runtime: Runtime;
  readonly fence: Fence;
}

interface Pending extends Said {
  /** By the monotonic clock. */
  readonly saidAt: number;
  /** Its number among all reports of this attempt. */
  readonly place: number;
}

export class ReportBuffer {
  readonly #parts: ReportBufferParts;
  #pending: Pending[] = [];
  #progress: Pending | null = null;
  #progressAt = Number.NEGATIVE_INFINITY;
  #said = 0;
  #dropped = 0;
  #secondAt = Number.NEGATIVE_INFINITY;
  #inSecond = 0;
  /** The batch that is being written, or must be written again with the same numbers. */
  #batch: readonly Pending[] = [];
  /** The number of the last written report; null: it must be read. */
  #last: number | null;
  #writing: Promise<unknown> | null = null;
  #timer: Timer | null = null;
  /** The last write failed: the next one waits, however many reports arrive. */
  #isAway = false;
  #isOver = false;

  constructor(parts: ReportBufferParts) {
    this.#parts = parts;
    // The first attempt of a job is the first to report.
    this.#last = parts.fence.epoch === 1 ? 0 : null;
  }

  progress(value: Progress, text?: string): void {
    const said = sayProgress(value, text);
    if (this.#isOver) return;
    this.#progress = this.#stamped(said);
    this.#flushIn(FLUSH_MS);
  }

  log(text: string, data: unknown, level: JobLogLevel): void {
    this.#add(sayLog(text, data, level));
  }

  report(name: string, data?: unknown): void {
    this.#add(sayReport(name, data));
  }

  /** Writes the rest, as far as that is possible in a short time. Later reports are ignored. */
  async close(): Promise<void> {
    this.#end();
    const written = new AbortController();
    const late = sleep(this.#parts.runtime, CLOSE_MS_MAX, { signal: written.signal });
    await Promise.race([this.#writeTheRest(), late]);
    written.abort();
    this.#forget();
  }

  /** Passes the rest to `put`, which writes it in the transaction that ends the job. Later reports are ignored. */
  async handOver(put: (reports: readonly NewReport[]) => Promise<void>): Promise<void> {
    this.#end();
    const { runtime } = this.#parts;
    await Promise.race([this.#writing, sleep(runtime, HAND_OVER_MS_MAX, { kind: "background" })]);
    // The write under way waits for a lock of that transaction.
    if (this.#writing !== null) return;
    // The batch may already be written with these numbers, and a duplicate would abort the user's transaction.
    if (this.#batch.length > 0) this.#last = null;
    while (!this.#isEmpty) {
      const last = this.#last ?? (await this.#parts.store.reports.last(this.#parts.fence.id));
      if (this.#batch.length === 0) this.#batch = this.#take(true);
      await put(this.#numbered(last));
      this.#last = last + this.#batch.length;
      this.#batch = [];
    }
  }

  /** The job has not ended after all: the transaction was rolled back, with the reports. */
  goOn(): void {
    this.#isOver = false;
    this.#last = null;
    this.#timer = null;
  }

  #end(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  get #isEmpty(): boolean {
    const count = this.#batch.length + this.#pending.length + this.#dropped;
    return count === 0 && this.#progress === null;
  }

  #stamped(said: Said): Pending {
    this.#said += 1;
    return { ...said, saidAt: this.#parts.runtime.monotonic(), place: this.#said };
  }

  #add(said: Said): void {
    if (this.#isOver) return;
    if (this.#isSecondOver()) {
      this.#reportDropped();
      this.#secondAt = this.#parts.runtime.monotonic();
      this.#inSecond = 0;
    }
    if (this.#inSecond >= REPORTS_PER_SECOND_MAX || this.#pending.length >= PENDING_MAX) {
      this.#dropped += 1;
    } else {
      this.#inSecond += 1;
      this.#pending.push(this.#stamped(said));
    }
    if (this.#pending.length >= BATCH_MAX && !this.#isAway) this.#flush();
    else this.#flushIn(FLUSH_MS);
  }

  #isSecondOver(): boolean {
    return this.#parts.runtime.monotonic() - this.#secondAt >= SECOND_MS;
  }

  /** In their place: after the reports that preceded them. */
  #reportDropped(): void {
    if (this.#dropped === 0 || this.#pending.length >= PENDING_MAX) return;
    this.#pending.push(this.#stamped(sayDropped(this.#dropped)));
    this.#dropped = 0;
  }

  #flushIn(waitMs: number): void {
    if (this.#isOver || this.#writing !== null) return;
    this.#timer ??= this.#parts.runtime.timer(waitMs, () => this.#flush(), "background");
  }

  /** One batch at a time. */
  #flush(): void {
    if (this.#isOver || this.#writing !== null) return;
    this.#timer?.cancel();
    this.#timer = null;
    this.#writing = this.#write(false).then((isWritten) => {
      this.#writing = null;
      this.#isAway = !isWritten;
      if (!this.#isEmpty) this.#flushIn(isWritten ? FLUSH_MS : RETRY_MS);
    });
  }

  async #writeTheRest(): Promise<void> {
    await this.#writing;
    while (!this.#isEmpty) {
      if (await this.#write(true)) continue;
      await sleep(this.#parts.runtime, CLOSE_RETRY_MS);
    }
  }

  /** False: it must be tried again. */
  async #write(isLast: boolean): Promise<boolean> {
    const { store, fence } = this.#parts;
    try {
      this.#last ??= await store.reports.last(fence.id);
      const last = this.#last;
      if (this.#batch.length === 0) this.#batch = this.#take(isLast);
      if (this.#batch.length === 0) return true;
      if (await store.reports.put(fence, this.#numbered(last))) {
        this.#last = last + this.#batch.length;
        this.#batch = [];
        return true;
      }
      // The job is no longer ours.
      this.#isOver = true;
      this.#forget();
      return true;
    } catch (error) {
      if (error instanceof StoreRefusedError) {
        // The database will never accept this batch.
        this.#dropped += this.#batch.length;
        this.#batch = [];
        this.#last = null;
      }
      return false;
    }
  }

  #numbered(last: number): NewReport[] {
    const now = this.#parts.runtime.monotonic();
    return this.#batch.map(({ kind, name, data, saidAt }, index) => ({
      kind,
      name,
      data,
      seq: last + 1 + index,
      ageMs: now - saidAt,
    }));
  }

  #take(isLast: boolean): Pending[] {
    if (isLast || this.#isSecondOver()) this.#reportDropped();
    const taken = this.#pending.splice(0, BATCH_MAX);
    const now = this.#parts.runtime.monotonic();
    const isDue = isLast || now - this.#progressAt >= PROGRESS_MS;
    const progress = this.#progress;
    if (progress === null || !isDue || this.#pending.length > 0) return taken;
    const behind = taken.findIndex(({ place }) => place > progress.place);
    taken.splice(behind === -1 ? taken.length : behind, 0, progress);
    this.#progress = null;
    this.#progressAt = now;
    return taken;
  }

  #forget(): void {
    this.#batch = [];
    this.#pending = [];
    this.#progress = null;
    this.#dropped = 0;
  }
}
