/** The jobs of a run: which is which, by their numbers. */
import { randomFrom } from "../core/seeded.ts";
import type { EnqueueOptions } from "../queue/options.ts";

/** Of a hundred jobs so many. */
const SHARES = {
  plain: 52,
  order: 13,
  manual: 5,
  flaky: 7,
  nap: 5,
  keyed: 3,
  later: 4,
  awaiting: 3,
  parent: 3,
  cancelled: 3,
  doubtful: 1,
  doomed: 1,
} as const;

export type Kind = keyof typeof SHARES;

/** What is special about these is how they are enqueued. */
const PLAIN = new Set<Kind>(["keyed", "later", "cancelled"]);

/** The queue of jobs that are worked on with the lease verbs alone. */
export const CLERKS = "clerks";
const WORK_MS_MAX = 200;
const NAP_MS_MAX = 300;
const LATER_MS_MAX = 3_000;

export interface Input {
  readonly n: number;
  readonly ms: number;
}

/** Job number n, the same for the same seed. */
export interface Piece {
  readonly n: number;
  readonly kind: Kind;
  readonly task: string;
  readonly input: Input;
  readonly options: Pick<EnqueueOptions, "queue" | "delay" | "key" | "keyFor">;
  /** Uniform in [0, 1): whatever else about it is a matter of luck. */
  readonly luck: number;
}

export function pieceOf(seed: number, n: number): Piece {
  const random = randomFrom(seed + n * 7_919);
  const kind = kindAt(random());
  const luck = random();
  return {
    n,
    kind,
    task: PLAIN.has(kind) ? "plain" : kind,
    input: { n, ms: Math.floor(random() * (kind === "nap" ? NAP_MS_MAX : WORK_MS_MAX)) },
    options: {
      ...(kind === "manual" ? { queue: CLERKS } : {}),
      ...(kind === "keyed" ? { key: `key-${n}`, keyFor: "1d" } : {}),
      ...(kind === "later" || kind === "cancelled"
        ? { delay: Math.floor(luck * LATER_MS_MAX) }
        : {}),
    },
    luck,
  };
}

function kindAt(share: number): Kind {
  let rest = share * 100;
  for (const [kind, percent] of Object.entries(SHARES)) {
    rest -= percent;
    if (rest < 0) return kind as Kind;
  }
  return "plain";
}
