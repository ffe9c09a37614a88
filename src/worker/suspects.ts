/**
 * Jobs whose last worker died. One of them may have ended it, so each runs alone next: if it does so again, it harms no other
 * job, and is known to be the culprit (jobs/outages.ts).
 *
 * A worker with a suspect claims nothing else until its running jobs have ended, for a short time. If they do not end, the
 * suspect is put off, for another worker or a better moment; after a few times it runs beside the others. So neither
 * suspects nor other jobs wait for long.
 */
import { encodeError } from "../core/error-record.ts";
import { HoldfastError } from "../core/errors.ts";
import type { Runtime, Timer } from "../core/runtime.ts";
import type { Task } from "../core/task.ts";
import type { JobsStore } from "../jobs/sql-jobs.ts";
import type { ClaimedJob, Settled } from "../jobs/store.ts";
import { type Batch, type Buffered, Claimer } from "./claimer.ts";
import type { Report } from "./lease-renewer.ts";

/** A job that has run alone for this long does not end its process at once: others may start beside it. */
const ALONE_MS_MAX = 30_000;

/** How long a suspect waits for the jobs that run. */
const WAIT_MS_MAX = 5_000;

/** How long a suspect is put off, at least, and how often. */
const PUT_OFF_MS = 5_000;
const PUT_OFFS_MAX = 6;

interface SuspectsParts {
  readonly runtime: Runtime;
  readonly store: { readonly jobs: JobsStore };
  readonly settings: {
    readonly tasks: ReadonlyMap<string, Task>;
    readonly runSuspectsAlone: boolean;
  };
  /** Others may start again. */
  readonly onOver: () => void;
}

class PutOffError extends HoldfastError {
  constructor() {
    super(
      "PUT_OFF",
      "Its last worker died, so this job has to run alone, and the other jobs of the worker took too long. " +
        "It is tried again soon, without using up an attempt.",
    );
  }
}

interface Sifted {
  /** Jobs that may run together. */
  readonly others: readonly ClaimedJob[];
  /** Suspects that another worker, or this one later, runs. */
  readonly surplus: readonly ClaimedJob[];
}

export class Suspects {
  readonly #parts: SuspectsParts;
  /** It waits until this worker holds nothing else. */
  readonly #buffer: Claimer;
  /** The last claim brought a suspect: the next should ask for one job, because the others would be handed back. */
  isCautious = false;
  /** The one that runs alone, and until when. */
  #alone: { readonly id: string; readonly epoch: number; readonly timer: Timer } | null = null;

  constructor(parts: SuspectsParts) {
    this.#parts = parts;
    this.#buffer = new Claimer({ concurrency: 1, runtime: parts.runtime, isLimited: true });
  }

  get waiting(): number {
    return this.#buffer.buffered;
  }

  /** Nothing else may start. */
  get isAlone(): boolean {
    return this.#alone !== null;
  }

  /** Nothing else may be claimed. */
  get isQuiet(): boolean {
    return this.#alone !== null || this.#buffer.buffered > 0;
  }

  /** Keeps one suspect at most: if it ends this worker, it must be the only job that the worker holds. */
  sift({ jobs, sentAt }: Batch): Sifted {
    this.isCautious = jobs.some((job) => this.#isSuspect(job));
    if (!this.isCautious) return { others: jobs, surplus: [] };
    const suspects = jobs.filter((job) => this.#isSuspect(job));
    const kept = suspects.slice(0, this.isQuiet ? 0 : 1);
    this.#buffer.add({ jobs: kept, sentAt });
    return {
      others: jobs.filter((job) => !suspects.includes(job)),
      surplus: suspects.slice(kept.length),
    };
  }

  /** An isolated task has a thread or process of its own. */
  #isSuspect({ crashes, task }: ClaimedJob): boolean {
    const { tasks, runSuspectsAlone } = this.#parts.settings;
    return runSuspectsAlone && crashes > 0 && (tasks.get(task)?.isolation ?? null) === null;
  }

  /** The one to run alone. Call only while it waits and the worker holds nothing else. */
  takeAlone(): Buffered {
    const next = this.#buffer.take();
    const { id, epoch } = next.job;
    const over = (): void => {
      this.#alone = null;
      this.#parts.onOver();
    };
    this.#alone?.timer.cancel();
    const timer = this.#parts.runtime.timer(ALONE_MS_MAX, over, "background");
    this.#alone = { id, epoch, timer };
    return next;
  }

  ended({ id, epoch }: ClaimedJob): void {
    if (this.#alone?.id !== id || this.#alone.epoch !== epoch) return;
    this.#alone.timer.cancel();
    this.#alone = null;
  }

  /** Those that have waited too long: to be put off, or, if that was so too often and there are free slots, to start now. */
  giveUpWaiting(slots: number): { beside: Buffered[]; putOff: ClaimedJob[] } {
    const now = this.#parts.runtime.monotonic();
    const old = this.#buffer.removeOlderThan(now - WAIT_MS_MAX);
    const beside = this.isAlone ? [] : old.filter(isImpatient).slice(0, Math.max(0, slots));
    const putOff = old.filter((one) => !beside.includes(one)).map(({ job }) => job);
    return { beside, putOff };
  }

  putOff(jobs: readonly ClaimedJob[]): Promise<Settled[]> {
    const { runtime, store } = this.#parts;
    const error = encodeError(new PutOffError());
    const settlements = jobs.map((job) => {
      const { id, worker, epoch } = job;
      const delayMs = Math.floor(PUT_OFF_MS * (1 + runtime.random()));
      return {
        id,
        worker,
        epoch,
        claimed: job,
        outcome: { kind: "suspended", delayMs, error } as const,
      };
    });
    return store.jobs.settle(settlements);
  }

  onRenewerReport(report: Report): void {
    this.#buffer.onRenewerReport(report);
  }

  giveUp(ids: ReadonlySet<string>): ClaimedJob[] {
    return this.#buffer.giveUp(ids);
  }

  giveUpAll(): ClaimedJob[] {
    return this.#buffer.giveUpAll();
  }

  jobs(): ClaimedJob[] {
    return this.#buffer.jobs();
  }
}

/** Every time that it was put off was a claim that was not charged. */
function isImpatient({ job }: Buffered): boolean {
  return job.epoch - job.attempt >= PUT_OFFS_MAX;
}
