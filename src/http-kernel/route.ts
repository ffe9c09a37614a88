/**
 * A route: its path and method, who may call it, what it accepts and what it returns.
 *
 * The same schemas validate requests, describe responses and generate the OpenAPI document, so the document cannot drift from
 * the code.
 */
import { z } from "zod";
import { statuses } from "../core/job.ts";
import { NAME_LENGTH_MAX, TEXT } from "../core/name.ts";
import type { AccessRule, Credentials, Principal } from "./auth.ts";
import { notFound, Problem } from "./problem.ts";
import type { EventSource } from "./sse.ts";
import { refused } from "./body.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** Bytes are sent unchanged, and may be shared by many responses. */
export type Answer =
  | {
      readonly status: number;
      readonly json: unknown;
      readonly headers?: Readonly<Record<string, string>>;
    }
  | { readonly status: number; readonly bytes: Uint8Array; readonly type: string }
  | { readonly events: EventSource }
  | { readonly status: 202 | 204 };

/** A validated request. */
export interface Call<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** Anonymous on public routes. */
  readonly principal: Principal;
  readonly credentials: Credentials;
  readonly requestId: string;
  /** Ids for the rows it writes; a retry with the same Idempotency-Key gets the same ids. */
  readonly ids: readonly string[];
  readonly headers: {
    readonly accept: string | undefined;
    readonly origin: string | undefined;
    readonly "last-event-id": string | undefined;
    readonly traceparent: string | undefined;
    readonly tracestate: string | undefined;
    readonly "mcp-protocol-version": string | undefined;
    readonly "mcp-method": string | undefined;
    readonly "mcp-name": string | undefined;
  };
}

/** Who acts and why, for the audit log; the trace is the id of the request. */
export function auditedBy(
  call: Pick<
    Call<unknown, unknown, { reason?: string | undefined }>,
    "principal" | "requestId" | "body"
  >,
): { readonly actor: string; readonly trace: string; readonly reason?: string } {
  const { principal, requestId: trace, body } = call;
  const { reason } = body;
  return { actor: principal.name, trace, ...(reason === undefined ? {} : { reason }) };
}

type Shape = z.ZodRawShape;
type NoShape = Readonly<Record<string, never>>;

export interface Described {
  readonly description: string;
  readonly schema?: z.ZodType;
  /** The content type. Default: application/json. */
  readonly type?: string;
}

interface RouteSpec<Params extends Shape, Query extends Shape, Body> {
  readonly method: "GET" | "POST";
  /** In OpenAPI notation: `/api/v1/jobs/{id}`. */
  readonly path: string;
  readonly name: string;
  readonly tag: string;
  readonly summary: string;
  readonly access: AccessRule;
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: z.ZodType<Body>;
  /** The successful responses, by status. */
  readonly answers: Readonly<Record<number, Described>>;
  /** A second form of the 200 response, chosen by the Accept header. */
  readonly stream?: Described;
  /** Statuses of further problems. */
  readonly problems?: readonly number[];
  /** A repeated request with the same Idempotency-Key runs again: the response is not saved. */
  readonly unsaved?: boolean;
  /** Redaction rules do not apply to the answer: it is for a worker. */
  readonly isWhole?: boolean;
  /** Hidden values in the body are replaced by those that they stand for. */
  readonly restores?: boolean;
  /** It is a tool for agents, with what to tell them. */
  readonly agent?: string;
  /** Idempotent given the same ids, so a retry need not wait for the first request to finish. */
  readonly repeatable?: boolean;
  /** The Location header. It is derived from the response body alone, so a replayed response has it too. */
  readonly location?: (json: unknown) => string;
  /** How many ids the request needs. Default 1. */
  readonly idCount?: (body: Body) => number;
  readonly run: (
    call: Call<z.output<z.ZodObject<Params>>, z.output<z.ZodObject<Query>>, Body>,
  ) => Promise<Answer>;
}

/** A route with its types erased. */
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
  // Most processes are asked few of their routes.
  let kinds: ReturnType<typeof kindsOf> | null = null;
  return {
    ...rest,
    params,
    query,
    body,
    idCount: (given) => idCount?.(given as Body) ?? 1,
    run: (call) => run(call as Parameters<typeof run>[0]),
    // A malformed name or id cannot exist, so it is not found.
    readParams: (given) => checked(params, given, () => notFound(missing(spec.path))),
    readQuery: (given) =>
      checked(query, queryOf(given, (kinds ??= kindsOf(query))), problemIn(400, query)),
    readBody: (given) => (body === null ? undefined : checked(body, given, problemIn(422, body))),
  };
}

/** Only the CLI and the list accept an id prefix; the message says so. */
function missing(path: string): string {
  return path.startsWith("/api/v1/jobs/")
    ? "job with this id. Use the full id; to search by prefix: GET /api/v1/jobs?id=…"
    : "such resource";
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

function problemIn(status: 400 | 422, schema: z.ZodType): (issue: z.core.$ZodIssue) => Problem {
  return (issue) => {
    // A query repeats the name of a list, so its values have no numbers.
    const { field, detail } = refused(schema, issue, status === 400 ? 1 : undefined);
    return new Problem({ status, code: "INVALID_ARGUMENT", detail, field: field || undefined });
  };
}

type Kind = "integer" | "boolean" | "array" | "string";

/** Query parameters arrive as text; these are the types to convert them to. */
function kindsOf(query: z.ZodObject): ReadonlyMap<string, Kind> {
  const { properties = {} } = z.toJSONSchema(query, { io: "input" });
  return new Map(
    Object.entries(properties).map(([name, property]) => {
      const type = typeof property === "object" ? property.type : "string";
      const kind = (["integer", "boolean", "array"] as const).find((one) => one === type);
      return [name, kind ?? "string"];
    }),
  );
}

function queryOf(
  given: URLSearchParams,
  kinds: ReadonlyMap<string, Kind>,
): Record<string, unknown> {
  const found = new Map<string, unknown>();
  for (const [name, text] of given) {
    const kind = kinds.get(name);
    const before = found.get(name);
    if (kind === "array") found.set(name, [...((before as string[] | undefined) ?? []), text]);
    else if (before === undefined) found.set(name, valueOf(text, kind));
    else throw twice(name);
  }
  // Assignment would be unsafe: a name may be __proto__.
  return Object.fromEntries(found);
}

function valueOf(text: string, kind: Kind | undefined): unknown {
  if (kind === "integer" && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (kind === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

function twice(name: string): Problem {
  const field = name.slice(0, NAME_SHOWN_MAX).toWellFormed();
  const detail = `Query parameter '${field}' is given twice. Send it once.`;
  return new Problem({ status: 400, code: "INVALID_ARGUMENT", detail, field });
}

// Schemas that the routes of all features share: scalars, pages and problems. Each feature has its own beside its routes.

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const DURATION_LENGTH_MAX = 64;
const WORKER_LENGTH_MAX = 255;

export const id = z
  .string()
  .regex(ID)
  .meta({ description: "The id of a job or an item: a lower-case UUID." });

export const instant = z.int().meta({ description: "Milliseconds since the Unix epoch." });
export const count = z.int().min(0);

/** Only the length and control characters are checked here; the library checks the rest. */
export const name = z.string().min(1).max(NAME_LENGTH_MAX).regex(TEXT);
export const workerId = z.string().min(1).max(WORKER_LENGTH_MAX).regex(TEXT);
export const duration = z
  .union([z.string().max(DURATION_LENGTH_MAX), z.number()])
  .meta({ description: "Milliseconds, or a string such as 250ms, 10s, 1.5m, 2h, 7d or 1h30m." });

export const status = z.enum(statuses).meta({ id: "Status" });

export const pageLimit = z
  .int()
  .min(1)
  .max(1_000)
  .meta({ description: "Maximum number of entries to return." });

export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    field: z.string().optional(),
    requestId: z.string(),
  })
  .meta({ id: "Problem", description: "A problem document (RFC 9457)." });
