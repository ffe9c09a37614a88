/** The OpenAPI 3.1 document, made of the schemas that the routes check with. */
import { z } from "zod";
import { KEY_PATTERN } from "./once.ts";
import type { Described, Route } from "./route.ts";
import { problem as problemSchema } from "./schemas.ts";

type Json = Record<string, unknown>;

/** Everybody may get these, whatever they ask for. */
const ALWAYS = [400, 421, 429, 500, 503];
const PROBLEMS: Readonly<Record<number, string>> = {
  400: "The request cannot be read.",
  401: "A token is needed, or the one shown does not count.",
  403: "A viewer's token, or a page of another origin.",
  404: "There is no such thing.",
  408: "The request came too slowly.",
  409: "It does not fit how things stand.",
  413: "Too large.",
  415: "Not JSON in UTF-8.",
  421: "Not by this name of the host.",
  422: "Something in the body is wrong; `field` says what.",
  429: "Too many requests; Retry-After says when.",
  500: "Something unforeseen happened; the log has it under `requestId`.",
  503: "Not now; Retry-After says when.",
};

const TAGS: Readonly<Record<string, string>> = {
  jobs: "Hand jobs over, look at them, cancel them, try them again.",
  leases: "What a worker in any language needs.",
  queues: "How many jobs stand where.",
  workers: "Who runs jobs, and what is wanted of them.",
  workflows: "Items, their states and their history.",
  locks: "Who has which lock.",
  audit: "What operators did.",
  operations: "What is wrong, and what was.",
  stream: "What happens, live.",
  probes: "For probes and scrapers; no token is needed.",
};

export function openApiOf(routes: readonly Route[], version: string): Json {
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
    servers: [{ url: "/" }],
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
            content: { "application/json": { schema: schemas.of(body, "input") } },
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
      "Sent again with the same key, the request is made once and answered the same. Kept for a day.",
    schema: { type: "string", pattern: KEY_PATTERN.source, maxLength: 255 },
  };
  return [
    ...fieldsOf(route.params, "path", schemas),
    ...fieldsOf(route.query, "query", schemas),
    ...(route.method === "POST" ? [keyed] : []),
    ...(route.stream === undefined && route.answers[200]?.type !== EVENTS ? [] : [LAST_EVENT]),
  ];
}

const EVENTS = "text/event-stream";
const LAST_EVENT = {
  name: "Last-Event-ID",
  in: "header",
  required: false,
  description: "The last event that you saw: what came after it is told.",
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

function answersOf({ answers, stream }: Route, schemas: Schemas): Json {
  const described = Object.entries(answers).map(([status, answer]) => {
    const second = status === "200" && stream !== undefined ? contentOf(stream, schemas) : {};
    const content = { ...contentOf(answer, schemas), ...second };
    const has = Object.keys(content).length > 0;
    return [status, { description: answer.description, ...(has ? { content } : {}) }];
  });
  return Object.fromEntries(described) as Json;
}

function contentOf({ schema, type = "application/json" }: Described, schemas: Schemas): Json {
  return schema === undefined ? {} : { [type]: { schema: schemas.of(schema, "output") } };
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
  const told = [...statuses]
    .toSorted((a, b) => a - b)
    .map((status) => [status, merged(answers[status], content, status, schemas)]);
  return Object.fromEntries(told) as Json;
}

/** A probe that says no answers with 503 as well, in its own form. */
function merged(
  answer: Described | undefined,
  content: Json,
  status: number,
  schemas: Schemas,
): Json {
  const description = PROBLEMS[status] ?? "A problem.";
  if (answer === undefined) return { description, content };
  return {
    description: answer.description,
    content: { ...contentOf(answer, schemas), ...content },
  };
}

/** Schemas with a name stand in one place, and are referred to from all others. */
class Schemas {
  readonly #named = new Map<string, Json>();

  of(schema: z.ZodType, io: "input" | "output"): Json {
    const {
      $schema: _schema,
      $defs = {},
      ...rest
    } = z.toJSONSchema(schema, { io }) as Json & {
      $defs?: Record<string, Json>;
    };
    for (const [name, definition] of Object.entries($defs)) this.#name(name, definition);
    const name = schema.meta()?.id;
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
