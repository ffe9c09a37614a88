/**
 * Hints as short texts that one process sends to the others: `<sender>:<kind>`, `<sender>:pending:<queue>` or
 * `<sender>:waiting:<milliseconds>`.
 *
 * They are sent after the commit and coalesced: a busy process has the same hint thousands of times a second, and a
 * listener that gets it once looks for everything.
 */
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Hint } from "./engine.ts";

/** The minimum time between two notes of the same sort. */
const GAP_MS = 5;

/** Results can wait a little, and finished jobs are by far the most frequent hints. */
const FINISHED_GAP_MS = 50;

interface NotifierParts {
  readonly runtime: Runtime;
  readonly sender: string;
  readonly send: (notes: readonly string[]) => Promise<void>;
}

/** Sends notes, at most one of a sort at a time. */
export class Notifier {
  readonly #parts: NotifierParts;
  /** The unsent hint of each sort that is due first. */
  readonly #waiting = new Map<string, Heard>();
  readonly #toldAt = new Map<string, number>();
  #timer: Timer | null = null;
  #sending: Promise<void> | null = null;

  constructor(parts: NotifierParts) {
    this.#parts = parts;
  }

  tell(hint: Hint): void {
    const sort = sortOf(hint);
    const heard = { hint, at: this.#parts.runtime.monotonic() };
    this.#waiting.set(sort, sooner(heard, this.#waiting.get(sort)));
    if (this.#sending === null) this.#sendIn(this.#waitMs(sort));
  }

  /** Sends what is left. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    await this.#sending;
    await this.#send();
  }

  #sendIn(waitMs: number): void {
    if (waitMs <= 0) return void this.#send();
    this.#timer ??= this.#parts.runtime.timer(waitMs, () => void this.#send(), "background");
  }

  #waitMs(sort: string): number {
    const gapMs = sort === "finished" ? FINISHED_GAP_MS : GAP_MS;
    const toldAt = this.#toldAt.get(sort);
    return toldAt === undefined ? 0 : toldAt + gapMs - this.#parts.runtime.monotonic();
  }

  #send(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    const { runtime, sender, send } = this.#parts;
    const hints = [...this.#waiting];
    this.#waiting.clear();
    if (hints.length === 0) return Promise.resolve();
    const now = runtime.monotonic();
    this.#sending = send(hints.map(([, heard]) => `${sender}:${noteOf(left(heard, now))}`))
      .catch(() => {}) // a hint that is lost costs time, not a job
      .finally(() => this.#sent(hints.map(([sort]) => sort)));
    return this.#sending;
  }

  #sent(sorts: readonly string[]): void {
    const now = this.#parts.runtime.monotonic();
    for (const [sort, at] of this.#toldAt) {
      if (now - at > FINISHED_GAP_MS) this.#toldAt.delete(sort);
    }
    for (const sort of sorts) this.#toldAt.set(sort, now);
    this.#sending = null;
    if (this.#waiting.size > 0) {
      this.#sendIn(Math.min(...[...this.#waiting.keys()].map((sort) => this.#waitMs(sort))));
    }
  }
}

function sortOf(hint: Hint): string {
  return hint.kind === "pending" ? `pending:${hint.queue}` : hint.kind;
}

interface Heard {
  readonly hint: Hint;
  readonly at: number;
}

/** A listener that looks for the sooner one finds the other too. */
function sooner(heard: Heard, other: Heard | undefined): Heard {
  return other !== undefined && dueAt(other) < dueAt(heard) ? other : heard;
}

function dueAt({ hint, at }: Heard): number {
  return hint.kind === "waiting" && hint.inMs !== undefined ? at + hint.inMs : 0;
}

/** The hint with the time that is left now. */
function left(heard: Heard, now: number): Hint {
  const inMs = dueAt(heard) - now;
  if (heard.hint.kind !== "waiting") return heard.hint;
  return inMs > 0 ? { kind: "waiting", inMs } : { kind: "waiting" };
}

export function noteOf(hint: Hint): string {
  const isTimed = hint.kind === "waiting" && hint.inMs !== undefined;
  return isTimed ? `waiting:${Math.ceil(hint.inMs)}` : sortOf(hint);
}

/** A note of a kind that this version does not know still means that something changed. */
export function readNote(text: string): { sender: string; note: string; hint: Hint } {
  const [sender = "", kind = "", ...rest] = text.split(":");
  return { sender, note: kind, hint: hintOf(kind, rest.join(":")) };
}

function hintOf(kind: string, rest: string): Hint {
  switch (kind) {
    case "pending":
      return { kind, queue: rest };
    case "waiting":
      return /^\d+$/.test(rest) ? { kind, inMs: Number(rest) } : { kind };
    case "finished":
    case "cancel":
    case "workers":
      return { kind };
    default:
      return { kind: "unknown" };
  }
}

// Polls a database that does not push: often after a change, rarely when idle.

const POLL_MS_MIN = 25;

const POLL_MS_MAX = 1_000;

const GROWTH = 1.5;

export class Poll {
  readonly #runtime: Runtime;
  readonly #look: () => void;
  #pauseMs = POLL_MS_MIN;
  #timer: Timer | null = null;
  #paused = false;
  #stopped = false;

  constructor(runtime: Runtime, look: () => void) {
    this.#runtime = runtime;
    this.#look = look;
    this.#wait();
  }

  /** Something changed: more may follow soon. */
  pollSoon(): void {
    if (this.#paused || this.#pauseMs === POLL_MS_MIN) return;
    this.#pauseMs = POLL_MS_MIN;
    this.#wait();
  }

  pause(): void {
    this.#paused = true;
    this.#timer?.cancel();
  }

  resume(): void {
    if (!this.#paused || this.#stopped) return;
    this.#paused = false;
    this.#wait();
  }

  stop(): void {
    this.#stopped = true;
    this.pause();
  }

  #wait(): void {
    this.#timer?.cancel();
    const spread = 0.75 + this.#runtime.random() / 2;
    this.#timer = this.#runtime.timer(this.#pauseMs * spread, () => this.#tick(), "background");
  }

  #tick(): void {
    if (this.#paused) return;
    this.#pauseMs = Math.min(POLL_MS_MAX, this.#pauseMs * GROWTH);
    this.#look();
    if (!this.#paused) this.#wait();
  }
}
