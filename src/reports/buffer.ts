/**
 * Gathers what an attempt reports and writes it in batches, so that a task never waits for it and never fails by it.
 *
 * Nothing is lost silently: what is more than may be written is counted, and the stream says how many are missing. A
 * database that is away is waited for; a job that is somebody else's by now has nothing more to say here.
 */
import { StoreRefusedError } from "../core/errors.ts";
import type { Fence } from "../core/job.ts";
import {
  type Progress,
  type Said,
  sayDropped,
  sayLog,
  sayProgress,
  sayReport,
} from "../core/report.ts";
import { type Runtime, sleep, type Timer } from "../core/runtime.ts";
import type { NewReport, ReportsStore } from "./store.ts";

/** What is said is written this much later, together with all that was said meanwhile … */
const FLUSH_MS = 200;

/** … or at once when it is this much. */
const BATCH_MAX = 100;

/** Progress is written so often at most; of more, the last counts. */
const PROGRESS_MS = 1_000;

/** Log lines and reports of a job in one second; more are dropped. */
export const REPORTS_PER_SECOND_MAX = 100;

const SECOND_MS = 1_000;

/** As many wait here at most for a database that is away. */
const PENDING_MAX = 300;

/** After a write that failed. */
const RETRY_MS = 1_000;

/** An attempt that ended waits so long for its last words; then it is settled without them. */
const CLOSE_MS_MAX = 2_000;

const CLOSE_RETRY_MS = 100;

const HAND_OVER_MS_MAX = 200;

export interface ReportBufferParts {
  readonly store: { readonly reports: ReportsStore };
  readonly runtime: Runtime;
  readonly fence: Fence;
}

interface Pending extends Said {
  /** On the monotonic clock. */
  readonly saidAt: number;
  /** How many were said before it. */
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
  /** What is being written, or was and has to be again: the same numbers stay with it. */
  #batch: readonly Pending[] = [];
  /** The number of the last report that is written; null: it has to be asked for. */
  #last: number | null;
  #writing: Promise<unknown> | null = null;
  #timer: Timer | null = null;
  /** The last write failed: whatever is said meanwhile, the next one waits its time. */
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

  log(text: string, data?: unknown): void {
    this.#add(sayLog(text, data));
  }

  report(name: string, data?: unknown): void {
    this.#add(sayReport(name, data));
  }

  /** Writes what is left, as far as that is possible in a short time. Whatever is said from now on is not heard. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    const written = new AbortController();
    const late = sleep(this.#parts.runtime, CLOSE_MS_MAX, { signal: written.signal });
    await Promise.race([this.#writeTheRest(), late]);
    written.abort();
    this.#forget();
  }

  /**
   * Hands what is left to whoever writes it in the transaction in which the job ends: there it is the last moment. What
   * is said from now on is not heard.
   */
  async handOver(put: (reports: readonly NewReport[]) => Promise<void>): Promise<void> {
    this.#isOver = true;
    this.#timer?.cancel();
    const { runtime } = this.#parts;
    await Promise.race([this.#writing, sleep(runtime, HAND_OVER_MS_MAX, { kind: "background" })]);
    // It waits for what that transaction has locked.
    if (this.#writing !== null) return;
    // It may be there already, under these numbers, and a number that is taken would end the user's transaction.
    if (this.#batch.length > 0) this.#last = null;
    while (!this.#isEmpty) {
      const last = this.#last ?? (await this.#parts.store.reports.last(this.#parts.fence.id));
      if (this.#batch.length === 0) this.#batch = this.#take(true);
      await put(this.#numbered(last));
      this.#last = last + this.#batch.length;
      this.#batch = [];
    }
  }

  /** The job has not ended after all. What was handed over is gone with the transaction. */
  goOn(): void {
    this.#isOver = false;
    this.#last = null;
    this.#timer = null;
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
      this.#tellDropped();
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

  /** Where they are missing: behind those that were said before them. */
  #tellDropped(): void {
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

  /** False: it has to be tried again. */
  async #write(isLast: boolean): Promise<boolean> {
    const { store, fence } = this.#parts;
    try {
      this.#last ??= await store.reports.last(fence.id);
      const last = this.#last;
      if (this.#batch.length === 0) this.#batch = this.#take(isLast);
      if (this.#batch.length === 0) return true;
      if (!(await store.reports.put(fence, this.#numbered(last)))) return this.#lose();
      this.#last = last + this.#batch.length;
      this.#batch = [];
      return true;
    } catch (error) {
      if (error instanceof StoreRefusedError) this.#giveUpBatch();
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
    if (isLast || this.#isSecondOver()) this.#tellDropped();
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

  /** The job is not ours any more. */
  #lose(): boolean {
    this.#isOver = true;
    this.#forget();
    return true;
  }

  /** The database does not want it, and never will. */
  #giveUpBatch(): void {
    this.#dropped += this.#batch.length;
    this.#batch = [];
    this.#last = null;
  }

  #forget(): void {
    this.#batch = [];
    this.#pending = [];
    this.#progress = null;
    this.#dropped = 0;
  }
}
