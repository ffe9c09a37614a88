/**
 * Types that find what JSON would change or lose, when the program is compiled: a Date, a bigint, a Map, a function.
 *
 * The question is asked of a whole type at once, which the compiler answers fast, also for types that refer to themselves.
 * Only for a type that has a flaw, its path is looked for. `core/json.ts` checks values, at run time.
 */
import type { Json } from "./json.ts";
import type { RetryIn, Snooze } from "./retry.ts";

/** Any function. */
type Callable = (...args: never) => unknown;

/** What is an object and has no JSON form of its own. `unknown` inside: only the kind matters. */
type Exotic =
  | Callable
  | Date
  | RegExp
  | Error
  | Promise<unknown>
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | WeakMap<WeakKey, unknown>
  | WeakSet<WeakKey>
  | ArrayBuffer
  | ArrayBufferView;

type IsAny<T> = 0 extends 1 & T ? true : false;

/** The type as JSON keeps it: `never` in place of what would change. `any` and `unknown` stay: nothing is known of them. */
export type JsonForm<T> =
  IsAny<T> extends true
    ? T
    : unknown extends T
      ? T
      : T extends Json | undefined
        ? T
        : T extends bigint | symbol | Exotic
          ? never
          : T extends object
            ? T extends readonly unknown[]
              ? { readonly [index: number]: JsonForm<T[number]> }
              : { [Key in keyof T]: Key extends symbol ? T[Key] : JsonForm<T[Key]> }
            : T;

/** How deep a path is looked for. A flaw that is deeper is named by the object that it is in. */
type Levels = [1, 1, 1, 1, 1, 1];

type KindOf<T> = T extends bigint
  ? "a bigint"
  : T extends symbol
    ? "a symbol"
    : T extends Date
      ? "a Date"
      : T extends ReadonlyMap<unknown, unknown>
        ? "a Map"
        : T extends ReadonlySet<unknown>
          ? "a Set"
          : T extends Callable
            ? "a function"
            : "no plain object";

/** The flaws of a type, each with its path: "result.rows[].at is a Date". */
type Flaws<T, Path extends string, Left extends readonly unknown[] = Levels> =
  IsAny<T> extends true
    ? never
    : [T] extends [JsonForm<T>]
      ? never
      : T extends Json | undefined
        ? never
        : T extends bigint | symbol | Exotic
          ? `${Path} is ${KindOf<T>}`
          : Left extends readonly [unknown, ...infer Rest]
            ? T extends readonly (infer Element)[]
              ? Flaws<Element, `${Path}[]`, Rest>
              : FlawsInside<T, Path, Rest>
            : `${Path} is not JSON`;

type FlawsInside<T, Path extends string, Left extends readonly unknown[]> = {
  [Key in keyof T]-?: Key extends string | number ? Flaws<T[Key], `${Path}.${Key}`, Left> : never;
}[keyof T];

/** What a definition must also be: anything, or, if its task has an input or a result that JSON would change, impossible. */
export type StorableTask<Input, Result> = [Input] extends [JsonForm<Input>]
  ? [Value<Result>] extends [JsonForm<Value<Result>>]
    ? unknown
    : Because<Flaws<Value<Result>, "result">>
  : Because<Flaws<Input, "input">>;

/** The template makes the compiler print the texts, not how they were found. */
type Because<Found extends string> = NotJson<`${Found}.`>;

/** A result without the two that put the job off. */
type Value<Result> = IsAny<Result> extends true ? Result : Exclude<Result, RetryIn | Snooze>;

/** Not JSON, for the reason in the text. Convert it, for example a Date with toISOString(). */
export interface NotJson<Reason extends string> {
  /** The path of the part, and what it is. */
  readonly "JSON would change or lose a part": Reason;
}
