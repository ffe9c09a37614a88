/**
 * Settle, claim and extend on MySQL and MariaDB.
 *
 * A cycle on one queue is two round trips: the first locks the leases to settle and the jobs to claim, the second moves
 * them all and commits. In between, the fences are compared here, under the locks.
 */
import type { Fence, Settlement } from "../core/job.ts";
import { asRow, type Engine } from "../database/engine.ts";
import type { MysqlEngine } from "../database/mysql/engine.ts";
import {
  allRows,
  type Answer,
  fill,
  inGroups,
  insertRows,
  jsonList,
  list,
  numberIn,
} from "../database/mysql/session.ts";
import type { Exchange, Sessions } from "../database/mysql/sessions.ts";
import {
  claim,
  firstLook,
  laneClaims,
  ofTasks,
  pick,
  queuesOf,
  sendLast,
  statements,
} from "./mysql-statements.ts";
import { insertJobs } from "./mysql-insert.ts";
import { type Destination, isPlainEnd, type JobValues, type LeaseRow, nextRow } from "./rows.ts";
import { settled as describe, settledAsClaimed } from "./settle.ts";
import {
  claimBoth,
  type ClaimedJob,
  type Claiming,
  type CycleResult,
  type Enqueued,
  type Extended,
  gateLimits,
  type GovernedTurn,
  type JobStatements,
  type NewJob,
  type Settled,
} from "./store.ts";

export class MysqlStatements implements JobStatements {
  readonly #engine: MysqlEngine;
  readonly #sessions: Sessions;

  constructor(engine: MysqlEngine) {
    this.#engine = engine;
    this.#sessions = engine.reserved;
  }

  insert(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    return insertJobs(this.#engine, jobs);
  }

  async settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Claiming | null,
    turn?: GovernedTurn,
  ): Promise<CycleResult> {
    const claiming = wanted === null || wanted.tasks?.length === 0 ? null : wanted;
    if (turn !== undefined && claiming !== null) {
      return this.#sessions.transaction(
        (exchange) => this.#cycleWithTurn(exchange, settlements, { wanted: claiming, turn }),
        gateLimits(claiming),
      );
    }
    // An idle worker looks with one read: no transaction, no locks.
    const idle = settlements.length === 0 && !(await this.#anyPending(claiming));
    if (idle) return { settled: [], claimed: [], governed: [] };
    return this.#sessions.transaction((exchange) => this.#cycle(exchange, settlements, claiming));
  }

  /** The same with a claim from queues that have rules, which needs several round trips. */
  async #cycleWithTurn(
    exchange: Exchange,
    settlements: readonly Settlement[],
    { wanted, turn }: { wanted: Claiming; turn: GovernedTurn },
  ): Promise<CycleResult> {
    const { settled, isEvicted } = await this.#settleFirst(exchange, settlements, wanted);
    if (isEvicted) return { settled, claimed: [], governed: [] };
    const governed: string[] = [];
    const plain = async (limit: number): Promise<ClaimedJob[]> => {
      if (wanted.queues.length === 0) return [];
      const cycle = await this.#claimPlain(exchange, { ...wanted, limit });
      governed.push(...cycle.governed);
      return cycle.claimed;
    };
    const claims = laneClaims(this.#engine, exchange);
    return { settled, claimed: await claimBoth(wanted.limit, claims, turn, plain), governed };
  }

  async #settleFirst(
    exchange: Exchange,
    settlements: readonly Settlement[],
    wanted: Claiming,
  ): Promise<{ settled: Settled[]; isEvicted: boolean }> {
    const guarded = wanted.guarded === true;
    const nowAt = this.#addClock(exchange);
    const { isCounted, leasesAt } = addLeases(exchange, settlements);
    const guardAt = exchange.add(...(guarded ? [fill(statements.guard, wanted.worker)] : []));
    const answers = await exchange.send("arrays");
    const now = numberIn(answers[nowAt]) as number;
    const about = answers.slice(leasesAt, guardAt);
    const settled = await this.#settle(exchange, settlements, { about, isCounted, now });
    const isEvicted = guarded && allRows(answers.slice(guardAt)).length === 0;
    return { settled, isEvicted };
  }

  async #claimPlain(exchange: Exchange, wanted: Claiming): Promise<CycleResult> {
    const names = list(queuesOf(wanted));
    const nowAt = this.#addClock(exchange);
    const governedAt = exchange.add(fill(statements.governed, names));
    const answers = await exchange.send("arrays");
    const now = numberIn(answers[nowAt]) as number;
    const governed = allRows<[string]>(answers.slice(governedAt)).map(([name]) => name);
    const open = { ...wanted, queues: queuesOf(wanted).filter((name) => !governed.includes(name)) };
    if (open.queues.length === 0) return { settled: [], claimed: [], governed };
    const looked = await sendLast(exchange, firstLook(open));
    const picked = await pick(exchange, open, looked);
    return { settled: [], claimed: await claim(exchange, open, { picked, now }), governed };
  }

  async extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    const extended = await this.#extend(fences, leaseMs, statements.lockFreeLeases);
    const known = new Set(extended.map(({ id }) => id));
    const missing = fences.filter(({ id }) => !known.has(id));
    if (missing.length === 0) return extended;
    // Most of these are lost. But a cancel, for example, locks a lease for a moment, and the lease is still ours.
    const ours = await this.#stillOurs(missing);
    if (ours.length === 0) return extended;
    return [...extended, ...(await this.#extend(ours, leaseMs, statements.lockLeases))];
  }

  async #anyPending(wanted: Claiming | null): Promise<boolean> {
    if (wanted === null) return false;
    const tasks = ofTasks(wanted.tasks);
    const looks = queuesOf(wanted).map((queue) => fill(statements.anyPending, queue, tasks));
    return allRows(await this.#sessions.read(looks, "arrays")).length > 0;
  }

  /** Adds statements that read the database's clock, once for all others. Returns the place of the answer. */
  #addClock(exchange: Exchange): number {
    return (
      exchange.add(`set @holdfast_now = ${this.#engine.nowText()}`, "select @holdfast_now") + 1
    );
  }

  async #cycle(
    exchange: Exchange,
    settlements: readonly Settlement[],
    wanted: Claiming | null,
  ): Promise<CycleResult> {
    const nowAt = this.#addClock(exchange);
    const { isCounted, leasesAt } = addLeases(exchange, settlements);
    // Jobs that are handed back in this cycle may be claimed again in it; then settling comes first.
    const handsBack = settlements.some(({ outcome }) => outcome.kind === "released");
    const names = wanted === null ? [] : queuesOf(wanted);
    const governedAt = exchange.add(
      ...(names.length === 0 ? [] : [fill(statements.governed, list(names))]),
    );
    const look = wanted === null ? [] : firstLook(wanted);
    const lookAt = exchange.add(...(handsBack ? [] : look));
    const guarded = wanted?.guarded === true;
    const guardAt = exchange.add(...(guarded ? [fill(statements.guard, wanted.worker)] : []));
    const answers = await exchange.send("arrays");
    const now = numberIn(answers[nowAt]) as number;
    const about = answers.slice(leasesAt, governedAt);
    const settled = await this.#settle(exchange, settlements, { about, isCounted, now });
    const isEvicted = guarded && allRows(answers.slice(guardAt)).length === 0;
    if (wanted === null || isEvicted) return { settled, claimed: [], governed: [] };
    const governed = allRows<[string]>(answers.slice(governedAt, lookAt)).map(([name]) => name);
    // Jobs that were looked at stay locked until the commit, and are not taken.
    const open = { ...wanted, queues: names.filter((name) => !governed.includes(name)) };
    if (open.queues.length === 0) return { settled, claimed: [], governed };
    const looked =
      handsBack || governed.length > 0
        ? await sendLast(exchange, firstLook(open))
        : answers.slice(lookAt, guardAt);
    const picked = await pick(exchange, open, looked);
    const claimed = await claim(exchange, open, { picked, now }, { commits: true });
    return { settled, claimed, governed };
  }

  /** If not all leases were counted, they are read one by one: one has a stale fence, a key or a requested cancel. */
  async #settle(
    exchange: Exchange,
    settlements: readonly Settlement[],
    { about, isCounted, now }: { about: readonly Answer[]; isCounted: boolean; now: number },
  ): Promise<Settled[]> {
    const counts = isCounted ? allRows<[leases: number, lanes: number]>(about) : [];
    const counted = counts.reduce((sum, [leases]) => sum + leases, 0);
    if (isCounted && counted === settlements.length) {
      const ids = settlements.map(({ id }) => id);
      const deleting = deletion(counts.some(([, lanes]) => lanes > 0));
      for (const group of inGroups(ids)) {
        exchange.add(fill(statements.copyToFinished, now, jsonList(group)));
        exchange.add(fill(deleting, jsonList(group)));
      }
      return settlements.map(settledAsClaimed);
    }
    const texts = isCounted ? aboutLeases(statements.lockLeases, settlements) : [];
    const rows = allRows<Locked>(isCounted ? await sendLast(exchange, texts) : about);
    return settle({ exchange, engine: this.#engine }, settlements, { rows, now });
  }

  #extend(fences: readonly Fence[], leaseMs: number, locking: string): Promise<Extended[]> {
    return this.#sessions.transaction(async (exchange) => {
      const nowAt = this.#addClock(exchange);
      exchange.add(...aboutLeases(locking, fences));
      const answers = await exchange.send("arrays");
      const now = numberIn(answers[nowAt]) as number;
      const rows = allRows<Locked>(answers.slice(nowAt + 1));
      const extended = extend(exchange, fences, { rows, now, leaseMs });
      exchange.commit();
      await exchange.send("arrays");
      return extended;
    });
  }

  /** By what is committed, without waiting for locks. */
  async #stillOurs(fences: readonly Fence[]): Promise<Fence[]> {
    const answers = await this.#sessions.read(aboutLeases(statements.seeLeases, fences), "arrays");
    return current(fences, allRows<Locked>(answers)).map(({ fence }) => fence);
  }
}

// Leases under lock, to settle or to extend. The fence is compared here, and only here.

/** A row of `lockLeases`. */
type Locked = [
  ...job: JobValues,
  lockedBy: string,
  lockedUntil: number,
  claimedAt: number,
  cancelRequestedAt: number | null,
];

/** Statements about the leases of these fences. The ids are sorted, so that all transactions lock rows in one order. */
function aboutLeases(
  text: string,
  fences: readonly Fence[],
  same: SameFence | null = null,
): string[] {
  const ids = [...new Set(fences.map(({ id }) => id))].toSorted();
  const values = same === null ? [] : [same.worker, same.epoch];
  return [...inGroups(ids)].map((group) => fill(text, jsonList(group), ...values));
}

/** Locks the leases of attempts that ended. Those of jobs that are all simply done need only be counted. */
function addLeases(
  exchange: Exchange,
  settlements: readonly Settlement[],
): { isCounted: boolean; leasesAt: number } {
  const same = sameFence(settlements);
  const text = same === null ? statements.lockLeases : statements.countLeases;
  const leasesAt = exchange.add(...aboutLeases(text, settlements, same));
  return { isCounted: same !== null, leasesAt };
}

type SameFence = Pick<Fence, "worker" | "epoch">;

/** The worker and epoch of jobs that are all done without a result and known from their claim; null: they differ. */
function sameFence(settlements: readonly Settlement[]): SameFence | null {
  const [first] = settlements;
  if (first === undefined) return null;
  const { worker, epoch } = first;
  const isSame = ({ outcome, claimed, ...fence }: Settlement): boolean =>
    fence.worker === worker &&
    fence.epoch === epoch &&
    claimed !== undefined &&
    isPlainEnd(outcome) &&
    outcome.result === null;
  return settlements.every(isSame) ? { worker, epoch } : null;
}

/** Pairs every current fence with its lease. A fence that is given twice counts once. */
function current<F extends Fence>(
  fences: readonly F[],
  rows: readonly Locked[],
): { fence: F; lease: LeaseRow }[] {
  const locked = new Map(rows.map((row) => [row[0], row]));
  return fences.flatMap((fence) => {
    const row = locked.get(fence.id);
    if (row === undefined) return [];
    const lease = leaseRow(row);
    if (lease.locked_by !== fence.worker || lease.epoch !== fence.epoch) return [];
    locked.delete(fence.id);
    return [{ fence, lease }];
  });
}

function leaseRow(row: Locked): LeaseRow {
  const [id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, ...own] = row;
  const [lane, locked_by, locked_until, claimed_at, cancel_requested_at] = own;
  const job = { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane };
  return { ...job, locked_by, locked_until, claimed_at, cancel_requested_at };
}

/** Adds the statements that end the attempts whose fences are current, and returns these attempts. */
function settle(
  { exchange, engine }: { exchange: Exchange; engine: Engine },
  settlements: readonly Settlement[],
  { rows, now }: { rows: readonly Locked[]; now: number },
): Settled[] {
  const ours = current(settlements, rows).map(({ fence, lease }) => ({
    lease,
    destination: nextRow(engine, lease, fence.outcome, now),
  }));
  const destinations = ours.map(({ destination }) => destination);
  const deleting = deletion(ours.some(({ lease }) => lease.lane !== null));
  move(exchange, destinations, { deleting, now });
  return ours.map(({ lease, destination }) => describe(lease, destination));
}

function deletion(hasLanes: boolean): string {
  return hasLanes ? statements.deleteLanes : statements.deleteLeases;
}

/** Deletes a lease before its job enters another table: a trigger refuses a second row of a leased job. */
function move(
  exchange: Exchange,
  destinations: readonly Destination[],
  { deleting, now }: { deleting: string; now: number },
): void {
  for (const group of inGroups(idsOf(destinations.filter(isPlain)))) {
    exchange.add(fill(statements.copyToFinished, now, jsonList(group)));
  }
  for (const group of inGroups(idsOf(destinations))) {
    exchange.add(fill(deleting, jsonList(group)));
  }
  for (const table of ["ready", "waiting", "finished"] as const) {
    const rows = destinations.filter(
      (destination) => destination.table === table && !isPlain(destination),
    );
    exchange.add(
      ...insertRows(
        table,
        rows.map(({ row }) => asRow(row)),
      ),
    );
  }
  const attempts = destinations.flatMap((destination) =>
    destination.table === "finished" ? [] : [asRow(destination.attempt)],
  );
  exchange.add(...insertRows("attempt", attempts));
  const ended = destinations.filter(
    ({ table, row }) => table === "finished" && row.job_key !== null,
  );
  for (const group of inGroups(idsOf(ended))) {
    exchange.add(fill(statements.deleteKeys, jsonList(group)));
  }
}

/** Done, without a result. */
function isPlain({ table, row }: Destination): boolean {
  if (table !== "finished" || row.status !== "done") return false;
  return row.result === null && row.error === null;
}

function idsOf(destinations: readonly Destination[]): string[] {
  return destinations.map(({ row }) => row.id);
}

/** Adds the statements that extend the leases whose fences are current, and returns these leases. */
function extend(
  exchange: Exchange,
  fences: readonly Fence[],
  { rows, now, leaseMs }: { rows: readonly Locked[]; now: number; leaseMs: number },
): Extended[] {
  const until = now + leaseMs;
  const ours = current(fences, rows);
  for (const group of inGroups(ours.map(({ lease }) => lease.id))) {
    exchange.add(fill(statements.extendLeases, until, now, list(group)));
  }
  return ours.map(({ fence: { id, worker, epoch }, lease }) => ({
    id,
    worker,
    epoch,
    lockedUntil: Math.max(lease.locked_until, until),
    cancelRequested: lease.cancel_requested_at !== null,
  }));
}
