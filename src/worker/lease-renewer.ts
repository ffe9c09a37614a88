/**
 * Keeps leases alive: renews each at half its length, in one statement for all that are due.
 *
 * The same code runs in a thread of its own with a connection of its own, so that a task which blocks the event loop
 * does not lose its job, and on the main thread where a thread cannot have a connection. It stops renewing for a
 * process that made no progress for `blockedMsMax`, and for a job that is past its own timeout.
 */
import type { Fence } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { HeartbeatWrite, WorkerVitals } from "../registry/worker-record.ts";
import type { LeaseRenewerStore } from "./lease-renewer-store.ts";

/**
 * Leases by id and epoch, side by side: thousands of them a second cross to the lease renewer's thread, and flat lists cost a
 * tenth of what objects do.
 */
export interface LeaseList {
  readonly ids: readonly string[];
  readonly epochs: readonly number[];
}

/** Leases that are due within so short a time are renewed together. */
const WAIT_MS_MIN = 5;

/** A lease in the lease renewer's care. Instants are on the monotonic clock. */
interface Held {
  readonly id: string;
  readonly epoch: number;
  /** When the claim or the last renewal was sent. */
  sentAt: number;
  /** Past this it is not renewed any more; null: no limit. */
  stopAt: number | null;
}

/** A lease that is another worker's, or that no worker has. */
interface LostLease extends Fence {
  /** It was to be renewed in time, and the database answered too late. */
  readonly isOutage: boolean;
}

export interface Report {
  readonly renewed: readonly { id: string; epoch: number; sentAt: number }[];
  readonly lost: readonly LostLease[];
  readonly cancelled: readonly Fence[];
}

export interface LeaseRenewerSettings {
  readonly worker: string;
  readonly leaseMs: number;
  /** Renew when this share of the lease has passed. */
  readonly extendAt: number;
  readonly blockedMsMax: number;
  /** Whether the watchdog ends a process that is blocked for longer. */
  readonly endBlocked: boolean;
  /** How often a sign of life is given. */
  readonly heartbeatMs: number;
  /** Where the worker looks for jobs. */
  readonly queues: readonly string[];
}

export class LeaseRenewer {
  readonly #store: LeaseRenewerStore;
  readonly #runtime: Runtime;
  readonly #settings: LeaseRenewerSettings;
  readonly #progress: () => number;
  readonly #report: (report: Report) => void;
  readonly #onHeartbeat: (beat: HeartbeatWrite | null) => void;
  readonly onUnanswered: (since: number | null) => void;
  readonly #held = new Map<string, Held>();
  #vitals: WorkerVitals | null = null;
  #renewing: Promise<void> | null = null;
  /** When the first call was sent that the database has not answered, nor any since. */
  #unansweredSince: number | null = null;
  /** From when to when the last call waited for its answer. Nothing else is sent meanwhile. */
  #lastWait = { from: 0, to: 0 };
  heartbeatAt: number;
  #seen = -1;
  #seenAt = 0;

  constructor(parts: {
    store: LeaseRenewerStore;
    runtime: Runtime;
    settings: LeaseRenewerSettings;
    /** A number that changes while the main thread is alive. */
    progress: () => number;
    report: (report: Report) => void;
    /** Told what came back with every sign of life. */
    beat: (beat: HeartbeatWrite | null) => void;
    /** Told since when renewals are not answered; null: they are. */
    unanswered: (since: number | null) => void;
  }) {
    this.#store = parts.store;
    this.#runtime = parts.runtime;
    this.#settings = parts.settings;
    this.#progress = parts.progress;
    this.#report = parts.report;
    this.#onHeartbeat = parts.beat;
    this.onUnanswered = parts.unanswered;
    this.heartbeatAt = parts.runtime.monotonic(); // registering was one
  }

  hold({ ids, epochs }: LeaseList, sentAt: number): void {
    ids.forEach((id, index) => {
      this.#held.set(id, { id, epoch: epochs[index] ?? 0, sentAt, stopAt: null });
    });
  }

  /** The job is over its time at `stopAt`: it shall not be renewed beyond. */
  limit(id: string, stopAt: number): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.stopAt = stopAt;
  }

  /** A newer lease on the same job stays: only the epoch that ended is let go. */
  drop({ ids, epochs }: LeaseList): void {
    ids.forEach((id, index) => {
      if (this.#held.get(id)?.epoch === epochs[index]) this.#held.delete(id);
    });
  }

  /** The same, for leases that somebody is about to end: resolves when no renewal of them is under way. */
  async rest(leases: LeaseList): Promise<void> {
    this.drop(leases);
    await this.#renewing?.catch(() => {});
  }

  /** The jobs whose leases it keeps. */
  get jobs(): readonly string[] {
    return [...this.#held.keys()];
  }

  /** What the next signs of life tell about the worker. */
  tell(vitals: WorkerVitals): void {
    this.#vitals = vitals;
  }

  /** The next sign of life is given at once: somebody may want something of the worker. */
  heartbeatNow(): void {
    this.heartbeatAt = Number.NEGATIVE_INFINITY;
  }

  async once(): Promise<number> {
    const now = this.#runtime.monotonic();
    const renewEvery = this.#settings.leaseMs * this.#settings.extendAt;
    const wedged = this.#isWedged(now);
    const due = wedged ? [] : this.#due(now - renewEvery, now);
    if (due.length > 0) await (this.#renewing = this.#renew(due, now));
    this.#renewing = null;
    if (!wedged && now - this.heartbeatAt >= this.#settings.heartbeatMs) await this.#beat(now);
    return this.#waitMs(now, renewEvery);
  }

  async #beat(now: number): Promise<void> {
    if (this.#vitals === null) return;
    const { worker, queues } = this.#settings;
    const vitals = this.#vitals;
    this.#onHeartbeat(
      await this.#ask(this.#runtime.monotonic(), () => this.#store.beat(worker, vitals, queues)),
    );
    this.heartbeatAt = now;
  }

  /** While the database is silent, the main thread can see since when. */
  async #ask<T>(sentAt: number, call: () => Promise<T>): Promise<T> {
    this.#setUnanswered(this.#unansweredSince ?? sentAt);
    const answer = await call();
    const from = this.#unansweredSince ?? sentAt;
    this.#lastWait = { from, to: this.#runtime.monotonic() };
    this.#setUnanswered(null);
    return answer;
  }

  /** Until the next lease or sign of life is due, or until a lease that is claimed meanwhile could be. */
  #waitMs(now: number, renewEvery: number): number {
    const beatInMs = this.heartbeatAt + this.#settings.heartbeatMs - now;
    // One that is due and could not be given, because the main thread is wedged, is not asked for at once again.
    let waitMs = beatInMs > 0 ? Math.min(renewEvery / 2, beatInMs) : renewEvery / 2;
    for (const { sentAt } of this.#held.values()) {
      const inMs = sentAt + renewEvery - now;
      if (inMs > 0 && inMs < waitMs) waitMs = inMs;
    }
    return Math.max(WAIT_MS_MIN, waitMs);
  }

  #due(sentBefore: number, now: number): Held[] {
    const held = [...this.#held.values()];
    return held.filter(
      (lease) => lease.sentAt <= sentBefore && (lease.stopAt === null || now < lease.stopAt),
    );
  }

  async #renew(due: readonly Held[], sentAt: number): Promise<void> {
    const { worker, leaseMs } = this.#settings;
    const fences = due.map(({ id, epoch }): Fence => ({ id, worker, epoch }));
    const before = this.#lastWait;
    const extended = await this.#ask(sentAt, () => this.#store.extend(fences, leaseMs));
    const waits = [before, this.#lastWait];
    const ours = new Set(extended.map(({ id }) => id));
    const lost: LostLease[] = [];
    // A heartbeat that the database did not answer keeps the renewal from being sent in time.
    const isOutage = (lease: Held): boolean => {
      const endsAt = lease.sentAt + leaseMs;
      return waits.some(({ from, to }) => from < endsAt && to >= endsAt);
    };
    for (const lease of due) {
      if (ours.has(lease.id)) lease.sentAt = sentAt;
      // What was dropped while the answer was on its way has been settled, not lost.
      else if (this.#held.get(lease.id) === lease)
        lost.push({ id: lease.id, worker, epoch: lease.epoch, isOutage: isOutage(lease) });
    }
    this.drop(leaseList(lost));
    this.#report({
      renewed: extended.map(({ id, epoch }) => ({ id, epoch, sentAt })),
      lost,
      cancelled: extended.filter((lease) => lease.cancelRequested),
    });
  }

  #setUnanswered(since: number | null): void {
    this.#unansweredSince = since;
    this.onUnanswered(since);
  }

  #isWedged(now: number): boolean {
    const progress = this.#progress();
    if (progress !== this.#seen) {
      this.#seen = progress;
      this.#seenAt = now;
    }
    return now - this.#seenAt > this.#settings.blockedMsMax;
  }
}

export function leaseList(fences: readonly { id: string; epoch: number }[]): LeaseList {
  return { ids: fences.map(({ id }) => id), epochs: fences.map(({ epoch }) => epoch) };
}

/** One text crosses to a thread in a fraction of the time of a thousand. */
export type PackedLeases = string;

const BETWEEN = " ";

// ids and numbers have none

export function pack({ ids, epochs }: LeaseList): PackedLeases {
  return [...ids, ...epochs].join(BETWEEN);
}

export function unpack(packed: PackedLeases): LeaseList {
  const words = packed === "" ? [] : packed.split(BETWEEN);
  const half = words.length / 2;
  return { ids: words.slice(0, half), epochs: words.slice(half).map(Number) };
}

/** What the main thread and the lease renewer's read of one another, without waiting for a message. */
const PROGRESS = 0;

const UNANSWERED = 1;

const DEBUGGED = 2;

const NUMBERS = 3;

const NONE = -1n;

export class SharedWithRenewer {
  readonly buffer: SharedArrayBuffer;
  readonly #numbers: BigInt64Array;

  /** Without a buffer it makes one, for the other thread. */
  constructor(buffer?: SharedArrayBuffer) {
    this.buffer = buffer ?? new SharedArrayBuffer(NUMBERS * BigInt64Array.BYTES_PER_ELEMENT);
    this.#numbers = new BigInt64Array(this.buffer);
    if (buffer === undefined) this.unansweredSince = null;
  }

  /** Changes while the main thread is alive. */
  get progress(): number {
    return Number(Atomics.load(this.#numbers, PROGRESS));
  }

  addProgress(): void {
    Atomics.add(this.#numbers, PROGRESS, 1n);
  }

  /** A debugger was attached when the main thread last said that it is alive. */
  get isDebugged(): boolean {
    return Atomics.load(this.#numbers, DEBUGGED) === 1n;
  }

  set isDebugged(is: boolean) {
    Atomics.store(this.#numbers, DEBUGGED, is ? 1n : 0n);
  }

  /** Since when the database has not answered a renewal, in whole milliseconds of the monotonic clock. */
  get unansweredSince(): number | null {
    const since = Atomics.load(this.#numbers, UNANSWERED);
    return since === NONE ? null : Number(since);
  }

  set unansweredSince(since: number | null) {
    Atomics.store(this.#numbers, UNANSWERED, since === null ? NONE : BigInt(Math.floor(since)));
  }
}
