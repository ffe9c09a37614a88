/** What is done to whom and when: drawn from a seed before anything happens, so that a run's plan can be had again. */
import { randomFrom } from "../core/seeded.ts";

export const faultKinds = [
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

export interface Plan {
  readonly seed: number;
  readonly workers: number;
  readonly producers: number;
  /** How many jobs are enqueued, evenly over the time of the faults. */
  readonly jobs: number;
  /** Faults and jobs come for so long; after that all shall come to an end by itself. */
  readonly ms: number;
  readonly faults: readonly Fault[];
}

/** Short, so that many leases end within a run. */
export const LEASE_MS = 2_000;
export const GRACE_MS = 200;
export const UPKEEP_MS = 200;

export const WORKERS = 8;
export const PRODUCERS = 2;
const JOBS_PER_S = 164;

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

/** Everybody shall have begun before the first fault, and shall wake up again after the last. */
const FIRST_MS = 1_000;
const LAST_MS = LEASE_MS * 3;

export function makePlan(parts: {
  readonly seed: number;
  readonly ms: number;
  readonly kinds: readonly FaultKind[];
  readonly jobsPerSecond?: number | undefined;
}): Plan {
  const { seed, ms, jobsPerSecond = JOBS_PER_S } = parts;
  const random = randomFrom(seed);
  const kinds = parts.kinds.flatMap((kind) =>
    Array.from({ length: Math.ceil((RATES[kind] * ms) / 60_000) }, () => kind),
  );
  const order = kinds
    .map((kind) => ({ kind, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ kind }) => kind);
  const span = ms - FIRST_MS - LAST_MS;
  return {
    seed,
    workers: WORKERS,
    producers: PRODUCERS,
    jobs: Math.round((jobsPerSecond * ms) / 1_000),
    ms,
    faults: order.map((kind, index) => ({
      kind,
      atMs: Math.round(FIRST_MS + (span * (index + random())) / order.length),
      whom: random(),
      ms: lasting(kind, random()),
    })),
  };
}

function lasting(kind: FaultKind, share: number): number {
  const [least, most] = LASTS[kind] ?? [0, 0];
  return Math.round(least + share * (most - least));
}
