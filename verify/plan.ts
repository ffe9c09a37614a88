/** Which fault hits which process and when: derived from a seed before the run, so that a plan can be repeated. */
import type { EnqueueOptions } from "../src/jobs/enqueue.ts";

export type FaultKind =
  | "kill" // kill -9 of a process
  | "kill-all" // kill -9 of all workers at once, while the queue with limits is full
  | "freeze" // SIGSTOP for longer than the lease, then SIGCONT: a zombie
  | "block" // a function that blocks its event loop for longer than the lease
  | "cut" // a connection ended by the server
  | "deafen" // answers of the server that never arrive
  | "restart" // the server killed and started again
  | "storm"; // SQLite: another connection holds the file's lock, again and again

export type FaultCounts = Readonly<Partial<Record<FaultKind, number>>>;

export interface Fault {
  readonly kind: FaultKind;
  readonly atMs: number;
  /** Selects the target: a position in the list of possible targets, in [0, 1). */
  readonly whom: number;
  /** The duration of a fault that lasts. */
  readonly ms: number;
}

export type Role = "worker" | "producer";

/** The size of a run, and its mix of jobs and faults. */
export interface Preset {
  readonly workers: number;
  readonly producers: number;
  /** Enqueued evenly over the time of the faults. */
  readonly jobs: number;
  /** The percentage of each kind of job. */
  readonly shares: Shares;
  /** How long a job works, at most. */
  readonly workMs: number;
  /** Jobs and faults arrive for this long; then all jobs end without help. */
  readonly ms: number;
  /** The last part of that time, without faults. */
  readonly calmMs: number;
  readonly faults: FaultCounts;
  /** Roles whose processes are killed. */
  readonly victims: readonly Role[];
  /** Whether a schedule enqueues a job every second. */
  readonly ticks: boolean;
  /** Fewer jobs a second after the last fault mean failure. */
  readonly jobsPerSecondLeast: number;
  /** A slow machine gets fewer jobs and faults, and not more time. */
  readonly isOnTime: boolean;
}

export interface Plan extends Omit<Preset, "faults"> {
  readonly seed: number;
  readonly faults: readonly Fault[];
}

/** Short, so that many leases expire in a run. */
export const LEASE_MS = 2_000;

export const GRACE_MS = 200;

export const MAINTENANCE_MS = 200;

/** How many jobs a worker process runs at once. */
export const CONCURRENCY = 4;

/** After the last fault of a torture, the remaining jobs and the check take about this long. */
const AFTER_MS = 12_000;

/** Faults per minute. */
const RATES: Readonly<Record<FaultKind, number>> = {
  kill: 52,
  "kill-all": 0, // once, before the calm
  freeze: 16,
  block: 4,
  cut: 32,
  deafen: 6,
  restart: 2.2,
  storm: 6,
};

/** The shortest and the longest duration. */
const LASTS: Partial<Record<FaultKind, readonly [number, number]>> = {
  freeze: [LEASE_MS * 1.5, LEASE_MS * 2.5],
  block: [LEASE_MS * 1.2, LEASE_MS * 2],
  deafen: [50, 400],
  storm: [1_000, 3_000],
};

/** All processes have started before the first fault. */
const FIRST_MS = 1_000;

/** All faults and all kinds of jobs, for about this long. */
export function torturePreset(parts: {
  readonly ms: number;
  readonly jobsPerSecond?: number | undefined;
}): Preset {
  const ms = Math.max(parts.ms - AFTER_MS, AFTER_MS);
  const counts = Object.entries(RATES).map(([kind, rate]) => {
    return [kind, Math.ceil((rate * ms) / 60_000)];
  });
  return {
    workers: 8,
    producers: 2,
    jobs: Math.round(((parts.jobsPerSecond ?? 164) * ms) / 1_000),
    shares: SHARES,
    workMs: 200,
    ms,
    calmMs: LEASE_MS * 3,
    faults: { ...(Object.fromEntries(counts) as FaultCounts), "kill-all": 1 },
    victims: ["worker", "producer"],
    ticks: true,
    jobsPerSecondLeast: 40,
    isOnTime: true,
  };
}

/** A shop with this many orders, while its workers are killed and frozen. */
export function demoPreset({ orders, workers }: { orders: number; workers: number }): Preset {
  const ms = Math.max(DEMO.msLeast, (orders * 1_000) / (workers * DEMO.ordersPerWorkerSecond));
  const busyMs = (DEMO.busy * workers * CONCURRENCY * ms) / orders;
  return {
    workers,
    producers: 1,
    jobs: orders,
    shares: { order: 100 },
    workMs: Math.round(2 * busyMs),
    ms,
    calmMs: ms / 10,
    faults: { kill: among(orders, DEMO.kills), freeze: among(orders, DEMO.freezes) },
    victims: ["worker"],
    ticks: false,
    jobsPerSecondLeast: 2, // The demo may run on a slow machine.
    isOnTime: false, // All orders are shown.
  };
}

const DEMO = {
  msLeast: 8_000,
  ordersPerWorkerSecond: 16,
  /** The share of time in which a worker works on an order, so that a fault hits some. */
  busy: 0.4,
  /** One fault for this many orders. */
  kills: { every: 40, least: 3, most: 25 },
  freezes: { every: 160, least: 1, most: 6 },
} as const;

function among(
  orders: number,
  { every, least, most }: { every: number; least: number; most: number },
): number {
  return Math.min(most, Math.max(least, Math.round(orders / every)));
}

/** Plans faults of these kinds only: a database may not support the others. */
export function makePlan(seed: number, preset: Preset, kinds: readonly FaultKind[]): Plan {
  const random = randomFrom(seed);
  const lasting = (kind: FaultKind): number => {
    const [least, most] = LASTS[kind] ?? [0, 0];
    return Math.round(least + random() * (most - least));
  };
  const all = kinds
    .filter((kind) => kind !== "kill-all")
    .flatMap((kind) => Array.from({ length: preset.faults[kind] ?? 0 }, () => kind));
  const order = all
    .map((kind) => ({ kind, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ kind }) => kind);
  const span = preset.ms - FIRST_MS - preset.calmMs;
  const faults: Fault[] = order.map((kind, index) => ({
    kind,
    atMs: Math.round(FIRST_MS + (span * (index + random())) / order.length),
    whom: random(),
    ms: lasting(kind),
  }));
  if (preset.faults["kill-all"] === 1)
    faults.push({ kind: "kill-all", atMs: preset.ms - preset.calmMs, whom: 0, ms: 0 });
  return { ...preset, seed, faults };
}

export function countFaults({ faults }: Plan): FaultCounts {
  const counts: Partial<Record<FaultKind, number>> = {};
  for (const { kind } of faults) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

// The jobs of a run, derived from their numbers.

/** The percentage of each kind. */
const SHARES = {
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

type Shares = Readonly<Partial<Record<Kind, number>>>;

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
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}
