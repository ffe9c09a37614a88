/** A job as it is handed to the store: what its task says, what the caller says, and its input as text. */
import { InvalidArgument } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode, encodeOptional } from "../core/json.ts";
import { retryPolicy } from "../core/retry.ts";
import { DEFAULT_QUEUE, parseInput, type Task } from "../core/task.ts";
import { checkTaskName } from "../core/task-name.ts";
import type { NewJob } from "../store/store.ts";
import type { Terms } from "./options.ts";

export interface Defaults {
  readonly name: string;
  readonly queue: string;
  readonly attempts: number;
}

export function defaultsOf(task: Task): Defaults {
  if (typeof task?.run !== "function") {
    throw new InvalidArgument({
      field: "task",
      problem: "give a task made with defineTask(), or the name of one.",
    });
  }
  return { name: task.name, queue: task.queue, attempts: task.retry.attempts };
}

export function unknownTask(name: string): Defaults {
  return {
    name: checkTaskName("task", name),
    queue: DEFAULT_QUEUE,
    attempts: retryPolicy().attempts,
  };
}

const PAYLOAD = { what: "payload", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

export function newJob(id: string, task: string, input: unknown, terms: Terms): NewJob {
  return { ...terms, id, task, payload: encode(input, PAYLOAD) };
}

/** What is stored is the input as it was given; the schema only has to agree with it. */
export async function checkInputs(
  task: Task,
  inputs: readonly unknown[],
): Promise<readonly unknown[]> {
  for (const input of inputs) {
    const parsed = parseInput(task, input);
    if (parsed instanceof Promise) await parsed;
  }
  return inputs;
}

/** What is said with an event, as text; null: nothing is. */
export async function checkPayload(event: EventType, payload: unknown): Promise<string | null> {
  if (typeof event?.name !== "string" || !("payload" in event)) {
    throw new InvalidArgument({
      field: "event",
      problem: "give an event made with defineEvent().",
    });
  }
  const checked = await event.payload?.["~standard"].validate(payload);
  if (checked?.issues !== undefined) {
    const [issue] = checked.issues;
    throw new InvalidArgument({ field: "payload", problem: issue?.message ?? "it is not valid." });
  }
  return encodeOptional(payload, PAYLOAD);
}
