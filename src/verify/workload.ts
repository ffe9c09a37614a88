/** The jobs of a run, derived from their numbers. */
import type { EnqueueOptions } from "../jobs/enqueue.ts";

/** The percentage of each kind. */
export const SHARES = {
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

type Kind = keyof typeof SHARES;

export type Shares = Readonly<Partial<Record<Kind, number>>>;

/** Kinds that are special only in how they are enqueued. */
const PLAIN = new Set<Kind>(["keyed", "later", "cancelled"]);

/** The queue of jobs that are claimed through the lease API alone. */
export const LEASE_CLIENTS = "lease-clients";

const NAP_MS_MAX = 300;

const LATER_MS_MAX = 3_000;

export interface Input {
  readonly n: number;
  readonly ms: number;
}

/** Determines every job of a run. */
export interface Workload {
  readonly seed: number;
  readonly shares: Shares;
  /** How long a job works, at most. */
  readonly workMs: number;
}

/** Job number n, the same for the same workload. */
export interface Piece {
  readonly n: number;
  readonly kind: Kind;
  readonly task: string;
  readonly input: Input;
  readonly options: Pick<EnqueueOptions, "queue" | "delay" | "key" | "keyFor">;
  /** Uniform in [0, 1): decides everything else that is random about it. */
  readonly luck: number;
}

export function pieceOf({ seed, shares, workMs }: Workload, n: number): Piece {
  const random = randomFrom(seed + n * 7_919);
  const kind = kindAt(shares, random());
  const luck = random();
  return {
    n,
    kind,
    task: PLAIN.has(kind) ? "plain" : kind,
    input: { n, ms: Math.floor(random() * (kind === "nap" ? NAP_MS_MAX : workMs)) },
    options: {
      ...(kind === "manual" ? { queue: LEASE_CLIENTS } : {}),
      ...(kind === "keyed" ? { key: `key-${n}`, keyFor: "1d" } : {}),
      ...(kind === "later" || kind === "cancelled"
        ? { delay: Math.floor(luck * LATER_MS_MAX) }
        : {}),
    },
    luck,
  };
}

function kindAt(shares: Shares, share: number): Kind {
  let rest = share * 100;
  for (const [kind, percent] of Object.entries(shares)) {
    rest -= percent;
    if (rest < 0) return kind as Kind;
  }
  return "plain";
}

/** Pseudorandom numbers, uniform in [0, 1), the same for the same seed. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}
