/** Counts what happens in a worker, logs what somebody should know, and tells those who listen. */
import { shellWord } from "../core/characters.ts";
import { LeaseLostError } from "../core/errors.ts";
import { type Status, traceId } from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { StepName } from "../core/task.ts";
import type { ClaimedJob, Settled } from "../jobs/store.ts";
import type { ClosedWorker } from "../registry/worker-record.ts";
import { closeAttempt } from "./attempt-span.ts";
import type { Attempt } from "./attempt.ts";
import {
  type AttemptOutcome,
  type EndEvent,
  Events,
  type JobEvent,
  type Meter,
  type WorkerEvents,
} from "./events.ts";

export interface Counters {
  readonly claimed: number;
  readonly done: number;
  readonly retried: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly released: number;
  readonly suspended: number;
  readonly recovered: number;
  readonly leasesLost: number;
  /** Outcomes the database refused because the job was somebody else's by then. */
  readonly staleWritesRefused: number;
}

export class Reporter {
  readonly events: Events<WorkerEvents>;
  #worker = "";
  readonly #runtime: Runtime;
  readonly #logger: Logger;
  readonly #leaseMs: number;
  readonly #meters = new Set<Meter>();
  readonly #counters: { -readonly [name in keyof Counters]: number } = {
    claimed: 0,
    done: 0,
    retried: 0,
    failed: 0,
    cancelled: 0,
    released: 0,
    suspended: 0,
    recovered: 0,
    leasesLost: 0,
    staleWritesRefused: 0,
  };

  constructor(parts: { runtime: Runtime; logger: Logger; leaseMs: number }) {
    this.#runtime = parts.runtime;
    this.#leaseMs = parts.leaseMs;
    this.#logger = parts.logger;
    this.events = new Events((error, name) =>
      parts.logger.error(
        { event: "listener:failed", listener: name, err: error },
        `a listener of '${name}' threw`,
      ),
    );
  }

  get counters(): Counters {
    return { ...this.#counters };
  }

  /** From now on it tells of the worker with this id. */
  enter(worker: string): void {
    this.#worker = worker;
  }

  worker(
    stage: "started" | "paused" | "resumed" | "stopping" | "stopped",
    facts: object = {},
  ): void {
    const event = `worker:${stage}`;
    this.#logger.info({ event, worker: this.#worker, ...facts }, `worker ${stage}`);
    this.events.emit(`worker:${stage}`, () => ({ worker: this.#worker }));
  }

  /** Returns the function that takes it off again. */
  measure(meter: Meter): () => void {
    this.#meters.add(meter);
    return () => void this.#meters.delete(meter);
  }

  /** A claim was answered, whatever it brought. */
  answered(tookMs: number): void {
    for (const meter of this.#meters) meter.claimed(tookMs);
  }

  claimed(count: number): void {
    this.#counters.claimed += count;
  }

  handedBack(count: number): void {
    this.#counters.released += count;
  }

  /** `heldMs`: how long ago it was claimed. */
  started(job: ClaimedJob, heldMs: number): void {
    if (this.#meters.size > 0) this.#measureStart(job, heldMs);
    this.events.emit("job:started", () => jobEvent(job));
  }

  /** What the database has made of an attempt. */
  settled(attempt: Attempt, settled: Settled): void {
    const { error } = attempt;
    const event = (): EndEvent => this.#endEvent(attempt);
    const outcome = outcomeOf(settled.status);
    this.#counters[outcome] += 1;
    for (const meter of this.#meters) meter.ended(attempt.job, outcome, attempt.ranMs);
    closeAttempt(attempt.span, outcome, error);
    switch (settled.status) {
      case "done":
        return this.events.emit("job:done", event);
      case "retry":
        return this.events.emit("job:retrying", () => ({
          ...event(),
          error,
          retryAt: settled.dueAt,
        }));
      case "failed":
        this.#tellFailed(attempt);
        return this.events.emit("job:failed", () => ({ ...event(), error }));
      case "cancelled":
        return this.events.emit("job:cancelled", event);
      case "waiting":
        for (const step of attempt.inDoubt) this.#inDoubt(attempt, step);
        return this.events.emit("job:suspended", () => ({ ...event(), dueAt: settled.dueAt }));
      default:
        return this.events.emit("job:released", event);
    }
  }

  /** Nothing else says so: the job waits until an operator does. */
  #inDoubt(attempt: Attempt, { name, occurrence }: StepName): void {
    const facts = { ...this.#facts("job:doubt", attempt), effect: name, occurrence };
    const effect = shellWord(name);
    const which = occurrence === 1 ? effect : `${effect} --occurrence ${occurrence}`;
    const command = `holdfast effects resolve ${attempt.job.id} ${which} --done|--not-done`;
    this.#logger.warn(
      { ...facts, command },
      `effect in doubt: find out whether '${name}' happened, then resolve it: ${command}`,
    );
    this.events.emit("job:doubt", () => ({ ...this.#endEvent(attempt), effect: name, occurrence }));
  }

  refused({ span, job, error }: Attempt): void {
    this.#counters.staleWritesRefused += 1;
    closeAttempt(span, "lost", error ?? new LeaseLostError(job));
  }

  lost(attempt: Attempt, why: string): void {
    this.#counters.leasesLost += 1;
    this.#logger.warn({ ...this.#facts("lease:lost", attempt), why }, "job ownership lost");
    this.events.emit("lease:lost", () => ({ ...jobEvent(attempt.job), why }));
  }

  /** An error of a task whose attempt has ended: it changes nothing, but somebody should know. */
  stray(attempt: Attempt, error: unknown): void {
    this.#logger.warn(
      { ...this.#facts("task:late-error", attempt), err: error },
      "a task threw after its attempt ended",
    );
  }

  /** A lease that was taken back, and why. The worker named is the one that lost it. */
  recovered(
    { id, task, queue, worker, epoch, attempts, status }: Settled,
    why: "lease ran out" | "its worker is gone" = "lease ran out",
  ): void {
    this.#counters.recovered += 1;
    const facts = { job: id, task, queue, worker, epoch, attempt: attempts, status, why };
    if (status === "failed") this.#logger.error({ event: "job:failed", ...facts }, "job failed");
    else this.#logger.warn({ event: "lease:recovered", ...facts }, "job taken back");
    this.events.emit("lease:recovered", () => ({ id, task, queue, worker, epoch, status }));
  }

  /** Somebody's row that was closed because they are dead. */
  reaped({ id, type, ending }: ClosedWorker): void {
    const event = "worker:reaped";
    this.#logger.warn({ event, worker: id, type, ending }, "worker found dead");
    this.events.emit("worker:reaped", () => ({ worker: id, type, ending }));
  }

  evicted(): void {
    this.#logger.error(
      { event: "worker:evicted", worker: this.#worker },
      "worker is not registered any more; its jobs are given up, and it registers anew",
    );
    this.events.emit("worker:evicted", () => ({ worker: this.#worker }));
  }

  /** The clock of the database says how long it was pending when it was claimed; ours, what came after. */
  #measureStart(job: ClaimedJob, heldMs: number): void {
    const { readyAt, lockedUntil } = job;
    const claimedAt = lockedUntil - this.#leaseMs;
    const waitedMs = readyAt === null ? null : Math.max(0, claimedAt - readyAt) + heldMs;
    for (const meter of this.#meters) meter.started(job, waitedMs);
  }

  #tellFailed(attempt: Attempt): void {
    const durationMs = Math.round(this.#runtime.monotonic() - attempt.startedAt);
    const facts = { ...this.#facts("job:failed", attempt), durationMs, err: attempt.error };
    this.#logger.error(facts, "job failed");
  }

  #facts(event: string, { job, span }: Attempt): object {
    const { id, task, queue, attempt } = job;
    return { event, job: id, task, queue, attempt, worker: this.#worker, ...span?.ids };
  }

  #endEvent(attempt: Attempt): EndEvent {
    const durationMs = this.#runtime.monotonic() - attempt.startedAt;
    return { ...jobEvent(attempt.job), durationMs };
  }
}

function outcomeOf(status: Status): AttemptOutcome {
  return OUTCOMES[status] ?? "released";
}

/** What an attempt has come to when its job is this. */
const OUTCOMES: Partial<Record<Status, AttemptOutcome>> = {
  done: "done",
  retry: "retried",
  failed: "failed",
  cancelled: "cancelled",
  waiting: "suspended",
};

function jobEvent(job: ClaimedJob): JobEvent {
  const { id, task, queue, worker, epoch, attempt } = job;
  return { id, task, queue, worker, epoch, attempt, traceId: traceId(job) };
}
