/** Which step of an attempt failed: it is stored with the attempt's error, and costs no query. */
import { describeError, type ErrorRecord, type FailedStep } from "../core/error-record.ts";
import type { Runtime } from "../core/runtime.ts";
import type { StepName } from "../core/task.ts";

/** Failures of steps that are remembered: a task may catch each and go on. */
const FAILURES_MAX = 10;

/** Longer than a step runs; databases store it in 32 bits. */
const TOOK_MS_MAX = 2 ** 31 - 1;

/** As it is stored: whole, whatever a clock said. */
export function tookSince(runtime: Runtime, begunAt: number): number {
  return Math.min(TOOK_MS_MAX, Math.max(0, Math.round(runtime.monotonic() - begunAt)));
}

/** A step that runs, since when by the monotonic clock. */
interface Running {
  readonly step: StepName;
  readonly begunAt: number;
}

export class StepFailures {
  readonly #runtime: Runtime;
  /** The oldest first. */
  readonly #running = new Set<Running>();
  readonly #failures: { readonly step: FailedStep; readonly error: unknown }[] = [];

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  async during<T>(running: Running, run: () => Promise<T>): Promise<T> {
    this.#running.add(running);
    try {
      return await run();
    } catch (error) {
      this.#failures.push({ step: this.#failed(running), error });
      if (this.#failures.length > FAILURES_MAX) this.#failures.shift();
      throw error;
    } finally {
      this.#running.delete(running);
    }
  }

  /**
   * The step whose error this is, or its cause. If there is none and the attempt was given up: the step in progress. The
   * error of an isolated task arrives as a copy, with the same stack.
   */
  of(error: unknown, isGivenUp: boolean): FailedStep | null {
    if (this.#failures.length > 0) {
      const chain = chainOf(error);
      const isIn = (thrown: unknown): boolean => chain.some((one) => isSame(thrown, one));
      const failure = this.#failures.findLast((one) => isIn(one.error));
      if (failure !== undefined) return failure.step;
    }
    const [running] = this.#running;
    return isGivenUp && running !== undefined ? this.#failed(running) : null;
  }

  #failed({ step: { name, occurrence }, begunAt }: Running): FailedStep {
    return { name, occurrence, tookMs: tookSince(this.#runtime, begunAt) };
  }
}

/** The error and its causes, as they are stored. */
function chainOf(error: unknown): readonly ErrorRecord[] {
  const chain: ErrorRecord[] = [];
  let one: ErrorRecord | undefined = describeError(error);
  for (; one !== undefined; one = one.cause) chain.push(one);
  return chain;
}

function isSame(thrown: unknown, record: ErrorRecord): boolean {
  const { name, message, stack } = describeError(thrown);
  return name === record.name && message === record.message && stack === record.stack;
}
