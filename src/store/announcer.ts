/** How a store tells what it changed, to others and to whoever watches here, and hears what others did. */
import { sleep } from "../core/runtime.ts";
import type { Engine, PushState } from "./engine.ts";
import type { Hint } from "./store.ts";

/** How processes tell each other what they changed. */
export interface Push {
  listen(hear: (hint: Hint) => void): () => void;
  tell(hint: Hint): void;
  /** Left out: this way pushes nothing, and others are noticed by polling alone. */
  pushState?(): PushState;
  close(): Promise<void>;
}

/** A connection that does not listen after this long does not. */
const PUSH_MS_MAX = 6_000;
const PUSH_LOOK_MS = 20;

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

  /** Null: this database has no push, and none is set up. */
  pushState(): PushState | null {
    return this.#push.pushState?.() ?? null;
  }

  /** Whether what another process tells would be heard here, tried for a few seconds. Null: there is no push. */
  async pushWorks(): Promise<boolean | null> {
    if (this.pushState() === null) return null;
    const stop = this.watch(() => {});
    const { runtime } = this.engine;
    const giveUpAt = runtime.monotonic() + PUSH_MS_MAX;
    while (this.pushState() !== "up" && runtime.monotonic() < giveUpAt) {
      await sleep(runtime, PUSH_LOOK_MS);
    }
    const works = this.pushState() === "up";
    stop();
    return works;
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
