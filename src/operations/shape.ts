/**
 * Shapes of inputs and results as plain data: a command reads its flags from them without loading a validator.
 *
 * The server turns them into zod schemas when it starts (`route.ts`).
 */
import { statuses } from "../core/job.ts";
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX, TAG_LENGTH_MAX, TEXT } from "../core/name.ts";

interface Range {
  readonly min?: number;
  readonly max?: number;
}

type Wrapping =
  | { readonly kind: "optional"; readonly of: Node }
  | { readonly kind: "nullable"; readonly of: Node }
  | {
      readonly kind: "about";
      readonly of: Node;
      readonly text?: string;
      readonly id?: string;
      readonly initial?: unknown;
    };

type Bare =
  | ({ readonly kind: "text"; readonly pattern?: RegExp; readonly as?: "duration" } & Range)
  | ({ readonly kind: "integer" | "number"; readonly as?: "instant" } & Range)
  | { readonly kind: "boolean" | "anything" }
  | { readonly kind: "choice"; readonly values: readonly string[] }
  | { readonly kind: "constant"; readonly value: string | boolean | number }
  | ({ readonly kind: "list"; readonly of: Node } & Range)
  | { readonly kind: "map"; readonly key: Node; readonly of: Node }
  /** `by`: the field that tells objects apart. */
  | { readonly kind: "union"; readonly of: readonly Node[]; readonly by?: string }
  | {
      readonly kind: "object";
      readonly fields: Readonly<Record<string, Node>>;
      /** Default: unknown fields are dropped. */
      readonly others?: "refused" | "kept";
    };

export type Node = Bare | Wrapping;

declare const TYPE: unique symbol;

/** `Optional`: as a field, it may be missing. */
export class Shape<out T, Optional extends boolean = false> {
  declare readonly [TYPE]: [T, Optional];
  readonly node: Node;

  constructor(node: Node) {
    this.node = node;
  }

  optional(): Shape<T, true> {
    return new Shape({ kind: "optional", of: this.node });
  }

  nullable(): Shape<T | null, Optional> {
    return new Shape({ kind: "nullable", of: this.node });
  }

  /** For the API's document, the help of commands and the tools of agents. */
  about(text: string): Shape<T, Optional> {
    return new Shape({ kind: "about", of: this.node, text });
  }

  /** What a missing field stands for: the default in the API's document, and in a form of the page. */
  initial(value: T): Shape<T, Optional> {
    return new Shape({ kind: "about", of: this.node, initial: value });
  }

  /** Defined once in the API's document, and a type of the page. */
  named(id: string, text?: string): Shape<T, Optional> {
    const of = { kind: "about", of: this.node, id } as const;
    return new Shape(text === undefined ? of : { ...of, text });
  }
}

export type Fields = Readonly<Record<string, Shape<unknown, boolean>>>;

export type TypeOf<S> = S extends Shape<infer T, boolean> ? T : never;

/** A field that may be missing is never undefined. */
export type Infer<F extends Fields> = Flat<
  { readonly [K in keyof F as IsOptional<F[K]> extends true ? never : K]: TypeOf<F[K]> } & {
    readonly [K in keyof F as IsOptional<F[K]> extends true ? K : never]?: TypeOf<F[K]>;
  }
>;

type Flat<T> = { [K in keyof T]: T[K] };
type IsOptional<S> = S extends Shape<unknown, infer O> ? O : never;

export const text = (of: Range & { readonly pattern?: RegExp } = {}): Shape<string> =>
  new Shape({ kind: "text", ...of });
export const integer = (of: Range = {}): Shape<number> => new Shape({ kind: "integer", ...of });
export const number = (of: Range = {}): Shape<number> => new Shape({ kind: "number", ...of });
export const boolean = (): Shape<boolean> => new Shape({ kind: "boolean" });
export const anything = (): Shape<unknown> => new Shape({ kind: "anything" });
export const choice = <const V extends string>(values: readonly V[]): Shape<V> =>
  new Shape({ kind: "choice", values });
export const constant = <const V extends string | boolean | number>(value: V): Shape<V> =>
  new Shape({ kind: "constant", value });
export const list = <T>(of: Shape<T>, range: Range = {}): Shape<readonly T[]> =>
  new Shape({ kind: "list", of: of.node, ...range });
export const map = <T>(key: Shape<string>, of: Shape<T>): Shape<Readonly<Record<string, T>>> =>
  new Shape({ kind: "map", key: key.node, of: of.node });
export const union = <T>(...of: readonly Shape<T>[]): Shape<T> =>
  new Shape({ kind: "union", of: of.map(({ node }) => node) });
/** Objects that the field `by` tells apart. */
export const variants = <T>(by: string, ...of: readonly Shape<T>[]): Shape<T> =>
  new Shape({ kind: "union", of: of.map(({ node }) => node), by });
export const object = <F extends Fields>(fields: F): Shape<Infer<F>> =>
  new Shape({ kind: "object", fields: nodesOf(fields) });
/** Refuses unknown fields: for objects within an input. */
export const strict = <F extends Fields>(fields: F): Shape<Infer<F>> =>
  new Shape({ kind: "object", fields: nodesOf(fields), others: "refused" });
/** Keeps unknown fields, which the type does not name. */
export const loose = <F extends Fields>(fields: F): Shape<Infer<F>> =>
  new Shape({ kind: "object", fields: nodesOf(fields), others: "kept" });

export function nodesOf(fields: Fields): Record<string, Node> {
  return Object.fromEntries(Object.entries(fields).map(([name, { node }]) => [name, node]));
}

/** What is within. Of several texts, the outermost counts. */
export function bareOf(node: Node): { readonly bare: Bare; readonly text?: string } {
  if (node.kind !== "optional" && node.kind !== "nullable" && node.kind !== "about")
    return { bare: node };
  return {
    ...bareOf(node.of),
    ...(node.kind === "about" && node.text !== undefined ? { text: node.text } : {}),
  };
}

// What the operations of all features share.

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ID_PREFIX = /^[0-9a-fA-F-]{1,36}$/;
const DURATION = "a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m.";

export const id = text({ pattern: ID }).about("The id of a job or an item: a lower-case UUID.");
export const idPrefix = text({ pattern: ID_PREFIX }).about(
  "The start of an id: hexadecimal digits and hyphens, in upper or lower case.",
);
export const instant = new Shape<number>({ kind: "integer", as: "instant" }).about(
  "Milliseconds since the Unix epoch.",
);
export const count = integer({ min: 0 });
export const name = text({ min: 1, max: NAME_LENGTH_MAX, pattern: TEXT });
export const key = text({ min: 1, max: KEY_LENGTH_MAX, pattern: TEXT });
export const tag = text({ min: 1, max: TAG_LENGTH_MAX, pattern: TEXT });
export const workerId = text({ min: 1, max: 255, pattern: TEXT });
export const reason = text({ max: 1_000, pattern: TEXT });
const duration64 = new Shape<string>({ kind: "text", max: 64, as: "duration" });
export const durationText = duration64.about(`A${DURATION.slice(1)}`);
export const duration = union<string | number>(duration64, number()).about(
  `Milliseconds, or ${DURATION}`,
);
export const status = choice(statuses).named("Status");
export const pageLimit = integer({ min: 1, max: 1_000 }).about(
  "Maximum number of entries to return.",
);
