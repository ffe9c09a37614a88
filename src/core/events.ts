/** A typed emitter. A listener that throws harms nobody: the error goes to `onError`, the others are still called. */

export class Events<Catalogue extends object> {
  readonly #listeners = new Map<keyof Catalogue, Set<(event: never) => void>>();
  readonly #onError: (error: unknown, name: string) => void;

  constructor(onError: (error: unknown, name: string) => void) {
    this.#onError = onError;
  }

  /** Returns a function that takes the listener off again. */
  on<Name extends keyof Catalogue>(
    name: Name,
    listener: (event: Catalogue[Name]) => void,
  ): () => void {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** The event is made only when somebody listens: on a busy worker most events have no listener. */
  emit<Name extends keyof Catalogue>(name: Name, make: () => Catalogue[Name]): void {
    const listeners = this.#listeners.get(name);
    if (listeners === undefined || listeners.size === 0) return;
    const event = make();
    // A copy: what a listener adds meanwhile hears of the next event, not of this one.
    const hearing = [...listeners];
    for (const listener of hearing) {
      try {
        const answer = (listener as (event: Catalogue[Name]) => unknown)(event);
        if (answer instanceof Promise)
          answer.catch((error: unknown) => this.#onError(error, String(name)));
      } catch (error) {
        this.#onError(error, String(name));
      }
    }
  }
}
