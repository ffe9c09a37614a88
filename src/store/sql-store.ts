/** The store on any SQL engine: the hot verbs are the engine's, the rest is written once in this folder. */
import { JobNotFound, StoreBusy, StoreRefused } from "../core/errors.ts";
import { isCalled } from "../core/id.ts";
import type { Fence, FinalStatus, OutageReport, Settlement, Status } from "../core/job.ts";
import type { Signature } from "./actions.ts";
import * as bulk from "./bulk.ts";
import { enqueueMinding, minds } from "./enqueue.ts";
import { declareEvent } from "./events.ts";
import { neighbours, type IdTable } from "./ids.ts";
import { extendAgain } from "./keeper-store.ts";
import * as inspect from "./inspect.ts";
import * as jobs from "./jobs.ts";
import type { Condition, Load } from "./load.ts";
import { lookUpOutage } from "./outages.ts";
import { settleWithCare } from "./settle.ts";
import { SqlFindings } from "./sql-findings.ts";
import type {
  AttemptRecord,
  ClaimedJob,
  Enqueued,
  Extended,
  JobRecord,
  LeaseFilter,
  ListFilter,
  NewJob,
  Settled,
  Store,
  StoreAddress,
  Wanted,
} from "./store.ts";
import { stranded } from "./stranded.ts";
import {
  actOrLookUp,
  lookUpCared,
  lookUpCompleted,
  lookUpEnqueued,
  lookUpMinding,
  lookUpRevived,
  lookUpTurn,
  pendingAgain,
  writeOrLookUp,
} from "./unknown.ts";

/** Rows in one transaction of a bulk enqueue: all of them are accepted or none. */
export const ENQUEUE_BATCH_MAX = 5_000;

/** Claims of one worker are told apart by a number drawn from so many. */
const CLAIM_IDS = 2 ** 48;

export class SqlStore extends SqlFindings implements Store {
  get name(): string {
    return this.engine.name;
  }

  get database(): string {
    return this.engine.database;
  }

  get lanes(): number {
    return this.engine.lanes;
  }

  get address(): StoreAddress | null {
    return this.engine.address;
  }

  load(): Load {
    return this.engine.load();
  }

  condition(): Promise<Condition | null> {
    return this.engine.condition();
  }

  async enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    if (news.length === 0) return [];
    if (news.some(minds)) return this.#enqueueMinding(news);
    const since = this.engine.runtime.monotonic();
    const enqueued = await writeOrLookUp(
      this.engine,
      () => this.engine.insert(news),
      () => lookUpEnqueued(this.engine, news),
    );
    // Also those with a time: it may be in the past by the database's clock.
    this.#hintPending(news.filter(({ start }) => inMsOf(start) === 0));
    const delays = news.filter(({ start }) => start !== null).map(({ start }) => inMsOf(start));
    this.#hintWaiting(delays, since);
    return enqueued;
  }

  async #enqueueMinding(news: readonly NewJob[]): Promise<Enqueued[]> {
    const { engine } = this;
    const { enqueued, hints } = await writeOrLookUp(
      engine,
      () => enqueueMinding(engine, news),
      () => lookUpMinding(engine, news),
    );
    for (const hint of hints) this.announce(hint);
    return enqueued;
  }

  async claim(wanted: Wanted): Promise<ClaimedJob[]> {
    const { claimed } = await this.#turn([], wanted);
    return claimed;
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const real = settlements.filter(({ id }) => this.engine.mayBeId(id));
    const alone = real.filter((settlement) => !concernsOthers(settlement));
    const cared = await this.#settleWithCare(real.filter(concernsOthers));
    if (alone.length === 0) return cared;
    const since = this.engine.runtime.monotonic();
    const { settled } = await this.#turn(alone, null);
    this.#hintSettled(settled, { settlements: alone, since });
    return [...cared, ...settled];
  }

  async settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const real = settlements.filter(({ id }) => this.engine.mayBeId(id));
    const cared = await this.#settleWithCare(real.filter(concernsOthers));
    const alone = real.filter((settlement) => !concernsOthers(settlement));
    const since = this.engine.runtime.monotonic();
    const { settled, claimed } = await this.#turn(alone, wanted);
    this.#hintSettled(settled, { settlements: alone, since });
    return { settled: [...cared, ...settled], claimed };
  }

  extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    return extendAgain(this.engine, fences, leaseMs);
  }

  release(fences: readonly Fence[]): Promise<Settled[]> {
    return this.settle(fences.map((fence) => ({ ...fence, outcome: { kind: "released" } })));
  }

  async settleCompleted(settlements: readonly Settlement[]): Promise<Settled[]> {
    const settled: Settled[] = [];
    for (const settlement of settlements) {
      const lookUp = (): Promise<jobs.Cared> => lookUpCompleted(this.engine, settlement);
      try {
        settled.push(...this.#hearCared(await writeOrLookUp(this.engine, lookUp, lookUp)));
      } catch (error) {
        if (!(error instanceof StoreBusy)) throw error;
      }
    }
    return settled;
  }

  /** Each by itself, as above. */
  async settleOutages(reports: readonly OutageReport[]): Promise<Settled[]> {
    const { engine } = this;
    const settled: Settled[] = [];
    for (const report of reports.filter(({ id }) => engine.mayBeId(id))) {
      const lookUp = (): Promise<jobs.Cared> => lookUpOutage(engine, report);
      const cared = await writeOrLookUp(engine, lookUp, lookUp);
      settled.push(...this.#hearCared(cared));
    }
    return settled;
  }

  async reclaimExpired(chore: {
    graceMs: number;
    crashesMax: number;
    limit: number;
    spareLast?: boolean;
  }): Promise<Settled[]> {
    return this.#hearCared(await jobs.reclaimExpired(this.engine, chore));
  }

  async reclaimFrom(chore: {
    workers: readonly string[];
    crashesMax: number;
    limit: number;
  }): Promise<Settled[]> {
    if (chore.workers.length === 0) return [];
    return this.#hearCared(await jobs.reclaimFrom(this.engine, chore));
  }

  async promoteDue(chore: { limit: number }): Promise<number> {
    const { moved, queues } = await jobs.promoteDue(this.engine, chore.limit);
    for (const queue of queues) this.announce({ kind: "pending", queue });
    return moved;
  }

  upcoming() {
    return jobs.upcoming(this.engine);
  }

  async cancel(id: string, signature: Signature | null = null): Promise<Status | null> {
    const { engine } = this;
    if (!engine.mayBeId(id)) return null;
    const cancel = () => jobs.cancel(engine, id, signature);
    const { status, queues } =
      signature === null
        ? await writeOrLookUp(engine, cancel, cancel) // twice is once
        : await actOrLookUp(engine, signature, cancel, async ({ newStatus }) => {
            return { status: newStatus as Status, from: null, queues: [] };
          });
    for (const queue of queues) this.announce({ kind: "pending", queue });
    if (status === "processing") this.announce({ kind: "cancel" });
    if (status === "cancelled") this.announce({ kind: "finished" });
    return status;
  }

  async revive(id: string, attempts: number, signature: Signature | null = null): Promise<void> {
    const { engine } = this;
    if (!engine.mayBeId(id)) throw new JobNotFound({ id });
    const revive = () => jobs.revive(engine, id, attempts, signature);
    const hints =
      signature === null
        ? await writeOrLookUp(engine, revive, () => lookUpRevived(engine, id, attempts))
        : await actOrLookUp(engine, signature, revive, () => pendingAgain(engine, id));
    for (const hint of hints) this.announce(hint);
  }

  lookAt(at: bulk.Cursor, limit: number) {
    return bulk.lookAt(this.engine, at, limit);
  }

  reviveAll(chunk: bulk.Chunk, attempts: number): Promise<readonly string[]> {
    return this.#changeAll(chunk, () => bulk.reviveAll(this.engine, chunk, attempts));
  }

  async cancelAll(chunk: bulk.Chunk): Promise<readonly string[]> {
    const cancelled = await this.#changeAll(chunk, () => bulk.cancelAll(this.engine, chunk));
    this.announce({ kind: "cancel" });
    this.announce({ kind: "finished" });
    return cancelled;
  }

  async #changeAll(
    chunk: bulk.Chunk,
    act: () => Promise<bulk.Changed>,
  ): Promise<readonly string[]> {
    const lookUp = () => bulk.changedBefore(this.engine, chunk, act);
    const { ids, hints } = await writeOrLookUp(this.engine, act, lookUp);
    for (const hint of hints) this.announce(hint);
    return ids;
  }

  async prune(chore: { keepMs: Record<FinalStatus, number>; limit: number }): Promise<number> {
    await this.engine.dropBlocks(Math.max(...Object.values(chore.keepMs)));
    return jobs.prune(this.engine, chore);
  }

  async find(id: string): Promise<JobRecord | null> {
    return this.engine.mayBeId(id) ? inspect.find(this.engine, id) : null;
  }

  async attempts(id: string): Promise<AttemptRecord[]> {
    return this.engine.mayBeId(id) ? inspect.attempts(this.engine, id) : [];
  }

  findFinished(ids: readonly string[]) {
    return inspect.findFinished(
      this.engine,
      ids.filter((id) => this.engine.mayBeId(id)),
    );
  }

  list(filter: ListFilter) {
    return inspect.listJobs(this.engine, filter);
  }

  neighbours(of: IdTable, ids: readonly string[]) {
    return neighbours(this.engine, of, ids);
  }

  leases(filter: LeaseFilter) {
    return inspect.leases(this.engine, filter);
  }

  cancelRequests(worker: string) {
    return inspect.cancelRequests(this.engine, worker);
  }

  stats() {
    return inspect.stats(this.engine);
  }

  hasPending(queue: string) {
    return inspect.hasPending(this.engine, queue);
  }

  stranded({ queue }: { readonly queue?: string } = {}) {
    return stranded(this.engine, queue);
  }

  #turn(
    settlements: readonly Settlement[],
    wanted: Wanted | null,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const { engine } = this;
    const claiming =
      wanted === null
        ? null
        : { ...wanted, claimId: Math.floor(engine.runtime.random() * CLAIM_IDS) };
    return writeOrLookUp(
      engine,
      () => engine.settleAndClaim(settlements, claiming),
      async () => {
        const turn = await lookUpTurn(engine, settlements, claiming);
        // A claim that never arrived says nothing about the queue: whoever made it should ask again.
        if (turn.claimed.length === 0) this.hint({ kind: "unknown" });
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

  /** Each by itself: one that the database refuses keeps nobody else from going on. Its lease will run out. */
  async #settleAlone(settlement: Settlement): Promise<Settled[]> {
    const { engine } = this;
    const { outcome } = settlement;
    const waits = outcome.kind === "suspended" ? (outcome.waits ?? []) : [];
    for (const wait of waits) await declareEvent(engine, wait);
    const lookUp = (): Promise<jobs.Cared> => lookUpCared(engine, settlement);
    try {
      const write = (): Promise<jobs.Cared> => settleWithCare(engine, settlement);
      const cared = this.#hearCared(await writeOrLookUp(engine, write, lookUp));
      // Offered again after the rest of its batch failed, it has been settled before.
      return cared.length > 0 ? cared : (await lookUp()).settled;
    } catch (error) {
      if (error instanceof StoreRefused) return [];
      throw error;
    }
  }

  #hearCared({ settled, queues }: jobs.Cared): Settled[] {
    this.#hintSettled(settled);
    for (const queue of queues) this.announce({ kind: "pending", queue });
    return settled;
  }

  #hintPending(rows: readonly { queue: string }[]): void {
    for (const queue of new Set(rows.map((row) => row.queue)))
      this.announce({ kind: "pending", queue });
  }

  /** `asked`: what these came of, which knows how long a job shall wait; without it nobody does. */
  #hintSettled(settled: readonly Settled[], asked?: Asked): void {
    if (settled.length === 0) return;
    this.announce({ kind: "finished" });
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
    const inMs = Math.min(...delays) - (this.engine.runtime.monotonic() - since);
    this.announce(inMs > 0 ? { kind: "waiting", inMs } : { kind: "waiting" });
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
