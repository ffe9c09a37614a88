/**
 * Insert, claim, settle and extend on PostgreSQL.
 *
 * The common case of each is one statement. Rare cases (keys, outcomes other than done, a batch of several workers) are
 * handled first, in the same transaction.
 */
import { StoreRefusedError } from "../core/errors.ts";
import type { Fence, Settlement } from "../core/job.ts";
import { readNow } from "../database/engine.ts";
import type { PostgresEngine } from "../database/postgres/engine.ts";
import { isDuplicate } from "../database/postgres/errors.ts";
import type { Send, Sending } from "../database/postgres/session.ts";
import { traceRows } from "../tracing/tracing.ts";
import { type EndingLease, isAlike, isPlainEnd, shiftOf, tagRows } from "./rows.ts";
import { FIELD, holdKeys, ROW, statements } from "./postgres-statements.ts";
import { settleTaken, settledAsClaimed } from "./settle.ts";
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
  type LaneClaims,
  type LanesWanted,
  type LockedJob,
  type NewJob,
  type Settled,
} from "./store.ts";

/** One statement carries at most this much payload; a larger batch is several statements in one transaction. */
const STATEMENT_BYTES_MAX = 8 * 1_024 * 1_024;

/** Tries of an insert that meets an earlier copy of itself. */
const INSERT_TRIES_MAX = 3;

export class PostgresStatements implements JobStatements {
  readonly #engine: PostgresEngine;
  readonly #texts = new Map<string, string>();

  constructor(engine: PostgresEngine) {
    this.#engine = engine;
  }

  async insert(jobs: readonly NewJob[]): Promise<Enqueued[]> {
    const chunks = chunksOf(jobs);
    const [only] = chunks;
    if (chunks.length === 1 && only !== undefined && jobs.every(({ key }) => key === null)) {
      try {
        await this.#engine.reserved.write(this.#plainInsertion(only));
        return jobs.map(({ id }) => ({ id, added: true }));
      } catch (error) {
        // One of the jobs exists already, and may have moved on since.
        if (!(error instanceof StoreRefusedError)) throw error;
      }
    }
    return this.#insertNew(chunks, INSERT_TRIES_MAX);
  }

  async #insertNew(chunks: readonly (readonly NewJob[])[], tries: number): Promise<Enqueued[]> {
    try {
      return await this.#engine.reserved.transaction((send) =>
        this.#insertWithPolicy(send, chunks),
      );
    } catch (error) {
      // An earlier call whose answer was lost was committed only now.
      const isLate = error instanceof StoreRefusedError && isDuplicate(error.cause);
      if (isLate && tries > 1) return this.#insertNew(chunks, tries - 1);
      throw error;
    }
  }

  settleAndClaim(
    all: readonly Settlement[],
    wanted: Claiming | null,
    turn?: GovernedTurn,
  ): Promise<CycleResult> {
    const { reserved: sessions } = this.#engine;
    const settlements = firstOfEach(all);
    const plain = settlements.filter(({ outcome }) => isPlainEnd(outcome));
    const workers = new Set(settlements.map(({ worker }) => worker));
    if (wanted !== null) {
      // Last, so that the claim finds the jobs that others hand back.
      workers.delete(wanted.worker);
      workers.add(wanted.worker);
    }
    const guarded = wanted?.guarded === true;
    const isPlain = !guarded && turn === undefined;
    if (plain.length === settlements.length && workers.size === 1 && isPlain) {
      return this.#cycle((sending) => sessions.write(sending), plain, wanted);
    }
    const limits = turn === undefined || wanted === null ? {} : gateLimits(wanted);
    return sessions.transaction(async (send, _client, last) => {
      const settled: Settled[] = [];
      const claimed: ClaimedJob[] = [];
      const governed: string[] = [];
      const claiming = await this.#unlessEvicted(send, wanted);
      const rare = settlements.filter(({ outcome }) => !isPlainEnd(outcome));
      for (const worker of workers) {
        const of = (some: readonly Settlement[]): Settlement[] =>
          some.filter((settlement) => settlement.worker === worker);
        settled.push(...(await this.#settleRare(send, of(rare))));
        const claims = claiming?.worker === worker ? claiming : null;
        const first = this.#cycle(send, of(plain), turn === undefined ? claims : null);
        if (claims !== null && turn !== undefined) {
          first.catch(() => {}); // awaited below: the claim is sent without waiting for its answer
          const others = async (limit: number): Promise<ClaimedJob[]> => {
            if (claims.queues.length === 0) return [];
            const cycle = await this.#cycle(send, [], { ...claims, limit });
            governed.push(...cycle.governed);
            return cycle.claimed;
          };
          claimed.push(
            ...(await claimBoth(claims.limit, this.#laneClaims(send, last), turn, others)),
          );
        }
        const cycle = await first;
        settled.push(...cycle.settled);
        claimed.push(...cycle.claimed);
        governed.push(...cycle.governed);
      }
      return { settled, claimed, governed };
    }, limits);
  }

  #laneClaims(send: Send, last: (sending: Sending) => void): LaneClaims<LockedJob> {
    const engine = this.#engine;
    return {
      tx: engine.transactionOn(send),
      runLast: async (queries) => queries.forEach((query) => last(engine.compile(query))),
      lock: async (wanted) => {
        const { rows } = await send({ ...this.#hot("lockLanes"), values: laneValues(wanted) });
        return (rows as [string, string, string][]).map(([id, task, lane]) => ({ id, task, lane }));
      },
      take: async (wanted, { worker, leaseMs, claimId }) => {
        const values = [...laneValues(wanted), worker, leaseMs, claimId];
        const { rows } = await send({ ...this.#hot("takeLanes"), values });
        const [taken] = rows[0] as [string | null];
        const until = wanted.nowMs + leaseMs;
        const jobs = rowsOf(taken).map((row) => {
          const claimed = readClaimed(row, worker, until);
          const lane = row.split(FIELD).slice(CLAIMED_FIELDS).join(FIELD);
          return { claimed, locked: { id: claimed.id, task: claimed.task, lane } };
        });
        return jobs.toSorted((a, b) => inClaimOrder(a.claimed, b.claimed));
      },
      lease: async (jobs, { worker, leaseMs, claimId }, nowMs) => {
        const ids = jobs.map(({ id }) => id);
        const values = [list(ids), worker, nowMs, leaseMs, claimId];
        const { rows } = await send({ ...this.#hot("leaseLocked"), values });
        const [claimed] = rows[0] as [string | null];
        const leases = rowsOf(claimed).map((row) => readClaimed(row, worker, nowMs + leaseMs));
        const known = new Map(leases.map((job) => [job.id, job]));
        return ids.flatMap((id) => known.get(id) ?? []);
      },
    };
  }

  async extend(fences: readonly Fence[], leaseMs: number): Promise<Extended[]> {
    const extended: Extended[] = [];
    for (const [worker, some] of Map.groupBy(fences, (fence) => fence.worker)) {
      const free = await this.#extend("extend", worker, some, leaseMs);
      const known = new Set(free.map(({ id }) => id));
      const missing = some.filter(({ id }) => !known.has(id));
      extended.push(...free, ...(await this.#extendLocked(worker, missing, leaseMs)));
    }
    return extended;
  }

  /** A lease that was passed over may still be ours: a cancel writes to the lease too. */
  async #extendLocked(
    worker: string,
    fences: readonly Fence[],
    leaseMs: number,
  ): Promise<Extended[]> {
    if (fences.length === 0) return [];
    const values = fenceValues(worker, fences);
    const { rows } = await this.#engine.reserved.read({ ...this.#hot("held"), values });
    const held = new Set(rows.map((row) => (row as [string])[0]));
    const extended: Extended[] = [];
    for (const fence of fences.filter(({ id }) => held.has(id))) {
      const [one] = await this.#extend("extendOne", worker, [fence], leaseMs);
      if (one !== undefined && held.delete(one.id)) extended.push(one); // each is returned once
    }
    return extended;
  }

  async #extend(
    text: "extend" | "extendOne",
    worker: string,
    fences: readonly Fence[],
    leaseMs: number,
  ): Promise<Extended[]> {
    const values = [...fenceValues(worker, fences), this.#engine.testNow(), leaseMs];
    const { rows } = await this.#engine.reserved.write({ ...this.#hot(text), values });
    return rows.map((row) => {
      const [id, epoch, lockedUntil, cancelRequested] = row as [string, number, number, boolean];
      return { id, worker, epoch, lockedUntil, cancelRequested };
    });
  }

  async #unlessEvicted(send: Send, wanted: Claiming | null): Promise<Claiming | null> {
    if (wanted?.guarded !== true) return wanted;
    const { rows } = await send({ text: this.#text("guard"), values: [wanted.worker] });
    return rows.length === 0 ? null : wanted;
  }

  /** All outcomes are `done`, of one worker: one statement. */
  async #cycle(
    send: Send,
    settlements: readonly Settlement[],
    wanted: Claiming | null,
  ): Promise<CycleResult> {
    const worker = wanted?.worker ?? settlements[0]?.worker;
    if (worker === undefined || (wanted === null && settlements.length === 0)) {
      return { settled: [], claimed: [], governed: [] };
    }
    const results = settlements.map(({ outcome }) =>
      outcome.kind === "done" ? outcome.result : null,
    );
    const values = [...fenceValues(worker, settlements), given(results), this.#engine.testNow()];
    const known = settlements.every(({ claimed }) => claimed !== undefined);
    if (wanted === null) {
      const { rows } = await send({ ...this.#hot("settle"), values: [...values, known] });
      return readCycle(rows, worker, settlements);
    }
    const { tasks, limit, leaseMs, claimId } = wanted;
    const queues = [...new Set(wanted.queues)];
    values.push(queues, tasks, limit, leaseMs, claimId, known);
    const text = queues.length > 1 ? "claimFromSeveral" : "claimFromOne";
    const { rows } = await send({ ...this.#hot(text), values });
    return readCycle(rows, worker, settlements);
  }

  /** Outcomes that need a decision: it takes their leases, and decides in the code that all engines share. */
  async #settleRare(send: Send, settlements: readonly Settlement[]): Promise<Settled[]> {
    const [first] = settlements;
    if (first === undefined) return [];
    const values = fenceValues(first.worker, settlements);
    const { rows } = await send({ text: this.#text("takeLeases"), values });
    const engine = this.#engine;
    const tx = engine.transactionOn(send);
    const now = await readNow(engine, tx);
    return settleTaken(engine, tx, { leases: rows as EndingLease[], settlements, now });
  }

  async #insertWithPolicy(send: Send, chunks: readonly (readonly NewJob[])[]): Promise<Enqueued[]> {
    const jobs = chunks.flat();
    const now = this.#engine.testNow();
    const holders = await holdKeys(jobs, { send, text: (name) => this.#text(name), now });
    const isWanted = (job: NewJob): boolean => (holders.get(job.id) ?? job.id) === job.id;
    const added = new Set<string>();
    const seen = new Set<string>();
    const isFirst = ({ id }: NewJob): boolean => seen.size < seen.add(id).size;
    for (const chunk of chunks) {
      const wanted = chunk.filter(isWanted).filter(isFirst);
      if (wanted.length === 0) continue;
      const { rows } = await send(this.#insertion("insertNew", wanted));
      for (const row of rows) added.add((row as { id: string }).id);
    }
    const news = [...new Map(jobs.map((job) => [job.id, job])).values()].filter(({ id }) =>
      added.has(id),
    );
    const tx = this.#engine.transactionOn(send);
    await tx.insert("job_trace", traceRows(news));
    await tx.insert("job_tag", tagRows(news));
    return jobs.map((job) => {
      const id = holders.get(job.id) ?? job.id;
      return { id, added: id === job.id && added.delete(id) };
    });
  }

  #plainInsertion(jobs: readonly NewJob[]): Sending {
    const [first] = jobs;
    if (first !== undefined && jobs.every((job) => isAlike(job, first))) {
      return this.#alikeInsertion(first, jobs);
    }
    const traces = jobs.filter(({ trace }) => trace !== undefined);
    const tags = tagRows(jobs);
    if (traces.length === 0 && tags.length === 0) return this.#insertion("insert", jobs);
    const { values = [], ...sending } = this.#insertion("insertTraced", jobs);
    const lists = [
      list(traces.map(({ id }) => id)),
      traces.map(({ trace }) => trace?.traceparent),
      traces.map(({ trace }) => trace?.tracestate),
      tags.map((row) => row["tag"]),
      tags.map((row) => row["job_id"]),
    ];
    return { ...sending, values: [...values, ...lists] };
  }

  #alikeInsertion(
    { queue, task, priority, maxAttempts }: NewJob,
    jobs: readonly NewJob[],
  ): Sending {
    const rank = 0 - priority;
    const values = [
      this.#engine.testNow(),
      list(jobs.map(({ id }) => id)),
      jobs.map(({ payload }) => payload).join(ROW),
      queue,
      task,
      rank,
      maxAttempts,
      shiftOf(this.#engine, queue, rank),
    ];
    return { text: this.#text("insertAlike"), name: "holdfast_insertAlike", values };
  }

  #insertion(name: "insert" | "insertTraced" | "insertNew", jobs: readonly NewJob[]): Sending {
    const values = [
      this.#engine.testNow(),
      list(jobs.map(({ id }) => id)),
      common(jobs.map(({ queue }) => queue)),
      common(jobs.map(({ task }) => task)),
      jobs.map(({ payload }) => payload).join(ROW),
      common(jobs.map(({ priority }) => 0 - priority)),
      common(jobs.map(({ maxAttempts }) => maxAttempts)),
      given(jobs.map(({ key }) => key)),
      given(jobs.map(({ start }) => (start !== null && "at" in start ? start.at : null))),
      given(jobs.map(({ start }) => (start !== null && "delayMs" in start ? start.delayMs : null))),
      given(jobs.map(({ lane = null }) => lane)),
      common(jobs.map(({ queue, priority }) => shiftOf(this.#engine, queue, 0 - priority))),
      given(jobs.map(({ startBy }) => (startBy && "at" in startBy ? startBy.at : null))),
      given(
        jobs.map(({ startBy }) => (startBy && "withinMs" in startBy ? startBy.withinMs : null)),
      ),
    ];
    return { text: this.#text(name), name: `holdfast_${name}`, values };
  }

  #hot(name: keyof typeof statements): Sending {
    return { text: this.#text(name), name: `holdfast_${name}`, rows: "array" };
  }

  #text(name: keyof typeof statements): string {
    const text = statements[name];
    let spelt = this.#texts.get(text);
    if (spelt === undefined) {
      spelt = this.#engine.spell(text);
      this.#texts.set(text, spelt);
    }
    return spelt;
  }
}

/** One value if all are the same. */
function common<T>(values: readonly T[]): readonly T[] {
  return values.every((value) => value === values[0]) ? values.slice(0, 1) : values;
}

/** No values if all are null. */
function given<T>(values: readonly (T | null)[]): readonly (T | null)[] {
  return values.every((value) => value === null) ? [] : values;
}

/** Ids or numbers in PostgreSQL's array syntax: the driver would look for quotes in each. */
function list(values: readonly (string | number)[]): string {
  return `{${values.join(",")}}`;
}

function laneValues({ queue, tasks, lanes, nowMs }: LanesWanted): unknown[] {
  const names = lanes.map(({ lane }) => lane);
  return [names, list(lanes.map(({ limit }) => limit)), queue, tasks, nowMs];
}

function fenceValues(worker: string, fences: readonly Fence[]): unknown[] {
  return [list(fences.map(({ id }) => id)), worker, list(fences.map(({ epoch }) => epoch))];
}

/** Of several settlements of one attempt, the first counts. */
function firstOfEach(settlements: readonly Settlement[]): readonly Settlement[] {
  if (new Set(settlements.map(({ id }) => id)).size === settlements.length) return settlements;
  const fences = new Map<string, Settlement>();
  for (const settlement of settlements) {
    const fence = `${settlement.id} ${settlement.epoch} ${settlement.worker}`;
    if (!fences.has(fence)) fences.set(fence, settlement);
  }
  return fences.size === settlements.length ? settlements : [...fences.values()];
}

/** Null: none. An empty text: all that were offered are settled. */
type Answer = [
  settled: string | null,
  claimed: string | null,
  lockedUntil: number,
  governed: string | null,
];

function readCycle(
  [answer]: unknown[],
  worker: string,
  offered: readonly Settlement[],
): CycleResult {
  const [settled, claimed, lockedUntil, governed] = answer as Answer;
  const jobs = rowsOf(claimed).map((row) => readClaimed(row, worker, lockedUntil));
  return {
    settled:
      settled === ""
        ? offered.map(settledAsClaimed)
        : rowsOf(settled).map((row) => readSettled(row, worker)),
    claimed: jobs.toSorted(inClaimOrder),
    governed: rowsOf(governed),
  };
}

function rowsOf(text: string | null): string[] {
  return text === null ? [] : text.split(ROW);
}

function readSettled(row: string, worker: string): Settled {
  const [id = "", epoch, attempts, cancelled, queue = "", task = ""] = row.split(FIELD);
  return {
    id,
    worker,
    epoch: Number(epoch),
    queue,
    task,
    status: cancelled === "t" ? "cancelled" : "done",
    attempts: Number(attempts),
    dueAt: null,
  };
}

/** The lane follows them, if there is one. */
const CLAIMED_FIELDS = 11;

function readClaimed(row: string, worker: string, lockedUntil: number): ClaimedJob {
  const fields = row.split(FIELD);
  const [id = "", epoch, attempt, rank, readyAt, maxAttempts, crashes, enqueuedAt] = fields;
  return {
    id,
    worker,
    epoch: Number(epoch),
    queue: fields[8] as string,
    task: fields[9] as string,
    payload: fields[10] as string,
    priority: 0 - Number(rank),
    attempt: Number(attempt),
    maxAttempts: Number(maxAttempts),
    crashes: Number(crashes),
    enqueuedAt: Number(enqueuedAt),
    readyAt: Number(readyAt),
    lockedUntil,
  };
}

function inClaimOrder(a: ClaimedJob, b: ClaimedJob): number {
  return b.priority - a.priority || Number(a.readyAt) - Number(b.readyAt) || (a.id < b.id ? -1 : 1);
}

/** Batches that fit one statement each. */
function chunksOf(jobs: readonly NewJob[]): (readonly NewJob[])[] {
  const chunks: NewJob[][] = [[]];
  let bytes = 0;
  for (const job of jobs) {
    if (bytes > STATEMENT_BYTES_MAX) {
      chunks.push([]);
      bytes = 0;
    }
    chunks.at(-1)?.push(job);
    bytes += job.payload.length;
  }
  return chunks;
}
