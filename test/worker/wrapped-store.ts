/** A store with some of its verbs replaced: for faults, for counting, for holding an answer back. */
import { StoreUnavailableError } from "../../src/index.ts";
import type { Store } from "../../src/app/store.ts";

/** Verbs that take the place of a part's own, or of the store's. */
export type Replacements = {
  readonly [Part in keyof Store]?: Store[Part] extends Method ? Store[Part] : Partial<Store[Part]>;
};

type Method = (...args: never[]) => unknown;

/** The replacements get the real store to go on with. */
export function wrapStore(store: Store, replace: (real: Store) => Replacements): Store {
  const replaced: Readonly<Record<string, object | undefined>> = replace(store);
  const parts = mapParts(store, (part, name) => {
    const verbs = replaced[name];
    return verbs === undefined ? part : onPart(part, (verb) => Reflect.get(verbs, verb));
  });
  const verbs = Object.entries(replaced).filter(([, verb]) => typeof verb === "function");
  return { ...parts, ...Object.fromEntries(verbs) };
}

/** The same store on other parts. */
export function mapParts(store: Store, map: (part: object, name: string) => object): Store {
  const parts = Object.entries(store).map(([name, part]: [string, object]) => [
    name,
    typeof part === "function" ? part : map(part, name),
  ]);
  return Object.fromEntries(parts) as Store;
}

/** A part of a store, of which `replace` may replace any member; undefined: it stays as it is. */
export function onPart<Part extends object>(
  part: Part,
  replace: (name: string, member: unknown) => unknown,
): Part {
  return new Proxy(part, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      const member: unknown = typeof value === "function" ? value.bind(target) : value;
      return replace(String(name), member) ?? member;
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
const FROM_MEMORY = new Set(["watch", "close", "load", "pushState", "in"]);

/** A store that can be switched off, as if the database was gone. What was in flight is finished. */
export function withOutage(real: Store): Outage {
  const outage: { store: Store; down: boolean; refused: number } = {
    store: real,
    down: false,
    refused: 0,
  };
  const refusing = (name: string, call: unknown): unknown => {
    if (typeof call !== "function" || FROM_MEMORY.has(name)) return undefined;
    return async (...args: unknown[]): Promise<unknown> => {
      if (!outage.down) return call(...args) as unknown;
      outage.refused += 1;
      throw new StoreUnavailableError({ problem: "The database is away.", remedy: "Wait for it." });
    };
  };
  outage.store = onPart(
    mapParts(real, (part) => onPart(part, refusing)),
    refusing,
  );
  return outage;
}
