/**
 * Things by name, as many as a limit allows; all others are one, under the name `other`. Names come from users: without a
 * limit, whoever makes up a queue for every customer would make a time series for each.
 */
export const OTHER = "other";

export class Bounded<Value> {
  readonly #max: number;
  readonly #make: (name: string) => Value;
  readonly #values = new Map<string, Value>();

  constructor(max: number, make: (name: string) => Value) {
    this.#max = max;
    this.#make = make;
  }

  get(name: string): Value {
    const known = this.#values.get(name);
    if (known !== undefined) return known;
    const isOther = this.#values.size >= this.#max;
    if (isOther && name !== OTHER) return this.get(OTHER);
    const made = this.#make(name);
    this.#values.set(name, made);
    return made;
  }

  entries(): Iterable<[name: string, value: Value]> {
    return this.#values.entries();
  }
}

/** Adds up what has a name, and what has too many of them under `other`. */
export function boundedSum(
  max: number,
  rows: Iterable<readonly [name: string, value: number]>,
  add: (a: number, b: number) => number = (a, b) => a + b,
): Map<string, number> {
  const sums = new Map<string, number>();
  for (const [name, value] of rows) {
    const under = sums.has(name) || sums.size < max ? name : OTHER;
    sums.set(under, add(sums.get(under) ?? 0, value));
  }
  return sums;
}
