/** The product's calls that race with one another, each at a time of its own. */
import { jobHooks } from "../../src/app/hooks.ts";
import type { Fence, Settlement, Status } from "../../src/core/job.ts";
import type { Engine } from "../../src/database/engine.ts";
import { releaseEnded } from "../../src/flows/release.ts";
import { cancel as cancelJob } from "../../src/jobs/cancel.ts";
import { enqueueWithPolicy } from "../../src/jobs/enqueue-policy.ts";
import { promoteDue, reclaimExpired, type Promoted } from "../../src/jobs/maintenance.ts";
import { settleWithDependents } from "../../src/jobs/settle.ts";
import { statementsFor } from "../../src/jobs/statements.ts";
import type {
  ClaimedJob,
  Enqueued,
  Extended,
  NewJob,
  Settled,
  Wanted,
} from "../../src/jobs/store.ts";
import { LEASE_MS, sweep, upTo } from "../support/jobs.ts";

/** What each kind of call tells its caller. */
export interface Tells {
  enqueue: Enqueued[];
  turn: { settled: Settled[]; claimed: ClaimedJob[] };
  extend: Extended[];
  reclaim: Settled[];
  promote: Promoted;
  cancel: Status | null;
}

export type Kind = keyof Tells;

/** One call of the product, at a time that the test chose. */
export interface Verb<K extends Kind = Kind> {
  readonly kind: K;
  readonly at: number;
  run(engine: Engine): Promise<Tells[K]>;
}

const CLAIM_ID = 7;
const PROMOTED_MAX = 100;

export function enqueue(at: number, ...jobs: NewJob[]): Verb<"enqueue"> {
  return { kind: "enqueue", at, run: async (engine) => (await statementsFor(engine)).insert(jobs) };
}

export function turn(
  at: number,
  settlements: readonly Settlement[],
  wanted: Wanted | null,
): Verb<"turn"> {
  const claiming = wanted === null ? null : { ...wanted, claimId: CLAIM_ID };
  return {
    kind: "turn",
    at,
    run: async (engine) => (await statementsFor(engine)).settleAndClaim(settlements, claiming),
  };
}

export function claim(at: number, worker: string, facts: Partial<Wanted> = {}): Verb<"turn"> {
  return turn(at, [], upTo(1, { worker, ...facts }));
}

export function settle(at: number, ...settlements: Settlement[]): Verb<"turn"> {
  return turn(at, settlements, null);
}

/** Settles a job that others may wait for. */
export function settleAwaited(at: number, settlement: Settlement): Verb<"turn"> {
  return {
    kind: "turn",
    at,
    run: async (engine) => {
      const { settled } = await settleWithDependents({ engine, hooks: jobHooks }, settlement);
      return { settled, claimed: [] };
    },
  };
}

/** Enqueues jobs that wait for others, or for which others may wait. */
export function enqueueMembers(at: number, ...jobs: NewJob[]): Verb<"enqueue"> {
  return {
    kind: "enqueue",
    at,
    run: async (engine) => (await enqueueWithPolicy({ engine, hooks: jobHooks }, jobs, 1)).enqueued,
  };
}

/** What maintenance does about jobs whose ends were left to it. */
export function sweepEnds(at: number, ...ids: string[]): Verb<"enqueue"> {
  return {
    kind: "enqueue",
    at,
    run: (engine) =>
      engine.transaction(async (tx) => {
        const { released } = await releaseEnded(engine, tx, { ids, now: at });
        return released.ended.map(({ id }) => ({ id, added: false }));
      }),
  };
}

export function extend(at: number, ...fences: Fence[]): Verb<"extend"> {
  return {
    kind: "extend",
    at,
    run: async (engine) => (await statementsFor(engine)).extend(fences, LEASE_MS),
  };
}

export function reclaim(at: number): Verb<"reclaim"> {
  return {
    kind: "reclaim",
    at,
    run: async (engine) => (await reclaimExpired({ engine, hooks: jobHooks }, sweep)).settled,
  };
}

export function promote(at: number): Verb<"promote"> {
  return {
    kind: "promote",
    at,
    run: (engine) => promoteDue({ engine, hooks: jobHooks }, PROMOTED_MAX),
  };
}

export function cancel(at: number, id: string): Verb<"cancel"> {
  return {
    kind: "cancel",
    at,
    run: async (engine) => (await cancelJob({ engine, hooks: jobHooks }, id)).status,
  };
}
