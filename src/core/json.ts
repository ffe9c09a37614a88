/**
 * Encodes payloads, results and reports as text, and decodes them to the same value.
 *
 * JSON.stringify alone would change or drop values (a Date becomes a string, a Map becomes {}, NaN becomes null), and a task
 * would notice days later. So a value that does not survive is refused at once, with its path.
 *
 * One exception: a property that is undefined is left out, because optional fields are common in TypeScript and read as
 * undefined either way.
 */
import { HoldfastError } from "./errors.ts";

/** The name of a function's result that cannot be stored, and the consequence in a sentence. */
interface Returned {
  readonly what: string;
  readonly consequence: string;
}

/** A value that JSON would silently change or lose. `path` locates it: `$.items[2].price`. */
export class NotSerializableError extends HoldfastError {
  readonly path: string;
  readonly problem: string;

  constructor(facts: { path: string; problem: string; returned?: Returned }) {
    const { path, problem, returned } = facts;
    const words = `${path}: ${problem}`;
    super(
      "NOT_SERIALIZABLE",
      returned === undefined
        ? words
        : `The ${returned.what} cannot be stored. ${words} ${returned.consequence}`,
    );
    this.path = path;
    this.problem = problem;
  }
}

/** A payload, result or report that is larger than its limit. */
export class TooLargeError extends HoldfastError {
  readonly what: string;
  readonly bytes: number;
  readonly bytesMax: number;

  constructor(facts: { what: string; bytes: number; bytesMax: number; consequence?: string }) {
    const consequence = facts.consequence === undefined ? "" : ` ${facts.consequence}`;
    super(
      "TOO_LARGE",
      `The ${facts.what} takes ${facts.bytes} bytes; at most ${facts.bytesMax} are allowed. ` +
        `Store it elsewhere and pass a reference to it.${consequence}`,
    );
    this.what = facts.what;
    this.bytes = facts.bytes;
    this.bytesMax = facts.bytesMax;
  }
}

/** A value that JSON keeps. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json | undefined };

/** The largest size of a text in UTF-8 bytes. `what` names it in the error: "payload". */
interface SizeLimit {
  readonly what: string;
  readonly bytesMax: number;
}

export const DEFAULT_PAYLOAD_BYTES_MAX = 256 * 1024;
/** The limit of the result of a task. */
export const RESULT = { what: "result", bytesMax: DEFAULT_PAYLOAD_BYTES_MAX };

/** How deep arrays and objects may be nested. */
export const DEPTH_MAX = 64;

/** The most UTF-8 bytes of one UTF-16 unit. */
const BYTES_PER_UNIT_MAX = 3;

/** A value this many times over its limit is not encoded only to learn its size. */
const HOPELESS_FACTOR = 4;
const SHOWN_KEY_MAX = 64;

/** The value as JSON text. Throws NotSerializableError or TooLargeError. */
export function encode(value: unknown, limit: SizeLimit): string {
  const walk: Walk = { ancestors: [], bytesLeast: 0, bytesStop: limit.bytesMax * HOPELESS_FACTOR };
  const found = flawOf(value, walk);
  if (found !== null) throw new NotSerializableError({ ...found, path: `$${found.path}` });
  // Then the size in the error is a lower bound.
  if (walk.bytesLeast > walk.bytesStop)
    throw new TooLargeError({ ...limit, bytes: walk.bytesLeast });
  const text = JSON.stringify(value);
  if (text.length * BYTES_PER_UNIT_MAX > limit.bytesMax) {
    const bytes = Buffer.byteLength(text);
    if (bytes > limit.bytesMax) throw new TooLargeError({ ...limit, bytes });
  }
  return text;
}

/** Like `encode`, but undefined becomes null: a task may return nothing. */
export function encodeOptional(value: unknown, limit: SizeLimit): string | null {
  return value === undefined ? null : encode(value, limit);
}

/** Like `encodeOptional`; an error names the function that returned the value, and the consequence. */
export function encodeReturned(
  value: unknown,
  limit: SizeLimit,
  returned: () => Returned,
): string | null {
  try {
    return encodeOptional(value, limit);
  } catch (error) {
    if (error instanceof NotSerializableError) {
      const { path, problem } = error;
      throw new NotSerializableError({ path, problem, returned: returned() });
    }
    if (!(error instanceof TooLargeError)) throw error;
    const { bytes, bytesMax } = error;
    throw new TooLargeError({ bytes, bytesMax, ...returned() });
  }
}

/** Encodes what a task returned. If that cannot be stored, its work is done all the same: the problem is a sentence. */
export function encodeResult(
  value: unknown,
  { task }: { readonly task: string },
): { readonly result: string | null; readonly problem: string | null } {
  const what = `result of task '${task}'`;
  const consequence = "The work was done, so the job is done, without a result.";
  try {
    return { result: encodeReturned(value, RESULT, () => ({ what, consequence })), problem: null };
  } catch (error) {
    const isOurs = error instanceof NotSerializableError || error instanceof TooLargeError;
    if (!isOurs) throw error;
    return { result: null, problem: error.message };
  }
}

/** Decodes a text of `encode`. A key called `__proto__` is a property like any other. */
export function decode(text: string): unknown {
  return JSON.parse(text);
}

/** A part of a value that JSON would change, and its path. */
interface Flaw {
  readonly path: string;
  readonly problem: string;
}

interface Walk {
  /** The arrays and objects around the value, outermost first. */
  readonly ancestors: object[];
  /**
   * A lower bound of the size so far. The walk ends beyond `bytesStop`: an object that contains another twice, which contains
   * another twice, and so on, expands to more than fits in memory.
   */
  bytesLeast: number;
  readonly bytesStop: number;
}

/** The first flaw in the value, or null. */
function flawOf(value: unknown, walk: Walk): Flaw | null {
  walk.bytesLeast += 1;
  switch (typeof value) {
    case "string":
      walk.bytesLeast += value.length;
      return null;
    case "boolean":
      return null;
    case "number":
      return flawOfNumber(value);
    case "object":
      return value === null ? null : flawOfObject(value, walk);
    case "undefined":
      return flaw("undefined has no JSON form. Use null.");
    case "bigint":
      return flaw("a BigInt has no JSON form. Convert it with String(value).");
    default:
      return flaw(`a ${typeof value} has no JSON form.`);
  }
}

function flawOfNumber(value: number): Flaw | null {
  if (!Number.isFinite(value)) return flaw(`${value} has no JSON form.`);
  if (Object.is(value, -0)) return flaw("-0 would be read back as 0. Use 0.");
  return null;
}

function flawOfObject(value: object, walk: Walk): Flaw | null {
  const { ancestors } = walk;
  if (ancestors.includes(value)) return flaw("refers to an object that contains it.");
  if (ancestors.length === DEPTH_MAX) {
    return flaw(`is nested more than ${DEPTH_MAX} deep.`);
  }
  ancestors.push(value);
  const found = Array.isArray(value) ? flawOfArray(value, walk) : flawOfRecord(value, walk);
  ancestors.pop();
  return found;
}

function flawOfArray(array: readonly unknown[], walk: Walk): Flaw | null {
  // In every realm, only plain arrays inherit from an array.
  if (!Array.isArray(Object.getPrototypeOf(array))) return flawOfInstance(array);
  for (let index = 0; index < array.length && walk.bytesLeast <= walk.bytesStop; index++) {
    const found = flawOf(array[index], walk);
    if (found !== null) return within(`[${index}]`, found);
  }
  if (walk.bytesLeast <= walk.bytesStop && Object.keys(array).length !== array.length) {
    return flaw("is an array with named properties, which JSON omits.");
  }
  return flawOfSymbols(array);
}

function flawOfRecord(record: object, walk: Walk): Flaw | null {
  if (!isPlain(record)) return flawOfInstance(record);
  const properties = record as Readonly<Record<string, unknown>>;
  if (typeof properties["toJSON"] === "function") return flawOfInstance(record);
  for (const key of Object.keys(properties)) {
    const value = properties[key];
    if (value === undefined) continue;
    if (walk.bytesLeast > walk.bytesStop) return null;
    walk.bytesLeast += key.length + 3;
    const found = flawOf(value, walk);
    if (found !== null) return within(pathOf(key), found);
  }
  return flawOfSymbols(record);
}

function flawOfSymbols(value: object): Flaw | null {
  const symbols = Object.getOwnPropertySymbols(value);
  if (symbols.length === 0) return null;
  return { path: `[${String(symbols[0])}]`, problem: "a key that is a symbol has no JSON form." };
}

/** The flaw of an object that is not only its own properties. */
function flawOfInstance(value: object): Flaw {
  if (value instanceof Date) {
    return flaw("a Date would be read back as a string. Convert it with toISOString().");
  }
  if (value instanceof Map || value instanceof Set) {
    return flaw(`a ${className(value)} has no JSON form. Convert it to an array.`);
  }
  if ("toJSON" in value) {
    return flaw("has a toJSON(), so its result would be stored instead. Pass that result.");
  }
  return flaw(`is an instance of ${className(value)}. Use a plain object.`);
}

/** Literals and objects without a prototype, also of another realm such as the vm of a test runner. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  return (
    Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "isPrototypeOf")
  );
}

function className(value: object): string {
  const { constructor } = value;
  const name = typeof constructor === "function" ? constructor.name : "";
  return name === "" || name === "Object" ? "another object" : name;
}

function flaw(problem: string): Flaw {
  return { path: "", problem };
}

function within(step: string, inner: Flaw): Flaw {
  return { path: step + inner.path, problem: inner.problem };
}

function pathOf(key: string): string {
  const shown = key.length > SHOWN_KEY_MAX ? `${key.slice(0, SHOWN_KEY_MAX)}…` : key;
  return /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(shown)
    ? `.${shown}`
    : `[${JSON.stringify(shown)}]`;
}
