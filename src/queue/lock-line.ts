/**
 * Those in this process who want the same lock, in the order in which they came. Only the first of them asks for it, so a
 * place is asked by as many as there are processes, and within a process it is first come, first served.
 *
 * Whoever has the lock stays at the head until they let go. The next one asks only then: if it asked before, the lock would be
 * kept for this process again and again.
 */
export interface LinePlace {
  /** Resolves when all those in front have left; null: there is nobody. */
  readonly turn: Promise<void> | null;
  /** Lets the next one come. May be called twice, and before it was one's turn. */
  readonly leave: () => void;
}

export class LockLine {
  /** Behind whoever is at the head; a key without a list has nobody there. */
  readonly #waiting = new Map<string, Set<() => void>>();

  enter(key: string): LinePlace {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) {
      this.#waiting.set(key, new Set());
      return { turn: null, leave: once(() => this.#callNext(key)) };
    }
    const { promise: turn, resolve } = Promise.withResolvers<void>();
    waiting.add(resolve);
    const leave = once(() => {
      if (!waiting.delete(resolve)) this.#callNext(key);
    });
    return { turn, leave };
  }

  #callNext(key: string): void {
    const waiting = this.#waiting.get(key);
    const [call] = waiting ?? [];
    if (call === undefined) return void this.#waiting.delete(key);
    waiting?.delete(call);
    call();
  }
}

function once(call: () => void): () => void {
  let called = false;
  return () => {
    if (called) return;
    called = true;
    call();
  };
}
