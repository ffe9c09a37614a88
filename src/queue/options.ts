/** What a caller may say about a job, checked before anything is written. */
import { checkKnown, checkWhole } from "../core/check.ts";
import { toMs, type Duration } from "../core/duration.ts";
import { InvalidArgument } from "../core/errors.ts";
import { checkKey, checkName } from "../core/name.ts";
import { ATTEMPTS_MAX } from "../core/retry.ts";
import { checkTrace, type GivenTrace } from "../core/trace.ts";
import type { NewJob, OnConflict } from "../store/store.ts";

export const PRIORITY_MAX = 32_767;
/** The last moment that a Date can name. */
const INSTANT_MAX = 8.64e15;

export interface EnqueueOptions {
  readonly queue?: string;
  /** A higher number goes first. Default 0. */
  readonly priority?: number;
  /** Not before this much time has passed. */
  readonly delay?: Duration;
  /** Not before this moment. */
  readonly runAt?: Date | number;
  /** How often it may be tried in all. Default: what the task says. */
  readonly attempts?: number;
  /** At most one live job of a task has a key: enqueueing again returns the job that holds it. */
  readonly key?: string;
  /** For how long the job keeps its key after its end, as long as it is kept itself. Default: not at all. */
  readonly keyFor?: Duration;
  /**
   * What happens if the key is held. `return` (the default): the job that holds it comes back. `replace`: this job takes its
   * place, if nobody works on it. `reject`: KeyTaken is thrown, and nothing is accepted.
   */
  readonly onConflict?: OnConflict;
  /**
   * The trace that it belongs to, as W3C's Trace Context writes it: `traceOf(headers)` reads it from a request. Default: the
   * span that is active, where the application traces.
   */
  readonly trace?: GivenTrace;
}

export type Terms = Omit<NewJob, "id" | "task" | "payload">;

const KNOWN = new Set([
  "queue",
  "priority",
  "delay",
  "runAt",
  "attempts",
  "key",
  "keyFor",
  "onConflict",
  "trace",
]);

export const conflicts = ["return", "replace", "reject"] as const satisfies readonly OnConflict[];

export function checkOptions(
  options: EnqueueOptions,
  defaults: { queue: string; attempts: number },
): Terms {
  checkKnown(options, KNOWN);
  const { queue = defaults.queue, priority = 0, attempts = defaults.attempts } = options;
  return {
    queue: checkName("queue", queue),
    priority: checkWhole("priority", priority, { least: -PRIORITY_MAX, most: PRIORITY_MAX }),
    attemptsMax: checkWhole("attempts", attempts, { least: 1, most: ATTEMPTS_MAX }),
    ...keyOf(options),
    start: startOf(options),
    ...(options.trace === undefined ? {} : { trace: checkTrace("trace", options.trace) }),
  };
}

function keyOf({
  key,
  keyFor,
  onConflict,
}: EnqueueOptions): Pick<Terms, "key" | "keyForMs" | "onConflict"> {
  if (key === undefined) {
    for (const [field, value] of Object.entries({ keyFor, onConflict })) {
      if (value === undefined) continue;
      throw new InvalidArgument({ field, problem: "it is about a key: give one." });
    }
    return { key: null };
  }
  return {
    key: checkKey("key", key),
    ...(keyFor === undefined ? {} : { keyForMs: toMs("keyFor", keyFor, { min: 1 }) }),
    ...(onConflict === undefined ? {} : { onConflict: checkConflict(onConflict) }),
  };
}

function checkConflict(onConflict: OnConflict): OnConflict {
  if (conflicts.includes(onConflict)) return onConflict;
  throw new InvalidArgument({
    field: "onConflict",
    problem: 'give "return", "replace" or "reject".',
  });
}

function startOf({ delay, runAt }: EnqueueOptions): NewJob["start"] {
  if (delay !== undefined && runAt !== undefined) {
    throw new InvalidArgument({ field: "delay", problem: "give delay or runAt, not both." });
  }
  if (delay !== undefined) {
    const delayMs = toMs("delay", delay);
    return delayMs === 0 ? null : { delayMs };
  }
  return runAt === undefined ? null : { at: checkInstant("runAt", runAt) };
}

function checkInstant(field: string, instant: Date | number): number {
  const at = instant instanceof Date ? instant.getTime() : instant;
  if (Number.isSafeInteger(at) && at >= 0 && at <= INSTANT_MAX) return at;
  throw new InvalidArgument({
    field,
    problem: "must be a valid Date, or whole milliseconds since 1970.",
  });
}
