/** What the main thread and the keeper's read of one another, without waiting for a message. */
const PROGRESS = 0;
const UNANSWERED = 1;
const DEBUGGED = 2;
const NUMBERS = 3;
const NONE = -1n;

export class SharedWithKeeper {
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
