/** The verbs about jobs on any SQL engine: the hot ones are the engine's, the rest is written once in this folder. */
import type { OperatorEntry } from "../audit/operator.ts";
import { actOrLookUp } from "../audit/store.ts";
import { JobNotFoundError, StoreBusyError, StoreRefusedError } from "../core/errors.ts";
import { isCalled } from "../core/id.ts";
import type { Fence, FinalStatus, OutageReport, Settlement, Status } from "../core/job.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import type { Engine } from "../database/engine.ts";
import * as bulk from "./bulk-store.ts";
import * as cancelling from "./cancel.ts";
import { enqueueWithPolicy, hasPolicy, SqlJobsInTransaction } from "./enqueue-policy.ts";
import type { JobHooks, MoveContext } from "./hooks.ts";
import * as inspect from "./list.ts";
import { endedSince, jobsAfter, neighbours } from "./list.ts";
import * as maintenance from "./maintenance.ts";
import { lookUpOutage } from "./outages.ts";
import {
  extendAgain,
  lookUpCompleted,
  lookUpEnqueued,
  lookUpRevived,
  lookUpSettled,
  lookUpTurn,
  lookUpWithPolicy,
  pendingAgain,
} from "./recovery.ts";
import type * as jobs from "./settle.ts";
import { settleWithDependents } from "./settle.ts";
import type {
  AttemptRecord,
  Chunk,
  ClaimedJob,
  Cursor,
  Enqueued,
  Extended,
  JobRecord,
  JobsInTransaction,
  JobsStore,
  JobStatements,
  LeaseFilter,
  ListFilter,
  NewJob,
  Settled,
  Wanted,
} from "./store.ts";

/** Rows in one transaction of a bulk enqueue: all of them are accepted or none. */
export const ENQUEUE_BATCH_MAX = 5_000;

/** Claims of one worker are told apart by a number drawn from so many. */
const CLAIM_IDS = 2 ** 48;

export class SqlJobs implements JobsStore {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #statements: JobStatements;
  readonly #context: MoveContext;

  constructor(db: Database, statements: JobStatements, hooks: readonly JobHooks[]) {
    this.#db = db;
    this.#engine = db.engine;
    this.#statements = statements;
    this.#context = { engine: db.engine, hooks };
  }

  async enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    if (news.length === 0) return [];
    if (news.some(hasPolicy)) return this.#enqueueMinding(news);
    const since = this.#engine.runtime.monotonic();
    const enqueued = await this.#db.write(
      () => this.#statements.insert(news),
      () => lookUpEnqueued(this.#statements, news),
    );
    // Also those with a time: it may be in the past by the database's clock.
    this.#hintPending(news.filter(({ start }) => inMsOf(start) === 0));
    const delays = news.filter(({ start }) => start !== null).map(({ start }) => inMsOf(start));
    this.#hintWaiting(delays, since);
    return enqueued;
  }

  async #enqueueMinding(news: readonly NewJob[]): Promise<Enqueued[]> {
    const { enqueued, hints } = await this.#db.write(
      () => enqueueWithPolicy(this.#context, news),
      () => lookUpWithPolicy(this.#context, news),
    );
    for (const hint of hints) this.#db.announce(hint);
    return enqueued;
  }

  async claim(wanted: Wanted): Promise<ClaimedJob[]> {
    const { claimed } = await this.#cycle([], wanted);
    return claimed;
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const real = settlements.filter(({ id }) => this.#engine.mayBeId(id));
    const alone = real.filter((settlement) => !concernsOthers(settlement));
    const cared = await this.#settleWithCare(real.filter(concernsOthers));
    if (alone.length === 0) return cared;
    const since = this.#engine.runtime.monotonic();
    const { settled } = await this.#cycle(alone, null);
    this.#hintSettled(settled, { settlements: alone, since });
    return [...cared, ...settled];
  }

  async settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const real = settlements.filter(({ id }) => this.#engine.mayBeId(id));
    const cared = await this.#settleWithCare(real.filter(concernsOthers));
    const alone = real.filter((settlement) => !concernsOthers(settlement));
    const since = this.#engine.runtime.monotonic();
    const { settled, claimed } = await this.#cycle(alone, wanted);
    this.#hintSettled(settled, { settlements: alone, since });
    return { settled: [...cared, ...settled], claimed };
  }

  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return extendAgain({ engine: this.#engine, statements: this.#statements }, fences, leaseMs);
  }

  release(fences: readonly Fence[]): Promise<Settled[]> {
    return this.settle(fences.map((fence) => ({ ...fence, outcome: { kind: "released" } })));
  }

  async settleCompleted(settlements: readonly Settlement[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      const lookUp = (): Promise<jobs.SettledWithDependents> =>
        lookUpCompleted(this.#context, settlement);
      try {
        settled.push(...this.#announceSettled(await this.#db.write(lookUp, lookUp)));
      } catch (error) {
        if (!(error instanceof StoreBusyError)) throw error;
      }
    }
    return settled;
  }

  /** Each by itself, as above. */
  async settleOutages(reports: readonly OutageReport[]): Promise<Settled[]> {
    const engine = this.#engine;
    const settled: Settled[] = [];
    for (const report of reports.filter(({ id }) => engine.mayBeId(id))) {
      const lookUp = (): Promise<jobs.SettledWithDependents> => lookUpOutage(this.#context, report);
      const cared = await this.#db.write(lookUp, lookUp);
      settled.push(...this.#announceSettled(cared));
    }
    return settled;
  }

  async reclaimExpired(chore: {
    graceMs: number;
    crashesMax: number;
    limit: number;
    spareLast?: boolean;
    queue?: string;
  }): Promise<Settled[]> {
    return this.#announceSettled(await maintenance.reclaimExpired(this.#context, chore));
  }

  async reclaimFrom(chore: {
    workers: readonly string[];
    crashesMax: number;
    limit: number;
  }): Promise<Settled[]> {
    if (chore.workers.length === 0) return [];
    return this.#announceSettled(await maintenance.reclaimFrom(this.#context, chore));
  }

  async promoteDue(chore: { limit: number }): Promise<number> {
    const { moved, queues } = await maintenance.promoteDue(this.#context, chore.limit);
    for (const queue of queues) this.#db.announce({ kind: "pending", queue });
    return moved;
  }

  upcoming() {
    return maintenance.upcoming(this.#engine);
  }

  async cancel(id: string, signature: OperatorEntry | null = null): Promise<Status | null> {
    const engine = this.#engine;
    if (!engine.mayBeId(id)) return null;
    const cancel = () => cancelling.cancel(this.#context, id, signature);
    const { status, queues } =
      signature === null
        ? await this.#db.write(cancel, cancel) // twice is once
        : await actOrLookUp(this.#db, signature, cancel, async ({ newStatus }) => {
            return { status: newStatus as Status, from: null, queues: [] };
          });
    for (const queue of queues) this.#db.announce({ kind: "pending", queue });
    if (status === "processing") this.#db.announce({ kind: "cancel" });
    if (status === "cancelled") this.#db.announce({ kind: "finished" });
    return status;
  }

  async revive(
    id: string,
    attempts: number,
    signature: OperatorEntry | null = null,
  ): Promise<void> {
    const engine = this.#engine;
    if (!engine.mayBeId(id)) throw new JobNotFoundError({ id });
    const revive = () => cancelling.revive(this.#context, id, attempts, signature);
    const hints =
      signature === null
        ? await this.#db.write(revive, () => lookUpRevived(this.#context, id, attempts))
        : await actOrLookUp(this.#db, signature, revive, () => pendingAgain(engine, id));
    for (const hint of hints) this.#db.announce(hint);
  }

  lookAt(at: Cursor, limit: number) {
    return bulk.lookAt(this.#engine, at, limit);
  }

  reviveAll(chunk: Chunk, attempts: number): Promise<readonly string[]> {
    return this.#changeAll(chunk, () => bulk.reviveAll(this.#context, chunk, attempts));
  }

  async cancelAll(chunk: Chunk): Promise<readonly string[]> {
    const cancelled = await this.#changeAll(chunk, () => bulk.cancelAll(this.#context, chunk));
    this.#db.announce({ kind: "cancel" });
    this.#db.announce({ kind: "finished" });
    return cancelled;
  }

  async #changeAll(chunk: Chunk, act: () => Promise<bulk.Changed>): Promise<readonly string[]> {
    const lookUp = () => bulk.changedBefore(this.#engine, chunk, act);
    const { ids, hints } = await this.#db.write(act, lookUp);
    for (const hint of hints) this.#db.announce(hint);
    return ids;
  }

  async prune(chore: { keepMs: Record<FinalStatus, number>; limit: number }): Promise<number> {
    await this.#engine.dropPartitions(Math.max(...Object.values(chore.keepMs)));
    return maintenance.prune(this.#context, chore);
  }

  async find(id: string): Promise<JobRecord | null> {
    return this.#engine.mayBeId(id) ? inspect.find(this.#engine, id) : null;
  }

  async attempts(id: string): Promise<AttemptRecord[]> {
    return this.#engine.mayBeId(id) ? inspect.attempts(this.#engine, id) : [];
  }

  findFinished(ids: readonly string[]) {
    return inspect.findFinished(
      this.#engine,
      ids.filter((id) => this.#engine.mayBeId(id)),
    );
  }

  list(filter: ListFilter) {
    return inspect.listJobs(this.#engine, filter);
  }

  neighbours(ids: readonly string[]) {
    return neighbours(this.#engine, "job", ids);
  }

  leases(filter: LeaseFilter) {
    return inspect.leases(this.#engine, filter);
  }

  cancelRequests(worker: string) {
    return inspect.cancelRequests(this.#engine, worker);
  }

  stats() {
    return inspect.stats(this.#engine);
  }

  hasPending(queue: string) {
    return inspect.hasPending(this.#engine, queue);
  }

  after(filter: { after: string; limit: number }) {
    return jobsAfter(this.#engine, filter);
  }

  endedSince(filter: { at: number; limit: number }) {
    return endedSince(this.#engine, filter);
  }

  in(joined: JoinedTransaction): JobsInTransaction {
    return new SqlJobsInTransaction(this.#context, joined);
  }

  #cycle(
    settlements: readonly Settlement[],
    wanted: Wanted | null,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const engine = this.#engine;
    const statements = this.#statements;
    const claiming =
      wanted === null
        ? null
        : { ...wanted, claimId: Math.floor(engine.runtime.random() * CLAIM_IDS) };
    return this.#db.write(
      () => statements.settleAndClaim(settlements, claiming),
      async () => {
        const turn = await lookUpTurn({ engine, statements }, settlements, claiming);
        // A claim that never arrived says nothing about the queue: whoever made it should ask again.
        if (turn.claimed.length === 0) this.#db.hint({ kind: "unknown" });
        return turn;
      },
    );
  }

  async #settleWithCare(settlements: readonly Settlement[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      settled.push(...(await this.#settleAlone(settlement)));
    }
    return settled;
  }

  /** Each by itself: one that the database refuses does not stop the others. Its lease will run out. */
  async #settleAlone(settlement: Settlement): Promise<Settled[]> {
    const context = this.#context;
    const { outcome } = settlement;
    const waits = outcome.kind === "suspended" ? (outcome.waits ?? []) : [];
    for (const hook of waits.length === 0 ? [] : context.hooks) {
      await hook.beforeWait?.(context.engine, waits);
    }
    const lookUp = (): Promise<jobs.SettledWithDependents> => lookUpSettled(context, settlement);
    try {
      const write = (): Promise<jobs.SettledWithDependents> =>
        settleWithDependents(context, settlement);
      const cared = this.#announceSettled(await this.#db.write(write, lookUp));
      // Offered again after the rest of its batch failed, it has been settled before.
      return cared.length > 0 ? cared : (await lookUp()).settled;
    } catch (error) {
      if (error instanceof StoreRefusedError) return [];
      throw error;
    }
  }

  #announceSettled({ settled, queues }: jobs.SettledWithDependents): Settled[] {
    this.#hintSettled(settled);
    for (const queue of queues) this.#db.announce({ kind: "pending", queue });
    return settled;
  }

  #hintPending(rows: readonly { queue: string }[]): void {
    for (const queue of new Set(rows.map((row) => row.queue)))
      this.#db.announce({ kind: "pending", queue });
  }

  /** `asked`: what these came of, which knows how long a job shall wait; without it nobody does. */
  #hintSettled(settled: readonly Settled[], asked?: Asked): void {
    if (settled.length === 0) return;
    this.#db.announce({ kind: "finished" });
    this.#hintPending(settled.filter((row) => row.status === "pending"));
    const later = new Set(settled.filter(({ dueAt }) => dueAt !== null).map(({ id }) => id));
    if (later.size === 0) return;
    const { settlements = [], since = 0 } = asked ?? {};
    const known = settlements.filter(({ id }) => later.has(id)).map(delayOf);
    this.#hintWaiting(known.length < later.size ? [0] : known, since);
  }

  /** Once for all of them: when the first will be due. Their time runs since the database was asked, at the earliest. */
  #hintWaiting(delays: readonly number[], since: number): void {
    if (delays.length === 0) return;
    const inMs = Math.min(...delays) - (this.#engine.runtime.monotonic() - since);
    this.#db.announce(inMs > 0 ? { kind: "waiting", inMs } : { kind: "waiting" });
  }
}

interface Asked {
  readonly settlements: readonly Settlement[];
  /** On the monotonic clock. */
  readonly since: number;
}

/** 0: at once, or nobody knows how long that is. */
function inMsOf(start: NewJob["start"]): number {
  return start !== null && "delayMs" in start ? Math.max(0, start.delayMs) : 0;
}

function delayOf({ outcome }: Settlement): number {
  return outcome.kind === "retry" || outcome.kind === "suspended" ? (outcome.delayMs ?? 0) : 0;
}

/** Whether other jobs have to do with how an attempt ended: one that waits for its job, or an event it waits for. */
function concernsOthers({ id, outcome }: Settlement): boolean {
  return isCalled(id) || (outcome.kind === "suspended" && outcome.waits !== undefined);
}
