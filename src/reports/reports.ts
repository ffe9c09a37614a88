/**
 * Watching a job: its past reports, its new ones, and its status.
 *
 * Hints say when to look; polling makes sure that a missed hint costs only time. A look reads the status before the
 * reports: a job that has ended reports nothing more, so all its reports have then been read.
 */
import {
  ClosedError,
  invalid,
  JobNotFoundError,
  StoreBusyError,
  StoreUnavailableError,
} from "../core/errors.ts";
import { type FinalStatus, finalStatuses, home } from "../core/job.ts";
import { by, checkText, optionsOf, whole } from "../core/options.ts";
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

const watchOptions = optionsOf<WatchOptions>()({
  after: whole(0, Number.MAX_SAFE_INTEGER, 0),
  signal: by((field, signal: AbortSignal) => {
    if (signal instanceof AbortSignal) return signal;
    throw invalid(field, "must be an AbortSignal.");
  }),
});

const PAGE = 100;

/** The shortest interval between two looks, however many hints arrive … */
const GAP_MS = 100;

/** … and the interval without hints … */
const POLL_MS = 500;

/** … which is longer while the job waits. */
const WAITING_POLL_MS = 2_000;

interface Watch {
  readonly id: string;
  /** Aborts when the watcher leaves. */
  readonly signal: AbortSignal;
  /** The number of the last report that was sent. */
  seq: number;
  /** The last status that was sent. */
  told: Standing | null;
}

interface Look {
  readonly standing: Standing;
  readonly records: readonly ReportRecord[];
  /** There are more than fit in a page. */
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
    const { after, signal } = watchOptions.read(options);
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
      if (isAbout(hint, watch.id)) bell.ring();
    });
    const end = (): void => bell.ring();
    watch.signal.addEventListener("abort", end);
    try {
      while (!watch.signal.aborted) {
        const look = await this.#look(watch);
        if (look !== null) {
          yield* tell(watch, look);
          if (look.isMore) continue;
          if (finalStatuses.includes(look.standing.status as FinalStatus)) return;
        }
        await sleep(this.#runtime, GAP_MS, { signal: watch.signal });
        const isWaiting = watch.told !== null && home[watch.told.status] === "waiting";
        await bell.wait((isWaiting ? WAITING_POLL_MS : POLL_MS) - GAP_MS);
      }
    } finally {
      watch.signal.removeEventListener("abort", end);
      unwatch();
    }
    if (this.#closing.signal.aborted) throw new ClosedError({ what: "Holdfast" });
  }

  /** Null: the database is away, and may be back at the next look. */
  async #look({ id, seq, told }: Watch): Promise<Look | null> {
    try {
      const standing = await this.#store.reports.standing(id);
      if (standing === null) throw new JobNotFoundError({ id });
      const page = await this.#store.reports.list({ job: id, after: seq, limit: PAGE });
      // Reports of a later attempt follow the end of this one.
      const records = page.filter(({ epoch }) => epoch <= standing.epoch);
      return { standing, records, isMore: records.length === PAGE };
    } catch (error) {
      const isAway = error instanceof StoreUnavailableError || error instanceof StoreBusyError;
      if (told !== null && isAway) return null;
      throw error;
    }
  }
}

/** In the order in which it happened, as far as that is known. */
function* tell(watch: Watch, { standing, records, isMore }: Look): Generator<WatchEntry> {
  for (const record of records) {
    // The start of an attempt precedes its reports.
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

/** There are hints about the end of jobs, but none about claims. */
function isAbout(hint: Hint, job: string): boolean {
  if (hint.kind === "reports") return hint.job === job;
  return hint.kind === "finished" || hint.kind === "cancel" || hint.kind === "unknown";
}

/** A wait that can be cut short, even before it begins. */
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
