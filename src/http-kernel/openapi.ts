/** The OpenAPI 3.1 document, generated from the schemas that validate requests. */
import { z } from "zod";
import { KEY_PATTERN } from "./idempotency.ts";
import { type Described, problem as problemSchema, type Route } from "./route.ts";

type Json = Record<string, unknown>;

/** Possible on every route. */
const ALWAYS = [400, 421, 429, 500, 503];
const PROBLEMS: Readonly<Record<number, string>> = {
  400: "The request is malformed.",
  401: "The token is missing, unknown, revoked or expired.",
  403: "The token is read-only, or the request is cross-origin.",
  404: "Not found.",
  408: "The client sent the request too slowly.",
  409: "Conflict with the current state.",
  413: "The body is too large.",
  415: "The body is not declared as JSON in UTF-8.",
  421: "The Host header names another host.",
  422: "The body is invalid; `field` names the invalid field.",
  429: "Rate limit exceeded; Retry-After says when to retry.",
  500: "Internal error; the server log has details under `requestId`.",
  503: "Temporarily unavailable; Retry-After says when to retry.",
};

const TAGS: Readonly<Record<string, string>> = {
  jobs: "Enqueue, inspect, cancel and retry jobs.",
  bulk: "Change all jobs that match a filter.",
  flows: "Jobs that wait for others, and batches.",
  leases: "Claim and settle jobs from a worker in any language.",
  queues: "Queues with their counts, settings and limits; figures over time.",
  schedules: "Recurring jobs.",
  workers: "Inspect and control workers.",
  tasks: "How the jobs of each task fare, by hour and by build.",
  workflows: "Workflows, their items, and each item's history.",
  locks: "Held locks and lock statistics.",
  audit: "The audit log of operator actions.",
  operations: "Whether all is well, and current and past alerts.",
  errors: "Errors by kind.",
  dashboard: "What the pages of the dashboard show.",
  tokens: "List and revoke tokens; a command creates them.",
  session: "Who sent a request; signing in and out.",
  stream: "Live events.",
  agents: "Tools for agents: the Model Context Protocol.",
  probes: "Health checks and metrics; no token needed.",
};

export function openApiOf(routes: readonly Route[], version: string, basePath = ""): Json {
  const schemas = new Schemas();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: operationOf(route, schemas),
    };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Holdfast",
      version,
      description: "Durable jobs in the SQL database you already have.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: basePath === "" ? "/" : basePath }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: schemas.named(),
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "From `holdfast tokens create`." },
      },
    },
  };
}

function operationOf(route: Route, schemas: Schemas): Json {
  const { name, tag, summary, access, method, body } = route;
  return {
    operationId: name,
    tags: [tag],
    summary,
    security: access === "public" ? [] : [{ token: [] }],
    ...(access === "public" ? {} : { "x-role": access }),
    parameters: parametersOf(route, schemas),
    ...(body === null
      ? {}
      : {
          requestBody: {
            required: true,
            content: {
              [JSON_CONTENT]: { schema: schemas.of(body, "input", `${pascal(name)}Request`) },
            },
          },
        }),
    responses: { ...answersOf(route, schemas), ...problemsOf(route, schemas, method === "POST") },
  };
}

function parametersOf(route: Route, schemas: Schemas): Json[] {
  const keyed = {
    name: "Idempotency-Key",
    in: "header",
    required: false,
    description:
      "Makes retries safe: a request repeated with the same key takes effect once and gets the same response. Keys are kept for a day.",
    schema: { type: "string", pattern: KEY_PATTERN.source, maxLength: 255 },
  };
  return [
    ...fieldsOf(route.params, "path", schemas),
    ...fieldsOf(route.query, "query", schemas),
    ...(route.method === "POST" ? [keyed] : []),
    ...(route.stream === undefined && route.answers[200]?.type !== EVENTS ? [] : [LAST_EVENT]),
  ];
}

const JSON_CONTENT = "application/json";
const EVENTS = "text/event-stream";
const LAST_EVENT = {
  name: "Last-Event-ID",
  in: "header",
  required: false,
  description: "The id of the last event received; the stream resumes after it.",
  schema: { type: "string" },
};

function fieldsOf(object: z.ZodObject, place: "path" | "query", schemas: Schemas): Json[] {
  return Object.entries(object.shape).map(([name, field]) => {
    const { description, ...schema } = schemas.of(field as z.ZodType, "input");
    return {
      name,
      in: place,
      required: place === "path",
      ...(description === undefined ? {} : { description }),
      schema,
    };
  });
}

function answersOf(route: Route, schemas: Schemas): Json {
  const { answers, stream } = route;
  const described = Object.entries(answers).map(([status, answer]) => {
    const second = status === "200" && stream !== undefined ? contentOf(stream, schemas) : {};
    const content = { ...contentOf(answer, schemas, responseName(route)), ...second };
    const has = Object.keys(content).length > 0;
    return [status, { description: answer.description, ...(has ? { content } : {}) }];
  });
  return Object.fromEntries(described) as Json;
}

function contentOf({ schema, type = JSON_CONTENT }: Described, schemas: Schemas, called?: string) {
  if (schema === undefined) return {};
  const named = type === JSON_CONTENT ? called : undefined;
  return { [type]: { schema: schemas.of(schema, "output", named) } };
}

/** One operation has one form of JSON response; a test compares every response with the document. */
const responseName = ({ name }: Route): string => `${pascal(name)}Response`;

/** `listJobs` → `ListJobs`, as schemas are written. */
function pascal(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1);
}

function problemsOf(route: Route, schemas: Schemas, writes: boolean): Json {
  const { access, problems = [], answers, params } = route;
  const statuses = new Set([
    ...ALWAYS,
    ...problems,
    ...(access === "public" ? [] : [401, 403]),
    ...(Object.keys(params.shape).length > 0 || writes ? [404] : []),
    ...(writes ? [408, 409, 413, 415, 422] : []),
  ]);
  const schema = schemas.of(problemSchema, "output");
  const content = { "application/problem+json": { schema } };
  const described = [...statuses]
    .toSorted((a, b) => a - b)
    .map((status) => {
      // A failing probe also sends 503, with its own body.
      const { [status]: answer = { description: PROBLEMS[status] ?? "Error." } } = answers;
      const { description } = answer;
      return [
        status,
        {
          description,
          content: { ...contentOf(answer, schemas, responseName(route)), ...content },
        },
      ];
    });
  return Object.fromEntries(described) as Json;
}

/**
 * Named schemas are defined once and referenced everywhere else. Bodies and responses without a name of their own are
 * named after their operation: generators of clients would invent one.
 */
class Schemas {
  readonly #named = new Map<string, Json>();

  of(schema: z.ZodType, io: "input" | "output", called?: string): Json {
    const json = z.toJSONSchema(schema, { io }) as Json & { $defs?: Record<string, Json> };
    const { $schema: _schema, $defs = {}, ...rest } = json;
    for (const [name, definition] of Object.entries($defs)) this.#name(name, definition);
    const name = schema.meta()?.id ?? called;
    if (name === undefined || "$ref" in rest) return referring(rest) as Json;
    this.#name(name, rest);
    return { $ref: `#/components/schemas/${name}` };
  }

  named(): Json {
    const sorted = [...this.#named].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(sorted);
  }

  #name(name: string, { id: _id, ...definition }: Json): void {
    this.#named.set(name, referring(definition) as Json);
  }
}

function referring(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(referring);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === "$ref" && typeof inner === "string"
        ? inner.replace("#/$defs/", "#/components/schemas/")
        : referring(inner),
    ]),
  );
}
