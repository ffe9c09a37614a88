/**
 * Renews each lease at half its length, in one statement for all leases that are due.
 *
 * The same code runs in a thread with its own connection, so that a task which blocks the event loop does not lose its job,
 * and on the main thread where a thread cannot have a connection. It stops renewing for a process that made no progress for
 * `maxBlockMs`, and for a job that is past its own timeout.
 */
import type { Fence } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Extended } from "../jobs/store.ts";
import type { HeartbeatWrite, WorkerVitals } from "../registry/worker-record.ts";

/**
 * Leases as two parallel lists. Thousands of them a second cross to the lease renewer's thread, and flat lists cost a tenth
 * of what objects do.
 */
export interface LeaseList {
  readonly ids: readonly string[];
  readonly epochs: readonly number[];
}

/** Leases that are due within this time are renewed together. */
const WAIT_MS_MIN = 5;

/** A lease to renew. Instants are on the monotonic clock. */
interface Held {
  readonly id: string;
  readonly epoch: number;
  /** When the claim or the last renewal was sent. */
  sentAt: number;
  /** It is not renewed after this; null: no limit. */
  stopAt: number | null;
}

/** A lease that another worker has, or that ended. */
interface LostLease extends Fence {
  /** It was renewed in time, but the database answered too late. */
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
  readonly maxBlockMs: number;
  /** Whether the watchdog ends a process that is blocked for longer than that. */
  readonly endBlocked: boolean;
  readonly heartbeatMs: number;
  /** The queues that the worker serves. */
  readonly queues: readonly string[];
}

/** The part of a store that the lease renewer uses: its thread loads nothing else. */
interface LeaseRenewerStore {
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]>;
  heartbeat(
    id: string,
    vitals: WorkerVitals,
    queues: readonly string[],
  ): Promise<HeartbeatWrite | null>;
}

interface LeaseRenewerParts {
  readonly store: LeaseRenewerStore;
  readonly runtime: Runtime;
  readonly settings: LeaseRenewerSettings;
  /** A number that changes while the main thread is alive. */
  readonly progress: () => number;
  readonly report: (report: Report) => void;
  /** Receives the answer to every heartbeat. */
  readonly heartbeat: (written: HeartbeatWrite | null) => void;
  /** Receives the time since when renewals are not answered; null: they are. */
  readonly unanswered: (since: number | null) => void;
}

export class LeaseRenewer {
  readonly #parts: LeaseRenewerParts;
  readonly #held = new Map<string, Held>();
  #vitals: WorkerVitals | null = null;
  #renewing: Promise<void> | null = null;
  /** When the first of the unanswered calls was sent. */
  #unansweredSince: number | null = null;
  /** From when to when the last call waited for its answer. No other call is sent meanwhile. */
  #lastWait = { from: 0, to: 0 };
  #heartbeatAt: number;
  #seen = -1;
  #seenAt = 0;

  constructor(parts: LeaseRenewerParts) {
    this.#parts = parts;
    this.#heartbeatAt = parts.runtime.monotonic(); // the registration counts as a heartbeat
  }

  hold({ ids, epochs }: LeaseList, sentAt: number): void {
    ids.forEach((id, index) => {
      this.#held.set(id, { id, epoch: epochs[index] ?? 0, sentAt, stopAt: null });
    });
  }

  /** The job is past its timeout at `stopAt`: its lease is not renewed beyond. */
  limit(id: string, stopAt: number): void {
    const held = this.#held.get(id);
    if (held !== undefined) held.stopAt = stopAt;
  }

  /** Drops only these epochs: a newer lease on the same job stays. */
  drop({ ids, epochs }: LeaseList): void {
    ids.forEach((id, index) => {
      if (this.#held.get(id)?.epoch === epochs[index]) this.#held.delete(id);
    });
  }

  /** Drops leases that are about to end. Resolves when no renewal of them is in progress. */
  async stopRenewing(leases: LeaseList): Promise<void> {
    this.drop(leases);
    await this.#renewing?.catch(() => {});
  }

  /** The jobs whose leases it renews. */
  get jobs(): readonly string[] {
    return [...this.#held.keys()];
  }

  /** Sets the vitals that the next heartbeats report. */
  setVitals(vitals: WorkerVitals): void {
    this.#vitals = vitals;
  }

  /** Sends the next heartbeat at once: the desired state may have changed. */
  heartbeatNow(): void {
    this.#heartbeatAt = Number.NEGATIVE_INFINITY;
  }

  async once(): Promise<number> {
    const { runtime, settings } = this.#parts;
    const now = runtime.monotonic();
    const renewEvery = settings.leaseMs * settings.extendAt;
    const wedged = this.#isWedged(now);
    const due = wedged ? [] : this.#due(now - renewEvery, now);
    if (due.length > 0) await (this.#renewing = this.#renew(due, now));
    this.#renewing = null;
    if (!wedged && now - this.#heartbeatAt >= settings.heartbeatMs) await this.#heartbeat(now);
    return this.#waitMs(now, renewEvery);
  }

  async #heartbeat(now: number): Promise<void> {
    if (this.#vitals === null) return;
    const { store, runtime, settings, heartbeat } = this.#parts;
    const { worker, queues } = settings;
    const vitals = this.#vitals;
    heartbeat(await this.#ask(runtime.monotonic(), () => store.heartbeat(worker, vitals, queues)));
    this.#heartbeatAt = now;
  }

  /** While the database does not answer, the main thread can read since when. */
  async #ask<T>(sentAt: number, call: () => Promise<T>): Promise<T> {
    this.#setUnanswered(this.#unansweredSince ?? sentAt);
    const answer = await call();
    const from = this.#unansweredSince ?? sentAt;
    this.#lastWait = { from, to: this.#parts.runtime.monotonic() };
    this.#setUnanswered(null);
    return answer;
  }

  /** Until the next lease or heartbeat is due, or until a lease that is claimed meanwhile could be. */
  #waitMs(now: number, renewEvery: number): number {
    const beatInMs = this.#heartbeatAt + this.#parts.settings.heartbeatMs - now;
    // An overdue heartbeat that could not be sent, because the main thread is wedged, is not retried at once.
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
    const { store, settings, report } = this.#parts;
    const { worker, leaseMs } = settings;
    const fences = due.map(({ id, epoch }): Fence => ({ id, worker, epoch }));
    const before = this.#lastWait;
    const extended = await this.#ask(sentAt, () => store.extend(fences, leaseMs));
    const waits = [before, this.#lastWait];
    const ours = new Set(extended.map(({ id }) => id));
    const lost: LostLease[] = [];
    // An unanswered heartbeat also prevents the renewal from being sent in time.
    const isOutage = (lease: Held): boolean => {
      const endsAt = lease.sentAt + leaseMs;
      return waits.some(({ from, to }) => from < endsAt && to >= endsAt);
    };
    for (const lease of due) {
      if (ours.has(lease.id)) lease.sentAt = sentAt;
      // A lease that was dropped before the answer arrived was settled, not lost.
      else if (this.#held.get(lease.id) === lease)
        lost.push({ id: lease.id, worker, epoch: lease.epoch, isOutage: isOutage(lease) });
    }
    this.drop(leaseList(lost));
    report({
      renewed: extended.map(({ id, epoch }) => ({ id, epoch, sentAt })),
      lost,
      cancelled: extended.filter((lease) => lease.cancelRequested),
    });
  }

  #setUnanswered(since: number | null): void {
    this.#unansweredSince = since;
    this.#parts.unanswered(since);
  }

  #isWedged(now: number): boolean {
    const progress = this.#parts.progress();
    if (progress !== this.#seen) {
      this.#seen = progress;
      this.#seenAt = now;
    }
    return now - this.#seenAt > this.#parts.settings.maxBlockMs;
  }
}

/** Each thread computes the offset of its clock by itself. */
const ROUNDING_MS = 5;

/**
 * Compares an instant with an earlier one of another thread. It is not before it, unless their clocks differ: on Node all
 * threads share the clock of the machine, on Bun and Deno each counts from its own start.
 */
export function isNotBefore(at: number, earlier: number): boolean {
  return at >= earlier - ROUNDING_MS; // false for what is not a number
}

export function leaseList(fences: readonly { id: string; epoch: number }[]): LeaseList {
  return { ids: fences.map(({ id }) => id), epochs: fences.map(({ epoch }) => epoch) };
}

/** One text crosses to a thread in a fraction of the time of a thousand texts. */
export type PackedLeases = string;

/** Does not occur in ids and numbers. */
const BETWEEN = " ";

export function pack({ ids, epochs }: LeaseList): PackedLeases {
  return [...ids, ...epochs].join(BETWEEN);
}

export function unpack(packed: PackedLeases): LeaseList {
  const words = packed === "" ? [] : packed.split(BETWEEN);
  const half = words.length / 2;
  return { ids: words.slice(0, half), epochs: words.slice(half).map(Number) };
}

// The indexes of the shared numbers.
const PROGRESS = 0;
const UNANSWERED = 1;
const DEBUGGED = 2;
const NUMBERS = 3;

const NONE = -1n;

/** State that the main thread and the lease renewer's thread read from each other without a message. */
export class SharedWithRenewer {
  readonly buffer: SharedArrayBuffer;
  readonly #numbers: BigInt64Array;

  /** Without a buffer it creates one, for the other thread. */
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

  /** A debugger was attached when the main thread last reported progress. */
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
