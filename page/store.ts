/** A value that components follow. */
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  #value: T;
  readonly #followers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const tell of this.#followers) tell();
  }

  patch(part: Partial<T>): void {
    this.set({ ...this.#value, ...part });
  }

  follow(tell: () => void): () => void {
    this.#followers.add(tell);
    return () => this.#followers.delete(tell);
  }
}

/** The value of a store, or what is picked from it; the component is drawn again when that changes. */
export function useStore<T, Picked = T>(
  store: Store<T>,
  pick: (value: T) => Picked = (value) => value as unknown as Picked,
): Picked {
  const [, draw] = useState(0);
  const picked = pick(store.value);
  useEffect(() => {
    let last = pick(store.value);
    if (!Object.is(last, picked)) draw((times) => times + 1);
    return store.follow(() => {
      const next = pick(store.value);
      if (Object.is(next, last)) return;
      last = next;
      draw((times) => times + 1);
    });
  }, [store]);
  return picked;
}
