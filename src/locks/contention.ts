/**
 * Which keys are contended: who waits for them in which process, and how many gave up.
 *
 * Waits are known only to the process that waits. While one lasts longer than a moment, the process writes a row for its key
 * every two seconds, and deletes it when no request waits or gave up any more. Locks that are free when they are wanted cost
 * nothing.
 */
import type { Runtime, Timer } from "../core/runtime.ts";
import type { LockRecord } from "./lock.ts";

const HOUR_MS = 3_600_000;

/** Requests that wait for less are not told. */
const WAIT_MS = 1_000;

const REPORT_EVERY_MS = 2_000;

/** While nothing waits, timeouts that are an hour old are taken back so often. */
const FORGET_EVERY_MS = 60_000;

/** A process that waits and has not written for so long is gone. */
const SILENT_MS = 5 * REPORT_EVERY_MS;

/** Keys of one process: those for which the most requests wait or gave up. */
const KEYS_MAX = 20;

/** Keys whose timeouts one process remembers. */
const REMEMBERED_MAX = 500;

/** Keys that are listed. */
export const CONTENDED_SHOWN = 20;
export const CONTENDED_MAX = 100;

/** Rows that are read: those of a hundred processes. */
export const WAIT_ROWS_MAX = 2_000;

/** One key as one process sees it. */
export interface LockWaitRow {
  readonly key: string;
  /** The id of the process, and its host and process id. */
  readonly source: string;
  readonly owner: string;
  /** Requests that wait now, and for how long the oldest does. */
  readonly waiting: number;
  readonly longestMs: number;
  /** Requests that gave up within the last hour. */
  readonly timeouts: number;
}

/** The same as it is stored. */
export interface StoredWaitRow extends Omit<LockWaitRow, "longestMs"> {
  /** When the oldest began to wait, by the database's clock. */
  readonly since: number;
  /** How long ago the process wrote it. */
  readonly silentMs: number;
}

/** The requests of one process that wait for a lock. */
export interface LockWaiter {
  /** The host and the process. */
  readonly owner: string;
  /** How many of its requests wait. */
  readonly waiting: number;
  /** When the oldest of them began to wait (ms since 1970, the database's clock). */
  readonly since: number;
}

/** A lock that is waited for, or was until requests gave up. */
export interface ContendedLock {
  /** The name of the lock. */
  readonly key: string;
  /** Who holds it now; null: it is free. */
  readonly holder: LockRecord | null;
  /** How many requests wait for it now, in all processes. */
  readonly waiting: number;
  /** In which processes; the one that waits longest first. */
  readonly waiters: readonly LockWaiter[];
  /** How many requests gave up within the last hour. */
  readonly timeouts: number;
}

interface Waiting {
  readonly key: string;
  readonly waitedMs: number;
}

interface ContentionParts {
  readonly store: {
    putWaits(rows: readonly LockWaitRow[]): Promise<void>;
    dropWaits(source: string, keys: readonly string[]): Promise<void>;
  };
  readonly runtime: Runtime;
  readonly source: string;
  readonly owner: string;
  /** All acquisitions of this process that have no answer yet. */
  readonly acquisitions: ReadonlySet<Waiting>;
}

export class Contention {
  readonly #parts: ContentionParts;
  /** When requests gave up, by key; the key of the latest stands last. */
  readonly #timeouts = new Map<string, number[]>();
  /** How many timeouts the stored rows have, by key. */
  readonly #written = new Map<string, number>();
  #timer: Timer | null = null;
  #isSlow = false;
  #reporting: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(parts: ContentionParts) {
    this.#parts = parts;
  }

  /** A request begins to wait. */
  watch(): void {
    if (this.#timer === null || this.#isSlow) this.#reportIn(REPORT_EVERY_MS);
  }

  timedOut(key: string): void {
    const before = this.#timeouts.get(key) ?? [];
    this.#timeouts.delete(key);
    this.#timeouts.set(key, [...before.slice(1 - REMEMBERED_MAX), this.#parts.runtime.monotonic()]);
    const [oldest = ""] = this.#timeouts.keys();
    if (this.#timeouts.size > REMEMBERED_MAX) this.#timeouts.delete(oldest);
    this.watch();
  }

  #reportIn(ms: number): void {
    this.#timer?.cancel();
    if (this.#isStopped) return;
    this.#isSlow = ms > REPORT_EVERY_MS;
    this.#timer = this.#parts.runtime.timer(ms, () => void this.report(), "background");
  }

  /** Writes what waits now. It goes on as long as there is something to tell. */
  report(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    this.#reporting = this.#reporting.then(() => this.#write()).catch(() => {}); // Told two seconds later.
    return this.#reporting;
  }

  /** Nothing waits any more. What gave up is told for an hour. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.report();
  }

  async #write(): Promise<void> {
    const { store, source, acquisitions } = this.#parts;
    const rows = this.#rows();
    if (acquisitions.size > 0) this.#reportIn(REPORT_EVERY_MS);
    else if (rows.length > 0) this.#reportIn(FORGET_EVERY_MS);
    const keys = new Set(rows.map(({ key }) => key));
    const gone = [...this.#written.keys()].filter((key) => !keys.has(key));
    if (gone.length > 0) await store.dropWaits(source, gone);
    for (const key of gone) this.#written.delete(key);
    const isNew = ({ key, waiting, timeouts }: LockWaitRow): boolean =>
      waiting > 0 || this.#written.get(key) !== timeouts;
    const news = rows.filter(isNew);
    if (news.length > 0) await store.putWaits(news);
    // A row that says that requests wait is written once more when none does.
    for (const row of news) this.#written.set(row.key, row.waiting > 0 ? -1 : row.timeouts);
  }

  #rows(): LockWaitRow[] {
    const { source, owner, acquisitions } = this.#parts;
    this.#forgetOld();
    const waits = [...acquisitions].filter(({ waitedMs }) => waitedMs >= WAIT_MS);
    const byKey = Map.groupBy(waits, ({ key }) => key);
    const keys = [...new Set([...byKey.keys(), ...this.#timeouts.keys()])];
    const rows = keys.map((key): LockWaitRow => {
      const theirs = byKey.get(key) ?? [];
      const longestMs = Math.round(Math.max(0, ...theirs.map(({ waitedMs }) => waitedMs)));
      const timeouts = this.#timeouts.get(key)?.length ?? 0;
      return { key, source, owner, waiting: theirs.length, longestMs, timeouts };
    });
    return rows.toSorted(byTrouble).slice(0, KEYS_MAX);
  }

  #forgetOld(): void {
    const since = this.#parts.runtime.monotonic() - HOUR_MS;
    for (const [key, instants] of this.#timeouts) {
      const recent = instants.filter((at) => at > since);
      if (recent.length === 0) this.#timeouts.delete(key);
      else this.#timeouts.set(key, recent);
    }
  }
}

function byTrouble(
  a: { readonly waiting: number; readonly timeouts: number },
  b: { readonly waiting: number; readonly timeouts: number },
): number {
  return b.waiting - a.waiting || b.timeouts - a.timeouts;
}

function sum(rows: readonly StoredWaitRow[], of: "waiting" | "timeouts"): number {
  return rows.reduce((total, row) => total + row[of], 0);
}

/** By key, over all processes: the most waited for first. The holders are looked up for each. */
export async function contendedLocks(
  rows: readonly StoredWaitRow[],
  limit: number,
  find: (key: string) => Promise<LockRecord | null>,
): Promise<ContendedLock[]> {
  const all = [...Map.groupBy(rows, ({ key }) => key)].map(([key, theirs]) => {
    const waits = theirs.filter(({ waiting, silentMs }) => waiting > 0 && silentMs < SILENT_MS);
    const waiters = waits
      .map(({ owner, waiting, since }) => ({ owner, waiting, since }))
      .toSorted((a, b) => a.since - b.since);
    return { key, waiting: sum(waits, "waiting"), waiters, timeouts: sum(theirs, "timeouts") };
  });
  const worst = all
    .filter(({ waiting, timeouts }) => waiting + timeouts > 0)
    .toSorted(byTrouble)
    .slice(0, limit);
  return Promise.all(worst.map(async (lock) => ({ ...lock, holder: await find(lock.key) })));
}
