/**
 * Jobs for tests: every fact has a default, and a test names only those it is about.
 *
 * A verb here checks that it did what its name says, so that a test that goes on stands on firm ground.
 */
import assert from "node:assert/strict";
import { calledId, makeIds } from "../../src/core/id.ts";
import type { Fence, Outcome, Settlement, Status } from "../../src/core/job.ts";
import type { AuditHead } from "../../src/audit/store.ts";
import type {
  AttemptRecord,
  ClaimedJob,
  Dependency,
  JobRecord,
  LeaseRecord,
  Member,
  NewJob,
  Settled,
  Wanted,
} from "../../src/jobs/store.ts";
import type { Store } from "../../src/app/store.ts";
import { sql } from "../../src/database/sql.ts";
import type { Bundle } from "./bundle.ts";
import { testRuntime } from "./runtime.ts";

/** Each is greater than the one before, so the jobs of a test are listed in the order it made them. */
export const nextId = makeIds(testRuntime());

export const LEASE_MS = 30_000;
export const GRACE_MS = 2_000;
export const CRASHES_MAX = 3;
export const HOUR_MS = 3_600_000;

export const ERROR = JSON.stringify({ name: "Error", message: "the mail server said no" });

/** Of a job that had to start in 1970. */
export const EXPIRED = JSON.stringify({
  name: "Expired",
  code: "EXPIRED",
  message: "It had to start by 1970-01-01T00:00:00.001Z, but no worker started it in time.",
});

export const sweep = { graceMs: GRACE_MS, maxCrashes: CRASHES_MAX, limit: 100 };

export function newJob(facts: Partial<NewJob> = {}): NewJob {
  return {
    id: nextId(),
    queue: "default",
    task: "mail.send",
    payload: '{"to":"ada"}',
    priority: 0,
    maxAttempts: 3,
    key: null,
    start: null,
    ...facts,
  };
}

/** The facts of a job that waits for others, or for which others wait. */
export function member(
  after: readonly (string | Dependency)[] = [],
  facts: Partial<Member> = {},
): Pick<NewJob, "id" | "member"> {
  const asIs = (on: string | Dependency): Dependency =>
    typeof on === "string" ? { id: on, onFailed: "fail", onCancelled: "cancel" } : on;
  const waits = { flow: null, name: null, after: after.map(asIs), before: [], ...facts };
  return { id: calledId(nextId()), member: waits };
}

export async function enqueueOne(store: Store, facts: Partial<NewJob> = {}): Promise<NewJob> {
  const job = newJob(facts);
  assert.deepEqual(await store.jobs.enqueue([job]), [{ id: job.id, added: true }]);
  return job;
}

/** One job at a time, in the order given, each a millisecond younger than the one before. */
export async function enqueueInTurn(
  { store, clock }: Bundle,
  jobs: readonly Partial<NewJob>[],
): Promise<string[]> {
  const ids: string[] = [];
  for (const facts of jobs) {
    ids.push((await enqueueOne(store, facts)).id);
    clock.advance(1);
  }
  return ids;
}

export function one(facts: Partial<Wanted> = {}): Wanted {
  return upTo(1, facts);
}

export function upTo(limit: number, facts: Partial<Wanted> = {}): Wanted {
  return {
    worker: "worker-a",
    queues: ["default"],
    tasks: null,
    leaseMs: LEASE_MS,
    limit,
    ...facts,
  };
}

/** A worker of a build, that is alive now. */
export async function addWorker(
  { byHand, clock }: Bundle,
  id: string,
  version: string,
): Promise<void> {
  await byHand(sql`
    insert into holdfast.worker_type (name) values (${id})`);
  await byHand(sql`
    insert into holdfast.worker (id, type, slot, instance, status, hostname, pid, version, node_version, platform, arch,
                                 queues, tasks, concurrency, started_at, heartbeat_at)
    values (${id}, ${id}, null, 1, 'running', 'h', 1, ${version}, 'v', 'l', 'a', '[]', '[]', 1, ${clock.now()}, ${clock.now()})`);
}

export async function claimOne(store: Store, facts: Partial<Wanted> = {}): Promise<ClaimedJob> {
  const [claimed, ...more] = await store.jobs.claim(one(facts));
  assert.ok(claimed !== undefined, "there was no job to claim");
  assert.equal(more.length, 0);
  return claimed;
}

/** Enqueues a job and claims it. No other job may be pending in its queue. */
export async function startOne(
  store: Store,
  facts: Partial<NewJob> = {},
  wanted: Partial<Wanted> = {},
): Promise<ClaimedJob> {
  const job = await enqueueOne(store, facts);
  const claimed = await claimOne(store, { queues: [job.queue], ...wanted });
  assert.equal(claimed.id, job.id);
  return claimed;
}

export function fenceOf({ id, worker, epoch }: Fence): Fence {
  return { id, worker, epoch };
}

export function settlement(fence: Fence, outcome: Outcome): Settlement {
  return { ...fenceOf(fence), outcome };
}

export function done(fence: Fence, result: string | null = null): Settlement {
  return settlement(fence, { kind: "done", result });
}

export function retry(
  fence: Fence,
  { delayMs = 1_000, error = ERROR }: { delayMs?: number; error?: string } = {},
): Settlement {
  return settlement(fence, { kind: "retry", delayMs, error });
}

export function failed(fence: Fence, error = ERROR): Settlement {
  return settlement(fence, { kind: "failed", error });
}

export function suspended(fence: Fence, delayMs: number | null = null): Settlement {
  return settlement(fence, { kind: "suspended", delayMs });
}

export function released(fence: Fence): Settlement {
  return settlement(fence, { kind: "released" });
}

export function cancelled(fence: Fence, error: string | null = null): Settlement {
  return settlement(fence, { kind: "cancelled", error });
}

/** Every outcome there is, each with what it makes of a job that has attempts left. */
export const outcomes = [
  { name: "done", settle: (fence: Fence) => done(fence, '"sent"'), status: "done" },
  { name: "retry", settle: (fence: Fence) => retry(fence), status: "retry" },
  { name: "failed", settle: (fence: Fence) => failed(fence), status: "failed" },
  { name: "suspended", settle: (fence: Fence) => suspended(fence, HOUR_MS), status: "waiting" },
  { name: "released", settle: released, status: "pending" },
  { name: "cancelled", settle: (fence: Fence) => cancelled(fence), status: "cancelled" },
] as const satisfies readonly {
  name: Outcome["kind"];
  settle: (fence: Fence) => Settlement;
  status: Status;
}[];

export async function settleOne(store: Store, what: Settlement): Promise<Settled> {
  const [settled, ...more] = await store.jobs.settle([what]);
  assert.ok(settled !== undefined, "the job was not ours to settle");
  assert.equal(more.length, 0);
  return settled;
}

/** Lets the lease of a claimed job run out and takes it back. */
export async function crash({ store, clock }: Bundle, claimed: ClaimedJob): Promise<Settled> {
  clock.set(claimed.lockedUntil + GRACE_MS + 1);
  const reclaimed = await store.jobs.reclaimExpired(sweep);
  const ours = reclaimed.find((settled) => settled.id === claimed.id);
  assert.ok(ours !== undefined, "the lease was not taken back");
  return ours;
}

/** Lets time pass until a job that waits is due, and makes it pending. */
export async function promoteOne({ store, clock }: Bundle, id: string): Promise<void> {
  const { dueAt } = await mustFind(store, id);
  assert.ok(dueAt !== null, "the job waits for no time");
  clock.set(Math.max(clock.now(), dueAt));
  await store.jobs.promoteDue({ limit: 100 });
  assert.equal((await mustFind(store, id)).status, "pending");
}

/** Lets the worker of a job die, and brings the job back to another or the same one. */
export async function crashAndClaim(
  bundle: Bundle,
  claimed: ClaimedJob,
  worker: string,
): Promise<ClaimedJob> {
  await crash(bundle, claimed);
  await promoteOne(bundle, claimed.id);
  return claimOne(bundle.store, { worker, queues: [claimed.queue] });
}

/** Brings a new job into a state, by legal moves. No other job may be pending in its queue. */
export async function jobIn(
  store: Store,
  status: Status,
  facts: Partial<NewJob> = {},
): Promise<string> {
  if (status === "pending") return (await enqueueOne(store, facts)).id;
  if (status === "scheduled") {
    return (await enqueueOne(store, { start: { delayMs: HOUR_MS }, ...facts })).id;
  }
  if (status === "expired") {
    const { id } = await enqueueOne(store, { startBy: { at: 1 }, ...facts });
    assert.equal((await store.jobs.expireLate({ limit: 100 })).length, 1);
    return id;
  }
  const claimed = await startOne(store, facts);
  const outcome = outcomes.find((candidate) => candidate.status === status);
  if (outcome !== undefined) await settleOne(store, outcome.settle(claimed));
  assert.equal((await mustFind(store, claimed.id)).status, status);
  return claimed.id;
}

export async function mustFind(store: Store, id: string): Promise<JobRecord> {
  const job = await store.jobs.find(id);
  assert.ok(job !== null, `there is no job ${id}`);
  return job;
}

export async function statusOf(store: Store, id: string): Promise<Status> {
  return (await mustFind(store, id)).status;
}

export interface Picture {
  readonly job: JobRecord | null;
  readonly attempts: readonly AttemptRecord[];
  readonly leases: readonly LeaseRecord[];
}

/** All that the store tells about a job: two pictures are equal when nothing happened in between. */
export async function pictureOf(store: Store, id: string): Promise<Picture> {
  const active = await store.jobs.leases({ state: "active", limit: 1_000 });
  const expired = await store.jobs.leases({ state: "expired", limit: 1_000 });
  return {
    job: await store.jobs.find(id),
    attempts: await store.jobs.attempts(id),
    leases: [...active, ...expired].filter((lease) => lease.id === id),
  };
}

export function idsOf(rows: readonly { id: string }[]): string[] {
  return rows.map((row) => row.id);
}

/** For answers whose order is not promised. */
export function sortedIds(rows: readonly { id: string }[]): string[] {
  return idsOf(rows).toSorted();
}

/** The head of the operators' chain. */
export async function headOf(store: Store): Promise<AuditHead> {
  return (await store.audit.head()) ?? assert.fail("the audit has no head");
}
