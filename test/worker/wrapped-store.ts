/** A store with some of its verbs replaced: for faults, for counting, for holding an answer back. */
import { StoreUnavailable } from "../../src/index.ts";
import type { Store } from "../../src/store/store.ts";

/** The replacements get the real store to go on with. */
export function wrapStore(store: Store, replace: (real: Store) => Partial<Store>): Store {
  const replaced: Partial<Store> = replace(store);
  return new Proxy(store, {
    get(target, name) {
      if (Object.hasOwn(replaced, name)) return Reflect.get(replaced, name) as unknown;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
}

export interface Outage {
  readonly store: Store;
  /** While it is true, every verb is refused. */
  down: boolean;
  /** How many calls were refused so far. */
  refused: number;
}

/** These need no database. */
const FROM_MEMORY = new Set<string | symbol>(["watch", "close", "load", "pushState"]);

/** A store that can be switched off, as if the database was gone. What was in flight is finished. */
export function withOutage(real: Store): Outage {
  const outage: { store: Store; down: boolean; refused: number } = {
    store: real,
    down: false,
    refused: 0,
  };
  outage.store = new Proxy(real, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      if (FROM_MEMORY.has(name)) return member.bind(target) as unknown;
      return async (...args: unknown[]): Promise<unknown> => {
        if (!outage.down) return Reflect.apply(member, target, args) as unknown;
        outage.refused += 1;
        throw new StoreUnavailable({ problem: "The database is away.", remedy: "Wait for it." });
      };
    },
  });
  return outage;
}
