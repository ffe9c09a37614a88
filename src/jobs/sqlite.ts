/**
 * Insert, claim, settle and extend on SQLite. Each runs inside a transaction that its caller has opened.
 *
 * Rows are read as arrays and written by position: with objects, the driver spends more time on the column names than
 * SQLite does on the row.
 */
import type { StatementSync } from "node:sqlite";
import type { Fence, Settlement } from "../core/job.ts";
import { bareName } from "../core/name.ts";
import type { SqliteEngine } from "../database/sqlite/engine.ts";
import {
  type Destination,
  dueTime,
  type EndingLease,
  isAlike,
  type JobValues,
  laneName,
  nextRow,
  shiftOf,
  startByTime,
} from "./rows.ts";
import { settled as describe } from "./settle.ts";
import { statements } from "./sqlite-statements.ts";
import {
  claimBoth,
  type ClaimedJob,
  type Claiming,
  type CycleResult,
  type Enqueued,
  type Extended,
  type JobStatements,
  type LaneClaims,
  type LanesWanted,
  type LockedJob,
  type NewJob,
  type Settled,
  type Wanted,
} from "./store.ts";

type Prepared = { readonly [name in keyof typeof statements]: StatementSync };

/** A row of `peek`, and of `peekQueue`, which also reads the job. */
type Pending = [...job: JobValues, readyAt: number, place: number, ...input: Input | []];

type Input = [payload: string, enqueuedAt: number];

interface LockedRow extends LockedJob {
  readonly row: Pending;
}

/** A row of `findLease`: the columns that are not in the fence. */
type Taken = [
  queue: string,
  task: string,
  rank: number,
  jobKey: string | null,
  attempts: number,
  crashes: number,
  maxAttempts: number,
  lane: string | null,
  claimedAt: number,
  cancelRequestedAt: number | null,
];

/** Prepared at first use: before the migrations have run there are no tables. */
export function sqliteStatements(engine: SqliteEngine): JobStatements {
  const { connection, runtime } = engine;
  let prepared: HotStatements | null = null;
  const hot = (): HotStatements => (prepared ??= new HotStatements(engine));
  return {
    insert: (jobs) => connection.write(() => hot().insert(jobs, runtime.now())),

    async settleAndClaim(settlements, wanted, turn) {
      if (settlements.length === 0 && wanted !== null && turn === undefined) {
        // An idle worker looks without the write lock, which it would take from busy workers.
        const look = (): boolean => hot().anyPending(wanted.queues);
        if (!(await connection.read(look))) return { settled: [], claimed: [], governed: [] };
      }
      if (turn === undefined) {
        return connection.write(() => hot().cycle(settlements, wanted, runtime.now()));
      }
      return connection.transaction(async () => {
        const now = runtime.now();
        const settled = hot().settle(settlements, now);
        if (wanted === null || hot().isEvicted(wanted)) {
          return { settled, claimed: [], governed: [] };
        }
        const governed: string[] = [];
        const plain = (limit: number): ClaimedJob[] => {
          const cycle = hot().cycle([], { ...wanted, limit }, now);
          governed.push(...cycle.governed);
          return cycle.claimed;
        };
        const claims: LaneClaims<LockedRow> = {
          tx: engine.transactionInside,
          runLast: (queries) => engine.transactionInside.runAll(queries),
          lock: async (lanes) => hot().lockLanes(lanes),
          lease: async (jobs, claiming, nowMs) => hot().lease(jobs, claiming, nowMs),
        };
        const claimed = await claimBoth(wanted.limit, claims, turn, plain);
        return { settled, claimed, governed };
      });
    },

    extend: (fences, leaseMs) =>
      connection.write(() => hot().extend(fences, leaseMs, runtime.now())),
  };
}

const ALIKE_MIN = 8; // for fewer jobs, the two extra statements cost more than they save

export class HotStatements {
  readonly #engine: SqliteEngine;
  readonly #sql: Prepared;

  constructor(engine: SqliteEngine) {
    const { connection } = engine;
    this.#engine = engine;
    const prepared = Object.entries(statements).map(([name, text]) => {
      const statement = connection.prepare(text);
      statement.setReturnArrays(true);
      return [name, statement];
    });
    this.#sql = Object.fromEntries(prepared) as Prepared;
  }

  insert(jobs: readonly NewJob[], now: number): Enqueued[] {
    const [first] = jobs;
    if (first !== undefined && jobs.length >= ALIKE_MIN && jobs.every((job) => isAlike(job, first)))
      return this.#insertAlike(jobs, first, now);
    return jobs.map((job) => {
      if (job.key === null) return { id: job.id, added: this.#insertOne(job, now) };
      // A repeated call must not touch the key: its job may have finished, and another may hold it.
      if (this.#sql.readJob.get(job.id) !== undefined) return { id: job.id, added: false };
      const holder = this.#holdKey(job, job.key, now);
      if (holder !== job.id) return { id: holder, added: false };
      return { id: job.id, added: this.#insertOne(job, now) };
    });
  }

  anyPending(queues: readonly string[]): boolean {
    return queues.some((queue) => this.#sql.anyPending.get(queue) !== undefined);
  }

  /** Whether the claim requires a registered worker, and its worker is not registered any more. */
  isEvicted({ guarded, worker }: Claiming): boolean {
    return guarded === true && this.#sql.guard.get(worker) === undefined;
  }

  claim(wanted: Claiming, now: number): ClaimedJob[] {
    return this.#peek(wanted, now).map((row) => this.#claimOne(row, null, wanted, now));
  }

  /** A transaction that writes is alone: the rows need no lock. */
  lockLanes({ queue, tasks, lanes, nowMs }: LanesWanted): LockedRow[] {
    return lanes.flatMap(({ lane, limit }) =>
      this.#peekLane({ queue, lane, tasks, limit }, nowMs).map((row) => {
        const [id, , task] = row;
        return { id, task, lane, row };
      }),
    );
  }

  lease(jobs: readonly LockedRow[], claiming: Claiming, now: number): ClaimedJob[] {
    return jobs.map(({ row, lane }) => this.#claimOne(row, laneName(lane) ?? "", claiming, now));
  }

  cycle(settlements: readonly Settlement[], wanted: Claiming | null, now: number): CycleResult {
    const settled = this.settle(settlements, now);
    if (wanted === null || this.isEvicted(wanted)) return { settled, claimed: [], governed: [] };
    const isGoverned = (queue: string): boolean => this.#sql.governed.get(queue) !== undefined;
    const [governed, plain] = [[] as string[], [] as string[]];
    for (const queue of new Set(wanted.queues)) (isGoverned(queue) ? governed : plain).push(queue);
    return { settled, claimed: this.claim({ ...wanted, queues: plain }, now), governed };
  }

  settle(settlements: readonly Settlement[], now: number): Settled[] {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      const lease = this.#takeLease(settlement);
      if (lease === null) continue;
      const destination = nextRow(this.#engine, lease, settlement.outcome, now);
      this.#put(destination);
      settled.push(describe(lease, destination));
    }
    return settled;
  }

  extend(fences: readonly Fence[], leaseMs: number, now: number): Extended[] {
    const extended: Extended[] = [];
    const known = new Set<string>();
    for (const { id, worker, epoch } of fences) {
      if (known.has(id)) continue;
      const row = this.#sql.extendLease.get(now + leaseMs, now, id, worker, epoch);
      if (row === undefined) continue;
      const [lockedUntil, cancelAt] = row as unknown as [number, number | null];
      known.add(id);
      extended.push({ id, worker, epoch, lockedUntil, cancelRequested: cancelAt !== null });
    }
    return extended;
  }

  /** The id that holds the key from now on: this job's, or that of the job that has it already. */
  #holdKey({ id, keyForMs = null, ...job }: NewJob, key: string, now: number): string {
    const task = bareName(job.task);
    const { findKey, findKept, insertKey, keepKey } = this.#sql;
    const found = findKey.get(task, key) ?? findKept.get(task, key, now);
    if (found !== undefined) return (found as unknown as [string])[0];
    insertKey.run(task, key, id);
    if (keyForMs !== null) keepKey.run(task, key, id, keyForMs);
    return id;
  }

  /** One statement makes them all pending: a fifth faster than one for each. */
  #insertAlike(jobs: readonly NewJob[], { queue, priority }: NewJob, now: number): Enqueued[] {
    const [last] = this.#sql.lastJob.get() as unknown as [number];
    const enqueued = jobs.map((job) => ({ id: job.id, added: this.#insertJob(job, now) }));
    this.#sql.insertNewSince.run(shiftOf(this.#engine, queue, 0 - priority), last);
    return enqueued;
  }

  #insertJob(job: NewJob, now: number): boolean {
    const { id, queue, task, payload, maxAttempts: most, key } = job;
    const rank = 0 - job.priority;
    return this.#sql.insertJob.run(id, queue, task, payload, rank, most, key, now).changes > 0;
  }

  #insertOne(job: NewJob, now: number): boolean {
    if (!this.#insertJob(job, now)) return false;
    const { id, queue, task, key, maxAttempts, trace, lane = null } = job;
    const rank = 0 - job.priority;
    const { insertReady, insertWaiting, insertTrace, insertTag } = this.#sql;
    const columns = [id, queue, task, rank, key, 0, 0, 0, maxAttempts] as const;
    const [dueAt, startBy] = [dueTime(job, now), startByTime(job, now)];
    const place = now + shiftOf(this.#engine, queue, rank);
    if (dueAt <= now) insertReady.run(...columns, lane ?? "", now, place, startBy);
    else insertWaiting.run(...columns, lane, "scheduled", dueAt, startBy);
    if (trace !== undefined) insertTrace.run(id, trace.traceparent, trace.tracestate);
    for (const tag of job.tags ?? []) insertTag.run(tag, id);
    return true;
  }

  #peek({ queues, tasks, limit }: Wanted, now: number): Pending[] {
    const [queue = ""] = queues;
    if (queues.length === 1 && tasks !== null) {
      const found = this.#sql.peekQueue.all(queue, JSON.stringify(tasks), now, limit);
      return found as unknown as Pending[];
    }
    const rows = queues.flatMap((each) =>
      this.#peekLane({ queue: each, lane: "", tasks, limit }, now),
    );
    return queues.length === 1 ? rows : rows.toSorted(inClaimOrder).slice(0, limit);
  }

  #peekLane({ queue, lane, tasks, limit }: LaneWanted, now: number): Pending[] {
    const found =
      tasks === null
        ? this.#sql.peek.all(queue, lane, now, limit)
        : this.#sql.peekTasks.all(queue, lane, JSON.stringify(tasks), now, limit);
    return found as unknown as Pending[];
  }

  /** The lane is null in a queue without rules. */
  #claimOne(
    row: Pending,
    lane: string | null,
    { worker, leaseMs, claimId }: Claiming,
    now: number,
  ): ClaimedJob {
    const lockedUntil = now + leaseMs;
    const [id, queue, task, rank, key, epochs, attempts, crashes, maxAttempts, , readyAt] = row;
    const epoch = epochs + 1;
    const attempt = attempts + 1;
    this.#sql.deleteReady.run(id);
    // One argument after the other, here and below: spreading a list is slower.
    this.#sql.insertLease.run(
      id,
      queue,
      task,
      rank,
      key,
      epoch,
      attempt,
      crashes,
      maxAttempts,
      lane,
      worker,
      lockedUntil,
      now,
      now,
      claimId,
    );
    const [payload, enqueuedAt] = hasInput(row)
      ? [row[PAYLOAD], row[ENQUEUED_AT]]
      : (this.#sql.readJob.get(id) as unknown as Input);
    return {
      id,
      worker,
      epoch,
      queue,
      task,
      payload,
      priority: 0 - rank,
      attempt,
      maxAttempts,
      crashes,
      enqueuedAt,
      readyAt,
      lockedUntil,
    };
  }

  #takeLease({ id, worker, epoch }: Fence): EndingLease | null {
    const row = this.#sql.findLease.get(id, worker, epoch);
    if (row === undefined) return null;
    this.#sql.deleteLease.run(id);
    const taken = row as unknown as Taken; // an array, contrary to the driver's types
    return {
      id,
      queue: taken[0],
      task: taken[1],
      rank: taken[2],
      job_key: taken[3],
      epoch,
      attempts: taken[4],
      crashes: taken[5],
      max_attempts: taken[6],
      lane: taken[7],
      locked_by: worker,
      claimed_at: taken[8],
      cancel_requested_at: taken[9],
    };
  }

  #put(destination: Destination): void {
    const { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts, lane } =
      destination.row;
    if (destination.table === "finished") {
      const { status, worker, started_at, finished_at, result, error, error_kind } =
        destination.row;
      this.#sql.insertFinished.run(
        id,
        queue,
        task,
        rank,
        job_key,
        epoch,
        attempts,
        crashes,
        max_attempts,
        lane,
        status,
        worker,
        started_at,
        finished_at,
        result,
        error,
        error_kind,
      );
      if (job_key !== null) this.#sql.deleteKey.run(bareName(task), job_key, id);
      return;
    }
    const counts = [epoch, attempts, crashes, max_attempts] as const;
    const job: JobValues = [id, queue, task, rank, job_key, ...counts, lane];
    const { row, attempt } = destination;
    if ("ready_at" in row) {
      this.#sql.insertReady.run(...job, row.ready_at, row.place, row.start_by);
    } else {
      this.#sql.insertWaiting.run(...job, row.status, row.due_at, row.start_by);
    }
    const { worker, outcome, started_at, ended_at, error, error_kind } = attempt;
    const ended = [worker, outcome, started_at, ended_at, error, error_kind];
    this.#sql.insertAttempt.run(id, attempt.epoch, attempt.attempt, ...ended);
  }
}

type LaneWanted = Pick<LanesWanted, "queue" | "tasks"> & { lane: string; limit: number };

/** Columns of `Pending`. */
const PLACE = 11;
const PAYLOAD = 12;
const ENQUEUED_AT = 13;
const ID = 0;

function hasInput(
  row: Pending,
): row is [...job: JobValues, readyAt: number, place: number, ...input: Input] {
  return row.length > PAYLOAD;
}

function inClaimOrder(a: Pending, b: Pending): number {
  return a[PLACE] - b[PLACE] || (a[ID] < b[ID] ? -1 : 1);
}
