/** A job as it is handed to the store: what its task says, what the caller says, and its input as text. */
import { InputRejected, InvalidArgument } from "../core/errors.ts";
import type { EventType } from "../core/event.ts";
import { DEFAULT_PAYLOAD_BYTES_MAX, encode, encodeOptional } from "../core/json.ts";
import { retryPolicy } from "../core/retry.ts";
import { DEFAULT_QUEUE, parseInput, type Task } from "../core/task.ts";
import { checkTaskName } from "../core/task-name.ts";
import type { TraceContext } from "../core/trace.ts";
import { traceHere, type OpenSpan } from "../core/tracing.ts";
import { NotSerializable, TooLarge } from "../core/value-errors.ts";
import type { NewJob } from "../store/store.ts";
import { checkOptions, type EnqueueOptions, type Terms } from "./options.ts";

interface Defaults {
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

function unknownTask(name: string): Defaults {
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
  for (const [index, input] of inputs.entries()) {
    try {
      const parsed = parseInput(task, input);
      if (parsed instanceof Promise) await parsed;
    } catch (error) {
      throw inputs.length === 1 ? error : atInput(index, error);
    }
  }
  return inputs;
}

/** What is wrong with one of many inputs, by its place: `inputs[1].to`. */
function atInput(index: number, error: unknown): unknown {
  const input = `inputs[${index}]`;
  const placed = (path: string): string => path.replace("$", () => input);
  if (error instanceof InputRejected) {
    const issues = error.issues.map(({ path, message }) => ({ path: placed(path), message }));
    return new InputRejected({ task: error.task, issues });
  }
  if (error instanceof NotSerializable) {
    return new NotSerializable({ path: placed(error.path), problem: error.problem });
  }
  if (!(error instanceof TooLarge)) return error;
  const { bytes, bytesMax } = error;
  return new TooLarge({ what: `payload of ${input}`, bytes, bytesMax });
}

export function checkEvent(event: EventType): void {
  if (typeof event?.name === "string" && "payload" in event) return;
  throw new InvalidArgument({ field: "event", problem: "give an event made with defineEvent()." });
}

/** What is said with an event, as text; null: nothing is. `others`: arguments that nobody asked for. */
export async function checkPayload(
  event: EventType,
  payload: unknown,
  others: readonly unknown[],
): Promise<string | null> {
  checkEvent(event);
  if (others.length > 0) {
    const problem = "emit takes an event, a key and a payload, and no options.";
    throw new InvalidArgument({ field: "options", problem });
  }
  const checked = await event.payload?.["~standard"].validate(payload);
  if (checked?.issues !== undefined) {
    const [issue] = checked.issues;
    throw new InvalidArgument({ field: "payload", problem: issue?.message ?? "it is not valid." });
  }
  return encodeOptional(payload, PAYLOAD);
}

/** The terms of a job that belongs to the trace that goes on here, if one does. */
export function termsHere(terms: Terms, within: OpenSpan | null = null): Terms {
  const trace = terms.trace ?? traceHere(within);
  return trace === undefined ? terms : { ...terms, trace };
}

export type OptionsOf = (input: unknown, index: number) => EnqueueOptions;

/** Options for all jobs are checked once; a function's for each, which may be one object changed for each. */
function termsFrom(
  options: EnqueueOptions | OptionsOf,
  defaults: Defaults,
): (input: unknown, index: number) => Terms {
  if (typeof options === "function") {
    return (input, index) => checkOptions(options(input, index), defaults);
  }
  const terms = checkOptions(options, defaults);
  return () => terms;
}

/** What all were given at once is where the trace comes from; what one was given is its own. */
function traced(
  termsOf: (input: unknown, index: number) => Terms,
  trace: TraceContext | undefined,
  options: EnqueueOptions | OptionsOf,
): (input: unknown, index: number) => Terms {
  if (trace === undefined) return termsOf;
  if (typeof options === "function") return (...each) => ({ trace, ...termsOf(...each) });
  return (...each) => ({ ...termsOf(...each), trace });
}

/** The jobs of one call, all checked, and the name of their task. */
export async function jobsOf(parts: {
  readonly task: Task | string;
  readonly inputs: readonly unknown[];
  readonly options: EnqueueOptions | OptionsOf;
  readonly newId: () => string;
  /** Of those that name none of their own. */
  readonly trace?: TraceContext;
}): Promise<{ name: string; news: NewJob[] }> {
  const { task, inputs, options, newId, trace } = parts;
  const defaults = typeof task === "string" ? unknownTask(task) : defaultsOf(task);
  const checked = typeof task === "string" ? inputs : await checkInputs(task, inputs);
  const termsOf = traced(termsFrom(options, defaults), trace, options);
  const news = checked.map((input, index) => {
    const terms = termsOf(input, index);
    try {
      return newJob(newId(), defaults.name, input, terms);
    } catch (error) {
      throw checked.length === 1 ? error : atInput(index, error);
    }
  });
  return { name: defaults.name, news };
}

export function listOf(inputs: Iterable<unknown>): unknown[] {
  if (typeof inputs?.[Symbol.iterator] === "function") return [...inputs];
  throw new InvalidArgument({ field: "inputs", problem: "give a list of inputs." });
}
