/**
 * The attempts that are running, and how far their leases can be trusted.
 *
 * Trust in a lease lasts until a little before its end, counted on our own monotonic clock from the moment the claim
 * or the last renewal was *sent*. A renewal that did not arrive is unknown, not lost; when trust is over, it is lost.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type HoldfastError, JobCancelledError, LeaseLostError } from "../core/errors.ts";
import { makeIds } from "../core/id.ts";
import type { Fence, Outcome } from "../core/job.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Context, Task } from "../core/task.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { openAttempt } from "./attempt-span.ts";
import { Attempt, type AttemptOwner, type AttemptStore } from "./attempt.ts";
import type { LeaseRenewerHost } from "./lease-renewer-host.ts";
import { leaseList, type Report } from "./lease-renewer.ts";
import type { Reporter } from "./reporter.ts";
import { runTraced } from "./uncaught.ts";

/** The share of a lease that is kept as a margin: trust ends before the lease does. */
export const TRUST_MARGIN = 0.1;

type AttemptRenewer = Pick<
  LeaseRenewerHost,
  "rest" | "hold" | "limit" | "catchUp" | "unansweredSince"
>;

export class Attempts implements AttemptOwner {
  readonly #running = new Map<string, Attempt>();
  readonly #runtime: Runtime;
  readonly #store: AttemptStore;
  readonly #newId: () => string;
  readonly #client: Context["holdfast"];
  readonly #reporter: Reporter;
  readonly #trustMs: number;
  readonly #renewer: AttemptRenewer;
  readonly #onEnd: (attempt: Attempt, outcome: Outcome) => void;
  /** A task asks in its own async context; what follows for other attempts is not its doing. */
  readonly #outside = AsyncLocalStorage.snapshot();

  constructor(parts: {
    runtime: Runtime;
    store: AttemptStore;
    client: Context["holdfast"];
    reporter: Reporter;
    leaseMs: number;
    renewer: AttemptRenewer;
    onEnd: (attempt: Attempt, outcome: Outcome) => void;
  }) {
    this.#runtime = parts.runtime;
    this.#store = parts.store;
    this.#newId = makeIds(parts.runtime);
    this.#client = parts.client;
    this.#reporter = parts.reporter;
    this.#trustMs = parts.leaseMs * (1 - TRUST_MARGIN);
    this.#renewer = parts.renewer;
    this.#onEnd = parts.onEnd;
  }

  get size(): number {
    return this.#running.size;
  }

  /** `sentAt`: when its lease was last renewed; `heldMs`: how long ago it was claimed. */
  start(
    job: ClaimedJob,
    task: Task,
    { sentAt, heldMs }: { readonly sentAt: number; readonly heldMs: number },
  ): void {
    const span = openAttempt(job);
    const attempt = new Attempt({
      job,
      span,
      task,
      trustedUntil: sentAt + this.#trustMs,
      runtime: this.#runtime,
      store: this.#store,
      newId: this.#newId,
      client: this.#client,
      owner: this,
    });
    this.#running.set(job.id, attempt);
    this.#reporter.started(job, heldMs);
    if (span === null) runTraced(attempt);
    else span.run(() => runTraced(attempt));
  }

  isTrusted(sentAt: number, now: number): boolean {
    return now < sentAt + this.#trustMs;
  }

  ended(attempt: Attempt, outcome: Outcome): void {
    if (this.#running.get(attempt.job.id) === attempt) this.#running.delete(attempt.job.id);
    const now = this.#runtime.monotonic();
    attempt.ranMs = now - attempt.startedAt;
    attempt.endedInTime = now < attempt.trustedUntil;
    this.#onEnd(attempt, outcome);
  }

  stray(attempt: Attempt, error: unknown): void {
    this.#reporter.stray(attempt, error);
  }

  stopRenewing({ job }: Attempt): Promise<void> {
    return this.#renewer.rest(leaseList([job]));
  }

  /** Not for one that has ended meanwhile: the job may be ours again, at another epoch. */
  renewAgain(attempt: Attempt): void {
    const { job, task, startedAt, trustedUntil } = attempt;
    if (this.#running.get(job.id) !== attempt) return;
    const leaseMs = this.#trustMs / (1 - TRUST_MARGIN);
    this.#renewer.hold(leaseList([job]), trustedUntil - this.#trustMs);
    if (task.timeoutMs !== null) this.#renewer.limit(job.id, startedAt + task.timeoutMs + leaseMs);
  }

  /** Gives up the attempts whose lease could not be renewed in time. */
  checkTrust(): void {
    const now = this.#runtime.monotonic();
    for (const attempt of this.#running.values()) {
      if (isOverdue(attempt, now)) this.#loseOverdue(attempt);
    }
  }

  /** The same for one of them, at the moment before it acts. */
  checkLease(attempt: Attempt): void {
    const now = this.#runtime.monotonic();
    if (!isOverdue(attempt, now)) return;
    this.#outside(() => {
      // The event loop may have been blocked, and the lease renewer's thread not: its renewals count first.
      this.#renewer.catchUp();
      if (isOverdue(attempt, now)) this.#loseOverdue(attempt);
    });
  }

  /** That the database did not answer in time is nobody's crash. Whoever froze or was blocked did not ask in time. */
  #loseOverdue(attempt: Attempt): void {
    const since = this.#renewer.unansweredSince();
    if (since !== null && since < attempt.trustedUntil) attempt.isOutage = true;
    this.lose(attempt, "its lease could not be renewed in time");
  }

  onRenewerReport({ renewed, lost }: Report): void {
    for (const { sentAt, ...fence } of renewed) {
      const attempt = this.#find(fence);
      if (attempt !== null) attempt.trustedUntil = sentAt + this.#trustMs;
    }
    for (const { isOutage, ...fence } of lost) {
      const attempt = this.#find(fence);
      if (attempt === null) continue;
      if (isOutage) attempt.isOutage = true;
      this.lose(attempt, "another worker owns the job");
    }
  }

  cancel(fences: readonly Fence[]): void {
    for (const fence of fences) this.#find(fence)?.abort(new JobCancelledError({ id: fence.id }));
  }

  abortAll(reason: HoldfastError): void {
    for (const attempt of this.#running.values()) attempt.abort(reason);
  }

  /** Said once for every attempt, however many of its writes are refused afterwards. */
  lose(attempt: Attempt, why: string): void {
    if (attempt.lost) return;
    attempt.lost = true;
    this.#reporter.lost(attempt, why);
    attempt.abort(new LeaseLostError(attempt.fence));
  }

  /** Those whose leases are to be renewed. */
  jobs(): ClaimedJob[] {
    return [...this.#running.values()].filter(({ completed }) => !completed).map(({ job }) => job);
  }

  #find({ id, epoch }: { id: string; epoch: number }): Attempt | null {
    const attempt = this.#running.get(id);
    return attempt?.job.epoch === epoch ? attempt : null;
  }
}

/** One that completed its job is not renewed: nobody can take it while that is not committed or undone. */
function isOverdue({ trustedUntil, completed }: Attempt, now: number): boolean {
  return now >= trustedUntil && !completed;
}
