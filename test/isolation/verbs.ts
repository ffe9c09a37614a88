/** The product's calls that race with one another, each at a time of its own. */
import { randomUUID } from "node:crypto";
import { jobHooks } from "../../src/app/store.ts";
import type { Fence, Settlement, Status } from "../../src/core/job.ts";
import type { Database } from "../../src/database/database.ts";
import type { Engine } from "../../src/database/engine.ts";
import { releaseEnded } from "../../src/flows/release.ts";
import { cancel as cancelJob } from "../../src/jobs/cancel.ts";
import { enqueueWithPolicy } from "../../src/jobs/enqueue-policy.ts";
import { promoteDue, reclaimExpired, type Promoted } from "../../src/jobs/maintenance.ts";
import { claimGoverned } from "../../src/limits/claim.ts";
import { type RuleChange, SqlQueues } from "../../src/queues/store.ts";
import { settleWithDependents } from "../../src/jobs/settle.ts";
import { statementsFor } from "../../src/jobs/statements.ts";
import type {
  GovernedTurn,
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
  /** Whether an operator's change of a queue changed something. */
  rule: boolean;
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

/** A claim from a queue that has rules. Its turn begins behind the lane that the cursor names. */
export function claimRuled(
  at: number,
  worker: string,
  { cursor = "", ...facts }: Partial<Wanted> & { cursor?: string } = {},
): Verb<"turn"> {
  const asked = { ...upTo(1, { worker, ...facts }), claimId: CLAIM_ID };
  const wanted = { ...asked, queue: QUEUE, cursor, mayWait: true };
  return {
    kind: "turn",
    at,
    run: async (engine) => {
      const ruled: GovernedTurn = {
        first: true,
        claim: async (claims) => (await claimGoverned(engine, claims, wanted)).claimed,
      };
      const statements = await statementsFor(engine);
      return statements.settleAndClaim([], { ...wanted, queues: [] }, ruled);
    },
  };
}

/** An operator sets the rules of the queue. */
export function setRules(at: number, ...rules: Partial<RuleChange>[]): Verb<"rule"> {
  const whole = rules.map((rule): RuleChange => ({ ...NO_RULE, ...rule }));
  return {
    kind: "rule",
    at,
    run: async (engine) => {
      await queuesOf(engine).change({ queue: QUEUE, rules: whole }, operator());
      return true;
    },
  };
}

export function pause(at: number): Verb<"rule"> {
  return { kind: "rule", at, run: (engine) => queuesOf(engine).pause(QUEUE, operator()) };
}

const QUEUE = "default";

const NO_RULE: RuleChange = {
  kind: "queue",
  name: "",
  concurrency: null,
  rate: null,
  weight: null,
};

/** A line of the audit that has not been written yet. */
function operator(): { id: string; actor: string } {
  return { id: randomUUID(), actor: "ada" };
}

/** No process is told of the change: in a race, each looks by itself. */
function queuesOf(engine: Engine): SqlQueues {
  const db = { engine, announce() {}, write: (write: () => Promise<unknown>) => write() };
  return new SqlQueues(db as unknown as Database);
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
