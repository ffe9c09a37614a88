/**
 * A route: what may be asked for, by whom, with what, and what comes back.
 *
 * The schemas check the request and describe the answer, and the OpenAPI document is made of the very same. So what is written
 * down is what is done.
 */
import { z } from "zod";
import type { AccessRule, Asker } from "./auth.ts";
import { notFound, Problem } from "./problem.ts";
import { refused } from "./refused.ts";
import type { EventSource } from "./sse.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** Bytes are sent as they are, and may be shared by many answers. */
export type Answer =
  | { readonly status: number; readonly json: unknown }
  | { readonly status: number; readonly bytes: Uint8Array; readonly type: string }
  | { readonly events: EventSource }
  | { readonly status: 204 };

/** What a request came to, of one that is kept for whoever repeats it. */
export interface Call<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** Nobody, where that is enough. */
  readonly asker: Asker;
  readonly requestId: string;
  /** Ids for what it writes: the same for whoever sends the request again with its key. */
  readonly ids: readonly string[];
  readonly headers: {
    readonly accept: string | undefined;
    readonly "last-event-id": string | undefined;
    readonly traceparent: string | undefined;
    readonly tracestate: string | undefined;
  };
}

type Shape = z.ZodRawShape;
type NoShape = Readonly<Record<string, never>>;

export interface Described {
  readonly description: string;
  readonly schema?: z.ZodType;
  /** Of the body. Default: application/json. */
  readonly type?: string;
}

export interface RouteSpec<Params extends Shape, Query extends Shape, Body> {
  readonly method: "GET" | "POST";
  /** As OpenAPI writes it: `/api/v1/jobs/{id}`. */
  readonly path: string;
  readonly name: string;
  readonly tag: string;
  readonly summary: string;
  readonly access: AccessRule;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: z.ZodType<Body>;
  /** What comes back when all went well, by status. */
  readonly answers: Readonly<Record<number, Described>>;
  /** A second form of the 200, for whoever accepts it. */
  readonly stream?: Described;
  /** Which other problems there are, by status. */
  readonly problems?: readonly number[];
  /** Doing it twice is as doing it once, given the same ids: nobody need wait for another who does it. */
  readonly repeatable?: boolean;
  /** Where that is of which the answer tells. Said by the answer alone, so that whoever gets a kept one hears it, too. */
  readonly location?: (json: unknown) => string;
  /** How many ids it writes. Default 1. */
  readonly idCount?: (body: Body) => number;
  readonly run: (
    call: Call<z.output<z.ZodObject<Params>>, z.output<z.ZodObject<Query>>, Body>,
  ) => Promise<Answer>;
}

/** A route of whatever types. */
export interface Route extends Omit<
  RouteSpec<Shape, Shape, unknown>,
  "run" | "params" | "query" | "body" | "idCount"
> {
  readonly params: z.ZodObject;
  readonly query: z.ZodObject;
  readonly body: z.ZodType | null;
  idCount(body: unknown): number;
  run(call: Call<unknown, unknown, unknown>): Promise<Answer>;
  readParams(given: Readonly<Record<string, string>>): unknown;
  readQuery(given: URLSearchParams): unknown;
  readBody(given: unknown): unknown;
}

export function route<
  Params extends Shape = NoShape,
  Query extends Shape = NoShape,
  Body = undefined,
>(spec: RouteSpec<Params, Query, Body>): Route {
  const { run, idCount, ...rest } = spec;
  const params = z.strictObject(spec.params ?? {});
  const query = z.strictObject(spec.query ?? {});
  const body = spec.body ?? null;
  const kinds = kindsOf(query);
  return {
    ...rest,
    params,
    query,
    body,
    idCount: (given) => idCount?.(given as Body) ?? 1,
    run: (call) => run(call as Parameters<typeof run>[0]),
    // Whatever does not look like a name or an id is the name of nothing.
    readParams: (given) => checked(params, given, () => notFound(missing(spec.path))),
    readQuery: (given) => checked(query, queryOf(given, kinds), problemIn(400, query)),
    readBody: (given) => (body === null ? undefined : checked(body, given, problemIn(422, body))),
  };
}

/** The command takes the beginning of an id, and so does the list. */
function missing(path: string): string {
  return path.startsWith("/api/v1/jobs/")
    ? "job of this id: give it whole. By its beginning: GET /api/v1/jobs?prefix=…"
    : "such thing here";
}

function checked(
  schema: z.ZodType,
  given: unknown,
  problem: (issue: z.core.$ZodIssue) => Problem,
): unknown {
  const read = schema.safeParse(given, { reportInput: true });
  if (read.success) return read.data;
  throw problem(read.error.issues[0] as z.core.$ZodIssue);
}

const NAME_SHOWN_MAX = 100;

function problemIn(status: number, schema: z.ZodType): (issue: z.core.$ZodIssue) => Problem {
  return (issue) => {
    const { field, detail } = refused(schema, issue);
    return new Problem({ status, code: "INVALID_ARGUMENT", detail, field: field || undefined });
  };
}

type Kind = "integer" | "boolean" | "string";

/** In a query everything is text; here is what it stands for. */
function kindsOf(query: z.ZodObject): ReadonlyMap<string, Kind> {
  const { properties = {} } = z.toJSONSchema(query, { io: "input" });
  return new Map(
    Object.entries(properties).map(([name, property]) => {
      const type = typeof property === "object" ? property.type : "string";
      return [name, type === "integer" || type === "boolean" ? type : "string"];
    }),
  );
}

function queryOf(
  given: URLSearchParams,
  kinds: ReadonlyMap<string, Kind>,
): Record<string, unknown> {
  const found: [string, unknown][] = [];
  for (const [name, text] of given) {
    if (found.some(([one]) => one === name)) throw twice(name);
    found.push([name, valueOf(text, kinds.get(name))]);
  }
  // Not by assignment: a name may be __proto__.
  return Object.fromEntries(found);
}

function valueOf(text: string, kind: Kind | undefined): unknown {
  if (kind === "integer" && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (kind === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

function twice(name: string): Problem {
  const field = name.slice(0, NAME_SHOWN_MAX).toWellFormed();
  const detail = `${field} is in the query twice: give it once.`;
  return new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field });
}
