/**
 * Hints as short texts that one process sends to the others: `<sender>:<kind>` or `<sender>:pending:<queue>`.
 *
 * They are sent after the commit they tell of, and coalesced: a busy process has the same to say thousands of times a
 * second, and whoever hears it once looks for everything.
 */
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Hint } from "./store.ts";

/** Between two notes of the same sort at least this much time passes. */
const GAP_MS = 5;
/** Whoever waits for a result can wait a little; finished jobs are by far the most frequent news. */
const FINISHED_GAP_MS = 50;

export interface TellerParts {
  readonly runtime: Runtime;
  readonly sender: string;
  readonly send: (notes: readonly string[]) => Promise<void>;
}

/** Sends notes, at most one of a sort at a time. */
export class Teller {
  readonly #parts: TellerParts;
  readonly #waiting = new Set<string>();
  readonly #toldAt = new Map<string, number>();
  #timer: Timer | null = null;
  #sending: Promise<void> | null = null;

  constructor(parts: TellerParts) {
    this.#parts = parts;
  }

  tell(hint: Hint): void {
    const note = noteOf(hint);
    this.#waiting.add(note);
    if (this.#sending === null) this.#sendIn(this.#waitMs(note));
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

  #waitMs(note: string): number {
    const gapMs = note === "finished" ? FINISHED_GAP_MS : GAP_MS;
    const toldAt = this.#toldAt.get(note);
    return toldAt === undefined ? 0 : toldAt + gapMs - this.#parts.runtime.monotonic();
  }

  #send(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    const { sender, send } = this.#parts;
    const notes = [...this.#waiting];
    this.#waiting.clear();
    if (notes.length === 0) return Promise.resolve();
    this.#sending = send(notes.map((note) => `${sender}:${note}`))
      .catch(() => {}) // a hint that is lost costs time, not a job
      .finally(() => this.#sent(notes));
    return this.#sending;
  }

  #sent(notes: readonly string[]): void {
    const now = this.#parts.runtime.monotonic();
    for (const [note, at] of this.#toldAt) {
      if (now - at > FINISHED_GAP_MS) this.#toldAt.delete(note);
    }
    for (const note of notes) this.#toldAt.set(note, now);
    this.#sending = null;
    if (this.#waiting.size > 0) {
      this.#sendIn(Math.min(...[...this.#waiting].map((note) => this.#waitMs(note))));
    }
  }
}

/** What somebody sent; of notes that this version does not know, it is known that something happened. */
export function noteOf(hint: Hint): string {
  return hint.kind === "pending" ? `pending:${hint.queue}` : hint.kind;
}

export function readNote(text: string): { sender: string; note: string; hint: Hint } {
  const [sender = "", kind = "", ...rest] = text.split(":");
  return { sender, note: kind, hint: hintOf(kind, rest.join(":")) };
}

function hintOf(kind: string, queue: string): Hint {
  switch (kind) {
    case "pending":
      return { kind, queue };
    case "waiting":
    case "finished":
    case "cancel":
    case "workers":
      return { kind };
    default:
      return { kind: "unknown" };
  }
}
