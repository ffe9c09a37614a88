/**
 * The stored form of what a task threw.
 *
 * Anything can be thrown: undefined, a proxy whose every property throws, a message of a gigabyte, an error that is its own
 * cause. Recording it must never fail, because then the job could not be settled.
 */
import { inspect } from "node:util";

/** An error, as it is stored: name, message, code and stack. */
export interface ErrorRecord {
  /** The class of the error, such as `TypeError`. */
  name: string;
  /** Its message; a long one is cut. */
  message: string;
  /** Its code, such as `ECONNREFUSED`, if it has one. */
  code?: string;
  /** Its stack, where the reader asks for it; a long one is cut. */
  stack?: string;
  /** The error that caused it, to a limited depth. */
  cause?: ErrorRecord;
  /** The step that threw it, or that was in progress when the attempt was given up. */
  step?: FailedStep;
}

/** The step of an attempt that failed. */
export interface FailedStep {
  /** Its name, as the task gave it. */
  name: string;
  /** Counts the steps of this name, from 1. */
  occurrence: number;
  /** How long it had run, at the end of the attempt. */
  tookMs: number;
}

export const MESSAGE_LENGTH_MAX = 4_096;
export const STACK_LENGTH_MAX = 8_192;
export const CAUSE_DEPTH_MAX = 4;
const NAME_LENGTH_MAX = 256;

/** How many errors of an AggregateError its message lists. */
const AGGREGATE_SHOWN_MAX = 3;

/** Never throws. */
export function describeError(thrown: unknown): ErrorRecord {
  return describe(thrown, []);
}

export function encodeError(thrown: unknown, step: FailedStep | null = null): string {
  return JSON.stringify({ ...describeError(thrown), ...(step === null ? {} : { step }) });
}

/** The record of a text made by `encodeError`. Any other text becomes the message of one. */
export function decodeError(text: string): ErrorRecord {
  try {
    const stored: unknown = JSON.parse(text);
    const step = stepIn(stored);
    // Describing a record gives the same record; of any other JSON it makes one.
    return { ...describeError(stored), ...(step === null ? {} : { step }) };
  } catch {
    return { name: "Error", message: clip(text, MESSAGE_LENGTH_MAX) };
  }
}

/** Only a stored record has one: what a task threw may have any property. */
function stepIn(stored: unknown): FailedStep | null {
  const { name, occurrence, tookMs } = (read(stored, "step") ?? {}) as Partial<FailedStep>;
  if (typeof name !== "string" || typeof occurrence !== "number" || typeof tookMs !== "number")
    return null;
  return { name, occurrence, tookMs };
}

/** `around` holds the errors that have this one as their cause, outermost first. */
function describe(thrown: unknown, around: readonly unknown[]): ErrorRecord {
  const message = messageOf(thrown);
  const record: ErrorRecord = {
    name: clip(nameOf(thrown), NAME_LENGTH_MAX),
    message: clip(message, MESSAGE_LENGTH_MAX),
  };
  const code = read(thrown, "code");
  if (typeof code === "string" || typeof code === "number") {
    record.code = clip(String(code), NAME_LENGTH_MAX);
  }
  const stack = read(thrown, "stack");
  if (typeof stack === "string") {
    record.stack = clip(shortenWithin(stack, message), STACK_LENGTH_MAX);
  }
  const cause = read(thrown, "cause") ?? null;
  const chain = [...around, thrown];
  if (cause !== null && chain.length <= CAUSE_DEPTH_MAX && !chain.includes(cause)) {
    record.cause = describe(cause, chain);
  }
  return record;
}

function nameOf(thrown: unknown): string {
  const name = read(thrown, "name");
  if (typeof name === "string" && name !== "") return name;
  if (thrown === null) return "null";
  const className = read(read(thrown, "constructor"), "name");
  const isObject = typeof thrown === "object" || typeof thrown === "function";
  return isObject && typeof className === "string" && className !== "" ? className : typeof thrown;
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === "string") return thrown;
  const message = read(thrown, "message");
  if (typeof message !== "string") return show(thrown);
  return message === "" ? messagesWithin(thrown) : message;
}

/** A refused connection is an AggregateError without a message; its errors say what happened. */
function messagesWithin(thrown: unknown): string {
  const messages: string[] = [];
  for (let index = 0; index < AGGREGATE_SHOWN_MAX; index++) {
    const message = read(read(read(thrown, "errors"), index), "message");
    if (typeof message === "string") messages.push(message.slice(0, MESSAGE_LENGTH_MAX));
  }
  return messages.join("; ");
}

/** A property of anything, or undefined where there is none or it cannot be read. */
function read(from: unknown, key: string | number): unknown {
  try {
    return (from as Record<string | number, unknown> | null | undefined)?.[key];
  } catch {
    return undefined;
  }
}

function show(thrown: unknown): string {
  try {
    return inspect(thrown, {
      depth: 2,
      customInspect: false,
      maxArrayLength: 20,
      maxStringLength: MESSAGE_LENGTH_MAX,
      breakLength: Number.POSITIVE_INFINITY,
    });
  } catch {
    return "(the thrown value cannot be shown)";
  }
}

/** A stack begins with the message. A long one would leave no room for the frames: cut it too. */
function shortenWithin(stack: string, message: string): string {
  if (message.length <= MESSAGE_LENGTH_MAX) return stack;
  const at = stack.indexOf(message);
  if (at === -1) return stack;
  return stack.slice(0, at) + clip(message, MESSAGE_LENGTH_MAX) + stack.slice(at + message.length);
}

/** PostgreSQL stores neither NUL nor a lone surrogate, so both become U+FFFD. */
function clip(text: string, lengthMax: number): string {
  const short = text.length > lengthMax ? `${text.slice(0, lengthMax - 1)}…` : text;
  return short.replaceAll("\0", "\uFFFD").toWellFormed();
}
