/**
 * Delivers alerts: runs the jobs of the reserved queue.
 *
 * Every process with a monitor does so, because there may be no worker. It claims only jobs for the webhooks that it
 * knows. A webhook gets an event at least once, and twice when a process dies after sending it: the id in the header stays
 * the same.
 */
import { encodeError } from "../core/error-record.ts";
import { makeIds } from "../core/id.ts";
import { finalStatuses, type Outcome } from "../core/job.ts";
import { decode } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import { Loop } from "../core/loop.ts";
import { ALERT_QUEUE } from "../core/name.ts";
import type { Runtime } from "../core/runtime.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { ClaimedJob } from "../jobs/store.ts";
import {
  alertEvents,
  alertOf,
  type AlertRecord,
  DELIVERY_ATTEMPTS_MAX,
  type DeliveryInput,
  deliveryTask,
  raisedKeys,
  targetOf,
} from "./alert.ts";
import type { AlertsStore } from "./store.ts";
import { REQUEST_MS_MAX, type WebhookAnswer, type Webhooks } from "./webhook.ts";

/** The parts of the store that are used here. */
interface Stores {
  readonly alerts: AlertsStore;
  readonly jobs: JobsStore;
}

const AT_ONCE = 10;

const LOOK_MS = 5_000;

/** Longer than a request takes, so no lease needs a renewal. */
const LEASE_MS = 3 * REQUEST_MS_MAX;

const GRACE_MS = 2_000;

const PROMOTE_MAX = 1_000;

const RETRY_MS_FIRST = 5_000;

const RETRY_MS_MAX = 10 * 60_000;

interface DeliveriesParts {
  readonly store: Stores;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly webhooks: Webhooks;
}

export class Deliveries {
  readonly #parts: DeliveriesParts;
  readonly #worker: string;
  readonly #loop: Loop;
  readonly #stopping = new AbortController();

  constructor(parts: DeliveriesParts) {
    this.#parts = parts;
    const { runtime, logger } = parts;
    this.#worker = `${ALERT_QUEUE}-${makeIds(runtime)()}`;
    const once = async (): Promise<number> => ((await this.sendDue()) < AT_ONCE ? LOOK_MS : 0);
    this.#loop = new Loop({ name: "alerts", runtime, logger, once, background: true });
  }

  /** Looks for deliveries now. */
  wake(): void {
    this.#loop.wake();
  }

  /** Releases the deliveries under way: no process waits for a slow webhook when it ends. */
  stop(): Promise<void> {
    this.#stopping.abort(new Error("this process ended"));
    return this.#loop.stop();
  }

  /** Returns how many jobs it ran. */
  async sendDue(): Promise<number> {
    const { store, webhooks } = this.#parts;
    await this.#bringBack();
    if (!(await store.jobs.hasPending(ALERT_QUEUE))) return 0;
    const jobs = await store.jobs.claim({
      worker: this.#worker,
      queues: [ALERT_QUEUE],
      tasks: webhooks.targets.map(deliveryTask),
      limit: AT_ONCE,
      leaseMs: LEASE_MS,
    });
    const run = async (job: ClaimedJob): Promise<void> => {
      const { id, worker, epoch } = job;
      const outcome = await this.#outcomeOf(job);
      await store.jobs.settle([{ id, worker, epoch, outcome }]);
    };
    await Promise.all(jobs.map(run));
    return jobs.length;
  }

  /** Workers do the same for all queues, but there may be none. */
  async #bringBack(): Promise<void> {
    const { jobs } = this.#parts.store;
    const { dueInMs, leaseEndsInMs } = await jobs.upcoming();
    if (leaseEndsInMs !== null && leaseEndsInMs < -GRACE_MS) {
      const limits = { graceMs: GRACE_MS, maxCrashes: DELIVERY_ATTEMPTS_MAX, limit: AT_ONCE };
      await jobs.reclaimExpired({ ...limits, queue: ALERT_QUEUE });
    }
    if (dueInMs !== null && dueInMs <= 0) await jobs.promoteDue({ limit: PROMOTE_MAX });
  }

  async #outcomeOf(job: ClaimedJob): Promise<Outcome> {
    const { store, webhooks } = this.#parts;
    const { signal } = this.#stopping;
    const input = inputOf(job);
    const record = input === null ? null : await store.alerts.find(input.alert);
    if (input === null || record === null)
      return { kind: "failed", error: asError("The alert no longer exists.") };
    const known = knownOf(record, input);
    if (known !== null) return { kind: "done", result: JSON.stringify({ leftOut: known }) };
    const waitMs = await this.#waitMs(job, input, record);
    if (waitMs !== null) return { kind: "suspended", delayMs: waitMs };
    const message = { ...input, alert: alertOf(record) };
    const answer = await webhooks.send(targetOf(job.task), message, signal);
    if (answer.ok) return { kind: "done", result: JSON.stringify({ status: answer.status }) };
    if (signal.aborted) return { kind: "released" };
    return this.#failed(job, input, answer);
  }

  /** `resolved` is not sent before `raised` was delivered or given up. Null: no need to wait. */
  async #waitMs(
    { task }: ClaimedJob,
    { event }: DeliveryInput,
    record: AlertRecord,
  ): Promise<number | null> {
    if (event !== "resolved") return null;
    const { store, runtime } = this.#parts;
    for (const key of raisedKeys(record)) {
      const [raised] = await store.jobs.list({ queue: ALERT_QUEUE, task, key, limit: 1 });
      if (raised === undefined || finalStatuses.some((status) => status === raised.status))
        continue;
      const dueInMs = (raised.dueAt ?? 0) - runtime.now();
      return Math.min(RETRY_MS_MAX, Math.max(LOOK_MS, dueInMs));
    }
    return null;
  }

  #failed(job: ClaimedJob, input: DeliveryInput, { mayRetry, error }: WebhookAnswer): Outcome {
    const reason = error ?? "";
    const isLast = !mayRetry || job.attempt >= job.maxAttempts;
    this.#logFailure(job, input, { reason, isLast });
    if (isLast) return { kind: "failed", error: asError(reason) };
    const delayMs = retryMs(job.attempt, this.#parts.runtime.random());
    return { kind: "retry", delayMs, error: asError(reason) };
  }

  /** Logs only the first failure and the last: those in between add nothing. */
  #logFailure(
    { id: job, task, attempt: tries }: ClaimedJob,
    { alert, event: change }: DeliveryInput,
    { reason: error, isLast }: { readonly reason: string; readonly isLast: boolean },
  ): void {
    const { logger, webhooks } = this.#parts;
    const webhook = webhooks.originOf(targetOf(task));
    const facts = { event: "alert:not-sent", alert, change, webhook, job, tries, error };
    const what = `alert not delivered (${change}) to ${webhook}`;
    if (isLast) logger.error(facts, `${what}, giving up: ${error}`);
    else if (tries === 1) logger.warn(facts, `${what}, retrying: ${error}`);
  }
}

/** An operator acknowledged or silenced it since it was enqueued: it is not sent, or not sent again. Null: send it. */
function knownOf(
  record: AlertRecord,
  { event }: DeliveryInput,
): "acknowledged" | "silenced" | null {
  if (event !== "raised") return null;
  if (record.acknowledgedAt !== null) return "acknowledged";
  // When its time is over, an observation removes the silence and enqueues another delivery.
  return record.silencedUntil === null ? null : "silenced";
}

/** Null: another program enqueued the job, with another input. */
function inputOf({ payload }: ClaimedJob): DeliveryInput | null {
  try {
    const { alert, event, again } = decode(payload) as DeliveryInput;
    if (typeof alert !== "string" || !alertEvents.includes(event)) return null;
    return typeof again === "number" ? { alert, event, again } : { alert, event };
  } catch {
    return null;
  }
}

function asError(message: string): string {
  return encodeError({ name: "NotDelivered", message });
}

/** Exponential backoff with jitter, so that deliveries that failed together are not retried together. */
export function retryMs(tries: number, random: number): number {
  const most = Math.min(RETRY_MS_MAX, RETRY_MS_FIRST * 2 ** (tries - 1));
  return Math.round(most * (1 - random / 2));
}
