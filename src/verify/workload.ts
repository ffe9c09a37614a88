/** The jobs of a run, derived from their numbers. */
import type { EnqueueOptions } from "../jobs/enqueue.ts";

/** The percentage of each kind. */
export const SHARES = {
  plain: 44,
  order: 13,
  manual: 5,
  flaky: 7,
  nap: 5,
  keyed: 3,
  later: 4,
  awaiting: 3,
  parent: 3,
  governed: 6,
  flow: 2,
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

/** The queue with limits. Few of its jobs may run at once, so that the limits bind. */
export const GOVERNED = {
  queue: "governed",
  lanes: ["red", "green", "blue"],
  concurrency: 4,
  laneConcurrency: 2,
  rate: { count: 20, periodMs: 1_000, burst: 4 },
} as const;

/** A schedule with the shortest interval. */
export const TICKER = { name: "ticker", task: "tick", everyMs: 1_000 } as const;

/** A flow: one job, then several at once, then one that waits for all of them. */
export const FLOW: Readonly<Record<string, readonly string[]>> = {
  first: [],
  left: ["first"],
  middle: ["first"],
  right: ["first"],
  last: ["left", "middle", "right"],
};

const NAP_MS_MAX = 300;

const LATER_MS_MAX = 3_000;

export interface Input {
  readonly n: number;
  readonly ms: number;
  /** Of a job with a lane, so that the checker knows it from the job itself. */
  readonly lane?: string;
  /** Of a job of a flow: which it is. */
  readonly part?: string;
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
  readonly options: Pick<EnqueueOptions, "queue" | "delay" | "key" | "keyFor" | "lane">;
  /** Uniform in [0, 1): decides everything else that is random about it. */
  readonly luck: number;
}

export function pieceOf({ seed, shares, workMs }: Workload, n: number): Piece {
  const random = randomFrom(seed + n * 7_919);
  const kind = kindAt(shares, random());
  const luck = random();
  const lane = kind === "governed" ? laneAt(luck) : null;
  const ms = Math.floor(random() * (kind === "nap" ? NAP_MS_MAX : workMs));
  return {
    n,
    kind,
    task: PLAIN.has(kind) ? "plain" : kind,
    input: { n, ms, ...(lane === null ? {} : { lane }) },
    options: {
      ...(kind === "manual" ? { queue: LEASE_CLIENTS } : {}),
      ...(lane === null ? {} : { queue: GOVERNED.queue, lane }),
      ...(kind === "keyed" ? { key: `key-${n}`, keyFor: "1d" } : {}),
      ...(kind === "later" || kind === "cancelled"
        ? { delay: Math.floor(luck * LATER_MS_MAX) }
        : {}),
    },
    luck,
  };
}

/** For a number in [0, 1). */
function laneAt(share: number): string {
  return GOVERNED.lanes[Math.floor(share * GOVERNED.lanes.length)] ?? "";
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
