/**
 * What a seed decides beforehand: which faults there are, what the workers are like, what the work is.
 *
 * Every seed has a subset of its own of both faults and work. A fault that is always there hides others: what is refused
 * before it is sent can not be lost on its way back.
 */
import { Chance } from "./chance.ts";

export const taskNames = [
  "plain",
  "steps",
  "beside",
  "pay",
  "trust",
  "ship",
  "nap",
  "hear",
  "boss",
  "order",
] as const;
/** Those that write while they run. */
const keepingTasks = ["steps", "ship", "order", "boss"] as const;
export type TaskName = (typeof taskNames)[number];

/** What can happen to a call of the database. */
export const callFaults = [
  /** Refused: nothing was written, and the caller is told so. */
  "refused",
  /** Another session held the lock for too long: nothing was written, and the caller is told so. */
  "busy",
  /** The connection was lost on the way there: nothing was written, and the caller can not know. */
  "request lost",
  /** The connection was lost on the way back: it was written, and the caller can not know. */
  "answer lost",
  /** The caller was told that the connection was lost, and the call arrives after that. */
  "late",
  /** The database made the transaction twice, the first time for nothing. */
  "made again",
  /** It takes long, so that others overtake it. */
  "slow",
] as const;
export type CallFault = (typeof callFaults)[number];

export const machineFaults = [
  /** Everything of it is cut off for ever. */
  "crash",
  /** It stands still for longer than a lease, mostly, and then goes on with what it believed. */
  "pause",
  /** The same, but its monotonic clock stands still too, as when a virtual machine is put to sleep. */
  "sleep",
  /** It goes on, and what it sends is held up on its way. */
  "hold",
  /** It is asked to stop, and started again. */
  "stop",
] as const;
export type MachineFault = (typeof machineFaults)[number];

export interface Plan {
  readonly seed: number;
  /** Liveness: the faults end, and then all jobs must. Safety: they never end, and nothing may ever be wrong. */
  readonly mode: "safety" | "liveness";
  readonly chaosMs: number;
  readonly machines: number;
  readonly concurrency: number;
  readonly pollCycles: number;
  readonly attempts: number;
  readonly crashes: number;
  readonly jobs: number;
  readonly tasks: readonly TaskName[];
  /** How many jobs kill the machine that they run on. */
  readonly killers: number;
  /** How likely each is at every call; 0: never in this seed. */
  readonly callFaults: Readonly<Record<CallFault, number>>;
  readonly lockedShare: number;
  /** The mean time between two of them; 0: never in this seed. */
  readonly machineFaults: Readonly<Record<MachineFault, number>>;
  /** How far the wall clocks may be off, and how fast the monotonic ones may go. */
  readonly skewMs: number;
  readonly drift: number;
  readonly hintsLost: number;
  readonly latencyMs: number;
  /** What clients do besides. */
  readonly cancels: number;
  readonly retries: number;
  readonly keys: number;
  readonly delays: number;
  /** How likely a task fails at each of its points. */
  readonly failures: number;
  /** How likely a task takes longer than a lease. */
  readonly longWork: number;
  /** How long a plain job may take; 0: as long as it likes. */
  readonly timeoutMs: number;
  /** Whether everything is closed in the end. */
  readonly closes: boolean;
  /** The limits of a queue in which most jobs are, and a schedule beside it; null: none of this in this seed. */
  readonly limits: Limits | null;
}

export interface Limits {
  readonly concurrency: number;
  /** Of each lane. */
  readonly laneConcurrency: number;
  /** Null: jobs may start as fast as they can. */
  readonly rate: {
    readonly count: number;
    readonly periodMs: number;
    readonly burst: number;
  } | null;
}

/** The queue that has limits, and its lanes. */
export const GOVERNED = "governed";
export const LANES = ["red", "green"] as const;

/** The schedule: its name, its task and its interval. */
export const TICKER = { name: "ticker", task: "tick", everyMs: 1_000 } as const;

export const LEASE_MS = 2_000;
export const GRACE_MS = 300;
/** Within this time after the faults have ended, every job must have. */
export const LIVENESS_MS = 120_000;

/** One seed in so many is of the kind whose faults never end. */
const SAFETY_EVERY = 4;
/** One seed in so many has limits. Not one of those in which mutants were found before. */
const LIMITS_EVERY = 6;
const LIMITS_AT = 2;
const TASKS_PER_SEED = 4;
const LATE_SHARE = 0.4;

export function planOf(seed: number): Plan {
  const chance = new Chance(seed, "plan");
  const often = (share: number, least: number, most: number): number =>
    chance.isHit(share) ? chance.between(least, most) : 0;
  // Long work and machines that stand still make workers that come back too late.
  const isLate = chance.isHit(LATE_SHARE);
  const mode = seed % SAFETY_EVERY === 0 ? "safety" : "liveness";
  return {
    seed,
    mode,
    chaosMs: isLate || mode === "safety" ? chance.whole(4_000, 7_000) : chance.whole(2_500, 4_000),
    machines: isLate ? chance.whole(3, 4) : chance.pick([2, 2, 3]),
    concurrency: isLate ? chance.whole(3, 6) : chance.whole(1, 4),
    pollCycles: chance.whole(1, 2),
    attempts: chance.whole(3, 6),
    crashes: chance.whole(2, 4),
    jobs: isLate ? chance.whole(8, 14) : chance.whole(5, 14),
    tasks: Array.from({ length: TASKS_PER_SEED }, () =>
      chance.pick(isLate && chance.isHit(0.7) ? keepingTasks : taskNames),
    ),
    killers: chance.isHit(0.2) ? chance.whole(1, 2) : 0,
    callFaults: {
      refused: often(0.4, 0.005, 0.06),
      busy: often(0.3, 0.005, 0.04),
      "request lost": often(0.4, 0.005, 0.05),
      "answer lost": often(0.5, 0.01, 0.1),
      late: often(0.4, 0.005, 0.06),
      "made again": often(0.3, 0.02, 0.2),
      slow: isLate ? chance.between(0.02, 0.12) : often(0.4, 0.01, 0.1),
    },
    lockedShare: often(0.3, 0.01, 0.1),
    machineFaults: {
      crash: often(0.5, 1_000, 5_000),
      pause: isLate ? chance.between(1_200, 3_500) : often(0.4, 1_000, 4_000),
      sleep: isLate ? chance.between(1_200, 3_500) : often(0.2, 1_000, 4_000),
      hold: isLate ? chance.between(1_200, 3_500) : often(0.3, 1_000, 4_000),
      stop: often(0.4, 1_000, 4_000),
    },
    skewMs: often(0.5, 1_000, 90_000),
    drift: often(0.3, 0.02, 0.4),
    hintsLost: chance.pick([0, 0, 0.2, 0.6, 1]),
    latencyMs: chance.pick([0.2, 1, 5]),
    cancels: often(0.5, 0.05, 0.3),
    retries: often(0.4, 0.2, 0.7),
    keys: often(0.5, 0.2, 0.7),
    delays: often(0.5, 0.1, 0.4),
    failures: often(0.6, 0.02, 0.2),
    longWork: isLate ? chance.between(0.3, 0.7) : often(0.5, 0.05, 0.3),
    timeoutMs: chance.isHit(0.3) ? 1_500 : 0,
    closes: chance.isHit(0.1),
    limits: seed % LIMITS_EVERY === LIMITS_AT ? limitsOf(chance) : null,
  };
}

function limitsOf(chance: Chance): Limits {
  const rate = { count: chance.whole(5, 10), periodMs: 1_000, burst: chance.whole(1, 3) };
  return {
    concurrency: chance.whole(2, 3),
    laneConcurrency: chance.whole(1, 2),
    rate: chance.isHit(0.5) ? rate : null,
  };
}
