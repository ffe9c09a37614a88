/**
 * What the store promises, said a second time and as simply as possible: a map of jobs and a clock.
 *
 * There is no I/O, no chance and no code of the product in here (its contract's types are all it
 * knows), so that a mistake would have to be made twice to go unseen. Who holds a key is not stored
 * but looked up among the jobs, so it cannot fall out of step with them.
 *
 * Where the contract leaves a choice (which of the expired leases a full batch takes), the model is
 * told what the store chose, refuses what was not allowed, and goes on from there.
 */
import type { Fence, FinalStatus, Outcome, Settlement, Status } from "../../src/core/job.ts";
import type { JobListFilter } from "../../src/jobs/filter.ts";
import type * as contract from "../../src/jobs/store.ts";

type Open<T> = { -readonly [field in keyof T]: T[field] };

/** One job: everything the store tells about it, and the little that it only shows by what it does. */
type Job = Open<Omit<contract.JobRecord, "lastError">> & {
  readyAt: number | null;
  error: string | null;
  /** For how long it keeps its key after its end; null: not at all, or another has taken it. */
  keyForMs: number | null;
  readonly history: Open<contract.AttemptRecord>[];
  /** The epoch when it was last retried: crashes up to it do not count any more. */
  reopenedAfter: number;
};

/** A job that moves takes nothing along of where it stood, except its counters and its history. */
const NOWHERE = {
  dueAt: null,
  readyAt: null,
  lockedBy: null,
  lockedUntil: null,
  heartbeatAt: null,
  claimedAt: null,
  traceId: null,
  cancelRequestedAt: null,
  finishedAt: null,
  result: null,
  error: null,
  inDoubt: null,
} satisfies Partial<Job>;

/** The rules of one queue. */
export interface Rules {
  readonly concurrency: number | null;
  /** Of each lane; jobs without a lane have no such limit. */
  readonly laneConcurrency: number | null;
  readonly rate: {
    readonly count: number;
    readonly periodMs: number;
    readonly burst: number;
  } | null;
}

/** The queue that may have rules. */
export const LIMITED = "limited";

const FINAL: ReadonlySet<Status> = new Set<Status>(["done", "failed", "cancelled"]);
const OUTAGES_MAX = 10;
const CRASH_BACKOFF_MS_FIRST = 1_000;
const CRASH_BACKOFF_MS_MAX = 60_000;

export class Model {
  now = 1_700_000_000_000;
  readonly jobs = new Map<string, Job>();
  /** The jobs that a dead worker held too, by the job and epoch of a crash. */
  readonly #beside = new Map<string, readonly string[]>();
  rules: Rules = { concurrency: null, laneConcurrency: null, rate: null };
  paused = false;
  /** When the rate is used up no more, in microseconds. */
  #freeAtUs = 0;

  /** All of them, or the code of the error. */
  enqueue(news: readonly contract.NewJob[]): contract.Enqueued[] | string {
    const before = structuredClone([...this.jobs]);
    const enqueued: contract.Enqueued[] = [];
    for (const asked of news) {
      const holder = this.jobs.has(asked.id) ? asked.id : this.#giveWay(asked);
      if (holder === null) this.#add(asked);
      else if (holder === "KEY_TAKEN") {
        this.jobs.clear();
        for (const [id, job] of before) this.jobs.set(id, job);
        return holder;
      }
      enqueued.push({ id: holder ?? asked.id, added: holder === null });
    }
    return enqueued;
  }

  /** Who holds a key: a live job, or else one that has ended and keeps it. */
  holder(task: string, key: string | null): Job | null {
    const named = this.#where((job) => key !== null && job.task === task && job.key === key);
    const keeps = ({ finishedAt, keyForMs }: Job): boolean =>
      finishedAt !== null && keyForMs !== null && finishedAt + keyForMs > this.now;
    return named.find(({ status }) => !FINAL.has(status)) ?? named.find(keeps) ?? null;
  }

  /** Null: the key is free now. */
  #giveWay({ task, key, onConflict = "return" }: contract.NewJob): string | null {
    const holder = this.holder(task, key);
    if (holder === null) return null;
    if (onConflict === "return") return holder.id;
    if (onConflict === "reject" || holder.status === "processing") return "KEY_TAKEN";
    holder.keyForMs = null;
    if (!FINAL.has(holder.status)) {
      move(holder, "cancelled", { finishedAt: this.now, error: "REPLACED" });
    }
    return null;
  }

  #add({ start, keyForMs = null, onConflict: _onConflict, tags = [], ...asked }: contract.NewJob) {
    const at = start === null ? this.now : "at" in start ? start.at : this.now + start.delayMs;
    if (asked.key !== null && keyForMs !== null) {
      // One of a name is remembered, and it is the last.
      for (const job of this.#where(({ task, key }) => task === asked.task && key === asked.key)) {
        job.keyForMs = null;
      }
    }
    const counters = { epoch: 0, attempts: 0, crashes: 0, reopenedAfter: 0 };
    const kept = { keyForMs: asked.key === null ? null : keyForMs, enqueuedAt: this.now };
    const place = { ...NOWHERE, status: "pending", history: [] } as const;
    const lane = asked.lane ?? null;
    const job: Job = { ...asked, tags, lane, ...kept, ...counters, ...place, history: [] };
    if (at > this.now) move(job, "scheduled", { dueAt: at });
    else move(job, "pending", { readyAt: this.now });
    this.jobs.set(job.id, job);
  }

  claim(wanted: contract.Wanted): contract.ClaimedJob[] {
    return this.#take(this.#wanted(wanted).slice(0, wanted.limit), wanted);
  }

  /** Which lanes come first is the store's choice; how many jobs of each, and in which order, is not. */
  claimLimited(wanted: contract.Wanted, chosen: readonly string[]): contract.ClaimedJob[] {
    const lanes = Map.groupBy(this.#wanted(wanted), ({ lane }) => lane);
    const taken: Job[] = [];
    let most = 0;
    for (const [lane, jobs] of lanes) {
      const room = Math.min(this.#roomOf(lane), jobs.length);
      const ours = jobs.filter(({ id }) => chosen.includes(id));
      const isFirst = ours.every((job, at) => job === jobs[at]);
      if (!isFirst || ours.length > room) throw refusal(chosen, jobs.slice(0, room));
      taken.push(...ours);
      most += room;
    }
    // No place stays empty that a job may take.
    const expected = this.paused ? 0 : Math.min(wanted.limit, this.#roomOfQueue(), most);
    if (taken.length !== expected || chosen.length !== expected)
      throw new Error(`The store took [${chosen.join(", ")}], and should take ${expected}.`);
    this.#charge(taken.length);
    return this.#take(taken, wanted);
  }

  /** A rule that is removed is forgotten, and its rate with it. */
  setRules(rules: Rules): void {
    if (rules.concurrency === null && rules.rate === null) this.#freeAtUs = 0;
    this.rules = rules;
  }

  /** Returns whether this changed something. */
  setPaused(paused: boolean): boolean {
    const isChanged = this.paused !== paused;
    this.paused = paused;
    return isChanged;
  }

  #running(test: (job: Job) => boolean): number {
    return this.#where((job) => job.queue === LIMITED && job.status === "processing" && test(job))
      .length;
  }

  #roomOf(lane: string | null): number {
    const { laneConcurrency } = this.rules;
    if (lane === null || laneConcurrency === null) return Number.POSITIVE_INFINITY;
    return Math.max(0, laneConcurrency - this.#running((job) => job.lane === lane));
  }

  #roomOfQueue(): number {
    const { concurrency, rate } = this.rules;
    const byCount =
      concurrency === null
        ? Number.POSITIVE_INFINITY
        : Math.max(0, concurrency - this.#running(() => true));
    if (rate === null) return byCount;
    const nowUs = this.now * 1_000;
    const leftUs = nowUs + rate.burst * costUs(rate) - this.#dueUs(rate);
    return Math.max(0, Math.min(byCount, Math.floor(leftUs / costUs(rate))));
  }

  #dueUs(rate: NonNullable<Rules["rate"]>): number {
    const nowUs = this.now * 1_000;
    const cost = costUs(rate);
    // The rate was changed, and what was used before would stop it for too long.
    if (this.#freeAtUs > nowUs + (rate.burst + 1) * cost) return nowUs + (rate.burst - 1) * cost;
    return Math.max(this.#freeAtUs, nowUs);
  }

  #charge(starts: number): void {
    const { rate } = this.rules;
    if (rate !== null && starts > 0) this.#freeAtUs = this.#dueUs(rate) + starts * costUs(rate);
  }

  #wanted({ queues, tasks }: contract.Wanted): Job[] {
    const wants = (job: Job): boolean =>
      job.status === "pending" &&
      queues.includes(job.queue) &&
      (tasks === null || tasks.includes(job.task));
    return this.#where(wants).toSorted(inClaimOrder);
  }

  #take(taken: readonly Job[], { worker, leaseMs }: contract.Wanted): contract.ClaimedJob[] {
    return taken.map((job) => {
      job.epoch += 1;
      job.attempts += 1;
      const lockedUntil = this.now + leaseMs;
      const { readyAt } = job;
      move(job, "processing", { lockedBy: worker, lockedUntil, heartbeatAt: this.now });
      const { id, epoch, attempts: attempt, queue, task, payload, priority } = job;
      Object.assign(job, { claimedAt: this.now, traceId: `${worker}-${id}-${attempt}` });
      const { maxAttempts, crashes, enqueuedAt } = job;
      const times = { startedAt: this.now, endedAt: null };
      job.history.push({ epoch, attempt, worker, outcome: "running", ...times, error: null });
      const told = { queue, task, payload, priority, attempt, maxAttempts, crashes, enqueuedAt };
      return { id, worker, epoch, ...told, readyAt, lockedUntil };
    });
  }

  settle(settlements: readonly Settlement[]): contract.Settled[] {
    return settlements.flatMap((settlement) => {
      const job = this.#held(settlement);
      if (job === null) return [];
      this.#land(job, settlement.outcome);
      return [settled(settlement, job)];
    });
  }

  /** Owners report that the database did not answer: of the attempts they gave up, or those that were taken for crashes. */
  outages(fences: readonly Fence[]): contract.Settled[] {
    return fences.flatMap((fence) => {
      const job = this.jobs.get(fence.id);
      if (job === undefined) return [];
      const isOutage = ({ outcome, error }: contract.AttemptRecord): boolean =>
        outcome === "released" && error !== null;
      const isForgiven = job.history.filter(isOutage).length < OUTAGES_MAX;
      if (this.#held(fence) !== null) {
        if (isForgiven) this.#land(job, { kind: "released", error: "LEASE_LOST" });
        else this.#land(job, { kind: "failed", error: "LEASE_LOST" });
        return [settled(fence, job)];
      }
      return isForgiven && this.#giveBack(job, fence)
        ? [{ ...settled(fence, job), status: "pending", dueAt: null }]
        : [];
    });
  }

  #giveBack(job: Job, { worker, epoch }: Fence, why = "LEASE_LOST"): boolean {
    const entry = job.history.find((one) => one.epoch === epoch && one.worker === worker);
    const isCounted = entry?.outcome === "crashed" && epoch > job.reopenedAfter;
    if (FINAL.has(job.status) || !isCounted) return false;
    Object.assign(entry, { outcome: "released", error: why });
    job.crashes -= 1;
    if (job.status !== "processing") job.attempts -= 1;
    return true;
  }

  extend(fences: readonly Fence[], leaseMs: number): contract.Extended[] {
    const told = new Set<string>();
    return fences.flatMap(({ id, worker, epoch }) => {
      const job = this.#held({ id, worker, epoch });
      if (job === null || told.has(id)) return []; // asked for twice is told once
      told.add(id);
      const lockedUntil = Math.max(job.lockedUntil ?? 0, this.now + leaseMs);
      Object.assign(job, { lockedUntil, heartbeatAt: this.now });
      const cancelRequested = job.cancelRequestedAt !== null;
      return [{ id, worker, epoch, lockedUntil, cancelRequested }];
    });
  }

  reclaim(chore: { graceMs: number; maxCrashes: number; limit: number }, chosen: string[]) {
    const ended = (job: Job): boolean =>
      job.lockedUntil !== null && job.lockedUntil < this.now - chore.graceMs;
    const taken = pick(chosen, this.#where(ended), chore.limit);
    const besides = taken.map(({ id, lockedBy }) =>
      this.#where((other) => other.lockedBy === lockedBy && other.id !== id).map((one) => one.id),
    );
    const culprits = taken.filter((job, n) => job.crashes > 0 && besides[n]?.length === 0);
    const reclaimed = taken.map((job, n): contract.Settled => {
      const fence = { id: job.id, worker: job.lockedBy ?? "", epoch: job.epoch };
      this.#crash(job, chore.maxCrashes);
      this.#beside.set(`${job.id} ${job.epoch}`, besides[n] ?? []);
      return settled(fence, job);
    });
    const cleared = new Map(culprits.map((job) => [job.id, this.#clear(job)]));
    return reclaimed.map((one) => {
      const neighbours = cleared.get(one.id) ?? [];
      return neighbours.length === 0 ? one : { ...one, cleared: neighbours };
    });
  }

  /** The job lost another worker while it ran alone: those beside it before are not charged. */
  #clear(culprit: Job): string[] {
    const crashes = culprit.history.filter(({ outcome }) => outcome === "crashed").toReversed();
    const cleared = crashes.flatMap((crash) =>
      (this.#beside.get(`${culprit.id} ${crash.epoch}`) ?? []).filter((id) => {
        const job = this.jobs.get(id);
        const mine = job?.history.find(
          ({ outcome, worker }) => outcome === "crashed" && worker === crash.worker,
        );
        if (job === undefined || mine === undefined) return false;
        return this.#giveBack(
          job,
          { id, worker: mine.worker, epoch: mine.epoch },
          "NEIGHBOUR_CRASHED",
        );
      }),
    );
    return cleared.toSorted();
  }

  promote(limit: number): number {
    const due = this.#timed()
      .filter((job) => dueAt(job) <= this.now)
      .slice(0, limit);
    for (const job of due) move(job, "pending", { readyAt: this.now });
    return due.length;
  }

  dueInMs(): number | null {
    const [next] = this.#timed();
    return next === undefined ? null : dueAt(next) - this.now;
  }

  #timed(): Job[] {
    return this.#where((job) => job.dueAt !== null).toSorted(byDueTime);
  }

  cancel(id: string): Status | null {
    const job = this.jobs.get(id);
    if (job === undefined) return null;
    if (job.status === "processing") job.cancelRequestedAt ??= this.now;
    else if (!FINAL.has(job.status)) move(job, "cancelled", { finishedAt: this.now });
    return job.status;
  }

  /** Null, or the code of the error. */
  reopen(id: string, attempts: number): string | null {
    const job = this.jobs.get(id);
    if (job === undefined) return "JOB_NOT_FOUND";
    if (job.status !== "failed" && job.status !== "cancelled") return "ILLEGAL_MOVE";
    const holder = this.holder(job.task, job.key);
    if (holder !== null && holder !== job) return "KEY_TAKEN";
    job.maxAttempts = Math.max(job.maxAttempts, job.attempts + attempts);
    Object.assign(job, { crashes: 0, reopenedAfter: job.epoch });
    move(job, "pending", { readyAt: this.now });
    return null;
  }

  prune(
    { retention, limit }: { retention: Record<FinalStatus, number>; limit: number },
    chosen: string[],
  ) {
    const old = (job: Job): boolean =>
      job.finishedAt !== null && job.finishedAt < this.now - retention[job.status as FinalStatus];
    const pruned = pick(chosen, this.#where(old), limit);
    for (const { id } of pruned) this.jobs.delete(id);
    return pruned.length;
  }

  // ── What it tells ──────────────────────────────────────────────────────────────────────────────

  find(id: string): contract.JobRecord | null {
    const job = this.jobs.get(id);
    if (job === undefined) return null;
    const {
      readyAt: _,
      keyForMs: __,
      error: ___,
      history: ____,
      reopenedAfter: _____,
      ...record
    } = job;
    return { ...record, lastError: lastErrorOf(job), inDoubt: null };
  }

  attempts(id: string): contract.AttemptRecord[] {
    return this.jobs.get(id)?.history ?? [];
  }

  findFinished(ids: readonly string[]): contract.FinishedRecord[] {
    return this.#where((job) => FINAL.has(job.status) && ids.includes(job.id)).map(
      ({ id, task, status, attempts, result, error }) => {
        return { id, task, status: status as FinalStatus, attempts, result, error };
      },
    );
  }

  list({ before, limit, ...filter }: JobListFilter): contract.JobSummary[] {
    const found = this.#where(
      (job) => fits(job, filter) && (before === undefined || job.id < before),
    );
    return found.toSorted(byId).toReversed().slice(0, limit).map(summary);
  }

  leases({ state, worker, after, limit }: contract.LeaseFilter): contract.LeaseRecord[] {
    const found = this.#where(
      ({ id, lockedBy, lockedUntil }) =>
        lockedUntil !== null &&
        lockedUntil < this.now === (state === "expired") &&
        (worker === undefined || lockedBy === worker) &&
        (after === undefined || id > after),
    );
    return found.toSorted(byId).slice(0, limit).map(lease);
  }

  stats(): contract.QueueStats[] {
    const queues = new Set(this.#where(() => true).map((job) => job.queue));
    return [...queues].toSorted().map((queue) => {
      const jobs = this.#where((job) => job.queue === queue);
      const since = jobs.flatMap(({ readyAt }) => (readyAt === null ? [] : [readyAt]));
      const none = { scheduled: 0, pending: 0, processing: 0, waiting: 0, retry: 0 };
      const counts = { ...none, done: 0, failed: 0, cancelled: 0, expired: 0 };
      for (const job of jobs) counts[job.status] += 1;
      return { queue, counts, oldestPendingAt: since.length === 0 ? null : Math.min(...since) };
    });
  }

  // ── How an attempt ends ────────────────────────────────────────────────────────────────────────

  #land(job: Job, outcome: Outcome): void {
    const error = "error" in outcome ? (outcome.error ?? null) : null;
    const exhausted = outcome.kind === "retry" && job.attempts >= job.maxAttempts;
    const kind = job.cancelRequestedAt !== null ? "cancelled" : exhausted ? "failed" : outcome.kind;
    const delayMs = "delayMs" in outcome ? outcome.delayMs : null;
    const due = { dueAt: delayMs === null ? null : this.now + delayMs };
    const result = kind === "done" && "result" in outcome ? outcome.result : null;
    this.#end(job, kind, error);
    if (kind === "suspended" || kind === "released") job.attempts -= 1;
    if (kind === "suspended") move(job, "waiting", due);
    else if (kind === "released") move(job, "pending", { readyAt: this.now });
    else if (kind === "retry") move(job, "retry", due);
    else move(job, kind, { ...ender(job), finishedAt: this.now, result, error });
  }

  #crash(job: Job, maxCrashes: number): void {
    const longest = Math.min(CRASH_BACKOFF_MS_MAX, CRASH_BACKOFF_MS_FIRST * 2 ** job.crashes);
    const digits = job.id.slice(-3 - 3 * (job.crashes % 4)).slice(0, 3);
    const backoffMs = Math.floor(longest * (0.5 + Number(`0x${digits}`) / 4_096));
    job.crashes += 1;
    const poison = job.crashes >= maxCrashes;
    const cancelled = job.cancelRequestedAt !== null;
    const hopeless = cancelled || poison || job.attempts >= job.maxAttempts;
    const error = cancelled ? null : poison ? "POISON" : "LEASE_EXPIRED";
    const final = cancelled ? "cancelled" : "failed";
    this.#end(job, hopeless ? final : "crashed", error);
    if (hopeless) move(job, final, { ...ender(job), finishedAt: this.now, error });
    else move(job, "retry", { dueAt: this.now + backoffMs });
  }

  #end(job: Job, outcome: string, error: string | null): void {
    Object.assign(job.history.at(-1) ?? {}, { outcome, error, endedAt: this.now });
  }

  #held({ id, worker, epoch }: Fence): Job | null {
    const job = this.jobs.get(id);
    return job?.lockedBy === worker && job.epoch === epoch ? job : null;
  }

  #where(test: (job: Job) => boolean): Job[] {
    return [...this.jobs.values()].filter(test);
  }
}

function move(job: Job, status: Status, place: Partial<Job>): void {
  Object.assign(job, NOWHERE, { status }, place);
}

/** The attempt that ends a job stays named by it. */
function ender({ claimedAt, traceId }: Job): Pick<Job, "claimedAt" | "traceId"> {
  return { claimedAt, traceId };
}

function lastErrorOf({ error, history }: Job): string | null {
  return error ?? history.findLast((one) => one.error !== null)?.error ?? null;
}

function settled({ id, worker, epoch }: Fence, job: Job): contract.Settled {
  const { queue, task, status, attempts } = job;
  return { id, worker, epoch, queue, task, status, attempts, dueAt: job.dueAt };
}

function summary(job: Job): contract.JobSummary {
  const { id, queue, task, status, priority, key, lane, epoch, attempts, maxAttempts } = job;
  const { crashes, enqueuedAt, dueAt: due, lockedBy, lockedUntil, finishedAt } = job;
  const counters = { epoch, attempts, maxAttempts, crashes };
  const { claimedAt, heartbeatAt, traceId } = job;
  const times = { enqueuedAt, dueAt: due, lockedUntil, claimedAt, heartbeatAt, finishedAt };
  const ids = { id, queue, task, key, lane, lockedBy, traceId };
  const told = { lastError: lastErrorOf(job), inDoubt: null, tags: job.tags };
  return { ...ids, status, priority, ...counters, ...times, ...told };
}

function lease({ id, queue, task, epoch, attempts, ...job }: Job): contract.LeaseRecord {
  const { cancelRequestedAt } = job;
  const claimedAt = job.history.at(-1)?.startedAt ?? 0;
  const times = { claimedAt, heartbeatAt: job.heartbeatAt ?? 0, lockedUntil: job.lockedUntil ?? 0 };
  const fence = { id, worker: job.lockedBy ?? "", epoch };
  const traceId = job.traceId ?? "";
  return { ...fence, queue, task, attempt: attempts, traceId, ...times, cancelRequestedAt };
}

/** A batch holds only what was allowed, nothing twice, and is as full as it can be. */
function pick(chosen: readonly string[], allowed: readonly Job[], limit: number): Job[] {
  const picked = [...new Set(chosen)].flatMap((id) => allowed.filter((job) => job.id === id));
  const full = picked.length === Math.min(limit, allowed.length);
  if (full && picked.length === chosen.length) return picked;
  const ids = allowed.map((job) => job.id).join(", ");
  throw new Error(`The store took [${chosen.join(", ")}]; allowed are ${limit} of [${ids}].`);
}

function refusal(chosen: readonly string[], allowed: readonly Job[]): Error {
  const ids = allowed.map((job) => job.id).join(", ");
  return new Error(`The store took [${chosen.join(", ")}]; of one lane allowed are [${ids}].`);
}

/** What one start costs. */
function costUs({ count, periodMs }: NonNullable<Rules["rate"]>): number {
  return Math.ceil((periodMs * 1_000) / count);
}

function fits(job: Job, filter: Pick<JobListFilter, "status" | "queue" | "task">): boolean {
  return (
    job.status === (filter.status ?? job.status) &&
    job.queue === (filter.queue ?? job.queue) &&
    job.task === (filter.task ?? job.task)
  );
}

function dueAt(job: Job): number {
  return job.dueAt ?? Number.POSITIVE_INFINITY;
}

function byId(a: Job, b: Job): number {
  return a.id < b.id ? -1 : 1;
}

function byDueTime(a: Job, b: Job): number {
  return dueAt(a) - dueAt(b) || byId(a, b);
}

function inClaimOrder(a: Job, b: Job): number {
  return b.priority - a.priority || (a.readyAt ?? 0) - (b.readyAt ?? 0) || byId(a, b);
}
