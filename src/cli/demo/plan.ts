/** When which fault happens: drawn from a seed, so that a run's plan can be had again. */

export interface Fault {
  readonly kind: "kill" | "freeze";
  /** Once this many orders are done. */
  readonly afterOrders: number;
  /** Which of the workers that hold orders at that moment: uniform in [0, 1). */
  readonly victim: number;
}

/** The first fault comes when every worker has begun, the last while there is still work to lose. */
const FROM = 0.02;
const UNTIL = 0.9;

const KILLS = { every: 40, least: 3, most: 25 };
const FREEZES = { every: 160, least: 1, most: 6 };

export function planFaults(orders: number, random: () => number): Fault[] {
  const kills = howMany(orders, KILLS);
  const freezes = howMany(orders, FREEZES);
  const kinds = shuffled([...kindsOf("kill", kills), ...kindsOf("freeze", freezes - 1)], random);
  // A freeze takes the longest to have its effect, so one of them comes first.
  return (["freeze", ...kinds] as const).map((kind, index, all) => ({
    kind,
    afterOrders: Math.floor(
      orders * (FROM + ((UNTIL - FROM) * (index + random() * 0.9)) / all.length),
    ),
    victim: random(),
  }));
}

function howMany(
  orders: number,
  { every, least, most }: { every: number; least: number; most: number },
): number {
  return Math.min(most, Math.max(least, Math.round(orders / every)));
}

function kindsOf(kind: Fault["kind"], length: number): Fault["kind"][] {
  return Array.from({ length }, () => kind);
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
