/** Options of the verbs of one job, and their tables. */
import { operatorFields, type OperatorOptions } from "../audit/entry.ts";
import type { Duration } from "../core/duration.ts";
import { parseInput } from "../core/input.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode } from "../core/json.ts";
import { checkName, checkQueue } from "../core/name.ts";
import {
  by,
  checkText,
  checkWhole,
  duration,
  each,
  instant,
  needed,
  optionsOf,
  passed,
  whole,
} from "../core/options.ts";
import { ATTEMPTS_MAX, DEFAULT_RETRY } from "../core/retry.ts";
import type { StepName, Task } from "../core/task.ts";
import { PRIORITY_MAX } from "./after.ts";

/** How many more attempts a job gets, and whether called jobs are retried. */
export interface RetryJobOptions {
  /** Additional attempts. */
  readonly attempts?: number;
  /** Whether to retry the called jobs whose failure failed it, too. */
  readonly withCalled?: boolean;
  /** Replaces the input. The old input is kept, and the change is always audited. */
  readonly input?: unknown;
  /** The task of the job: its schema checks the new input. Without it, only the worker does. */
  readonly definition?: Task;
}

/** From which step a job runs again, and what may happen again. */
export interface RerunOptions {
  /** The step to start from: its name, or its name and which one of that name. Null: from the beginning. */
  readonly from: string | StepName | null;
  /** The effects, commits and calls that may happen again: `confirm` of the plan. */
  readonly confirm?: readonly string[];
  /** Replaces the input. Only the worker checks it. */
  readonly input?: unknown;
  /** Additional attempts. */
  readonly attempts?: number;
}

/** What to change of a job that no worker holds. What is not given stays as it is. */
export interface EditOptions {
  /** Replaces the input. The old input is kept. */
  readonly input?: unknown;
  /** A higher number goes first. */
  readonly priority?: number;
  /** Start after this much time from now; 0: at once. */
  readonly delay?: Duration;
  /** Start at this moment. */
  readonly runAt?: Date | number;
  /** The queue to move to. */
  readonly queue?: string;
  /** The task of the job: its schema checks the new input. Without it, only the worker does. */
  readonly definition?: Task;
}

/** With which input a job is replayed. */
export interface ReplayOptions {
  /** Instead of the input of the old job. */
  readonly input?: unknown;
  /** The task of the job: its schema checks the new input. Without it, only the worker does. */
  readonly definition?: Task;
}

const INPUT = { what: "payload", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

const attemptsOption = whole(1, ATTEMPTS_MAX, DEFAULT_RETRY.maxAttempts);

export const retryOptions = optionsOf<RetryJobOptions & OperatorOptions>()({
  attempts: attemptsOption,
  withCalled: passed<boolean>(),
  input: passed<unknown>(),
  definition: passed<Task>(),
  ...operatorFields,
});

export const rerunOptions = optionsOf<RerunOptions & OperatorOptions>()({
  from: needed(by(stepName)),
  confirm: each(checkText, []),
  input: passed<unknown>(),
  attempts: attemptsOption,
  ...operatorFields,
});

export const editOptions = optionsOf<EditOptions & OperatorOptions>()({
  input: passed<unknown>(),
  priority: whole(-PRIORITY_MAX, PRIORITY_MAX),
  delay: duration({}),
  runAt: instant(),
  queue: by(checkQueue),
  definition: passed<Task>(),
  ...operatorFields,
});

export const EDITABLE = ["input", "priority", "delay", "runAt", "queue"] as const;

export const replayOptions = optionsOf<ReplayOptions & OperatorOptions>()({
  input: passed<unknown>(),
  definition: passed<Task>(),
  ...operatorFields,
});

/** The schema only checks the input: the input is stored as it was given. */
export async function checkedPayload({ input, definition }: ReplayOptions): Promise<string> {
  const payload = encode(input, INPUT);
  if (definition !== undefined) await parseInput(definition, input);
  return payload;
}

export function stepName(field: string, from: RerunOptions["from"]): StepName | null {
  if (from === null) return null;
  const { name, occurrence } = typeof from === "object" ? from : { name: from, occurrence: 1 };
  checkWhole(`${field}.occurrence`, occurrence, { least: 1, most: Number.MAX_SAFE_INTEGER });
  return { name: checkName(field, name), occurrence };
}
