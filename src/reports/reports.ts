/**
 * Watching a job: what it has reported, then what it reports, and what becomes of it.
 *
 * Hints say when to look; a poll makes sure that a missed one costs time and nothing else. A look asks where the job stands
 * before it reads the reports: nothing is reported about a job that has ended, so whoever has then read all has all.
 */
import {
  ClosedError,
  InvalidArgumentError,
  JobNotFoundError,
  StoreBusyError,
  StoreUnavailableError,
} from "../core/errors.ts";
import { type FinalStatus, finalStatuses, home } from "../core/job.ts";
import { checkKnown, checkText, checkWhole } from "../core/options.ts";
import {
  readReport,
  type ReportRecord,
  type StatusChange,
  type WatchEntry,
  type WatchOptions,
} from "../core/report.ts";
import { type Runtime, sleep } from "../core/runtime.ts";
import type { Database } from "../database/database.ts";
import type { Hint } from "../database/engine.ts";
import type { ReportsStore, Standing } from "./store.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly db: Database;
  readonly reports: ReportsStore;
}

const KNOWN = new Set(["after", "signal"]);

/** Reports that are in memory at once. */
const PAGE = 100;

/** However many hints come, a job is looked at so often at most … */
const GAP_MS = 100;

/** … and so often when none comes … */
const POLL_MS = 500;

/** … or less often while the job waits for its time or for something else. */
const WAITING_POLL_MS = 2_000;

interface Watch {
  readonly id: string;
  /** Aborts when nobody wants it any more. */
  readonly signal: AbortSignal;
  /** The last report that was told. */
  seq: number;
  /** What was told last of where the job stands. */
  told: Standing | null;
}

interface Look {
  readonly standing: Standing;
  readonly records: readonly ReportRecord[];
  /** More of them are there than fit a page. */
  readonly isMore: boolean;
}

export class Watches {
  readonly #store: Stores;
  readonly #runtime: Runtime;
  readonly #closing = new AbortController();

  constructor({ store, runtime }: { store: Stores; runtime: Runtime }) {
    this.#store = store;
    this.#runtime = runtime;
  }

  of(id: string, options: WatchOptions): AsyncGenerator<WatchEntry, void, undefined> {
    checkText("id", id);
    checkKnown(options, KNOWN);
    const { after = 0, signal } = options;
    checkWhole("after", after, { least: 0, most: Number.MAX_SAFE_INTEGER });
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new InvalidArgumentError({ field: "signal", problem: "give an AbortSignal." });
    }
    const { signal: closing } = this.#closing;
    const either = signal === undefined ? closing : AbortSignal.any([signal, closing]);
    return this.#entries({ id, signal: either, seq: after, told: null });
  }

  stop(): void {
    this.#closing.abort();
  }

  async *#entries(watch: Watch): AsyncGenerator<WatchEntry, void, undefined> {
    const bell = new Bell(this.#runtime);
    const unwatch = this.#store.db.watch((hint) => {
      if (isNews(hint, watch.id)) bell.ring();
    });
    const end = (): void => bell.ring();
    watch.signal.addEventListener("abort", end);
    try {
      while (!watch.signal.aborted) {
        const look = await this.#look(watch);
        if (look !== null) {
          yield* tell(watch, look);
          if (look.isMore) continue;
          if (isFinal(look.standing)) return;
        }
        await sleep(this.#runtime, GAP_MS, { signal: watch.signal });
        await bell.wait(pollMsOf(watch.told) - GAP_MS);
      }
    } finally {
      watch.signal.removeEventListener("abort", end);
      unwatch();
    }
    if (this.#closing.signal.aborted) throw new ClosedError({ what: "Holdfast" });
  }

  /** Null: the database is away, and may be back for the next one. */
  async #look({ id, seq, told }: Watch): Promise<Look | null> {
    try {
      const standing = await this.#store.reports.standing(id);
      if (standing === null) throw new JobNotFoundError({ id });
      const page = await this.#store.reports.list({ job: id, after: seq, limit: PAGE });
      // What a later attempt said comes after what became of this one.
      const records = page.filter(({ epoch }) => epoch <= standing.epoch);
      return { standing, records, isMore: records.length === PAGE };
    } catch (error) {
      const isAway = error instanceof StoreUnavailableError || error instanceof StoreBusyError;
      if (told !== null && isAway) return null;
      throw error;
    }
  }
}

/** In the order in which it happened, as far as that can be told. */
function* tell(watch: Watch, { standing, records, isMore }: Look): Generator<WatchEntry> {
  for (const record of records) {
    // The attempt that says this has begun, and somebody is to know that first.
    const isBegun = standing.status === "processing" && record.epoch === standing.epoch;
    if (isBegun) yield* tellStanding(watch, standing);
    if (watch.signal.aborted) return;
    watch.seq = record.seq;
    yield readReport(record);
  }
  if (!isMore && !watch.signal.aborted) yield* tellStanding(watch, standing);
}

function* tellStanding(watch: Watch, standing: Standing): Generator<StatusChange> {
  const { status, epoch } = standing;
  if (watch.told?.status === status && watch.told.epoch === epoch) return;
  watch.told = standing;
  yield { kind: "status", seq: watch.seq, ...standing };
}

function isFinal({ status }: Standing): boolean {
  return finalStatuses.includes(status as FinalStatus);
}

/** Others are told when jobs ended; that they were claimed, nobody is. */
function isNews(hint: Hint, job: string): boolean {
  if (hint.kind === "reports") return hint.job === job;
  return hint.kind === "finished" || hint.kind === "cancel" || hint.kind === "unknown";
}

function pollMsOf(told: Standing | null): number {
  return told !== null && home[told.status] === "waiting" ? WAITING_POLL_MS : POLL_MS;
}

/** A wait that can be cut short, also before it begins. */
class Bell {
  readonly #runtime: Runtime;
  #rung = new AbortController();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  ring(): void {
    this.#rung.abort();
  }

  async wait(ms: number): Promise<void> {
    await sleep(this.#runtime, ms, { signal: this.#rung.signal });
    this.#rung = new AbortController();
  }
}
