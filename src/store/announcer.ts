/** How a store tells what it changed, to others and to whoever watches here, and hears what others did. */
import type { Engine } from "./engine.ts";
import type { Hint } from "./store.ts";

/** How processes tell each other what they changed. */
export interface Push {
  listen(hear: (hint: Hint) => void): () => void;
  tell(hint: Hint): void;
  close(): Promise<void>;
}

export class Announcer {
  readonly engine: Engine;
  readonly #push: Push;
  readonly #listeners = new Set<(hint: Hint) => void>();
  #stopListening: (() => void) | null = null;

  /** Hints travel through the engine, unless there is a better way. */
  constructor(engine: Engine, push: Push = engine) {
    this.engine = engine;
    this.#push = push;
  }

  watch(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    this.#stopListening ??= this.#push.listen((hint) => this.hint(hint));
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stopListening?.();
      this.#stopListening = null;
    };
  }

  async close(): Promise<void> {
    this.#stopListening?.();
    this.#stopListening = null;
    this.#listeners.clear();
    if (this.#push !== this.engine) await this.#push.close();
    await this.engine.close();
  }

  /** Something this process changed: others are told, and so is whoever watches here. */
  protected announce(hint: Hint): void {
    this.#push.tell(hint);
    this.hint(hint);
  }

  protected hint(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch {
        // The change is committed: whoever made it must not be told that it failed. A hint may be lost.
      }
    }
  }
}
