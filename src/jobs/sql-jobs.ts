/**
 * The job store: what it promises on every database. Each engine writes the hot operations by hand; the rest is written
 * once in this folder.
 *
 * A job is in exactly one of four tables (`ready`, `waiting`, `lease`, `finished`), and that table is its state. Every
 * method that changes a job is one atomic move from one table to another. For all of them:
 *
 * - When a promise resolves, the change is committed and survives a crash. When it rejects, nothing was written; when
 *   it rejects with OutcomeUnknownError, the database was lost and could not be asked whether all or nothing was.
 * - Time is the database's. Callers pass durations; the store adds them to the database's clock.
 * - Every write to a claimed job carries the fence: job, worker, epoch. A stale fence changes nothing and is missing
 *   from the result.
 * - Everything is plural: a batch is one transaction. Every batch has a limit.
 * - Nothing here calls user code, parses a payload or knows a task's retry policy.
 */
import type { OperatorEntry } from "../audit/entry.ts";
import { actOrLookUp } from "../audit/store.ts";
import { JobNotFoundError, StoreBusyError, StoreRefusedError } from "../core/errors.ts";
import type { Fence, OutageReport, Settlement, Status } from "../core/job.ts";
import type { Database, JoinedTransaction } from "../database/database.ts";
import { type Engine, type Hint, readNow } from "../database/engine.ts";
import * as acting from "./actions.ts";
import * as cancelling from "./cancel.ts";
import { clearNeighbours, lookUpOutage } from "./outages.ts";
import {
  enqueueWithPolicy,
  JobsInTransaction,
  needsPolicy,
  prepareEnqueue,
} from "./enqueue-policy.ts";
import { type ClaimRules, type JobHooks, type MoveContext, underRules } from "./hooks.ts";
import { delayOf, inMsOf, readAgeing, type Revision, revisions } from "./rows.ts";
import * as inspect from "./list.ts";
import { checkFilter, type JobFilter, type JobListFilter, PAGE_DEFAULT } from "./filter.ts";
import * as maintenance from "./maintenance.ts";
import {
  confirmed,
  lookUpCompleted,
  lookUpCycle,
  lookUpEnqueued,
  lookUpRetried,
  lookUpSettled,
  lookUpWithPolicy,
  pendingAgain,
  settledBefore,
} from "./recovery.ts";
import { extendAgain } from "./statements.ts";
import {
  concernsOthers,
  settleTogether,
  type SettledWithDependents,
  settleWithDependents,
} from "./settle.ts";
import type {
  AttemptRecord,
  ClaimedJob,
  CycleResult,
  Enqueued,
  Extended,
  JobRecord,
  JobStatements,
  LeaseFilter,
  NewJob,
  Prune,
  ReclaimExpired,
  ReclaimFrom,
  Settled,
  Wanted,
} from "./store.ts";

/** Rows in one transaction of a bulk enqueue: all of them are accepted or none. */
export const ENQUEUE_BATCH_MAX = 5_000;

/** Jobs that others wait for, settled in one transaction. */
const TOGETHER_MAX = 64;

/** How long these wait for a lock that may concern only one of them. */
const TOGETHER_LOCK_MS = 1_000;

/** Claims of one worker are told apart by a number drawn from so many. */
const CLAIM_IDS = 2 ** 48;

/** The public methods of the store alone, so that tests can provide others. */
export type JobsStore = Pick<SqlJobs, keyof SqlJobs>;

export class SqlJobs {
  readonly #db: Database;
  readonly #engine: Engine;
  readonly #statements: JobStatements;
  readonly #context: MoveContext;
  readonly #rules: ClaimRules;

  constructor(
    db: Database,
    statements: JobStatements,
    { hooks, rules }: { readonly hooks: readonly JobHooks[]; readonly rules: ClaimRules },
  ) {
    this.#db = db;
    this.#rules = rules;
    this.#engine = db.engine;
    this.#statements = statements;
    this.#context = { engine: db.engine, hooks };
  }

  /**
   * Accepts jobs, all or none. If a live job of the same task, or an ended job that keeps its key, holds a job's key, the
   * job is not added and the holder's id comes back. With `onConflict` the job replaces the holder, which must not be
   * running, or the whole call is rejected with KeyTakenError. An id that exists is left as it is, so a call whose answer
   * was lost can be repeated.
   */
  async enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    if (news.length === 0) return [];
    await prepareEnqueue({ engine: this.#engine, rules: this.#rules }, news);
    if (news.some(needsPolicy)) {
      const accepted = await this.#db.write(
        () => enqueueWithPolicy(this.#context, news),
        () => lookUpWithPolicy(this.#context, news),
      );
      this.#announce(accepted.hints);
      return confirmed(this.#db, accepted.enqueued);
    }
    const since = this.#engine.runtime.monotonic();
    const enqueued = await this.#db.write(
      () => this.#statements.insert(news),
      () => lookUpEnqueued(this.#statements, news),
    );
    // Jobs with an instant count as pending too: it may be in the past by the database's clock.
    const soon = news.filter(({ start }) => inMsOf(start) === 0);
    this.#announcePending(soon.map(({ queue }) => queue));
    const delays = news.filter(({ start }) => start !== null).map(({ start }) => inMsOf(start));
    this.#announceWaiting(delays, since);
    return confirmed(this.#db, enqueued);
  }

  /**
   * Takes up to `limit` pending jobs under leases for one worker: higher priority first, then the longest pending.
   * Two claims never return the same job at the same epoch. The attempt is charged here.
   */
  async claim(wanted: Wanted): Promise<ClaimedJob[]> {
    return (await this.#settleAndClaim([], wanted)).claimed;
  }

  /**
   * Ends attempts. Returns those whose fence was current, with the new status of the job: `failed` if the last attempt
   * failed, and `cancelled`, whatever the outcome, if a cancel was requested.
   */
  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    return (await this.#settleAndClaim(settlements, null)).settled;
  }

  /** Settles, then claims, in one transaction: one commit for a whole cycle of a busy worker. */
  settleAndClaim(settlements: readonly Settlement[], wanted: Wanted): Promise<CycleResult> {
    return this.#settleAndClaim(settlements, wanted);
  }

  /** Moves the end of leases to now + `leaseMs`, never backwards. Returns those whose fence was current, each once. */
  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return extendAgain({ engine: this.#engine, statements: this.#statements }, fences, leaseMs);
  }

  /** Hands jobs back uncharged: they are pending again at once. Returns those whose fence was current. */
  release(fences: readonly Fence[]): Promise<Settled[]> {
    return this.settle(fences.map((fence) => ({ ...fence, outcome: { kind: "released" } })));
  }

  /**
   * Ends attempts that completed their jobs inside user transactions. Jobs of committed transactions are done; for the
   * others, the outcome counts. Returns those that are settled, without those whose transaction is still open.
   */
  async settleCompleted(settlements: readonly Settlement[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      const lookUp = () => lookUpCompleted(this.#context, settlement);
      try {
        settled.push(...this.#announceSettled(await this.#db.write(lookUp, lookUp)));
      } catch (error) {
        if (!(error instanceof StoreBusyError)) throw error;
      }
    }
    return settled;
  }

  /**
   * Ends attempts whose leases expired because the database did not answer. A lease that is still there is settled, or
   * handed back uncharged if the worker gave the attempt up for the outage. If another worker reclaimed the lease and
   * counted a crash, that crash is uncounted, unless the job has ended. After `OUTAGES_MAX` of these a job is charged.
   */
  async settleOutages(reports: readonly OutageReport[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const report of reports.filter(({ id }) => this.#engine.mayBeId(id))) {
      const lookUp = () => lookUpOutage(this.#context, report);
      settled.push(...this.#announceSettled(await this.#db.write(lookUp, lookUp)));
    }
    return settled;
  }

  /**
   * Reclaims leases that expired more than `graceMs` ago. The crash is counted and recorded as an attempt. The job is
   * retried, or fails if no attempt is left or it has crashed `maxCrashes` workers.
   */
  async reclaimExpired(chore: ReclaimExpired): Promise<Settled[]> {
    return this.#afterReclaim(await maintenance.reclaimExpired(this.#context, chore));
  }

  /** Reclaims all leases of dead workers, as `reclaimExpired` does. */
  async reclaimFrom(chore: ReclaimFrom): Promise<Settled[]> {
    if (chore.workers.length === 0) return [];
    return this.#afterReclaim(await maintenance.reclaimFrom(this.#context, chore));
  }

  /** If the database fails meanwhile, the neighbours stay charged until the culprit's next crash. */
  async #afterReclaim(reclaimed: maintenance.Reclaimed): Promise<Settled[]> {
    const settled = this.#announceSettled(reclaimed);
    const cleared = new Map<string, readonly string[]>();
    for (const id of reclaimed.culprits) {
      const neighbours = await clearNeighbours(this.#engine, id).catch(() => []);
      if (neighbours.length > 0) cleared.set(id, neighbours);
    }
    if (cleared.size === 0) return settled;
    return settled.map((job) => {
      const neighbours = cleared.get(job.id);
      return neighbours === undefined ? job : { ...job, cleared: neighbours };
    });
  }

  /** Ends jobs that had to start by a time that has passed. Returns them. */
  async expireLate(chore: { limit: number }): Promise<Settled[]> {
    return this.#announceSettled(await maintenance.expireLate(this.#context, chore.limit));
  }

  /** Makes due waiting jobs pending, longest due first. Returns how many. */
  async promoteDue(chore: { limit: number }): Promise<number> {
    const { moved, queues } = await maintenance.promoteDue(this.#context, chore.limit);
    this.#announcePending(queues);
    return moved;
  }

  /** How long until there is a job to promote, a lease to reclaim, or background work of a feature. */
  upcoming() {
    return maintenance.upcoming(this.#context);
  }

  /**
   * Cancels a job in any state. A running job is marked, and its worker learns this with the next extension; the result
   * is then `processing`. A finished job keeps its status. Null: the job does not exist. An operator's cancel writes an
   * audit entry in the same transaction.
   */
  async cancel(id: string, operator: OperatorEntry | null = null): Promise<Status | null> {
    if (!this.#engine.mayBeId(id)) return null;
    const cancel = () => cancelling.cancel(this.#context, id, operator);
    const { status, queues } =
      operator === null
        ? await this.#db.write(cancel, cancel) // idempotent
        : await actOrLookUp(this.#db, operator, cancel, async ({ newStatus }) => {
            return { status: newStatus as Status, from: null, queues: [] };
          });
    this.#announcePending(queues);
    if (status === "processing") this.#db.announce({ kind: "cancel" });
    if (status === "cancelled") this.#db.announce({ kind: "finished" });
    return status;
  }

  /** Makes a failed or cancelled job pending again with `attempts` more attempts. Audited as `cancel` is. */
  async retry(
    id: string,
    attempts: number,
    operator: OperatorEntry | null = null,
    /** Replaces the input of the job. */
    payload?: string,
  ): Promise<void> {
    if (!this.#engine.mayBeId(id)) throw new JobNotFoundError({ id });
    const terms = { attempts, operator, ...(payload === undefined ? {} : { payload }) };
    const retry = () => cancelling.retry(this.#context, id, terms);
    const hints =
      operator === null
        ? await this.#db.write(retry, () => lookUpRetried(this.#context, id, attempts))
        : await actOrLookUp(this.#db, operator, retry, () => pendingAgain(this.#engine, id));
    this.#announce(hints);
  }

  /** Makes a job pending, first in its lane; it may pass a pause of its queue. Returns its status before. */
  async runNow(id: string, operator: OperatorEntry): Promise<Status> {
    const act = () => acting.runNow(this.#context, this.#real(id), operator);
    const { status, hints } = await actOrLookUp(this.#db, operator, act, async (line) => ({
      status: line.oldStatus as Status,
      hints: await pendingAgain(this.#engine, id),
    }));
    this.#announce(hints);
    return status;
  }

  /** Changes a job that no worker holds. Returns its status afterwards. */
  async edit(id: string, terms: acting.EditTerms, operator: OperatorEntry): Promise<Status> {
    await readAgeing(this.#engine);
    const act = () => acting.edit(this.#context, this.#real(id), terms, operator);
    const { status, hints } = await actOrLookUp(this.#db, operator, act, async (line) => ({
      status: line.newStatus as Status,
      hints: await pendingAgain(this.#engine, id),
    }));
    this.#announce(hints);
    return status;
  }

  /** Deletes a job that has ended and that no other job reads. */
  delete(id: string, operator: OperatorEntry): Promise<void> {
    const act = () => acting.deleteOne(this.#context, this.#real(id), operator);
    return actOrLookUp(this.#db, operator, act, async () => {});
  }

  /** Enqueues a new job like this one, which has ended. Returns its task. */
  async replay(request: acting.Replay, operator: OperatorEntry): Promise<string> {
    const { id } = request;
    const old = await this.find(id);
    if (old === null) throw new JobNotFoundError({ id });
    await prepareEnqueue({ engine: this.#engine, rules: this.#rules }, [old]);
    const act = () => acting.replay(this.#context, request, operator);
    this.#announce(
      await actOrLookUp(this.#db, operator, act, () => pendingAgain(this.#engine, request.newId)),
    );
    return old.task;
  }

  #real(id: string): string {
    if (!this.#engine.mayBeId(id)) throw new JobNotFoundError({ id });
    return id;
  }

  /** Cancels jobs in one transaction, leaving out those that have ended. Returns the others. */
  async cancelAll(chunk: cancelling.Chunk): Promise<readonly string[]> {
    const { ids, queues } = await this.#db.write(
      () => cancelling.cancelAll(this.#context, chunk),
      () => cancelling.cancelledAll(this.#context, chunk),
    );
    this.#announcePending(queues);
    this.#announce([{ kind: "cancel" }, { kind: "finished" }]);
    return ids;
  }

  /** Deletes jobs that finished longer ago than their status is kept. Returns how many; call again on a full batch. */
  async prune(chore: Prune): Promise<number> {
    await this.#engine.dropPartitions(Math.max(...Object.values(chore.retention)));
    return maintenance.prune(this.#context, chore);
  }

  async find(id: string): Promise<JobRecord | null> {
    return this.#engine.mayBeId(id) ? inspect.find(this.#engine, id) : null;
  }

  /** The inputs that a job had before an operator changed them, oldest first. */
  async revisions(id: string): Promise<Revision[]> {
    return this.#engine.mayBeId(id) ? revisions(this.#engine, id) : [];
  }

  /** The newest thousand attempts of a job, oldest first. */
  async attempts(id: string, page: inspect.AttemptsPage = {}): Promise<AttemptRecord[]> {
    return this.#engine.mayBeId(id) ? inspect.attempts(this.#engine, id, page) : [];
  }

  snoozes(id: string): Promise<number> {
    return inspect.snoozes(this.#engine, id);
  }

  /** The finished ones of the given jobs, with their results. */
  findFinished(ids: readonly string[]) {
    const real = ids.filter((id) => this.#engine.mayBeId(id));
    return inspect.findFinished(this.#engine, real);
  }

  /** A page of jobs, newest first: pass the last id of one page as `before` of the next. */
  list({ before, limit = PAGE_DEFAULT, ...filter }: JobListFilter) {
    return inspect.listAll(this.#engine, checkFilter(filter), { before, limit });
  }

  /** The same in bounded time: a page may be short, or empty, and say where the next begins. */
  page(filter: JobFilter, options: Parameters<typeof inspect.listPage>[2]) {
    return inspect.listPage(this.#engine, checkFilter(filter), options);
  }

  /** How many jobs match, among the newest so many. */
  count(filter: JobFilter, options: Parameters<typeof inspect.countJobs>[2]) {
    return inspect.countJobs(this.#engine, checkFilter(filter), options);
  }

  /** The database's clock. */
  now(): Promise<number> {
    return readNow(this.#engine);
  }

  /** The ids directly before and after each of these: they decide how short an id can be written. */
  neighbours(ids: readonly string[]) {
    return inspect.neighbours(this.#engine, "job", ids);
  }

  /** Active leases, or expired ones that are not reclaimed yet. Ordered by id; `after` starts the next page. */
  leases(filter: LeaseFilter) {
    return inspect.leases(this.#engine, filter);
  }

  /** The jobs of a worker that shall be cancelled. */
  cancelRequests(worker: string) {
    return inspect.cancelRequests(this.#engine, worker);
  }

  stats() {
    return inspect.stats(this.#engine);
  }

  hasPending(queue: string) {
    return inspect.hasPending(this.#engine, queue);
  }

  /** Jobs whose ids follow this one, in order. */
  after(filter: { after: string; limit: number }) {
    return inspect.jobsAfter(this.#engine, filter);
  }

  /** Jobs that ended at this instant or later, in order. */
  endedSince(filter: { at: number; limit: number }) {
    return inspect.endedSince(this.#engine, filter);
  }

  in(joined: JoinedTransaction): JobsInTransaction {
    return new JobsInTransaction(this.#context, this.#rules, joined);
  }

  async #settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted | null,
  ): Promise<CycleResult> {
    const engine = this.#engine;
    const real = settlements.filter(
      ({ id, claimed }) => claimed !== undefined || engine.mayBeId(id),
    );
    const before: Settled[] = [];
    const careful = real.filter(concernsOthers);
    const together = careful.filter(({ outcome }) => outcome.kind !== "suspended");
    before.push(...(await this.#settleTogether(together)));
    const known = new Set(before.map(({ id, epoch }) => `${id} ${epoch}`));
    for (const settlement of careful) {
      if (known.has(`${settlement.id} ${settlement.epoch}`)) continue;
      before.push(...(await this.#settleWithDependents(settlement)));
    }
    const alone =
      careful.length === 0 ? real : real.filter((settlement) => !concernsOthers(settlement));
    if (alone.length === 0 && wanted === null)
      return { settled: before, claimed: [], governed: [] };
    const since = engine.runtime.monotonic();
    const { settled, ...cycle } = await this.#cycle(alone, wanted);
    this.#hintSettled(settled, { settlements: alone, since });
    const limit = (wanted?.limit ?? 0) - cycle.claimed.length;
    if (wanted === null || cycle.governed.length === 0 || limit === 0) {
      return { ...cycle, settled: before.length === 0 ? settled : [...before, ...settled] };
    }
    // Queues that got rules, or lost them, since the last cycle.
    const more = await this.#cycle([], { ...wanted, queues: cycle.governed, limit });
    return {
      ...more,
      settled: [...before, ...settled],
      claimed: [...cycle.claimed, ...more.claimed],
    };
  }

  async #cycle(settlements: readonly Settlement[], wanted: Wanted | null): Promise<CycleResult> {
    const parts = { engine: this.#engine, statements: this.#statements };
    const claimId = Math.floor(this.#engine.runtime.random() * CLAIM_IDS);
    const claiming = wanted === null ? null : { ...wanted, claimId };
    const lookUp = async (): Promise<CycleResult> => {
      const cycle = await lookUpCycle(parts, settlements, claiming);
      // A claim that never arrived says nothing about the queue: the worker should claim again.
      if (cycle.claimed.length === 0) this.#db.hint({ kind: "unknown" });
      return cycle;
    };
    return underRules(this.#rules, claiming, (claim, turn) =>
      this.#db.write(() => this.#statements.settleAndClaim(settlements, claim, turn), lookUp),
    );
  }

  /**
   * Many in one transaction, because many may be awaited by the same job. Those that are not returned are settled by
   * themselves: one that the database refuses, or that another transaction locks, does not stop the others.
   */
  async #settleTogether(settlements: readonly Settlement[]): Promise<Settled[]> {
    const context = this.#context;
    const settled: Settled[] = [];
    for (let at = 0; at + 1 < settlements.length; at += TOGETHER_MAX) {
      const some = settlements.slice(at, at + TOGETHER_MAX);
      if (some.length < 2) break;
      const lookUp = async (): Promise<SettledWithDependents> => {
        return { settled: await settledBefore(context.engine, some, []), queues: [] };
      };
      try {
        const settling = () => settleTogether(context, some, { lockMs: TOGETHER_LOCK_MS });
        settled.push(...this.#announceSettled(await this.#db.write(settling, lookUp)));
      } catch (error) {
        if (!(error instanceof StoreRefusedError || error instanceof StoreBusyError)) throw error;
      }
    }
    return settled;
  }

  /** Each by itself: one that the database refuses does not stop the others. Its lease will expire. */
  async #settleWithDependents(settlement: Settlement): Promise<Settled[]> {
    const context = this.#context;
    const { outcome } = settlement;
    const waits = outcome.kind === "suspended" ? (outcome.waits ?? []) : [];
    for (const hook of waits.length === 0 ? [] : context.hooks) {
      await hook.beforeWait?.(context.engine, waits);
    }
    const lookUp = () => lookUpSettled(context, settlement);
    try {
      const settling = this.#db.write(() => settleWithDependents(context, settlement), lookUp);
      const settled = this.#announceSettled(await settling);
      // If the rest of its batch failed and it is offered again, it has been settled before.
      return settled.length > 0 ? settled : (await lookUp()).settled;
    } catch (error) {
      if (error instanceof StoreRefusedError) return [];
      throw error;
    }
  }

  #announceSettled({ settled, queues }: SettledWithDependents): Settled[] {
    this.#hintSettled(settled);
    this.#announcePending(queues);
    return settled;
  }

  #announce(hints: readonly Hint[]): void {
    for (const hint of hints) this.#db.announce(hint);
  }

  #announcePending(queues: readonly string[]): void {
    for (const queue of new Set(queues)) this.#db.announce({ kind: "pending", queue });
  }

  /** `asked` tells how long each job waits since a time on the monotonic clock; without it that is unknown. */
  #hintSettled(
    settled: readonly Settled[],
    asked?: { readonly settlements: readonly Settlement[]; readonly since: number },
  ): void {
    if (settled.length === 0) return;
    this.#db.announce({ kind: "finished" });
    const pending = settled.filter(({ status }) => status === "pending");
    this.#announcePending(pending.map(({ queue }) => queue));
    const later = new Set(settled.filter(({ dueAt }) => dueAt !== null).map(({ id }) => id));
    if (later.size === 0) return;
    const { settlements = [], since = 0 } = asked ?? {};
    const known = settlements.filter(({ id }) => later.has(id)).map(delayOf);
    this.#announceWaiting(known.length < later.size ? [0] : known, since);
  }

  /** One hint for all: when the first is due. Delays count from when the database was asked, at the earliest. */
  #announceWaiting(delays: readonly number[], since: number): void {
    if (delays.length === 0) return;
    const inMs = Math.min(...delays) - (this.#engine.runtime.monotonic() - since);
    this.#db.announce(inMs > 0 ? { kind: "waiting", inMs } : { kind: "waiting" });
  }
}
