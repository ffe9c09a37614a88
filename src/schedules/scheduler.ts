/**
 * The loop that enqueues the jobs of schedules. Every worker has one; the database decides which of them handles a tick.
 */
import { describeError } from "../core/error-record.ts";
import type { Logger } from "../core/log.ts";
import type { Runtime } from "../core/runtime.ts";
import { isOutage } from "./schedule.ts";
import type { Fired } from "./runs.ts";
import type { SchedulesStore } from "./store.ts";

/** Schedules handled in one cycle; after a full one, the next follows at once. */
const BATCH = 100;

/** A stop of the worker waits for the cycle to end. */
const CYCLE_MS_MAX = 5_000;

/** After ticks were handled, the next query follows soon, to learn of the ticks after them. */
const NEXT_LOOK_MS = 1;

/** While runs wait for the end of a job, and no notification comes. */
const QUEUED_LOOK_MS = 1_000;

/** A schedule whose tick could not be handled is tried again after this long. */
const AGAIN_MS = 60_000;

/** Failing schedules that are remembered; beyond this, all are tried again. */
const FAILING_MAX = 1_000;

/** One in so many cycles that handled a schedule also prunes its runs. */
const PRUNE_ODDS = 50;

interface SchedulerParts {
  readonly store: { readonly schedules: SchedulesStore };
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** The longest pause, for changes that were not announced. */
  readonly idleMs: number;
}

export class Scheduler {
  readonly #parts: SchedulerParts;
  /** When to try failing schedules again, on the monotonic clock. */
  readonly #failing = new Map<string, number>();
  #hasQueued = false;

  constructor(parts: SchedulerParts) {
    this.#parts = parts;
  }

  /** Whether the end of a job may let a run begin. */
  get awaitsJobs(): boolean {
    return this.#hasQueued;
  }

  /** One query tells what is due, and when the next tick is. */
  async once(): Promise<number> {
    const { store, runtime, idleMs } = this.#parts;
    const until = runtime.monotonic() + CYCLE_MS_MAX;
    const limit = BATCH + this.#failing.size;
    const { due, queued, nextInMs } = await store.schedules.due({ limit });
    this.#hasQueued = queued.length > 0;
    const handled = await this.#each(this.#tryable(due), until, (name) =>
      store.schedules.fire(name),
    );
    await this.#each(this.#tryable(queued), until, (name) => store.schedules.release(name));
    if (handled > 0) return NEXT_LOOK_MS;
    const waits = [nextInMs ?? idleMs, idleMs, ...(queued.length > 0 ? [QUEUED_LOOK_MS] : [])];
    // Never 0: with a clock that stands still, the loop would never wait.
    return Math.max(1, Math.min(...waits));
  }

  /** From a random one on, so that several schedulers do not wait for each other at every schedule. */
  #tryable(names: readonly string[]): string[] {
    const { runtime } = this.#parts;
    const now = runtime.monotonic();
    const some = names.filter((name) => (this.#failing.get(name) ?? now) <= now);
    const start = Math.floor(runtime.random() * some.length);
    return [...some.slice(start), ...some.slice(0, start)];
  }

  /** A schedule that fails does not stop the others. Returns how many were handled here. */
  async #each(
    names: readonly string[],
    until: number,
    act: (name: string) => Promise<Fired | null>,
  ): Promise<number> {
    const { runtime } = this.#parts;
    let handled = 0;
    for (const name of names) {
      if (runtime.monotonic() > until) break;
      try {
        const fired = await act(name);
        this.#failing.delete(name);
        if (fired === null) continue;
        handled += 1;
        this.#say(fired);
        await this.#pruneNowAndThen(name);
      } catch (error) {
        await this.#failed(name, error);
      }
    }
    return handled;
  }

  async #failed(name: string, error: unknown): Promise<void> {
    if (isOutage(error)) throw error;
    const { store, runtime, logger } = this.#parts;
    if (this.#failing.size >= FAILING_MAX) this.#failing.clear();
    this.#failing.set(name, runtime.monotonic() + AGAIN_MS);
    const { name: kind, message } = describeError(error);
    const facts = { event: "schedule:failed", schedule: name, err: error };
    logger.error(facts, `schedule '${name}' could not enqueue its job: ${kind}: ${message}`);
    await store.schedules.noteError(name, `${kind}: ${message}`);
  }

  #say({ schedule, task, runs, missed }: Fired): void {
    const { logger } = this.#parts;
    for (const { tick, outcome, job } of runs) {
      const facts = { event: `schedule:${outcome}`, schedule, task, job, tick };
      logger.debug(facts, `schedule '${schedule}': ${outcome}`);
    }
    if (missed === 0) return;
    const facts = { event: "schedule:missed", schedule, task, missed };
    logger.warn(facts, `schedule '${schedule}' missed ${missed} ${missed === 1 ? "run" : "runs"}`);
  }

  async #pruneNowAndThen(name: string): Promise<void> {
    const { store, runtime } = this.#parts;
    if (runtime.random() * PRUNE_ODDS < 1) await store.schedules.pruneRuns(name);
  }
}
