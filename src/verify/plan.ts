/** What is done to whom and when: drawn from a seed before anything happens, so that a run's plan can be had again. */
import { randomFrom, SHARES, type Shares } from "./workload.ts";

const faultKinds = [
  "kill", // kill -9 of a process
  "freeze", // SIGSTOP for longer than the lease, then SIGCONT: a zombie
  "block", // a function that blocks its event loop for longer than the lease
  "cut", // a connection ended by the server
  "deafen", // answers of the server that never arrive
  "restart", // the server killed and started again
  "storm", // SQLite: somebody else holds the lock of the file, again and again
] as const;

export type FaultKind = (typeof faultKinds)[number];

export interface Fault {
  readonly kind: FaultKind;
  readonly atMs: number;
  /** Whom it meets: the share of the list of those it can meet. */
  readonly whom: number;
  /** For how long, where it lasts. */
  readonly ms: number;
}

export type Role = "worker" | "producer";

/** How large a run is, and of what it is made. */
export interface Preset {
  readonly workers: number;
  readonly producers: number;
  /** How many jobs are enqueued, evenly over the time of the faults. */
  readonly jobs: number;
  /** Of a hundred jobs, so many of each kind. */
  readonly shares: Shares;
  /** How long a job works, at most. */
  readonly workMs: number;
  /** Jobs and faults come for so long; after that all jobs end without help. */
  readonly ms: number;
  /** Without faults, at the end of that time. */
  readonly calmMs: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** The processes that are killed. */
  readonly victims: readonly Role[];
  /** A machine that does fewer jobs a second, once the faults are over, has failed. */
  readonly jobsPerSecondLeast: number;
}

export interface Plan extends Omit<Preset, "faults"> {
  readonly seed: number;
  readonly faults: readonly Fault[];
}

/** Short, so that many leases end within a run. */
export const LEASE_MS = 2_000;

export const GRACE_MS = 200;

export const MAINTENANCE_MS = 200;

/** How many jobs a worker process runs at once. */
export const CONCURRENCY = 4;

const WORKERS = 8;

const PRODUCERS = 2;

const JOBS_PER_S = 164;

const WORK_MS_MAX = 200;

/** After the last fault of a torture, all comes to its end in about this time, and is then checked. */
const AFTER_MS = 12_000;

/** How often in a minute. */
const RATES: Readonly<Record<FaultKind, number>> = {
  kill: 52,
  freeze: 16,
  block: 4,
  cut: 32,
  deafen: 6,
  restart: 2.2,
  storm: 6,
};

/** For how long, at least and at most. */
const LASTS: Partial<Record<FaultKind, readonly [number, number]>> = {
  freeze: [LEASE_MS * 1.5, LEASE_MS * 2.5],
  block: [LEASE_MS * 1.2, LEASE_MS * 2],
  deafen: [50, 400],
  storm: [1_000, 3_000],
};

/** Every process has begun before the first fault. */
const FIRST_MS = 1_000;

/** Everything at once, for about so long. */
export function torturePreset(parts: {
  readonly ms: number;
  readonly jobsPerSecond?: number | undefined;
}): Preset {
  const ms = Math.max(parts.ms - AFTER_MS, AFTER_MS);
  const counts = Object.entries(RATES).map(([kind, rate]) => [
    kind,
    Math.ceil((rate * ms) / 60_000),
  ]);
  return {
    workers: WORKERS,
    producers: PRODUCERS,
    jobs: Math.round(((parts.jobsPerSecond ?? JOBS_PER_S) * ms) / 1_000),
    shares: SHARES,
    workMs: WORK_MS_MAX,
    ms,
    calmMs: LEASE_MS * 3,
    faults: Object.fromEntries(counts) as Record<FaultKind, number>,
    victims: ["worker", "producer"],
    jobsPerSecondLeast: 40,
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
    jobsPerSecondLeast: 2, // It may be shown on a slow machine.
  };
}

const DEMO = {
  msLeast: 8_000,
  ordersPerWorkerSecond: 16,
  /** The share of time in which a worker has an order in hand, so that a fault meets some. */
  busy: 0.4,
  /** One fault for so many orders. */
  kills: { every: 40, least: 3, most: 25 },
  freezes: { every: 160, least: 1, most: 6 },
} as const;

function among(
  orders: number,
  { every, least, most }: { every: number; least: number; most: number },
): number {
  return Math.min(most, Math.max(least, Math.round(orders / every)));
}

/** Only faults of these kinds, where a database knows no others. */
export function makePlan(seed: number, preset: Preset, kinds: readonly FaultKind[]): Plan {
  const random = randomFrom(seed);
  const all = kinds.flatMap((kind) => Array.from({ length: preset.faults[kind] ?? 0 }, () => kind));
  const order = all
    .map((kind) => ({ kind, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ kind }) => kind);
  const span = preset.ms - FIRST_MS - preset.calmMs;
  return {
    ...preset,
    seed,
    faults: order.map((kind, index) => ({
      kind,
      atMs: Math.round(FIRST_MS + (span * (index + random())) / order.length),
      whom: random(),
      ms: lasting(kind, random()),
    })),
  };
}

export function countFaults({ faults }: Plan): Partial<Record<FaultKind, number>> {
  const counts: Partial<Record<FaultKind, number>> = {};
  for (const { kind } of faults) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

function lasting(kind: FaultKind, share: number): number {
  const [least, most] = LASTS[kind] ?? [0, 0];
  return Math.round(least + share * (most - least));
}
