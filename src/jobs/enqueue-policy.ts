/**
 * Enqueueing in the shared SQL: inside a user transaction, and for jobs with a conflict policy. The engines enqueue all
 * others, each in as few round trips as it can.
 *
 * Jobs are accepted in order. A row that must exist before the next job is accepted is written then; all others are
 * written together at the end.
 */
import { kindIdOf } from "../core/error-kind.ts";
import {
  invalid,
  JobCancelledError,
  LeaseLostError,
  StoreBusyError,
  StoreRefusedError,
} from "../core/errors.ts";
import type { Fence, Status } from "../core/job.ts";
import type { JoinedTransaction } from "../database/database.ts";
import {
  asRow,
  type Engine,
  type Hint,
  readNow,
  type Row,
  type Transaction,
} from "../database/engine.ts";
import { sql } from "../database/sql.ts";
import { traceRows } from "../tracing/tracing.ts";
import { cancelUnclaimed, cancelWhereItStands } from "./cancel.ts";
import type { ClaimRules, MoveContext, Placement } from "./hooks.ts";
import {
  hold,
  type Holder,
  isFinal,
  isKeyed,
  keptHolder,
  type Keyed,
  letGo,
  liveHolder,
  nameOf,
  statusOf,
  takenBy,
} from "./keys.ts";
import { isPaced, paced, type Paced } from "./pacing.ts";
import {
  type Destination,
  dueTime,
  type FinishedRow,
  type JobColumns,
  readAgeing,
  readyRow,
  replacedError,
  startByTime,
  tagRows,
} from "./rows.ts";
import { moveWithHooks, settleIn } from "./settle.ts";
import type { Enqueued, NewJob } from "./store.ts";

export interface Accepted {
  readonly enqueued: Enqueued[];
  /** To announce after the commit. */
  readonly hints: readonly Hint[];
}

/** Tries to take a key whose holder ended or moved in the meantime. */
const KEY_ROUNDS_MAX = 10;

/** Transactions that fail because another one took the same key at the same moment. */
const TRIES_MAX = 10;

/** Whether the shared SQL enqueues the job. */
export function needsPolicy(job: NewJob): boolean {
  return hasPolicy(job) || job.member !== undefined || job.pace !== undefined;
}

/** In transactions of its own, before the jobs are written: their settings must be seen by claims that see them. */
export async function prepareEnqueue(
  { engine, rules, tx }: { engine: Engine; rules: ClaimRules; tx?: Transaction },
  jobs: readonly Pick<NewJob, "priority" | "lane" | "queue">[],
): Promise<void> {
  if (jobs.some(({ priority }) => priority !== 0)) await readAgeing(engine);
  const withLane = jobs.filter(({ lane = null }) => lane !== null);
  if (withLane.length > 0) {
    await rules.useLanes(
      withLane.map(({ queue }) => queue),
      tx,
    );
  }
}

/** Whether the job replaces, or is rejected because of, a job that holds its key. */
function hasPolicy({ key, onConflict = "return" }: NewJob): boolean {
  return key !== null && onConflict !== "return";
}

/** All of them or none. An id that exists is left as it is. */
export async function enqueueWithPolicy(
  context: MoveContext,
  jobs: readonly NewJob[],
  tries = TRIES_MAX,
): Promise<Accepted> {
  const { engine } = context;
  try {
    return await engine.transaction(async (tx) => {
      const ids = jobs.map(({ id }) => id);
      const known = await tx.all<{ id: string }>(
        sql`select id from holdfast.job where ${engine.among(sql`id`, ids)}`,
      );
      const accepted = await enqueueIn(context, tx, jobs, new Set(known.map(({ id }) => id)));
      await engine.notifyInTx(tx, accepted.hints);
      return accepted;
    });
  } catch (error) {
    // Another process inserted the same key since we looked; the next look sees it.
    if (!(error instanceof StoreRefusedError) || tries === 1) throw error;
    return enqueueWithPolicy(context, jobs, tries - 1);
  }
}

export async function enqueueIn(
  context: MoveContext,
  tx: Transaction,
  jobs: readonly NewJob[],
  known: ReadonlySet<string> = new Set(),
): Promise<Accepted> {
  const batch = new EnqueueBatch(context, tx, await readNow(context.engine, tx));
  const enqueued: Enqueued[] = [];
  const seen = new Set(known);
  for (const job of jobs) {
    const isNew = seen.size < seen.add(job.id).size;
    enqueued.push(isNew ? await batch.accept(job) : { id: job.id, added: false });
  }
  await batch.write();
  return { enqueued, hints: batch.hints };
}

/**
 * Throws KeyTakenError, before anything is written, if the batch cannot be accepted as a whole: we cannot undo a user
 * transaction.
 */
async function refuseTaken(
  engine: Engine,
  tx: Transaction,
  jobs: readonly NewJob[],
): Promise<void> {
  const now = await readNow(engine, tx);
  const firsts = new Map<string, string>();
  for (const job of jobs.filter(isKeyed)) {
    const name = nameOf(job);
    if (hasPolicy(job)) await refuseIfTaken(tx, job, { now, before: firsts.get(name) });
    if (!firsts.has(name)) firsts.set(name, job.id);
  }
}

async function refuseIfTaken(
  tx: Transaction,
  job: Keyed,
  { now, before }: { now: number; before: string | undefined },
): Promise<void> {
  const isOurs = before !== undefined;
  if (isOurs && job.onConflict === "replace") return;
  const holder = isOurs
    ? { id: before }
    : ((await liveHolder(tx, job)) ?? (await keptHolder(tx, job, now)));
  if (holder === null) return;
  if (job.onConflict === "replace" && (await statusOf(tx, holder.id)) !== "processing") return;
  throw await takenBy(tx, job, holder.id);
}

/** Accepts jobs, one after the other, in one transaction. */
class EnqueueBatch {
  readonly hints: Hint[] = [];
  readonly #context: MoveContext;
  readonly #tx: Transaction;
  readonly #now: number;
  #unwritten: NewJob[] = [];
  /** The keys of the jobs that are not written yet. */
  readonly #names = new Set<string>();
  /** The holders of the keys of jobs that were not added. */
  readonly #holders = new Map<string, string>();

  constructor(context: MoveContext, tx: Transaction, now: number) {
    this.#context = context;
    this.#tx = tx;
    this.#now = now;
  }

  async accept(job: NewJob): Promise<Enqueued> {
    if (isPaced(job)) return this.#acceptPaced(job);
    const id = isKeyed(job) ? await this.#takeKey(job) : job.id;
    if (id !== job.id) {
      this.#holders.set(job.id, id);
      return { id, added: false };
    }
    this.#unwritten.push(job);
    if (isKeyed(job)) this.#names.add(nameOf(job));
    return { id, added: true };
  }

  /** It is written at once: the next job of the batch may have the same key. */
  async #acceptPaced(job: Paced): Promise<Enqueued> {
    if (job.member !== undefined) {
      const problem =
        "is not available for jobs that wait for others or belong to a flow or batch.";
      throw invalid(job.pace.kind, problem);
    }
    const found = await paced(this.#context.engine, this.#tx, job, this.#now);
    if ("holder" in found) {
      this.#holders.set(job.id, found.holder);
      return { id: found.holder, added: false };
    }
    this.#unwritten.push(found);
    await this.write();
    return { id: job.id, added: true };
  }

  async write(): Promise<void> {
    const jobs = this.#unwritten;
    this.#unwritten = [];
    this.#names.clear();
    const now = this.#now;
    const ready: Row[] = [];
    const waiting: Row[] = [];
    const missing: Row[] = [];
    const ended: Destination[] = [];
    const queues: string[] = [];
    const placements = await this.#place(jobs);
    for (const job of jobs) {
      const placement = placements.get(job.id);
      const dueAt = dueTime(job, now);
      const row = { ...newJobColumns(job), start_by: startByTime(job, now) };
      if (placement !== undefined && "status" in placement) {
        ended.push({ table: "finished", row: endedAtOnce(job, placement, now) });
      } else if (placement !== undefined) {
        const { missing: count } = placement;
        missing.push(asRow({ ...row, status: "waiting", due_at: null, missing: count }));
      } else if (dueAt > now) {
        waiting.push(asRow({ ...row, status: "scheduled", due_at: dueAt }));
      } else {
        ready.push(asRow(readyRow(this.#context.engine, row, now)));
        queues.push(job.queue);
      }
    }
    const rows = jobs.map((job) => jobRow(job, now));
    await this.#tx.insert("job", rows);
    await this.#tx.insert("ready", ready);
    await this.#tx.insert("waiting", waiting);
    await this.#tx.insert("waiting", missing);
    await this.#tx.insert("job_trace", traceRows(jobs));
    await this.#tx.insert("job_tag", tagRows(jobs));
    queues.push(...(await moveWithHooks(this.#context, this.#tx, ended)));
    this.#hintPending(queues);
    if (waiting.length + missing.length > 0) this.hints.push({ kind: "waiting" });
    if (ended.length > 0) this.hints.push({ kind: "finished" });
  }

  /** Jobs that wait for others do not begin as pending. */
  async #place(jobs: readonly NewJob[]): Promise<ReadonlyMap<string, Placement>> {
    const placements = new Map<string, Placement>();
    if (jobs.every(({ member }) => member === undefined)) return placements;
    const { engine, hooks } = this.#context;
    for (const hook of hooks) {
      const placed = await hook.place?.(engine, this.#tx, { jobs, holders: this.#holders });
      for (const [id, placement] of placed ?? []) placements.set(id, placement);
    }
    return placements;
  }

  /** The id that holds the job's key from now on. */
  async #takeKey(job: Keyed): Promise<string> {
    // A job of the same batch has the key: it must be written to be seen, or replaced.
    if (hasPolicy(job) && this.#names.has(nameOf(job))) await this.write();
    for (let round = 1; ; round += 1) {
      const holder = await hold(this.#tx, job, this.#now);
      if (holder.id === job.id || !hasPolicy(job)) return holder.id;
      if (round < KEY_ROUNDS_MAX && (await this.#givesWay(holder, job))) continue;
      throw await takenBy(this.#tx, job, holder.id);
    }
  }

  /** Whether to try again to take the key: the holder was replaced, or has ended or moved. */
  async #givesWay(holder: Holder, job: Keyed): Promise<boolean> {
    const replaces = job.onConflict === "replace";
    if (!holder.isLive) {
      if (replaces) await letGo(this.#tx, holder.id);
      return replaces;
    }
    if (replaces && (await this.#cancel(holder, job))) return true;
    const status = await statusOf(this.#tx, holder.id);
    if (status === null || isFinal(status)) return true;
    return replaces && status !== "processing"; // it has moved since
  }

  /** A running job cannot be replaced. */
  async #cancel({ id }: Holder, job: Keyed): Promise<boolean> {
    const because = { now: this.#now, error: replacedError(job.id) };
    const cancelled = await cancelUnclaimed(this.#context, this.#tx, id, because);
    if (cancelled === null) return false;
    await letGo(this.#tx, id);
    this.hints.push({ kind: "finished" });
    this.#hintPending(cancelled.queues);
    return true;
  }

  #hintPending(queues: readonly string[]): void {
    for (const queue of new Set(queues)) this.hints.push({ kind: "pending", queue });
  }
}

function newJobColumns(job: NewJob): JobColumns {
  const { id, queue, task, priority, key, maxAttempts, lane = null } = job;
  const counters = { epoch: 0, attempts: 0, crashes: 0, max_attempts: maxAttempts };
  return { id, queue, task, rank: 0 - priority, job_key: key, ...counters, lane };
}

/** The row of a job that ends as it is enqueued: a job that it should wait for has failed or was cancelled. */
function endedAtOnce(
  job: NewJob,
  { status, error }: Extract<Placement, { status: string }>,
  now: number,
): FinishedRow {
  const never = { worker: null, started_at: null, finished_at: now, result: null };
  const kind = status === "failed" ? kindIdOf(job.task, error) : null;
  return { ...newJobColumns(job), status, error, error_kind: kind, ...never };
}

function jobRow(job: NewJob, now: number): Row {
  const { id, queue, task, payload, priority, maxAttempts } = job;
  // Only here, so that lists find it: the state tables have keys that a job holds.
  const key = job.key ?? job.pace?.key ?? null;
  const limits = { rank: 0 - priority, max_attempts: maxAttempts };
  return { id, queue, task, payload, ...limits, job_key: key, enqueued_at: now };
}

/** Its writes exist if, and when, the user commits; no worker is woken before. */
export class JobsInTransaction {
  readonly #context: MoveContext;
  readonly #rules: ClaimRules;
  readonly #engine: Engine;
  readonly #joined: JoinedTransaction;

  constructor(context: MoveContext, rules: ClaimRules, joined: JoinedTransaction) {
    this.#context = { ...context, isUsers: true };
    this.#rules = rules;
    this.#engine = context.engine;
    this.#joined = joined;
  }

  /** All of them or none, unless another transaction takes one of the keys at the same moment: then the user retries. */
  async enqueue(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    const { tx, notify } = this.#joined;
    if (jobs.length > 1 && jobs.some(hasPolicy)) await refuseTaken(this.#engine, tx, jobs);
    try {
      await prepareEnqueue({ engine: this.#engine, rules: this.#rules, tx }, jobs);
      const { enqueued, hints } = await enqueueIn(this.#context, tx, jobs);
      for (const hint of hints) await notify(hint);
      return enqueued;
    } catch (error) {
      throw asBusy(this.#engine, error);
    }
  }

  async cancel(id: string): Promise<Status | null> {
    if (!this.#engine.mayBeId(id)) return null;
    const { tx, notify } = this.#joined;
    const { status, queues } = await cancelWhereItStands(this.#context, tx, id);
    await notifyPending(this.#joined, queues);
    if (status === "processing") await notify({ kind: "cancel" });
    if (status === "cancelled") await notify({ kind: "finished" });
    return status;
  }

  /**
   * Ends a claimed job as done. Before anything is written it throws LeaseLostError for a stale fence, and
   * JobCancelledError if a cancel was requested. It locks the lease first, so a later cancel waits for the user's commit.
   */
  async complete(fence: Fence, result: string | null): Promise<void> {
    const { id, worker, epoch } = fence;
    const { tx, notify } = this.#joined;
    const [lease] = await tx.all<{ cancelled: number | null }>(sql`
      select l.cancel_requested_at as cancelled
        from (select cancel_requested_at
                from holdfast.lease
               where id = ${id} and locked_by = ${worker} and epoch = ${epoch}
               ${this.#engine.lockRows()}) l`);
    if (lease === undefined) throw new LeaseLostError(fence);
    if (lease.cancelled !== null) throw new JobCancelledError({ id });
    const outcome = { kind: "done", result } as const;
    const { settled, queues } = await settleIn(this.#context, tx, { ...fence, outcome });
    if (settled.length === 0) throw new LeaseLostError(fence);
    await notifyPending(this.#joined, queues);
    await notify({ kind: "finished" });
  }
}

/** A refused write means that another transaction wrote the same at this moment. */
export function asBusy(engine: Engine, error: unknown): unknown {
  if (!(error instanceof StoreRefusedError)) return error;
  return new StoreBusyError({ store: engine.name, waitedMs: 0 }, error);
}

export async function notifyPending(
  joined: JoinedTransaction,
  queues: readonly string[],
): Promise<void> {
  for (const queue of new Set(queues)) await joined.notify({ kind: "pending", queue });
}
