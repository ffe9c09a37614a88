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
import type { Children } from "../isolation/children.ts";
import { START_MS_MAX } from "../isolation/run.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import { openAttempt, type Reporter } from "./reporter.ts";
import { Attempt, type AttemptParts, type AttemptOwner, type AttemptStore } from "./attempt.ts";
import type { RunHook } from "./events.ts";
import type { LeaseRenewerHost } from "./lease-renewer-host.ts";
import { leaseList, type Report } from "./lease-renewer.ts";
import { runTraced } from "./failure.ts";

/** Trust ends this share of a lease before the lease does. */
export const TRUST_MARGIN = 0.1;

interface AttemptsParts {
  readonly runtime: Runtime;
  readonly store: AttemptStore;
  readonly client: Context["holdfast"];
  readonly hooks: readonly RunHook[];
  readonly children: Children | null;
  readonly reporter: Reporter;
  readonly leaseMs: number;
  readonly renewer: LeaseRenewerHost;
  readonly onEnd: (attempt: Attempt, outcome: Outcome) => void;
}

export class Attempts implements AttemptOwner {
  readonly #running = new Map<string, Attempt>();
  readonly #parts: AttemptsParts;
  readonly #shared: AttemptParts;
  readonly #trustMs: number;
  /** A task calls in its own async context; the consequences for other attempts must not run in it. */
  readonly #outside = AsyncLocalStorage.snapshot();

  constructor(parts: AttemptsParts) {
    this.#parts = parts;
    const { runtime, store, client, hooks, children } = parts;
    const newId = makeIds(runtime);
    this.#shared = { runtime, store, client, hooks, children, newId, owner: this };
    this.#trustMs = parts.leaseMs * (1 - TRUST_MARGIN);
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
    const trustedUntil = sentAt + this.#trustMs;
    const attempt = new Attempt(this.#shared, { job, span, task, trustedUntil });
    this.#running.set(job.id, attempt);
    this.#parts.reporter.started(job, heldMs);
    if (span === null) runTraced(attempt);
    else span.run(() => runTraced(attempt));
  }

  isTrusted(sentAt: number, now: number): boolean {
    return now < sentAt + this.#trustMs;
  }

  ended(attempt: Attempt, outcome: Outcome): void {
    if (this.#running.get(attempt.job.id) === attempt) this.#running.delete(attempt.job.id);
    const now = this.#parts.runtime.monotonic();
    attempt.ranMs = now - attempt.startedAt;
    attempt.endedInTime = now < attempt.trustedUntil;
    this.#parts.onEnd(attempt, outcome);
  }

  stray(attempt: Attempt, error: unknown): void {
    this.#parts.reporter.stray(attempt, error);
  }

  badBackoff(attempt: Attempt, error: unknown): void {
    this.#parts.reporter.badBackoff(attempt, error);
  }

  stopRenewing({ job }: Attempt): Promise<void> {
    return this.#parts.renewer.stopRenewing(leaseList([job]));
  }

  /** Not after its end: the job may be ours again, at another epoch. */
  renewAgain(attempt: Attempt): void {
    const { job, task, startedAt, trustedUntil } = attempt;
    if (this.#running.get(job.id) !== attempt) return;
    const { renewer, leaseMs } = this.#parts;
    renewer.hold(leaseList([job]), trustedUntil - this.#trustMs);
    if (task.timeoutMs !== null) renewer.limit(job.id, startedAt + longestMs(task, leaseMs));
  }

  /** Gives up the attempts whose lease could not be renewed in time. */
  checkTrust(): void {
    const now = this.#parts.runtime.monotonic();
    for (const attempt of this.#running.values()) {
      if (isOverdue(attempt, now)) this.#loseOverdue(attempt);
    }
  }

  /** The same for one attempt, directly before it acts. */
  checkLease(attempt: Attempt): void {
    const now = this.#parts.runtime.monotonic();
    if (!isOverdue(attempt, now)) return;
    this.#outside(() => {
      // The event loop may have been blocked while the lease renewer's thread ran: its renewals count first.
      this.#parts.renewer.catchUp();
      if (isOverdue(attempt, now)) this.#loseOverdue(attempt);
    });
  }

  /** If the database did not answer in time, the worker did not crash. A frozen or blocked worker did not ask in time. */
  #loseOverdue(attempt: Attempt): void {
    const since = this.#parts.renewer.unansweredSince();
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

  /** Reports each attempt once, however many of its writes are refused afterwards. */
  lose(attempt: Attempt, why: string): void {
    if (attempt.lost) return;
    attempt.lost = true;
    this.#parts.reporter.lost(attempt, why);
    attempt.abort(new LeaseLostError(attempt.fence));
  }

  /** The jobs that are running. */
  all(): ClaimedJob[] {
    return [...this.#running.values()].map(({ job }) => job);
  }

  /** The jobs whose leases are to be renewed. */
  jobs(): ClaimedJob[] {
    return [...this.#running.values()].filter(({ completed }) => !completed).map(({ job }) => job);
  }

  #find({ id, epoch }: Pick<Fence, "id" | "epoch">): Attempt | null {
    const attempt = this.#running.get(id);
    return attempt?.job.epoch === epoch ? attempt : null;
  }
}

/** After this long a task with a timeout has ended, or never will: its lease is not renewed any more. */
export function longestMs({ timeoutMs, isolation = null }: Task, leaseMs: number): number {
  return (timeoutMs ?? 0) + leaseMs + (isolation === null ? 0 : START_MS_MAX);
}

/** A completed job is not renewed: no worker can take it before the user's transaction ends. */
function isOverdue({ trustedUntil, completed }: Attempt, now: number): boolean {
  return now >= trustedUntil && !completed;
}
