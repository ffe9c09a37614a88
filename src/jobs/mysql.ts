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
  fill,
  inGroups,
  insertRows,
  jsonList,
  list,
  nothing,
  RawSql,
} from "../database/mysql/literals.ts";
import { allRows, type Answer, numberIn } from "../database/mysql/session.ts";
import type { Exchange, Sessions } from "../database/mysql/sessions.ts";
import { insertJobs } from "./mysql-insert.ts";
import { statements } from "./mysql-statements.ts";
import { type Destination, type JobValues, type LeaseRow, nextRow } from "./rows.ts";
import { settled as describe } from "./settle.ts";
import {
  claimBoth,
  type ClaimedJob,
  type Claiming,
  type CycleResult,
  type Enqueued,
  type Extended,
  type GovernedTurn,
  type JobStatements,
  type LaneClaims,
  type LockedJob,
  type NewJob,
  type Settled,
  type Wanted,
} from "./store.ts";

/** Looks of a claim that finds only locked jobs: another transaction may have released them in the meantime. */
const ROUNDS_MAX = 3;

/** A row of `lockReady`. */
type Pending = [...job: JobValues, readyAt: number, place: number];

interface LockedRow extends LockedJob {
  readonly row: Pending;
}

/** A row of `peek`. */
type Peeked = [id: string, queue: string, place: number];

function lockReady(queue: string, { tasks }: Wanted, limit: number): string {
  return fill(statements.lockReady, queue, ofTasks(tasks), limit);
}

function ofTasks(tasks: readonly string[] | null): RawSql {
  return tasks === null ? nothing : new RawSql(`and task in (${list(tasks).text})`);
}

/**
 * The first statements of a claim. From one queue it locks jobs at once. From several it first counts how many of the next
 * jobs each has, and locks only these: a job that is locked but not claimed looks taken to other workers.
 */
function firstLook(wanted: Wanted): string[] {
  const [queue, ...others] = queuesOf(wanted);
  if (queue === undefined) return [];
  return others.length === 0 ? [lockReady(queue, wanted, wanted.limit)] : peeks(wanted);
}

/** Locks the jobs to claim, starting with those of the first look. */
async function pick(
  exchange: Exchange,
  wanted: Wanted,
  looked: readonly Answer[],
): Promise<Pending[]> {
  const alone = queuesOf(wanted).length === 1;
  let picked = alone
    ? allRows<Pending>(looked)
    : await lockShares(exchange, wanted, sharesIn(looked, wanted.limit));
  for (let round = 1; round < ROUNDS_MAX && picked.length === 0; round += 1) {
    const shares = await peek(exchange, wanted);
    if (shares.size === 0) return [];
    picked = await lockShares(exchange, wanted, shares);
  }
  return alone ? picked : picked.toSorted(inClaimOrder);
}

/** Locks each queue's share. Any queue that has more makes up for jobs that other workers took. */
async function lockShares(
  exchange: Exchange,
  wanted: Wanted,
  shares: ReadonlyMap<string, number>,
): Promise<Pending[]> {
  const picked = await lockEach(exchange, wanted, shares);
  const expected = [...shares.values()].reduce((sum, share) => sum + share, 0);
  for (const queue of queuesOf(wanted)) {
    const missing = expected - picked.length;
    if (missing === 0) break;
    // Jobs that are locked here already are found again, and new jobs may come before them.
    const ours = new Set(picked.filter((row) => row[1] === queue).map(([id]) => id));
    const again = await lockEach(exchange, wanted, new Map([[queue, ours.size + missing]]));
    picked.push(...again.filter(([id]) => !ours.has(id)).slice(0, missing));
  }
  return picked;
}

async function lockEach(
  exchange: Exchange,
  wanted: Wanted,
  shares: ReadonlyMap<string, number>,
): Promise<Pending[]> {
  if (shares.size === 0) return [];
  for (const [queue, share] of shares) exchange.add(lockReady(queue, wanted, share));
  const answers = await exchange.send("arrays");
  return [...allRows<Pending>(answers.slice(-shares.size))];
}

async function peek(exchange: Exchange, wanted: Wanted): Promise<Map<string, number>> {
  const texts = peeks(wanted);
  exchange.add(...texts);
  const answers = await exchange.send("arrays");
  return sharesIn(answers.slice(-texts.length), wanted.limit);
}

function peeks(wanted: Wanted): string[] {
  const tasks = ofTasks(wanted.tasks);
  return queuesOf(wanted).map((queue) => fill(statements.peek, queue, tasks, wanted.limit));
}

/** How many of the first jobs of all queues each queue has. */
function sharesIn(answers: readonly Answer[], limit: number): Map<string, number> {
  const first = allRows<Peeked>(answers).toSorted(byPlace).slice(0, limit);
  const shares = new Map<string, number>();
  for (const [, queue] of first) shares.set(queue, (shares.get(queue) ?? 0) + 1);
  return shares;
}

function queuesOf({ queues }: Wanted): string[] {
  return [...new Set(queues)];
}

function byPlace(a: Peeked, b: Peeked): number {
  return a[2] - b[2] || (a[0] < b[0] ? -1 : 1);
}

const LANE = 9;

const PLACE = 11;

function inClaimOrder(a: Pending, b: Pending): number {
  return a[PLACE] - b[PLACE] || (a[0] < b[0] ? -1 : 1);
}

interface ClaimKind {
  readonly commits?: boolean;
  readonly copy?: "copyToLease" | "copyLanesToLease";
}

/** Moves the picked jobs under leases, together with the other statements of the exchange. */
async function claim(
  exchange: Exchange,
  { worker, leaseMs, claimId }: Claiming,
  { picked, now }: { picked: readonly Pending[]; now: number },
  { commits = false, copy = "copyToLease" }: ClaimKind = {},
): Promise<ClaimedJob[]> {
  const lockedUntil = now + leaseMs;
  // The clock was read before the rows were locked, and some may have become pending in between: none starts before that. A
  // clock that was set back must not count, so not after the end of the lease either.
  const claimedAt = picked.reduce(
    (at, [, , , , , , , , , , readyAt]) => Math.max(at, readyAt),
    now,
  );
  const startedAt = Math.min(claimedAt, lockedUntil);
  const ids = picked.map(([id]) => id).toSorted();
  const groups = [...inGroups(ids)].map(jsonList);
  for (const group of groups) {
    const lease = [worker, lockedUntil, startedAt, startedAt, claimId];
    exchange.add(fill(statements[copy], ...lease, group));
    exchange.add(fill(statements.deleteReady, group));
  }
  const from = exchange.add(...groups.map((group) => fill(statements.readJobs, group)));
  if (commits) exchange.commit();
  const answers = await exchange.send("arrays");
  const read = allRows<[string, string, number]>(answers.slice(from, from + groups.length));
  const jobs = new Map(read.map(([id, payload, enqueuedAt]) => [id, { payload, enqueuedAt }]));
  return picked.flatMap((row) => {
    const [id, queue, task, rank, , epoch, attempts, crashes, maxAttempts, , readyAt] = row;
    const job = jobs.get(id);
    if (job === undefined) return []; // deleted by hand: its lease will expire
    return [
      {
        id,
        worker,
        epoch: epoch + 1,
        queue,
        task,
        payload: job.payload,
        priority: 0 - rank,
        attempt: attempts + 1,
        maxAttempts,
        crashes,
        enqueuedAt: job.enqueuedAt,
        readyAt,
        lockedUntil,
      },
    ];
  });
}

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
      return this.#sessions.transaction((exchange) =>
        this.#cycleWithTurn(exchange, settlements, { wanted: claiming, turn }),
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
    const claims = this.#laneClaims(exchange);
    return { settled, claimed: await claimBoth(wanted.limit, claims, turn, plain), governed };
  }

  #laneClaims(exchange: Exchange): LaneClaims<LockedRow> {
    return {
      tx: this.#engine.transactionOn(exchange),
      lock: async ({ queue, tasks, lanes, nowMs }) => {
        const looks = lanes.map(({ lane, limit }) =>
          fill(statements.lockLane, queue, lane, nowMs, ofTasks(tasks), limit),
        );
        const rows = allRows<Pending>(await sendLast(exchange, looks));
        return rows.map((row) => ({ id: row[0], task: row[2], lane: row[LANE] ?? "", row }));
      },
      lease: (jobs, claiming, now) => {
        const picked = jobs.map(({ row }) => row);
        return claim(exchange, claiming, { picked, now }, { copy: "copyLanesToLease" });
      },
    };
  }

  async #settleFirst(
    exchange: Exchange,
    settlements: readonly Settlement[],
    wanted: Claiming,
  ): Promise<{ settled: Settled[]; isEvicted: boolean }> {
    const guarded = wanted.guarded === true;
    const nowAt = this.#addClock(exchange);
    const leasesAt = exchange.add(...aboutLeases(statements.lockLeases, settlements));
    const guardAt = exchange.add(...(guarded ? [fill(statements.guard, wanted.worker)] : []));
    const answers = await exchange.send("arrays");
    const now = numberIn(answers[nowAt]) as number;
    const rows = allRows<Locked>(answers.slice(leasesAt, guardAt));
    const settled = settle({ exchange, engine: this.#engine }, settlements, { rows, now });
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
    const leasesAt = exchange.add(...aboutLeases(statements.lockLeases, settlements));
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
    const rows = allRows<Locked>(answers.slice(leasesAt, governedAt));
    const settled = settle({ exchange, engine: this.#engine }, settlements, { rows, now });
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

/** Sends the gathered statements and these; returns the answers of these. */
async function sendLast(exchange: Exchange, texts: readonly string[]): Promise<Answer[]> {
  const at = exchange.add(...texts);
  return (await exchange.send("arrays")).slice(at);
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
function aboutLeases(text: string, fences: readonly Fence[]): string[] {
  const ids = [...new Set(fences.map(({ id }) => id))].toSorted();
  return [...inGroups(ids)].map((group) => fill(text, jsonList(group)));
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
  move(exchange, destinations, now);
  return ours.map(({ lease, destination }) => describe(lease, destination));
}

/** Deletes a lease before its job enters another table: a trigger refuses a second row of a leased job. */
function move(exchange: Exchange, destinations: readonly Destination[], now: number): void {
  for (const group of inGroups(idsOf(destinations.filter(isPlain)))) {
    exchange.add(fill(statements.copyToFinished, now, jsonList(group)));
  }
  for (const group of inGroups(idsOf(destinations))) {
    exchange.add(fill(statements.deleteLeases, jsonList(group)));
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
  return table === "finished" && row.status === "done" && row.result === null;
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
