/**
 * Every background activity is one function, `once()`, that returns how long to wait before the next call.
 *
 * The loop does the rest: it wakes early, waits with jitter, backs off after errors, logs an outage once instead of at every
 * call, and stops. Waking only shortens a wait; two calls never overlap.
 */
import { describeError } from "./error-record.ts";
import { type Logger, Outage } from "./log.ts";
import type { Runtime, Timer } from "./runtime.ts";

const ERROR_WAIT_MS_FIRST = 50;
const ERROR_WAIT_MS_MAX = 5_000;

/** Waits vary by this fraction, so that processes started together do not stay in step. */
const JITTER = 0.1;

interface LoopOptions {
  readonly name: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Does a bounded amount of work; resolves to the milliseconds to wait. */
  readonly once: () => Promise<number>;
  /** A background loop does not keep the process alive. */
  readonly background?: boolean;
  /** False: another activity of the process logs outages of the database. */
  readonly saysOutages?: boolean;
}

export class Loop {
  readonly #options: LoopOptions;
  readonly #finished: Promise<void>;
  #wake: (() => void) | null = null;
  /** Computes the wait again. */
  #hurry: (() => void) | null = null;
  #wakeAt = Number.POSITIVE_INFINITY;
  #woken = false;
  #stopping = false;
  #failures = 0;
  /** Whether it failed because of an outage of the database. */
  #inOutage = false;
  readonly #outage: Outage | null;
  /** Since when a call runs, and when the next is due. */
  #busySince: number | null = null;
  #dueAt: number;
  #isOver = false;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#outage = options.saysOutages === false ? null : Outage.of(options.logger);
    this.#dueAt = options.runtime.monotonic();
    this.#finished = this.#run();
  }

  get name(): string {
    return this.#options.name;
  }

  /** How long the current call has run or the next is overdue; small in a healthy loop. */
  get lateMs(): number {
    if (this.#isOver) return 0;
    const since = this.#busySince ?? this.#dueAt;
    return Math.max(0, this.#options.runtime.monotonic() - since);
  }

  wake(): void {
    this.#woken = true;
    if (this.#failures === 0) this.#wake?.();
  }

  /** The next call begins within this time. An earlier call counts. */
  wakeWithin(ms: number): void {
    this.#wakeAt = Math.min(this.#wakeAt, this.#options.runtime.monotonic() + ms);
    if (this.#failures === 0) this.#hurry?.();
  }

  /** Resolves once the current `once()` has ended. */
  stop(): Promise<void> {
    this.#stopping = true;
    this.#wake?.();
    return this.#finished;
  }

  async #run(): Promise<void> {
    const { runtime } = this.#options;
    // The first call comes after the constructor's caller has finished.
    await this.#yield();
    while (!this.#stopping) {
      this.#woken = false;
      this.#wakeAt = Number.POSITIVE_INFINITY;
      this.#busySince = runtime.monotonic();
      const waitMs = await this.#cycle();
      this.#busySince = null;
      this.#dueAt = runtime.monotonic() + waitMs;
      await this.#pause(waitMs);
    }
    this.#outage?.leave(this);
    this.#isOver = true;
  }

  async #cycle(): Promise<number> {
    const { once, runtime } = this.#options;
    try {
      const waitMs = await once();
      if (this.#failures > 0) this.#sayRecovered();
      this.#failures = 0;
      return waitMs * (1 - JITTER * runtime.random());
    } catch (error) {
      if (this.#failures === 0) this.#sayFailed(error);
      this.#failures += 1;
      const most = Math.min(ERROR_WAIT_MS_MAX, ERROR_WAIT_MS_FIRST * 2 ** this.#failures);
      return most * runtime.random() + 1;
    }
  }

  #sayFailed(error: unknown): void {
    const { name, logger, runtime } = this.#options;
    const said = describeError(error); // String() could throw
    const facts = { event: "loop:failed", loop: name, err: error };
    this.#inOutage = Outage.isOne(error);
    if (Outage.isOne(error)) {
      logger.debug(facts, `${said.name}: ${said.message}`);
      this.#outage?.begin(this, error, runtime.monotonic());
    } else if (isNews(error)) logger.error(facts, `${name}: ${said.name}: ${said.message}`);
  }

  #sayRecovered(): void {
    const { name, logger, runtime } = this.#options;
    const facts = { event: "loop:recovered", loop: name, failures: this.#failures };
    if (this.#inOutage) {
      logger.debug(facts, "works again");
      this.#outage?.end(runtime.monotonic());
    } else logger.info(facts, `${name}: works again`);
  }

  async #pause(waitMs: number): Promise<void> {
    // Waking does not shorten the wait after an error.
    const woken = this.#woken && this.#failures === 0;
    if (waitMs > 0 && !woken && !this.#stopping) await this.#wait(waitMs);
    // Everything that became ready in the same moment is handled in one go.
    await this.#yield();
  }

  #wait(waitMs: number): Promise<void> {
    const { runtime, background } = this.#options;
    return new Promise((resolve) => {
      const done = (): void => {
        this.#wake = null;
        this.#hurry = null;
        timer?.cancel();
        resolve();
      };
      const begun = runtime.monotonic();
      let timer: Timer | null = null;
      const wait = (): void => {
        const now = runtime.monotonic();
        const mostMs = this.#failures === 0 ? this.#wakeAt - now : Number.POSITIVE_INFINITY;
        const leftMs = Math.max(0, Math.min(begun + waitMs - now, mostMs));
        this.#dueAt = Math.min(this.#dueAt, now + leftMs);
        timer?.cancel();
        timer = runtime.timer(leftMs, done, background === true ? "background" : undefined);
      };
      this.#wake = done;
      this.#hurry = wait;
      wait();
    });
  }

  #yield(): Promise<void> {
    return new Promise((resolve) => this.#options.runtime.afterIo(resolve));
  }
}

const logged = new WeakSet<object>();

/** An error that several loops receive is logged once. */
function isNews(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return true;
  const isNew = !logged.has(error);
  logged.add(error);
  return isNew;
}
