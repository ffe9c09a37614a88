/** The store on any SQL engine: the hot verbs are the engine's, the rest is written once in this folder. */
import type { Fence, FinalStatus, Settlement, Status } from "../core/job.ts";
import { JobNotFound, OutcomeUnknown, StoreUnavailable } from "../core/errors.ts";
import { sleep } from "../core/runtime.ts";
import type { Wish, WorkerState } from "../core/worker-state.ts";
import type { Engine } from "./engine.ts";
import * as inspect from "./inspect.ts";
import * as jobs from "./jobs.ts";
import type {
  Beat,
  ClosedWorker,
  Command,
  EnqueuerRecord,
  NewWorker,
  Registered,
  Silence,
  WorkerFilter,
  WorkerRecord,
  WorkerVitals,
} from "./registry.ts";
import { enqueuers, noteEnqueuer, pruneEnqueuers } from "./enqueuers.ts";
import { stranded } from "./stranded.ts";
import * as workers from "./workers.ts";
import { checkSchema, migrate } from "./migrate.ts";
import { lookUpEnqueued, lookUpRevived, lookUpTurn, writeOrLookUp } from "./unknown.ts";
import type {
  AttemptRecord,
  ClaimedJob,
  Enqueued,
  Extended,
  Hint,
  JobRecord,
  LeaseFilter,
  ListFilter,
  Migrated,
  NewJob,
  Promoted,
  Settled,
  Store,
  StoreAddress,
  Wanted,
} from "./store.ts";

/** Rows in one transaction of a bulk enqueue: all of them are accepted or none. */
export const ENQUEUE_BATCH_MAX = 5_000;

const EXTEND_TRIES_MAX = 3;
const EXTEND_PAUSE_MS = 25;

/** Claims of one worker are told apart by a number drawn from so many. */
const CLAIM_IDS = 2 ** 48;

/** How processes tell each other what they changed. */
export interface Push {
  listen(hear: (hint: Hint) => void): () => void;
  tell(hint: Hint): void;
  close(): Promise<void>;
}

export class SqlStore implements Store {
  readonly engine: Engine;
  readonly #push: Push;
  readonly #listeners = new Set<(hint: Hint) => void>();
  #stopListening: (() => void) | null = null;

  /** Hints travel through the engine, unless there is a better way. */
  constructor(engine: Engine, push: Push = engine) {
    this.engine = engine;
    this.#push = push;
  }

  get name(): string {
    return this.engine.name;
  }

  get lanes(): number {
    return this.engine.lanes;
  }

  get address(): StoreAddress | null {
    return this.engine.address;
  }

  migrate(): Promise<Migrated> {
    return migrate(this.engine);
  }

  checkSchema(): Promise<void> {
    return checkSchema(this.engine);
  }

  async enqueue(news: readonly NewJob[]): Promise<Enqueued[]> {
    if (news.length === 0) return [];
    const enqueued = await writeOrLookUp(
      this.engine,
      () => this.engine.insert(news),
      () => lookUpEnqueued(this.engine, news),
    );
    this.#hintPending(news); // also those with a start: it may be in the past by the database's clock
    if (news.some((job) => job.start !== null)) this.#announce({ kind: "waiting" });
    return enqueued;
  }

  async claim(wanted: Wanted): Promise<ClaimedJob[]> {
    const { claimed } = await this.#turn([], wanted);
    return claimed;
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const real = settlements.filter(({ id }) => this.engine.mayBeId(id));
    if (real.length === 0) return [];
    const { settled } = await this.#turn(real, null);
    this.#hintSettled(settled);
    return settled;
  }

  async settleAndClaim(
    settlements: readonly Settlement[],
    wanted: Wanted,
  ): Promise<{ settled: Settled[]; claimed: ClaimedJob[] }> {
    const turn = await this.#turn(
      settlements.filter(({ id }) => this.engine.mayBeId(id)),
      wanted,
    );
    this.#hintSettled(turn.settled);
    return turn;
  }

  async extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    const real = fences.filter(({ id }) => this.engine.mayBeId(id));
    if (real.length === 0) return [];
    // Extending twice is extending once, and whoever waits for this cannot wait for long.
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.engine.extend(real, leaseMs);
      } catch (error) {
        const isLost = error instanceof OutcomeUnknown || error instanceof StoreUnavailable;
        if (!isLost || tries === EXTEND_TRIES_MAX) throw error;
        await sleep(this.engine.runtime, EXTEND_PAUSE_MS * tries);
      }
    }
  }

  release(fences: readonly Fence[]): Promise<Settled[]> {
    return this.settle(fences.map((fence) => ({ ...fence, outcome: { kind: "released" } })));
  }

  async reclaimExpired(chore: {
    graceMs: number;
    crashesMax: number;
    limit: number;
  }): Promise<Settled[]> {
    const reclaimed = await jobs.reclaimExpired(this.engine, chore);
    this.#hintSettled(reclaimed);
    return reclaimed;
  }

  async reclaimFrom(chore: {
    workers: readonly string[];
    crashesMax: number;
    limit: number;
  }): Promise<Settled[]> {
    if (chore.workers.length === 0) return [];
    const reclaimed = await jobs.reclaimFrom(this.engine, chore);
    this.#hintSettled(reclaimed);
    return reclaimed;
  }

  async promoteDue(chore: { limit: number }): Promise<Promoted> {
    const { moved, nextInMs, queues } = await jobs.promoteDue(this.engine, chore.limit);
    for (const queue of queues) this.#announce({ kind: "pending", queue });
    return { moved, nextInMs };
  }

  upcoming() {
    return jobs.upcoming(this.engine);
  }

  async cancel(id: string): Promise<Status | null> {
    if (!this.engine.mayBeId(id)) return null;
    const cancel = (): Promise<Status | null> => jobs.cancel(this.engine, id);
    const status = await writeOrLookUp(this.engine, cancel, cancel); // cancelling twice is cancelling once
    if (status === "processing") this.#announce({ kind: "cancel" });
    if (status === "cancelled") this.#announce({ kind: "finished" });
    return status;
  }

  async revive(id: string, attempts: number): Promise<void> {
    if (!this.engine.mayBeId(id)) throw new JobNotFound({ id });
    const queue = await writeOrLookUp(
      this.engine,
      () => jobs.revive(this.engine, id, attempts),
      () => lookUpRevived(this.engine, id, attempts),
    );
    this.#announce({ kind: "pending", queue });
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

  stranded() {
    return stranded(this.engine);
  }

  register(worker: NewWorker): Promise<Registered> {
    return workers.register(this.engine, worker);
  }

  beat(id: string, vitals: WorkerVitals, queues: readonly string[]): Promise<Beat | null> {
    return workers.beat(this.engine, id, { vitals, queues });
  }

  wishOf(id: string): Promise<Wish | null> {
    return workers.wishOf(this.engine, id);
  }

  async moveWorker(
    id: string,
    to: { state: WorkerState; reason: string | null },
  ): Promise<boolean> {
    const moved = await workers.moveWorker(this.engine, id, to);
    // A slot is free.
    if (moved && to.state !== "running") this.#announce({ kind: "workers" });
    return moved;
  }

  async closeDead(silence: Silence): Promise<ClosedWorker[]> {
    const closed = await workers.closeDead(this.engine, silence);
    if (closed.length > 0) this.#announce({ kind: "workers" });
    return closed;
  }

  async command(command: Command): Promise<string[]> {
    const told = await workers.command(this.engine, command);
    if (told.length > 0) this.#announce({ kind: "workers" });
    return told;
  }

  workers(filter: WorkerFilter): Promise<WorkerRecord[]> {
    return workers.listWorkers(this.engine, filter);
  }

  findWorker(id: string): Promise<WorkerRecord | null> {
    return workers.findWorker(this.engine, id);
  }

  async pruneWorkers(forMs: number): Promise<number> {
    const gone = await workers.pruneWorkers(this.engine, forMs);
    return gone + (await pruneEnqueuers(this.engine, forMs));
  }

  noteEnqueuer(version: string): Promise<void> {
    return noteEnqueuer(this.engine, version);
  }

  enqueuers(withinMs: number): Promise<EnqueuerRecord[]> {
    return enqueuers(this.engine, withinMs);
  }

  watch(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    this.#stopListening ??= this.#push.listen((hint) => this.#hint(hint));
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#stopListening?.();
      this.#stopListening = null;
    };
  }

  async close(): Promise<void> {
    this.#stopListening?.();
    this.#stopListening = null;
    this.#listeners.clear();
    if (this.#push !== this.engine) await this.#push.close();
    await this.engine.close();
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
        if (turn.claimed.length === 0) this.#hint({ kind: "unknown" });
        return turn;
      },
    );
  }

  /** Something this process changed: others are told, and so is whoever watches here. */
  #announce(hint: Hint): void {
    this.#push.tell(hint);
    this.#hint(hint);
  }

  #hint(hint: Hint): void {
    for (const listener of this.#listeners) {
      try {
        listener(hint);
      } catch {
        // The change is committed: whoever made it must not be told that it failed. A hint may be lost.
      }
    }
  }

  #hintPending(rows: readonly { queue: string }[]): void {
    for (const queue of new Set(rows.map((row) => row.queue)))
      this.#announce({ kind: "pending", queue });
  }

  #hintSettled(settled: readonly Settled[]): void {
    if (settled.length === 0) return;
    this.#announce({ kind: "finished" });
    this.#hintPending(settled.filter((row) => row.status === "pending"));
    if (settled.some((row) => row.dueAt !== null)) this.#announce({ kind: "waiting" });
  }
}
