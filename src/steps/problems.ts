/** Checks of step arguments, and the errors of refused steps. */
import { InvalidArgumentError } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { decode } from "../core/json.ts";
import { checkKnown } from "../core/options.ts";
import type { CallOptions, Task } from "../core/task.ts";
import { checkEvent } from "../jobs/enqueue.ts";
import { CallFailedError } from "./errors.ts";

const EFFECT_OPTIONS = new Set(["verify"]);

const EVENT_OPTIONS = new Set(["timeout"]);

const CALL_OPTIONS = new Set(["name", "queue", "priority", "maxAttempts"]);

export function nested(name: string): InvalidArgumentError {
  return new InvalidArgumentError({
    field: "name",
    problem: `'${name}' is inside another step: run one after the other.`,
  });
}

export function tooLate(name: string): InvalidArgumentError {
  return new InvalidArgumentError({
    field: "name",
    problem: `'${name}' begins after the job was completed: run it before.`,
  });
}

export function notNow(problem: string): InvalidArgumentError {
  return new InvalidArgumentError({ field: "complete", problem });
}

export function checkBody(field: string, body: unknown): void {
  if (typeof body === "function") return;
  throw new InvalidArgumentError({ field, problem: "give a name and a function." });
}

export function checkEffect<Options extends { readonly verify?: unknown }>(
  act: unknown,
  options: Options,
): Options {
  checkBody("effect", act);
  checkKnown(options, EFFECT_OPTIONS);
  if (options.verify === undefined || typeof options.verify === "function") return options;
  throw new InvalidArgumentError({ field: "verify", problem: "give a function." });
}

export function checkWait<Options extends object>(event: EventType, options: Options): Options {
  checkEvent(event);
  checkKnown(options, EVENT_OPTIONS);
  return options;
}

/** Refuses a name: the types of input and result, and the schema, come from the task. */
export function checkCall(task: Task, options: CallOptions): CallOptions {
  checkKnown(options, CALL_OPTIONS);
  if (typeof task?.run === "function") return options;
  const alone = typeof task === "string" ? "; a name alone is not enough" : "";
  const problem = `call needs a task made with defineTask()${alone}.`;
  throw new InvalidArgumentError({ field: "task", problem });
}

export type CallFacts = ConstructorParameters<typeof CallFailedError>[0];

/** The stored failure of a call. */
export function failureOf(result: string | null): CallFailedError {
  return new CallFailedError(decode(result ?? "{}") as CallFacts);
}
