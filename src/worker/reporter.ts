/** Counts, logs and emits what happens in a worker. */
import { LeaseLostError } from "../core/errors.ts";
import {
  type OutageReport,
  type Outcome,
  type Settlement,
  type Status,
  traceId,
} from "../core/job.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import type { StepName } from "../core/task.ts";
import { shellWord } from "../core/text.ts";
import { answerWithin } from "../core/wait.ts";
import type { ClaimedJob, Settled } from "../jobs/store.ts";
import type { ClosedWorker } from "../registry/worker-record.ts";
import {
  isTracing,
  messagingFacts,
  openSpan,
  type OpenSpan,
  type TracesStore,
} from "../tracing/tracing.ts";
import type { Attempt } from "./attempt.ts";
import {
  type AttemptOutcome,
  type EndEvent,
  Events,
  type JobEvent,
  type Meter,
  type WorkerEvents,
} from "./events.ts";

/** What a worker has done since it started. */
export interface Counters {
  /** Jobs that it claimed. */
  readonly claimed: number;
  /** Jobs that it completed. */
  readonly done: number;
  /** Attempts that failed and are followed by another. */
  readonly retried: number;
  /** Jobs that failed for good. */
  readonly failed: number;
  /** Jobs that were cancelled while they ran. */
  readonly cancelled: number;
  /** Jobs that it handed back, uncharged. */
  readonly released: number;
  /** Jobs that began to sleep or to wait. */
  readonly suspended: number;
  /** Expired leases of other workers that it reclaimed. */
  readonly recovered: number;
  /** Jobs that another worker owns by now. */
  readonly leasesLost: number;
  /** Outcomes that the database refused because another worker owned the job. */
  readonly staleWritesRefused: number;
}

interface ReporterParts {
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly leaseMs: number;
}

export class Reporter {
  readonly events: Events<WorkerEvents>;
  #worker = "";
  readonly #parts: ReporterParts;
  #meters: readonly Meter[] = [];
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

  constructor(parts: ReporterParts) {
    this.#parts = parts;
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

  /** Sets the id of the worker that it reports about. */
  enter(worker: string): void {
    this.#worker = worker;
  }

  worker(
    stage: "started" | "paused" | "resumed" | "stopping" | "stopped",
    facts: object = {},
  ): void {
    const event = `worker:${stage}`;
    this.#parts.logger.info({ event, worker: this.#worker, ...facts }, `worker ${stage}`);
    this.events.emit(`worker:${stage}`, () => ({ worker: this.#worker }));
  }

  /** Returns the function that removes the meter. */
  measure(meter: Meter): () => void {
    this.#meters = [...this.#meters, meter];
    return () => {
      this.#meters = this.#meters.filter((each) => each !== meter);
    };
  }

  /** A claim was answered, even if it returned no job. */
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
    if (this.#meters.length > 0) this.#measureStart(job, heldMs);
    this.events.emit("job:started", () => jobEvent(job));
  }

  /** The database has settled an attempt. */
  settled(attempt: Attempt, settled: Settled): void {
    const { error } = attempt;
    const event = (): EndEvent => this.#endEvent(attempt);
    const outcome = OUTCOMES[settled.status] ?? "released";
    this.#counters[outcome] += 1;
    for (const meter of this.#meters) meter.ended(attempt.job, outcome, attempt.ranMs);
    closeAttempt(attempt.span, outcome, error);
    switch (settled.status) {
      case "done":
        if (attempt.resultError !== null) this.#withoutResult(attempt);
        return this.events.emit("job:done", event);
      case "retry":
        return this.events.emit("job:retrying", () => ({
          ...event(),
          error,
          retryAt: settled.dueAt,
        }));
      case "failed": {
        const durationMs = Math.round(event().durationMs);
        const facts = { ...this.#facts("job:failed", attempt), durationMs, err: error };
        this.#parts.logger.error(facts, "job failed");
        return this.events.emit("job:failed", () => ({ ...event(), error }));
      }
      case "cancelled":
        return this.events.emit("job:cancelled", event);
      case "waiting":
        for (const step of attempt.inDoubt) this.#inDoubt(attempt, step);
        return this.events.emit("job:suspended", () => ({ ...event(), dueAt: settled.dueAt }));
      default:
        return this.events.emit("job:released", event);
    }
  }

  /** Its work was done; only those who ask for the result are told. */
  #withoutResult(attempt: Attempt): void {
    this.#parts.logger.warn(
      { ...this.#facts("job:result-not-stored", attempt), err: attempt.resultError },
      "job done, but its result could not be stored",
    );
  }

  /** Nothing else reports it, and the job waits until an operator acts. */
  #inDoubt(attempt: Attempt, { name, occurrence }: StepName): void {
    const facts = { ...this.#facts("job:doubt", attempt), effect: name, occurrence };
    const effect = shellWord(name);
    const which = occurrence === 1 ? effect : `${effect} --occurrence ${occurrence}`;
    const command = `holdfast effects resolve ${attempt.job.id} ${which} --done|--not-done`;
    this.#parts.logger.warn(
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
    this.#parts.logger.warn({ ...this.#facts("lease:lost", attempt), why }, "job ownership lost");
    this.events.emit("lease:lost", () => ({ ...jobEvent(attempt.job), why }));
  }

  /** A task threw after its attempt ended: this changes nothing, but is logged. */
  stray(attempt: Attempt, error: unknown): void {
    this.#parts.logger.warn(
      { ...this.#facts("task:late-error", attempt), err: error },
      "a task threw after its attempt ended",
    );
  }

  /** The standard back-off is used instead. */
  badBackoff(attempt: Attempt, error: unknown): void {
    this.#parts.logger.warn(
      { ...this.#facts("task:bad-backoff", attempt), err: error },
      "the backoff function of a task failed; the standard backoff is used",
    );
  }

  /** A lease was reclaimed. The named worker is the one that lost it. */
  recovered(
    { id, task, queue, worker, epoch, attempts, status, cleared }: Settled,
    why: "lease expired" | "its worker is gone" = "lease expired",
  ): void {
    this.#counters.recovered += 1;
    const facts = { job: id, task, queue, worker, epoch, attempt: attempts, status, why };
    if (status === "failed")
      this.#parts.logger.error({ event: "job:failed", ...facts }, "job failed");
    else this.#parts.logger.warn({ event: "lease:recovered", ...facts }, "job reclaimed");
    if (cleared !== undefined) {
      const about = { event: "job:culprit", job: id, task, queue, worker, cleared };
      this.#parts.logger.warn(
        about,
        `a job ended its worker while it ran alone; ${cleared.length} jobs that ran with it before get their attempts back`,
      );
    }
    this.events.emit("lease:recovered", () => ({ id, task, queue, worker, epoch, status }));
  }

  /** A job had to start by a time that has passed, and had not. */
  expired({ id, task, queue, epoch }: Settled): void {
    const facts = { job: id, task, queue };
    this.#parts.logger.warn({ event: "job:expired", ...facts }, "job expired before it started");
    this.events.emit("job:expired", () => ({ id, task, queue, epoch }));
  }

  reaped({ id, type, ending }: ClosedWorker): void {
    const event = "worker:reaped";
    this.#parts.logger.warn({ event, worker: id, type, ending }, "worker found dead");
    this.events.emit("worker:reaped", () => ({ worker: id, type, ending }));
  }

  evicted(): void {
    this.#parts.logger.error(
      { event: "worker:evicted", worker: this.#worker },
      "worker was evicted: it gives up its jobs and registers again",
    );
    this.events.emit("worker:evicted", () => ({ worker: this.#worker }));
  }

  /** The database's clock measures the wait until the claim; ours, the time since. */
  #measureStart(job: ClaimedJob, heldMs: number): void {
    const { readyAt, lockedUntil } = job;
    const claimedAt = lockedUntil - this.#parts.leaseMs;
    const waitedMs = readyAt === null ? null : Math.max(0, claimedAt - readyAt) + heldMs;
    for (const meter of this.#meters) meter.started(job, waitedMs);
  }

  #facts(event: string, { job, span }: Attempt): object {
    const { id, task, queue, attempt } = job;
    return { event, job: id, task, queue, attempt, worker: this.#worker, ...span?.ids };
  }

  #endEvent(attempt: Attempt): EndEvent {
    const durationMs = this.#parts.runtime.monotonic() - attempt.startedAt;
    return { ...jobEvent(attempt.job), durationMs };
  }
}

/** The outcome of an attempt by the status of its job afterwards; any other status: released. */
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

// Ended attempts, sorted by how the store settles them.

export interface Ended {
  readonly attempt: Attempt;
  readonly outcome: Outcome;
}

export function settlements(ended: readonly Ended[]): Settlement[] {
  return ended.map(({ attempt, outcome }) => {
    const { id, worker, epoch } = attempt.job;
    return { id, worker, epoch, outcome, claimed: attempt.job };
  });
}

/** Reports for attempts whose leases expired because the database did not answer. */
export function outageReports(ended: readonly Ended[]): OutageReport[] {
  return settlements(ended).map((settlement, index) => ({
    ...settlement,
    gaveUp: ended[index]?.attempt.error instanceof LeaseLostError,
  }));
}

/** The same for jobs that were claimed and not started. */
export function neverStarted(jobs: readonly ClaimedJob[]): OutageReport[] {
  return jobs.map((job) => {
    const { id, worker, epoch } = job;
    return { id, worker, epoch, outcome: { kind: "released" }, claimed: job, gaveUp: true };
  });
}

/** Pairs outcomes with the rows that the store accepted; null where the fence refused. */
export function pairUp(
  ended: readonly Ended[],
  settled: readonly Settled[],
): (Ended & { accepted: Settled | null })[] {
  const isInOrder = ended.every(({ attempt }, index) => settled[index]?.id === attempt.job.id);
  const rows = new Map(isInOrder ? [] : settled.map((row) => [row.id, row]));
  return ended.map(({ attempt, outcome }, index) => {
    const row = isInOrder ? settled[index] : rows.get(attempt.job.id);
    return { attempt, outcome, accepted: row?.epoch === attempt.job.epoch ? row : null };
  });
}

/** Attempts that completed their jobs in a user's transaction, those that met an outage, and the others. */
export type Partition = Readonly<Record<"completed" | "outages" | "plain", readonly Ended[]>>;

export function partition(ended: readonly Ended[]): Partition {
  const isPlain = ({ attempt }: Ended): boolean => !attempt.completed && !attempt.isOutage;
  if (ended.every(isPlain)) return { completed: [], outages: [], plain: ended };
  return {
    completed: ended.filter(({ attempt }) => attempt.completed),
    outages: ended.filter(({ attempt }) => attempt.isOutage && !attempt.completed),
    plain: ended.filter(isPlain),
  };
}

// Spans of attempts. Each belongs to the trace of the call that enqueued its job.

/** Jobs wait at most this long for their traces, because their leases are running. */
const LOOK_MS_MAX = 1_000;

/** Adds the traces of the jobs, with one query and only if the application traces. */
export async function withTraces(
  jobs: readonly ClaimedJob[],
  {
    store,
    runtime,
    logger,
  }: { store: { readonly traces: TracesStore }; runtime: Runtime; logger: Logger },
): Promise<readonly ClaimedJob[]> {
  if (jobs.length === 0 || !isTracing()) return jobs;
  try {
    const asking = store.traces.list(jobs.map(({ id }) => id));
    const found = await answerWithin(runtime, LOOK_MS_MAX, asking);
    const traces = new Map(found.map(({ id, ...trace }) => [id, trace]));
    return jobs.map((job) => {
      const trace = traces.get(job.id);
      return trace === undefined ? job : { ...job, trace };
    });
  } catch (error) {
    logger.debug(
      { err: error },
      "could not read the traces of jobs; their attempts start new traces",
    );
    return jobs;
  }
}

export function openAttempt(job: ClaimedJob): OpenSpan | null {
  if (!isTracing()) return null;
  const { id, task, queue, worker, attempt, epoch, trace } = job;
  return openSpan({
    name: `attempt ${task}`,
    kind: "consumer",
    partition: true,
    ...(trace === undefined ? {} : { parent: trace, link: trace }),
    facts: {
      ...messagingFacts("attempt", "process", queue),
      "messaging.message.id": id,
      "messaging.client.id": worker,
      "holdfast.job.id": id,
      "holdfast.task": task,
      "holdfast.attempt": attempt,
      "holdfast.epoch": epoch,
      "holdfast.worker": worker,
    },
  });
}

/** `lost`: the database refused its outcome, because another worker owns the job. */
function closeAttempt(
  span: OpenSpan | null,
  outcome: AttemptOutcome | "lost",
  error: unknown,
): void {
  if (span === null) return;
  span.add({ "holdfast.outcome": outcome });
  if (outcome === "retried" || outcome === "failed" || outcome === "lost") span.fail(error);
  span.end();
}
