/** The product's calls that race with one another, each at a time of its own. */
import { jobHooks } from "../../src/app/hooks.ts";
import type { Fence, Settlement, Status } from "../../src/core/job.ts";
import type { Engine } from "../../src/database/engine.ts";
import { cancel as cancelJob } from "../../src/jobs/cancel.ts";
import { promoteDue, reclaimExpired, type Promoted } from "../../src/jobs/maintenance.ts";
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
