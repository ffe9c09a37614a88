/** Insert, claim, settle and extend on SQLite. Each runs inside a transaction that its caller has opened. */
import type { StatementSync } from "node:sqlite";
import type { Fence, Settlement } from "../../core/job.ts";
import { settled as describe } from "../jobs.ts";
import { land, type Landing, type LeaseRow, type ReadyRow } from "../rows.ts";
import type { ClaimedJob, Enqueued, Extended, NewJob, Settled, Wanted } from "../store.ts";
import type { Connection } from "./connection.ts";
import { statements } from "./statements.ts";

type Prepared = { readonly [name in keyof typeof statements]: StatementSync };

export class HotStatements {
  readonly #sql: Prepared;

  constructor(connection: Connection) {
    const prepared = Object.entries(statements).map(([name, text]) => [
      name,
      connection.prepare(text),
    ]);
    this.#sql = Object.fromEntries(prepared) as Prepared;
  }

  insert(jobs: readonly NewJob[], now: number): Enqueued[] {
    return jobs.map((job) => {
      const holder = job.key === null ? null : this.#holdKey(job, job.key);
      if (holder !== null && holder !== job.id) return { id: holder, added: false };
      return { id: job.id, added: this.#insertOne(job, now) };
    });
  }

  claim(wanted: Wanted, now: number): ClaimedJob[] {
    const lockedUntil = now + wanted.leaseMs;
    return this.#peek(wanted).map((row) => this.#claimOne(row, wanted.worker, now, lockedUntil));
  }

  anyPending(queues: readonly string[]): boolean {
    return queues.some((queue) => this.#sql.peek.get(queue, 1) !== undefined);
  }

  settle(settlements: readonly Settlement[], now: number): Settled[] {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      const { id, worker, epoch, outcome } = settlement;
      const taken = this.#sql.takeLease.get(id, worker, epoch);
      if (taken === undefined) continue;
      const row = taken as unknown as LeaseRow;
      const lease = { ...row, id, epoch, locked_by: worker };
      const landing = land(lease, outcome, now);
      this.#put(landing);
      settled.push(describe(lease, landing));
    }
    return settled;
  }

  extend(fences: readonly Fence[], leaseMs: number, now: number): Extended[] {
    const extended: Extended[] = [];
    for (const { id, worker, epoch } of fences) {
      const row = this.#sql.extendLease.get(now + leaseMs, now, id, worker, epoch);
      if (row === undefined) continue;
      extended.push({
        id,
        worker,
        epoch,
        lockedUntil: row["locked_until"] as number,
        cancelRequested: row["cancel_requested_at"] !== null,
      });
    }
    return extended;
  }

  /** The id that holds the key from now on: this job's, or that of the live job that had it before. */
  #holdKey(job: NewJob, key: string): string {
    this.#sql.insertKey.run(job.task, key, job.id);
    return this.#sql.findKey.get(job.task, key)?.["job_id"] as string;
  }

  #insertOne(job: NewJob, now: number): boolean {
    const { id, queue, task, key, attemptsMax } = job;
    const rank = 0 - job.priority;
    const { insertJob, insertReady, insertWaiting } = this.#sql;
    const { changes } = insertJob.run(id, queue, task, job.payload, rank, attemptsMax, key, now);
    if (changes === 0) return false;
    const dueAt = dueTime(job, now);
    if (dueAt <= now) insertReady.run(id, queue, task, rank, key, 0, 0, 0, attemptsMax, now);
    else insertWaiting.run(id, queue, task, rank, key, 0, 0, 0, attemptsMax, "scheduled", dueAt);
    return true;
  }

  #peek({ queues, tasks, limit }: Wanted): ReadyRow[] {
    const rows = queues.flatMap((queue) => {
      const found =
        tasks === null
          ? this.#sql.peek.all(queue, limit)
          : this.#sql.peekTasks.all(queue, JSON.stringify(tasks), limit);
      return found as unknown as ReadyRow[];
    });
    return queues.length === 1 ? rows : rows.toSorted(inClaimOrder).slice(0, limit);
  }

  #claimOne(row: ReadyRow, worker: string, now: number, lockedUntil: number): ClaimedJob {
    const { id, queue, task, rank, crashes } = row;
    const epoch = row.epoch + 1;
    const attempt = row.attempts + 1;
    const attemptsMax = row.max_attempts;
    this.#sql.deleteReady.run(queue, rank, row.ready_at, id);
    this.#sql.insertLease.run(
      ...[id, queue, task, rank, row.job_key, epoch, attempt, crashes, attemptsMax],
      ...[worker, lockedUntil, now, now],
    );
    const job = this.#sql.readJob.get(id) as { payload: string; enqueued_at: number };
    return {
      id,
      worker,
      epoch,
      queue,
      task,
      payload: job.payload,
      priority: 0 - rank,
      attempt,
      attemptsMax,
      crashes,
      enqueuedAt: job.enqueued_at,
      lockedUntil,
    };
  }

  #put(landing: Landing): void {
    const { id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts } = landing.row;
    const travels = [id, queue, task, rank, job_key, epoch, attempts, crashes, max_attempts];
    if (landing.table === "finished") {
      const { status, worker, started_at, finished_at, result, error } = landing.row;
      const ends = [status, worker, started_at, finished_at, result, error];
      this.#sql.insertFinished.run(...travels, ...ends);
      if (job_key !== null) this.#sql.deleteKey.run(task, job_key);
      return;
    }
    if (landing.table === "ready") this.#sql.insertReady.run(...travels, landing.row.ready_at);
    else this.#sql.insertWaiting.run(...travels, landing.row.status, landing.row.due_at);
    const attempt = landing.attempt;
    this.#sql.insertAttempt.run(
      ...[attempt.job_id, attempt.epoch, attempt.attempt, attempt.worker, attempt.outcome],
      ...[attempt.started_at, attempt.ended_at, attempt.error],
    );
  }
}

function dueTime(job: NewJob, now: number): number {
  if (job.start === null) return now;
  return "at" in job.start ? job.start.at : now + job.start.delayMs;
}

function inClaimOrder(a: ReadyRow, b: ReadyRow): number {
  return a.rank - b.rank || a.ready_at - b.ready_at || (a.id < b.id ? -1 : 1);
}
